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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.engine.session.session import Session
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError, StorageError
from frazil.flatbuf.columns import StringColumn, concat_texts
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import Virtual
from frazil.format.urls import normalize_location
from frazil.paths import NodePath
from frazil.ranges import Range
from frazil.references.columns import (
    ARRAY_2,
    CONSOLIDATED_2,
    ChunkColumns,
    Grid,
    ReferenceSet,
    array_paths,
    grid_of,
    reference_error,
)

if TYPE_CHECKING:
    import pyarrow as pa


# The files that a set of references is in: of this machine, or in a virtual chunk container.


class SetFiles(Protocol):
    """Files by name, below one place. Safe to use from several threads."""

    def place(self, name: str) -> str:
        """Formats a place for messages; the empty name is the place itself."""
        ...

    def find(self, name: str) -> bytes | None:
        """Returns the contents of the file; None if there is none."""
        ...

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        """Results in order, as many at once as is good for the place."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFiles:
    root: Path

    def place(self, name: str) -> str:
        return str(self.root / name)

    def find(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.place(name)}: {error.strerror}") from error

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        return map(function, names)


@dataclass(frozen=True, slots=True, eq=False)
class ContainedFiles:
    """Below a URL that a virtual chunk container covers, read as virtual chunks are."""

    session: Session
    url: str

    def place(self, name: str) -> str:
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def find(self, name: str) -> bytes | None:
        virtual, location = self.session.files.virtual, normalize_location(self.place(name))
        try:
            size = virtual.size_bytes(location)
        except ObjectNotFoundError:
            return None
        return bytes(virtual.fetch(Virtual(location, 0, size, None), Range(0, size)))

    def map[R](self, function: Callable[[str], R], names: Iterable[str]) -> Iterator[R]:
        return iter(self.session.files.pool.map(function, list(names)))


_COLUMNS = ("path", "offset", "size", "raw")
_MAX_RECORDS = 1_000_000  # files of one array: a few bytes of JSON must not cause endless work


def read_parquet_set(files: SetFiles) -> ReferenceSet | None:
    """None if there is none. Raises FormatError, naming the file that is wrong."""
    data, where = files.find(CONSOLIDATED_2), files.place(CONSOLIDATED_2)
    if data is None:
        return None
    documents, record_size = _parse_metadata(where, data)
    chunks = {}
    for path in sorted(array_paths(documents)):
        key = f"{path}/{ARRAY_2}".lstrip("/")
        if key not in documents:
            raise FormatError(f"{path!r} is not an array of Zarr version 2", where=where)
        try:
            NodePath.from_key_prefix(path)  # or it might name other files than ours
        except InvalidInputError as error:
            raise reference_error(where, key, error.message) from error
        grid = grid_of(where, key, documents[key])
        if prod(grid.shape) > _MAX_RECORDS * record_size:
            raise reference_error(
                where, key, f"{prod(grid.shape)} chunks in files of {record_size}"
            )
        chunks[path] = _read_array(files, path, grid, record_size)
    return ReferenceSet(files.place(""), documents, chunks)


def _parse_metadata(where: str, data: bytes) -> tuple[dict[str, dict[str, Any]], int]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", where=where) from error
    match document:
        case {"metadata": dict() as documents, "record_size": int() as rows} if 0 < rows < 2**40:
            pass
        case _:
            raise FormatError("expected `metadata` and a positive `record_size`", where=where)
    for key, value in documents.items():
        if not isinstance(value, dict):
            raise FormatError(f"{key!r} is {type(value).__name__}, not an object", where=where)
    return documents, rows


def _read_array(files: SetFiles, path: str, grid: Grid, record_size: int) -> ChunkColumns:
    total = prod(grid.shape)

    def read(name: str) -> ChunkColumns | None:
        data = files.find(name)
        first = int(name.split(".")[-2]) * record_size
        numbers = range(first, min(total, first + record_size))
        return None if data is None else _read_record(files.place(name), data, grid, numbers)

    names = (f"{path}/refs.{n}.parq".lstrip("/") for n in range(-(-total // record_size)))
    parts = [_empty_chunks(grid), *(part for part in files.map(read, names) if part is not None)]
    return ChunkColumns(
        index=np.concatenate([part.index for part in parts]),
        location=concat_texts([part.location for part in parts]),
        offset=np.concatenate([part.offset for part in parts]),
        length=np.concatenate([part.length for part in parts]),
        whole=np.concatenate([part.whole for part in parts]),
        inline=StringColumn.concat([part.inline for part in parts]),
    )


def _empty_chunks(grid: Grid) -> ChunkColumns:
    none, numbers = StringColumn.absent(0), np.zeros(0, np.uint64)
    index = np.zeros((0, grid.ndim), np.int64)
    return ChunkColumns(index, none, numbers, numbers, np.zeros(0, np.bool_), none)


def _read_record(file: str, data: bytes, grid: Grid, numbers: range) -> ChunkColumns:
    """The chunks with these numbers that the file has references for."""
    with _arrow_errors_as_ours(file):
        from pyarrow import BufferReader, parquet  # noqa: PLC0415 -- heavy, and only for these

        table = parquet.read_table(BufferReader(data), partitioning=None).slice(0, len(numbers))
        table = table.select([name for name in table.column_names if name in _COLUMNS])
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
        raise FormatError(f"row {int(empty[0])} is of no bytes", where=file)
    return ChunkColumns(
        index=index.astype(np.int64),
        location=StringColumn(np.where(inline, -1, location.codes)[there], location.strings),
        offset=np.where(inline, 0, offset)[there].astype(np.uint64),
        length=length[there].astype(np.uint64),
        whole=whole[there],
        inline=raw.take(there),
    )


def _strings(file: str, table: "pa.Table", name: str) -> StringColumn:
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


def _integers(file: str, table: "pa.Table", name: str) -> npt.NDArray[np.int64]:
    """A column of numbers that are not negative, 0 where they are missing."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    import pyarrow as pa  # noqa: PLC0415 -- loaded by now

    with _arrow_errors_as_ours(file):
        column = table.column(name).cast(pa.int64()).fill_null(0)
        values = np.asarray(column.to_numpy(), np.int64)
    if len(values) and int(values.min()) < 0:
        raise FormatError(f"{name} {int(values.min())} in row {int(values.argmin())}", where=file)
    return values


@contextmanager
def _arrow_errors_as_ours(file: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "reference sets in Parquet need pyarrow: pip install 'frazil[spark]'"
        ) from error
    except OSError as error:
        raise FormatError(f"not Parquet: {error}", where=file) from error
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
        # Every error of Arrow is also one of these.
        raise FormatError(f"not references in Parquet: {error}", where=file) from error
