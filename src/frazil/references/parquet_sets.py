"""Reference sets in Parquet: a directory, as fsspec's LazyReferenceMapper writes it.

    .zmetadata                  {"metadata": {"a/.zarray": {...}, ...}, "record_size": n}
    a/refs.0.parq               references of the first n chunks of array a, in C order
    a/refs.1.parq               of the next n, ...

    path     text, maybe dictionary encoded; null where there is no chunk, or an inline one
    offset   integer
    size     integer; 0, with offset 0, for a whole file
    raw      bytes of an inline chunk, or null

Files and columns that would hold nothing may be missing.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format import texts
from frazil.references.columns import (
    ARRAY_2,
    CONSOLIDATED_2,
    ChunkColumns,
    ReferenceSet,
    array_paths,
)
from frazil.references.grids import Grid, grid_of

if TYPE_CHECKING:
    import pyarrow as pa


def read_parquet_set(directory: Path) -> ReferenceSet:
    """Raises FormatError, naming the file that is wrong."""
    where = directory / CONSOLIDATED_2
    try:
        document = json.loads(where.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", where=str(where)) from error
    except OSError as error:
        raise FormatError(
            f"not a Parquet reference set: {error.strerror}", where=str(where)
        ) from error
    match document:
        case {"metadata": dict() as documents, "record_size": int() as rows} if rows > 0:
            pass
        case _:
            raise FormatError("expected `metadata` and a positive `record_size`", where=str(where))
    for key, value in documents.items():
        if not isinstance(value, dict):
            raise FormatError(f"{key!r} is {type(value).__name__}, not an object", where=str(where))
    chunks = {}
    for path in sorted(array_paths(documents)):
        key = f"{path}/{ARRAY_2}".lstrip("/")
        if key not in documents:
            raise FormatError(f"{path!r} is not an array of Zarr version 2", where=str(where))
        grid = grid_of(str(where), key, documents[key])
        chunks[path] = _read_array(directory / path, grid, rows)
    return ReferenceSet(str(directory), documents, chunks)


def _read_array(directory: Path, grid: Grid, record_size: int) -> ChunkColumns:
    total = prod(grid.shape)
    parts = [_nothing(grid)]
    for first in range(0, total, record_size):
        file = directory / f"refs.{first // record_size}.parq"
        if file.is_file():
            parts.append(_read_record(file, grid, range(first, min(total, first + record_size))))
    return ChunkColumns(
        index=np.concatenate([part.index for part in parts]),
        location=texts.concat([part.location for part in parts]),
        offset=np.concatenate([part.offset for part in parts]),
        length=np.concatenate([part.length for part in parts]),
        whole=np.concatenate([part.whole for part in parts]),
        inline=StringColumn.concat([part.inline for part in parts]),
    )


def _nothing(grid: Grid) -> ChunkColumns:
    none, numbers = StringColumn.absent(0), np.zeros(0, np.uint64)
    index = np.zeros((0, grid.ndim), np.int64)
    return ChunkColumns(index, none, numbers, numbers, np.zeros(0, np.bool_), none)


def _read_record(file: Path, grid: Grid, numbers: range) -> ChunkColumns:
    """The chunks with these numbers that the file has references for."""
    with _arrow_errors_as_ours(file):
        from pyarrow import parquet  # noqa: PLC0415 -- heavy, and only for sets in Parquet

        table = parquet.read_table(file, partitioning=None).slice(0, len(numbers))
    location, raw = _strings(file, table, "path"), _strings(file, table, "raw")
    offset, size = _integers(file, table, "offset"), _integers(file, table, "size")
    inline = raw.present
    there = np.flatnonzero(inline | location.present)
    number = np.arange(numbers.start, numbers.start + table.num_rows, dtype=np.int64)[there]
    place = np.unravel_index(number, grid.shape) if grid.ndim else ()
    index = np.stack(place, axis=1) if grid.ndim else np.zeros((len(there), 0), np.int64)
    whole = (offset == 0) & (size == 0) & ~inline
    length = np.where(inline, raw.lengths(), size)
    empty = there[(length[there] == 0) & ~whole[there]]
    if len(empty):
        raise FormatError(f"row {int(empty[0])} is of no bytes", where=str(file))
    return ChunkColumns(
        index=index.astype(np.int64),
        location=StringColumn(np.where(inline, -1, location.codes)[there], location.strings),
        offset=np.where(inline, 0, offset)[there].astype(np.uint64),
        length=length[there].astype(np.uint64),
        whole=whole[there],
        inline=raw.take(there),
    )


def _strings(file: Path, table: "pa.Table", name: str) -> StringColumn:
    """A column of text or bytes, by code; null where it is missing."""
    import pyarrow as pa  # noqa: PLC0415 -- loaded by now

    if name not in table.column_names or pa.types.is_null(table.column(name).type):
        return StringColumn.absent(table.num_rows)
    with _arrow_errors_as_ours(file):
        column = table.column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        column = column.unify_dictionaries().combine_chunks()
        coded = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        # Only the distinct ones become objects.
        distinct = coded.dictionary.cast(pa.large_binary()).to_pylist()
        codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    strings = Strings.from_list(distinct)
    return StringColumn(np.asarray(codes, np.int64), strings)


def _integers(file: Path, table: "pa.Table", name: str) -> npt.NDArray[np.int64]:
    """A column of numbers that are not negative, 0 where they are missing."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    import pyarrow as pa  # noqa: PLC0415 -- loaded by now

    with _arrow_errors_as_ours(file):
        column = table.column(name).cast(pa.int64()).fill_null(0)
        values = np.asarray(column.to_numpy(), np.int64)
    if len(values) and int(values.min()) < 0:
        raise FormatError(
            f"{name} {int(values.min())} in row {int(values.argmin())}", where=str(file)
        )
    return values


@contextmanager
def _arrow_errors_as_ours(file: Path) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "reference sets in Parquet need pyarrow: pip install 'frazil[spark]'"
        ) from error
    except OSError as error:
        raise FormatError(f"not Parquet: {error}", where=str(file)) from error
    except ValueError as error:  # ArrowInvalid, and other errors of Arrow, are of this kind
        raise FormatError(f"not references in Parquet: {error}", where=str(file)) from error
