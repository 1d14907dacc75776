"""GRIB files, read through cfgrib: the messages of one file must make one grid of fields.

Each message is a chunk, decoded by the codec of zarrstore/grib:

field                one message for each point of the header dimensions (time, level, ...)
latitude, longitude  from the first message, if they have the two dimensions of a projection
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import FileMark, file_mark, local_path
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
)
from frazil.zarrstore.grib import NAME

if TYPE_CHECKING:
    import xarray as xr

COORDINATES = ("latitude", "longitude")  # in the dimensions of the grid, all or some
OPTIONS: dict[str, Any] = {"indexpath": "", "errors": "raise"}  # writes no index next to the file


def open_grib(source: Source, _group: str | None) -> "xr.Dataset":
    """Opens it lazily, with times as numbers."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    require_cfgrib(source)
    with ExitStack() as stack, source_errors(source.path):
        file_mark(source)
        dataset = xr.open_dataset(
            stack.enter_context(local_path(source)),
            engine="cfgrib",
            backend_kwargs=OPTIONS,
            decode_times=False,
            decode_timedelta=False,
            chunks=None,
            cache=False,
        ).reset_coords()
        dataset.set_close(stack.pop_all().close)
        return dataset


def require_cfgrib(source: Source) -> Any:
    """Returns the library."""
    try:
        import cfgrib  # noqa: PLC0415 -- of the extra `grib`, and slow to load
    except (ModuleNotFoundError, ImportError, RuntimeError) as error:
        raise InvalidInputError(
            f"{source.path}: reading GRIB needs cfgrib: pip install 'frazil[grib]'"
        ) from error
    return cfgrib


def grib_storage(source: Source, names: list[str], _group: str | None) -> dict[str, Storage]:
    with source_errors(source.path), local_path(source) as path:
        variables = _open(source, path)
        return {name: _storage(variables, name) for name in names}


def grib_chunks(
    source: Source, name: str, chunks: tuple[int, ...], _group: str | None
) -> ChunkTable:
    """Finds the messages. Raises FormatError if the file was changed after it was described."""
    with source_errors(source.path), local_path(source) as path:
        modified = file_mark(source).modified_s
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
    """Variables of cfgrib."""
    return _open_variables(require_cfgrib(source).open_file, path, file_mark(source))


@lru_cache(maxsize=1)  # it is called for each variable of a file, and indexing is slow
def _open_variables(open_file: Callable[..., Any], path: str, mark: FileMark) -> dict[str, Any]:
    del mark  # the version, a part of the cache key
    variables: dict[str, Any] = open_file(path, **OPTIONS).variables
    return variables


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
    if any(not isinstance(ids[0], int) for ids in values.field_id_index.values()):
        return "several fields in one message"
    if len(chunks) > 1 and values.index.get_field(_first(values)).get("alternativeRowScanning"):
        return "rows in alternating directions"
    return StoredAs(
        chunks=tuple(int(length) for length in chunks),
        data_type=np.dtype(variables[name].data.dtype).name,
        codecs=json.dumps([{"name": NAME, "configuration": {"var": name}}]),
        fill=json.dumps("NaN"),
    )


def _is_field(values: Any) -> bool:
    return hasattr(values, "field_id_index")


def _field(variables: dict[str, Any], name: str | None) -> Any:
    """Field of that name; the first one if it is None."""
    candidates = [variable.data for key, variable in variables.items() if name in {None, key}]
    fields = [values for values in candidates if _is_field(values)]
    if not fields:
        raise InvalidInputError("there are no fields")
    return fields[0]


def _messages(field: Any) -> dict[tuple[int, ...], int]:
    """Offset of each message by header index; of equal ones the first, as in cfgrib."""
    return {tuple(index): places[0] for index, places in field.field_id_index.items()}


def _first(field: Any) -> int:
    return min(_messages(field).values())


def _lengths(path: Path, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Lengths of messages: octets 9 to 16 of a message in edition 2, 5 to 7 in edition 1."""
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


GRIB = SourceFormat(
    name="grib",
    aliases=("grib2",),
    suffixes=(".grib", ".grb", ".grib2", ".grb2"),
    magics=(b"GRIB",),
    open=open_grib,
    storage=grib_storage,
    chunks=grib_chunks,
    needs_path=True,
    unstacked=COORDINATES,
)
