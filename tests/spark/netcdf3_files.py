"""A writer of NetCDF 3, after its specification: there is none among the libraries installed."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = {
    "i1": 1, "S1": 2, "i2": 3, "i4": 4, "f4": 5, "f8": 6,
    "u1": 7, "u2": 8, "u4": 9, "i8": 10, "u8": 11,
}  # fmt: skip


@dataclass(frozen=True)
class Made:
    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)


def write_netcdf3(
    path: Path,
    variables: Mapping[str, Made],
    *,
    record_dim: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    version: int = 2,
) -> Path:
    path.write_bytes(_File(variables, record_dim, attrs or {}, version).encode())
    return path


class _File:
    def __init__(
        self,
        variables: Mapping[str, Made],
        record_dim: str | None,
        attrs: Mapping[str, Any],
        version: int,
    ) -> None:
        self.variables, self.record_dim, self.attrs = variables, record_dim, attrs
        self.version = version
        self.lengths: dict[str, int] = {}
        for made in variables.values():
            self.lengths.update(zip(made.dims, made.values.shape, strict=True))
        self.records = self.lengths.get(record_dim or "", 0)
        only = sum(map(self._grows, variables.values())) == 1
        self.padded = {}
        for name, made in variables.items():
            row = made.values[0] if self._grows(made) else made.values
            padding = 0 if only and self._grows(made) else -row.nbytes % 4
            self.padded[name] = row.nbytes + padding

    def encode(self) -> bytes:
        at = len(self._header(dict.fromkeys(self.variables, 0)))
        begins: dict[str, int] = {}
        for name in sorted(self.variables, key=lambda each: self._grows(self.variables[each])):
            begins[name] = at
            at += self.padded[name]
        parts = [self._header(begins)]
        for name, made in self.variables.items():
            if not self._grows(made):
                parts.append(_raw(made.values).ljust(self.padded[name], b"\0"))
        for record in range(self.records):
            for name, made in self.variables.items():
                if self._grows(made):
                    parts.append(_raw(made.values[record]).ljust(self.padded[name], b"\0"))
        return b"".join(parts)

    def _grows(self, made: Made) -> bool:
        return bool(made.dims) and made.dims[0] == self.record_dim

    def _header(self, begins: Mapping[str, int]) -> bytes:
        dims = list(self.lengths)
        out = b"CDF" + bytes([self.version]) + self._number(self.records)
        out += self._list(10, len(dims))
        for dim in dims:
            out += self._text(dim)
            out += self._number(0 if dim == self.record_dim else self.lengths[dim])
        out += self._attributes(self.attrs)
        out += self._list(11, len(self.variables))
        for name, made in self.variables.items():
            out += self._text(name) + self._number(len(made.dims))
            out += b"".join(self._number(dims.index(dim)) for dim in made.dims)
            kind = struct.pack(">i", TYPES[made.values.dtype.str[1:]])
            out += self._attributes(made.attrs) + kind + self._number(self.padded[name])
            out += struct.pack(">i" if self.version == 1 else ">q", begins[name])
        return out

    def _attributes(self, given: Mapping[str, Any]) -> bytes:
        out = self._list(12, len(given))
        for name, value in given.items():
            out += self._text(name)
            if isinstance(value, str):
                out += struct.pack(">i", 2) + self._text(value)
                continue
            array = np.atleast_1d(np.asarray(value))
            kind = struct.pack(">i", TYPES[array.dtype.str[1:]])
            out += kind + self._number(array.size) + _padded(_raw(array))
        return out

    def _list(self, tag: int, count: int) -> bytes:
        return struct.pack(">i", tag if count else 0) + self._number(count)

    def _number(self, value: int) -> bytes:
        return struct.pack(">q" if self.version == 5 else ">i", value)

    def _text(self, value: str) -> bytes:
        raw = value.encode()
        return self._number(len(raw)) + _padded(raw)


def _raw(values: Any) -> bytes:
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder(">")).tobytes()


def _padded(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % 4)
