"""Where the messages of GRIB files are: each is a chunk, decoded by the codec of zarrstore/grib.

field                one message for each point of the header dimensions (time, level, ...)
latitude, longitude  of grids in which they are fields, too: of the first message
"""

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import FileMark, mark_of, on_disk
from frazil.spark.sources.grib import COORDINATES, OPTIONS, require_cfgrib
from frazil.spark.sources.source import Source
from frazil.spark.sources.stored import ChunkTable, Storage, StoredAs
from frazil.zarrstore.grib import NAME


def grib_storage(source: Source, names: list[str]) -> dict[str, Storage]:
    """By variable, how it is stored."""
    with source_errors_as_ours(source.path), on_disk(source) as path:
        variables = _open(source, path)
        return {name: _storage(variables, name) for name in names}


def grib_chunks(source: Source, name: str, chunks: tuple[int, ...]) -> ChunkTable:
    """Raises FormatError for a file that is not as it was described."""
    with source_errors_as_ours(source.path), on_disk(source) as path:
        modified = mark_of(source).modified_s
        variables = _open(source, path)
        stored = _storage(variables, name)
        if isinstance(stored, str) or stored.chunks != chunks:
            raise FormatError(f"variable {name!r} is not as it was", where=source.path)
        field = _field(variables, None if name in COORDINATES else name)
        places = {(): _first(field)} if name in COORDINATES else _messages(field)
        index = np.array(list(places), np.int64).reshape(len(places), len(chunks) - field.geo_ndim)
        offset = np.array(list(places.values()), np.uint64)
        length = _lengths(Path(path), offset)
    whole = np.pad(index, ((0, 0), (0, field.geo_ndim)))
    return ChunkTable(whole, offset, length, (source.path,), modified)


def _open(source: Source, path: str) -> dict[str, Any]:
    """Variables, as cfgrib has them."""
    return _indexed(require_cfgrib(source).open_file, path, mark_of(source))


@lru_cache(maxsize=1)  # a file is asked about each of its variables, and its index takes a while
def _indexed(opened: Callable[..., Any], path: str, mark: FileMark) -> dict[str, Any]:
    del mark  # of which version it is
    found: dict[str, Any] = opened(path, **OPTIONS).variables
    return found


def _storage(variables: dict[str, Any], name: str) -> Storage:
    values = variables[name].data
    if _is_field(values):
        shape = values.shape
        fixed = len(shape) - values.geo_ndim
        chunks = (*(1,) * fixed, *shape[fixed:])
    elif name in COORDINATES and values.ndim > 1:
        chunks, values = values.shape, _field(variables, None)
    else:
        return "values that are in the headers of messages"
    if any(not isinstance(each[0], int) for each in values.field_id_index.values()):
        return "several fields in one message"
    if len(chunks) > 1 and values.index.get_field(_first(values)).get("alternativeRowScanning"):
        return "rows that run to and fro"
    return StoredAs(
        chunks=tuple(int(length) for length in chunks),
        data_type=np.dtype(variables[name].data.dtype).name,
        codecs=json.dumps([{"name": NAME, "configuration": {"var": name}}]),
        fill=json.dumps("NaN"),
    )


def _is_field(values: Any) -> bool:
    return hasattr(values, "field_id_index")


def _field(variables: dict[str, Any], name: str | None) -> Any:
    """Of that name; or the first."""
    found = [each.data for key, each in variables.items() if name in {None, key}]
    fields = [values for values in found if _is_field(values)]
    if not fields:
        raise InvalidInputError("there are no fields")
    return fields[0]


def _messages(field: Any) -> dict[tuple[int, ...], int]:
    """Where each begins, by header index; of equal ones cfgrib takes the first."""
    return {tuple(index): places[0] for index, places in field.field_id_index.items()}


def _first(field: Any) -> int:
    return min(_messages(field).values())


def _lengths(path: Path, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Of the messages that begin there: octets 9 to 16 in edition 2, 5 to 7 in edition 1."""
    lengths = np.zeros(len(offsets), np.uint64)
    with path.open("rb") as file:
        for row, offset in enumerate(offsets.tolist()):
            file.seek(offset)
            head = file.read(16)
            if head[:4] != b"GRIB" or len(head) < 16 or head[7] not in {1, 2}:
                raise ValueError(f"no GRIB message at byte {offset}")
            is_first = head[7] == 1
            length = int.from_bytes(head[4:7] if is_first else head[8:16], "big")
            if is_first and length & 0x800000:  # of ECMWF's large messages, in other units
                raise ValueError(f"a message of edition 1 at byte {offset} that is too large")
            lengths[row] = length
    return lengths
