"""Staged rows into one commit: the end of every write of rows through the data source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InternalError, StorageError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import Inline, Native, Payload
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.spark.io.write_blocks import Indices, group_rows, locate
from frazil.spark.io.write_columns import Column, StoredColumn, encode_coordinate
from frazil.spark.io.write_layout import Layout, plan_layout
from frazil.spark.io.write_options import WriteMode, WriteOptions
from frazil.spark.io.write_session import (
    Assembly,
    Prepared,
    StoredChunks,
    Written,
    apply_layout,
    encode_rows,
    merge_chunks,
    place_rows,
    prepare,
)
from frazil.spark.runtime.commits import CommitNote, Committed, commit_once, session_at

# Rows that wait in the repository's storage until all coordinates are known.
#
# Where Spark hands over rows in any order, no task knows the grid, nor whether it has the whole of
# a chunk. So each task puts its rows aside, as Arrow, and the driver makes chunks of them at the
# end. What is put aside has the name of a chunk that nothing refers to: if the job dies, garbage
# collection takes it. No commit ever refers to it, so it may be deleted at any time after.

INLINE_BYTES = 4096  # so little travels in the message itself
PIECE_BYTES = 64 << 20  # of Arrow, before compression


@dataclass(frozen=True, slots=True)
class Fragment:
    """Rows of one task. `coordinates` has the distinct values of its dimensions."""

    rows: int
    size_bytes: int
    table: Payload
    coordinates: Payload


def stage(
    writer: ChunkWriter, batches: Iterable[pa.RecordBatch], dims: Sequence[str]
) -> Iterator[Fragment]:
    """Call `writer.sync` after the last."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= PIECE_BYTES:
            yield _stage(writer, kept, dims)
            kept, size = [], 0
    if any(batch.num_rows for batch in kept):
        yield _stage(writer, kept, dims)


def load(store: ObjectStore, payload: Payload) -> pa.Table:
    return pa.ipc.open_stream(_fetch(store, payload)).read_all()


def discard(store: ObjectStore, fragments: Iterable[Fragment]) -> None:
    """Deletes staged rows, never what a commit may refer to; the rest is left to collection."""
    payloads = [p for fragment in fragments for p in (fragment.table, fragment.coordinates)]
    keys = [chunk_key(p.chunk_id) for p in payloads if isinstance(p, Native)]
    if keys:
        with suppress(StorageError):  # the write itself has succeeded, or failed, already
            store.delete(keys)


def _stage(writer: ChunkWriter, batches: Sequence[pa.RecordBatch], dims: Sequence[str]) -> Fragment:
    table = pa.Table.from_batches(batches)
    writer = replace(writer, inline_threshold_bytes=INLINE_BYTES)
    distinct = pa.table(
        {dim: pa.array([table.column(dim).unique()], pa.list_(table[dim].type)) for dim in dims}
    )
    return Fragment(
        rows=table.num_rows,
        size_bytes=table.nbytes,
        table=writer.put_chunk(_dump(table)),
        coordinates=writer.put_chunk(_dump(distinct)),
    )


