"""NetCDF 3 files, read by their header and through a memory map.

All numbers are big-endian. In version 1 offsets have 4 bytes, from 2 on 8; in version 5 so do
lengths (NON_NEG). Names and values are padded to multiples of 4 bytes.

    header     "CDF" version  numrecs  dim_list  gatt_list  var_list
    dim        name  length                          length 0: the record dimension
    attr       name  type  nelems  values
    var        name  ndims  dimids  attr_list  type  vsize  begin
    lists      tag (10 dims, 11 variables, 12 attributes)  count  items; or two zeros
    data       of each variable without the record dimension, at its begin
    records    of all record variables, one record after the other; each from its begin on
"""

import json
import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.spark.sources.source_dataset import Key, join_characters, lazy_variable
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import RemoteFile, file_mark
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
    row_chunks,
)

if TYPE_CHECKING:
    import xarray as xr

MAGICS = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
_TYPES = {
    1: "i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8",
    7: "u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8",
}  # fmt: skip
_FILLS: dict[str, float] = {  # defaults of the NetCDF library
    "i1": -127, "i2": -32767, "i4": -2147483647, "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36, "u1": 255, "u2": 65535, "u4": 4294967295,
    "i8": -9223372036854775806, "u8": 18446744073709551614,
}  # fmt: skip
_STREAMING = 2**32 - 1  # the number of records is unknown


@dataclass(frozen=True, slots=True)
class Variable:
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attrs: dict[str, Any]
    begin: int
    stride: int | None  # bytes from record to record; None without the record dimension

    @property
    def row_bytes(self) -> int:
        """Size of one record; of all values without the record dimension."""
        return self.dtype.itemsize * prod(self.shape[self.stride is not None :])

    @property
    def is_contiguous(self) -> bool:
        return self.stride is None or self.stride == self.row_bytes


@dataclass(frozen=True, slots=True)
class Header:
    attrs: dict[str, Any]
    variables: dict[str, Variable]


class _Cursor:
    """Reads a header from front to back."""

    def __init__(self, data: Any, version: int) -> None:
        self.data, self.at = data, 4
        self.length = ">u8" if version == 5 else ">u4"
        self.offset = ">u4" if version == 1 else ">u8"

    def number(self, kind: str = ">u4") -> int:
        return int(self.array(kind, 1)[0])

    def count(self) -> int:
        return self.number(self.length)

    def array(self, kind: str, count: int) -> npt.NDArray[Any]:
        dtype = np.dtype(kind)
        end = self.at + count * dtype.itemsize
        if end > len(self.data):
            raise ValueError(f"the header ends at byte {len(self.data)}, expected more")
        found = np.frombuffer(self.data[self.at : end], dtype=dtype)
        self.at = end + -end % 4
        return found

    def text(self, count: int) -> str:
        return self.array("S1", count).tobytes().rstrip(b"\0").decode("utf-8")

    def list(self, tag: int) -> int:
        """Reads the head of a list: the number of its items."""
        found, count = self.number(), self.count()
        if found not in {0, tag} or (found == 0 and count):
            raise ValueError(f"a list with tag {found}, expected {tag}")
        return count

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.list(12)):
            name = self.text(self.count())
            kind = _TYPES[self.number()]
            count = self.count()
            if kind == "S1":
                found[name] = self.text(count)
            else:
                values = self.array(kind, count)
                plain = values.astype(values.dtype.newbyteorder("="))
                found[name] = plain[0] if count == 1 else plain
        return found


def parse_header(data: Any) -> Header:
    """Parses the header of a file. Raises ValueError or KeyError for a damaged one."""
    if data[:4] not in MAGICS:
        raise ValueError(f"begins with {bytes(data[:4])!r}")
    cursor = _Cursor(data, data[3])
    records = cursor.count()
    dims = [(cursor.text(cursor.count()), cursor.count()) for _ in range(cursor.list(10))]
    attrs = cursor.attributes()
    parsed = [_variable(cursor, dims) for _ in range(cursor.list(11))]
    in_records = [variable for _, variable in parsed if variable.stride is not None]
    step = sum(variable.row_bytes + -variable.row_bytes % 4 for variable in in_records)
    if len(in_records) == 1:  # records are not padded then
        step = in_records[0].row_bytes
    if records == _STREAMING and in_records:
        first = min(variable.begin for variable in in_records)
        records = max(0, len(data) - first) // max(1, step)
    variables = {name: _with_records(variable, records, step) for name, variable in parsed}
    for name, each in variables.items():
        last = each.begin + each.row_bytes
        if each.stride is not None:
            last = each.begin + max(0, each.shape[0] - 1) * step + each.row_bytes
        if prod(each.shape) and last > len(data):
            raise ValueError(f"{name!r} ends at byte {last}, the file at {len(data)}")
    return Header(attrs, variables)


def _variable(cursor: _Cursor, dims: list[tuple[str, int]]) -> tuple[str, Variable]:
    name = cursor.text(cursor.count())
    ids = cursor.array(cursor.length, cursor.count()).tolist()
    attrs = cursor.attributes()
    dtype = np.dtype(_TYPES[cursor.number()])
    cursor.count()  # its size, which is wrong for large variables
    begin = cursor.number(cursor.offset)
    chosen = [dims[each] for each in ids]
    has_records = bool(chosen) and chosen[0][1] == 0
    shape = tuple(length for _, length in chosen)
    names = tuple(dim for dim, _ in chosen)
    return name, Variable(names, shape, dtype, attrs, begin, 0 if has_records else None)


