"""Mode `chunks`: the chunks that a commit wrote or deleted, as mode `chunks` of a batch has them.

insert    the chunk was not there before
update    it was written again
delete    it is gone; `kind` is missing, `data` is NULL: deleted, cut off by a resize, or its
          array was deleted, replaced or moved away
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.format.chunk_index import distinct
from frazil.spark.io.chunk_scan import (
    ChunkScan,
    choose_chunks,
    chunk_batch,
    dtype_text,
    require_readable,
)
from frazil.spark.io.stream_commits import Commit
from frazil.spark.io.stream_rows import (
    DELETE,
    INSERT,
    UPDATE,
    ArrayVersions,
    Index,
    Versions,
    add_change_columns,
    change_codes,
    is_stored,
    no_chunks,
    stored_chunks,
)
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.metadata_tables import batch_of, index_column, pack, repeat_column
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import ReadOptions

_BATCH_BYTES = 16 << 20  # decoded


@dataclass(frozen=True, slots=True)
class ChunksRequest:
    """`element`: of the lists in `data`, if these are wanted."""

    options: ReadOptions
    element: np.dtype[Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    """Chunks of one array that may have changed. At least one of `old` and `new` is there."""

    old: ArrayDescription | None
    new: ArrayDescription | None
    index: Index

    @property
    def array(self) -> ArrayDescription:
        array = self.new or self.old
        if array is None:
            raise InvalidInputError("changes of no array")
        return array


@dataclass(frozen=True, slots=True, eq=False)
class ChunksPart:
    """A task."""

    commit: Commit
    changes: tuple[ChunkChanges, ...]


def plan_chunks(commit: Commit, versions: Versions, request: ChunksRequest) -> list[ChunksPart]:
    """Lists what is stored of arrays that are new, gone or smaller."""
    options = request.options
    found: list[tuple[ChunkChanges, int]] = []
    for name, array in versions.arrays(options.group):
        if options.variables is None or name in options.variables:
            for changes in _changes(versions, array):
                if len(chosen := _select_chunks(versions, changes, options)):
                    _require_fitting(commit, versions, changes, request)
                    found += _split_tasks(changes, chosen, options.partition_bytes)
    return [ChunksPart(commit, part) for part in pack(found, options.partition_bytes)]


def read_chunk_changes(
    before: Opened, after: Opened, part: ChunksPart, request: ChunksRequest, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    options = request.options
    scan = ChunkScan(
        (),
        (),
        options.chunk_data,
        request.element,
        include_missing=False,
        batch_rows=options.batch_rows,
    )
    for changes in part.changes:
        size = max(1, min(options.batch_rows, _BATCH_BYTES // max(1, changes.array.chunk_bytes)))
        for start in range(0, len(changes.index), size):
            index = changes.index[start : start + size]
            was = is_stored(before, changes.old, index)
            codes = change_codes(was, is_stored(after, changes.new, index))
            live, gone = np.isin(codes, [INSERT, UPDATE]), codes == DELETE
            if changes.new is not None and live.any():
                batch = chunk_batch(after, scan, changes.new, index[live])
                yield add_change_columns(batch, part.commit, codes[live], schema)
            if changes.old is not None and gone.any():
                yield add_change_columns(
                    _deleted_batch(changes.old, index[gone]), part.commit, codes[gone], schema
                )


def _deleted_batch(array: ArrayDescription, index: Index) -> pa.RecordBatch:
    """Without data."""
    sizes = np.array(array.chunks, dtype=np.int64)
    offset = index.astype(np.int64) * sizes
    shape = np.minimum(sizes, np.array(array.shape, dtype=np.int64) - offset)
    return batch_of(
        {
            "array": repeat_column(array.name, len(index)),
            "chunk": index_column(index),
            "offset": index_column(offset),
            "shape": index_column(shape),
            "dtype": repeat_column(dtype_text(array.dtype), len(index)),
            "kind": repeat_column("missing", len(index)),
        }
    )


def _changes(versions: Versions, array: ArrayVersions) -> list[ChunkChanges]:
    if array.is_same and array.old is not None:
        index = np.concatenate([versions.logged(array), _cut_off(versions, array)])
        return [ChunkChanges(array.old, array.new, distinct(index))] if len(index) else []
    old = _list_stored(versions.before, array.old)
    new = _list_stored(versions.after, array.new)
    if array.old and array.new and array.old.chunks == array.new.chunks:
        return [ChunkChanges(array.old, array.new, distinct(np.concatenate([old, new])))]
    gone = [ChunkChanges(array.old, None, old)] if array.old else []
    return gone + ([ChunkChanges(None, array.new, new)] if array.new else [])


def _list_stored(opened: Opened, array: ArrayDescription | None) -> Index:
    return no_chunks(0) if array is None else stored_chunks(opened, array)


def _cut_off(versions: Versions, array: ArrayVersions) -> Index:
    """Chunks that a resize left outside."""
    old, new = array.old, array.new
    if old is None or new is None or all(np.less_equal(old.shape, new.shape)):
        return no_chunks(len(old.shape) if old else 0)
    grid = np.array([-(-n // c) for n, c in zip(new.shape, new.chunks, strict=True)])
    stored = stored_chunks(versions.before, old)
    return stored[(stored >= grid).any(axis=1)]


def _select_chunks(versions: Versions, changes: ChunkChanges, options: ReadOptions) -> Index:
    """Returns the chunks that the selection includes."""
    array, index = changes.array, changes.index
    if options.dims is not None and sorted(options.dims) != sorted(array.dims):
        return index[:0]
    if not options.selection.constraints and not options.isel.constraints:
        return index
    opened = versions.before if changes.new is None else versions.after
    try:
        along = choose_chunks(opened, opened.describe(options.group), array, options).along
    except InvalidInputError:
        return index[:0]  # a value or a position that is not there yet; the newest was checked
    keep = np.ones(len(index), dtype=np.bool_)
    for k, wanted in enumerate(along):
        keep &= np.isin(index[:, k], wanted)
    return index[keep]


def _require_fitting(
    commit: Commit, versions: Versions, changes: ChunkChanges, request: ChunksRequest
) -> None:
    if changes.new is None:
        return
    require_readable(versions.after, changes.new, request.options.chunk_data)
    element = request.element
    if element is not None and not np.can_cast(changes.new.dtype, element, "safe"):
        raise InvalidInputError(
            f"commit {commit.snapshot}: array {changes.new.name!r} is of {changes.new.dtype},"
            f" the lists of the stream are of {element}; begin another stream, or read bytes"
        )


def _split_tasks(
    changes: ChunkChanges, index: Index, target_bytes: int
) -> Iterator[tuple[ChunkChanges, int]]:
    """Into what a task takes, with its weight."""
    weight = max(1, prod(changes.array.chunks) * changes.array.dtype.itemsize)
    step = max(1, target_bytes // weight)
    for at in range(0, len(index), step):
        part = index[at : at + step]
        yield ChunkChanges(changes.old, changes.new, part), len(part) * weight