def _dump(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _fetch(store: ObjectStore, payload: Payload) -> Data:
    match payload:
        case Inline(data):
            return data
        case Native(chunk_id):
            return store.get(chunk_key(chunk_id)).data
        case _:
            raise InternalError(f"rows were staged as {payload!r}")


# Fragments of many tasks into whole chunks: on the driver, a part of the grid at a time.

PASS_BYTES = 256 << 20  # of staged rows that are in memory at once, about


def find_coordinates(
    store: ObjectStore, fragments: Sequence[Fragment], columns: Mapping[str, StoredColumn]
) -> dict[str, Column]:
    """Stored coordinates of all rows, each once, by dimension."""
    tables = [load(store, fragment.coordinates) for fragment in fragments]
    return {
        name: np.unique(
            np.concatenate(
                [
                    np.zeros(0, dtype=column.work_dtype),
                    *(encode_coordinate(column, t[name].chunk(0).values) for t in tables),
                ]
            )
        )
        for name, column in columns.items()
    }


def merge_fragments(
    store: ObjectStore,
    fragments: Sequence[Fragment],
    assembly: Assembly,
    *,
    pass_bytes: int = PASS_BYTES,
) -> Iterator[StoredChunks]:
    """The chunks of all rows, each made once of all its fragments.

    Rows are gathered for a range of the first dimension at a time, so that no more of them need be
    in memory than about `pass_bytes`, if they do not all belong to one row of blocks.
    """
    spans = [_first_blocks(assembly.layout, store, fragment) for fragment in fragments]
    total = sum(fragment.size_bytes for fragment in fragments)
    for start, stop in _passes(assembly.layout.grid.counts[0], total, pass_bytes):
        chosen = [
            fragment
            for fragment, (low, high) in zip(fragments, spans, strict=True)
            if low < stop and start <= high
        ]
        yield from _merge_range(store, chosen, assembly, start, stop)


def _merge_range(
    store: ObjectStore, fragments: Sequence[Fragment], assembly: Assembly, start: int, stop: int
) -> Iterator[StoredChunks]:
    layout = assembly.layout
    inner = int(np.prod(layout.grid.counts[1:], dtype=np.int64))
    blocks: list[Indices] = []
    cells: list[Indices] = []
    columns: dict[str, list[Column]] = {array.name: [] for array in layout.arrays}
    for fragment in fragments:
        table = load(store, fragment.table)
        block, cell = place_rows(layout, table)
        inside = (block >= start * inner) & (block < stop * inner)
        blocks.append(block[inside])
        cells.append(cell[inside])
        for name, values in encode_rows(layout, table).items():
            columns[name].append(values[inside])
    if not blocks:
        return
    all_cells = np.concatenate(cells)
    merged = {name: np.concatenate(parts) for name, parts in columns.items()}
    for block_id, rows in group_rows(np.concatenate(blocks)):
        yield from assembly.store(
            block_id, all_cells[rows], {name: values[rows] for name, values in merged.items()}
        )


def _first_blocks(layout: Layout, store: ObjectStore, fragment: Fragment) -> tuple[int, int]:
    """First and last block, along the first dimension, that a fragment has rows for."""
    first = layout.coordinates[0]
    table = load(store, fragment.coordinates)
    values = encode_coordinate(first.column, table[first.name].chunk(0).values)
    found = locate(first, values) // layout.grid.block[0]
    return int(found.min()), int(found.max())


def _passes(count: int, total: int, pass_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks along the first dimension."""
    number = max(1, min(count, -(-total // pass_bytes)))
    bounds = np.linspace(0, count, number + 1).round().astype(int).tolist()
    yield from pairwise(bounds)


_VERBS = {
    WriteMode.CREATE: "Create",
    WriteMode.APPEND: "Append to",
    WriteMode.OVERWRITE: "Overwrite",
    WriteMode.REGION: "Write into",
    WriteMode.UPSERT: "Update",
}


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """Description that a write stores in its commit."""

    options: WriteOptions
    application: str
    key: str | None
    facts: Mapping[str, Json]

    def make(self, repository: Repository, session: Session, written: Written) -> Committed:
        options = self.options
        note = CommitNote(
            operation="write",
            application=self.application,
            key=self.key,
            facts={
                "mode": str(options.mode),
                "rows": written.rows,
                "chunks": written.chunks,
                **self.facts,
            },
        )
        return commit_once(
            repository,
            session,
            note,
            options.message or f"{_VERBS[options.mode]} {options.group}",
            branch=options.branch,
            metadata=options.metadata,
            rebasing=Rebasing(Policy()) if options.rebases else None,
            # rows may say what is there already, and the key of the commit must be found later
            allow_empty=True,
        )


def write_fragments(
    repository: Repository,
    session: Session,
    schema: StructType,
    options: WriteOptions,
    fragments: Sequence[Fragment],
) -> Written | None:
    """Everything but the commit; None if there is nothing to commit."""
    prepared = prepare(session, schema, options)
    if not fragments and not prepared.target.creates:
        return None
    columns = {d.name: d.column for d in prepared.target.dimensions}
    found = find_coordinates(repository.store, fragments, columns)
    layout = plan_layout(prepared.target, prepared.documents, found, options.new)
    assembly = make_assembly(repository, session, prepared, layout)
    apply_layout(session, prepared.target, layout, options.group_attrs)
    results = merge_fragments(repository.store, fragments, assembly)
    return merge_chunks(session, layout.paths, results)


def make_assembly(
    repository: Repository, session: Session, prepared: Prepared, layout: Layout
) -> Assembly:
    base = None
    if not prepared.target.creates:
        base = repository.readonly_session(Exactly(readable_snapshot(repository, session)))
    return Assembly(layout, session.chunk_writer(), base)


def readable_snapshot(repository: Repository, session: Session) -> SnapshotId:
    """The snapshot that a session shows; with changes, one on no branch that has them."""
    if not session.has_uncommitted_changes:
        return session.snapshot_id
    changes = session.copy_changes()
    copied = session_at(repository, session.branch or "main", str(session.snapshot_id))
    copied.revise(lambda _: changes)
    return copied.flush("pending changes of a transaction")
