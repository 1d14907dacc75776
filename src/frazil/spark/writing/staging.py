"""Rows that wait in the repository's storage until all coordinates are known.

Where Spark hands over rows in any order, no task knows the grid, nor whether it has the whole of a
chunk. So each task puts its rows aside, as Arrow, and the driver makes chunks of them at the end.
What is put aside has the name of a chunk that nothing refers to: if the job dies, garbage
collection takes it. No commit ever refers to it, so it may be deleted at any time after.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from frazil.assets.layout import chunk_key
from frazil.errors import InternalError, StorageError
from frazil.format.payloads import Inline, Native, Payload
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.repo.writer import ChunkWriter

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
    """Of staged rows only: never what a commit may refer to. What stays is garbage to collect."""
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