def _with_records(variable: Variable, records: int, step: int) -> Variable:
    if variable.stride is None:
        return variable
    shape = (records, *variable.shape[1:])
    return Variable(variable.dims, shape, variable.dtype, variable.attrs, variable.begin, step)


def read_header(source: Source) -> Header:
    with source_errors(source.path):
        if source.remote is not None:
            with RemoteFile(source.path, source.remote) as remote:
                return parse_header(_Pieces(remote))
        with (
            Path(source.path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return parse_header(data)


class _Pieces:
    """A remote file as a sequence of bytes, read on access."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file

    def __len__(self) -> int:
        return self._file.size_bytes

    def __getitem__(self, part: int | slice) -> Any:
        if isinstance(part, int):
            return self[part : part + 1][0]
        start, stop, _ = part.indices(len(self))
        self._file.seek(start)
        return self._file.read(max(0, stop - start))


def open_netcdf3(source: Source, _group: str | None) -> "xr.Dataset":
    """Opens it undecoded and lazy."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors(source.path):
        header = read_header(source)
        if source.remote is not None:
            file = RemoteFile(source.path, source.remote)
            variables = {
                name: _remote_variable(file, each) for name, each in header.variables.items()
            }
        else:
            data: npt.NDArray[np.uint8] = np.memmap(source.path, mode="r")
            variables = {
                name: xr.Variable(each.dims, _values(data, name, each), each.attrs)
                for name, each in header.variables.items()
            }
        return join_characters(xr.Dataset(variables, attrs=header.attrs))


def _remote_variable(file: RemoteFile, each: Variable) -> "xr.Variable":
    native = each.dtype.newbyteorder("=")  # required for indexes

    def read(key: Key) -> npt.NDArray[Any]:
        if not each.shape:
            return _read_rows(file, each, range(1)).reshape(()).astype(native)
        first = key[0]
        if isinstance(first, int):
            return np.asarray(read((slice(first, first + 1), *key[1:]))[0])
        wanted = range(each.shape[0])[first]
        low = min(wanted, default=0)
        rows = _read_rows(file, each, range(low, max(wanted, default=-1) + 1))
        chosen = rows[[row - low for row in wanted]]
        return np.asarray(chosen[(slice(None), *key[1:])]).astype(native)

    return lazy_variable(each.dims, each.shape, native, read, each.attrs)


def _read_rows(file: RemoteFile, each: Variable, rows: range) -> npt.NDArray[Any]:
    """Reads steps along the first dimension, which are contiguous or in records."""
    shape = (len(rows), *each.shape[1:])
    size = each.dtype.itemsize * prod(each.shape[1:])
    step = each.stride or size
    file.seek(each.begin + rows.start * step)
    if step == size:
        return np.frombuffer(file.read(len(rows) * size), each.dtype).reshape(shape)
    parts = []
    for row in rows:
        file.seek(each.begin + row * step)
        parts.append(file.read(size))
    return np.frombuffer(b"".join(parts), each.dtype).reshape(shape)


def _values(data: npt.NDArray[np.uint8], name: str, each: Variable) -> npt.NDArray[Any]:
    inner = [each.dtype.itemsize * prod(each.shape[i + 1 :]) for i in range(len(each.shape))]
    if each.stride is not None:
        inner[0] = each.stride
    values = (
        np.ndarray(each.shape, each.dtype, data, each.begin, tuple(inner))
        if prod(each.shape)
        else np.zeros(each.shape, each.dtype)
    )
    if (
        each.dims == (name,) and each.dtype.kind != "S"
    ):  # xarray makes an index of it, which must be native
        return values.astype(each.dtype.newbyteorder("="))
    return values


def netcdf3_storage(source: Source, names: list[str], _group: str | None) -> dict[str, Storage]:
    variables = read_header(source).variables
    return {name: _storage(variables[name]) for name in names}


def _storage(variable: Variable) -> Storage:
    if variable.dtype.kind == "S":
        return "characters"
    chunks = tuple(max(1, length) for length in variable.shape)
    codec: dict[str, Any] = {"name": "bytes"}
    if variable.dtype.itemsize > 1:
        codec["configuration"] = {"endian": "big"}
    stored = StoredAs(
        chunks=chunks,
        data_type=variable.dtype.newbyteorder("=").name,
        codecs=json.dumps([codec]),
        fill=json.dumps(_FILLS[variable.dtype.str[1:]]),
        is_row=variable.is_contiguous,
    )
    return stored if variable.is_contiguous else stored.cut(1)  # a chunk for each record


def netcdf3_chunks(
    source: Source, name: str, chunks: tuple[int, ...], _group: str | None
) -> ChunkTable:
    path = source.path
    variable = read_header(source).variables.get(name)
    modified = file_mark(source).modified_s
    if variable is None:
        raise FormatError(f"there is no variable {name!r} any more", where=path)
    with source_errors(path):
        if prod(variable.shape) == 0:
            nothing = np.zeros(0, dtype=np.uint64)
            index = np.zeros((0, len(chunks)), dtype=np.int64)
            return ChunkTable(index, nothing, nothing, (path,), modified)
        index, size = row_chunks(variable.shape, chunks, variable.dtype.itemsize)
    step = size if variable.is_contiguous else variable.stride or 0
    offset = np.uint64(variable.begin) + np.arange(len(index), dtype=np.uint64) * np.uint64(step)
    return ChunkTable(index, offset, np.full(len(index), size, np.uint64), (path,), modified)


NETCDF3 = SourceFormat(
    name="netcdf3",
    magics=MAGICS,
    open=open_netcdf3,
    storage=netcdf3_storage,
    chunks=netcdf3_chunks,
)
