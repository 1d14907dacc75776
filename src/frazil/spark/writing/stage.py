"""Rows that wait in the repository's storage until all coordinates are known.

Where Spark hands over rows in any order, no task knows the grid, nor whether it has the whole of a
chunk. So each task stages its rows, as pieces of Arrow, and says for each batch of a piece which
coordinates it spans. Chunks are made of them later, by tasks that read the batches they need.

Pieces have the names of chunks that nothing refers to: if the job dies, garbage collection takes
them. No commit ever refers to them, so they may be deleted at any time after.

A table of pieces has a row for each:

    column                  has
    id, data                the name of the object with its rows; or the object itself, if small
    edges                   lists: if the rows are a whole grid (row_grids), where it is cut along
                            each dimension, from 0 to the end. Batches are the parts of the grid, in
                            row-major order; they have no coordinates, which are those of the piece
    rows, bytes             of the whole piece, before compression
    start, length           lists: where each batch is in the object
    batch_rows              list: rows of each batch
    low <dim>, high <dim>   lists: the least and greatest coordinate of each batch
    coordinates_id, _data   an object with the distinct coordinates of the piece, in their order

Rows that are no grid are sorted by their coordinates, piece by piece, so that a batch spans little.
Once the grid of chunks is known, pieces may be cut again (assembly).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.files.object_keys import chunk_key
from frazil.errors import InvalidInputError, StorageError
from frazil.format.chunk_refs import Inline, Native, Payload
from frazil.ids import ChunkId
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.ranges import Range
from frazil.spark.writing.columns import Column, StoredColumn, encode_coordinate
from frazil.spark.writing.row_grids import Part, codes_of, divide, last_edge

OPERATION = "frazilOperation"  # the column that says what is done with a row: 0 write, 1 delete
INLINE_BYTES = 4096  # so little travels in the table of pieces itself
PIECE_BYTES = 64 << 20  # of Arrow, before compression
BATCH_ROWS = 1 << 16
GRID_ROWS = 1 << 15  # of a grid that is worth a piece
_SMALL_GRIDS = 8  # of a piece: a larger grid that is cut off has four
_SCHEMA = b"frazil.rows"  # in the metadata of a table of pieces: the columns of the rows


def stage(
    writer: ChunkWriter, batches: Iterable[pa.RecordBatch], dims: Sequence[str]
) -> pa.Table | None:
    """Stages rows, and returns the table of their pieces; None for no rows."""
    pieces = join_pieces(_stage(writer, *piece, dims) for piece in _in_pieces(batches, dims))
    writer.sync()
    return pieces


type Shape = tuple[int, ...] | None
type Edges = Sequence[npt.NDArray[np.int64]]


def _in_pieces(
    batches: Iterable[pa.RecordBatch], dims: Sequence[str]
) -> Iterator[tuple[pa.Table, Shape]]:
    """Rows, with a shape where they are a whole grid; the part of one that goes on waits."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        _require_coordinates(batch, dims)
        kept.append(batch)
        size += batch.nbytes
        if size >= PIECE_BYTES:
            rows = pa.Table.from_batches(kept).combine_chunks()
            parts, staged = _divide(rows, dims, goes_on=True)
            yield from parts
            kept = rows.slice(staged).to_batches() if staged < len(rows) else []
            size = rows.nbytes * (len(rows) - staged) // len(rows)
    if any(batch.num_rows for batch in kept):
        yield from _divide(pa.Table.from_batches(kept).combine_chunks(), dims)[0]


def _require_coordinates(batch: pa.RecordBatch, dims: Sequence[str]) -> None:
    """A row without a coordinate is refused where it is seen first."""
    for dim in dims:
        nulls = batch.column(dim).null_count
        if nulls:
            raise InvalidInputError(
                f"dimension {dim!r} is NULL in {nulls} rows: they have no place",
                kind="null-coordinate",
            )


def _divide(
    rows: pa.Table, dims: Sequence[str], *, goes_on: bool = False
) -> tuple[list[tuple[pa.Table, Shape]], int]:
    """Pieces, and how many rows are in them."""
    if OPERATION in rows.column_names or set(rows.column_names) == set(dims):
        return [(rows, None)], len(rows)
    codes = [codes_of(rows[dim].chunk(0)) for dim in dims]
    parts, small = list[Part](), 0
    for part in divide(codes):
        small += len(part) < GRID_ROWS
        if small > _SMALL_GRIDS:
            while parts and len(parts[-1]) < GRID_ROWS:
                parts.pop()
            done = parts[-1].stop if parts else 0
            return [*_tables(rows, parts), (rows.slice(done), None)], len(rows)
        parts.append(part)
    if goes_on and len(parts) > 1:
        parts.pop()
    elif goes_on and (edge := last_edge(codes)):
        parts = list(divide([column[:edge] for column in codes]))
    return _tables(rows, parts), parts[-1].stop


def _tables(rows: pa.Table, parts: Iterable[Part]) -> list[tuple[pa.Table, Shape]]:
    return [(rows.slice(part.start, len(part)), part.shape) for part in parts]


def _stage(writer: ChunkWriter, rows: pa.Table, shape: Shape, dims: Sequence[str]) -> pa.Table:
    if shape is None:
        rows = _sort(rows, dims)
        parts = [rows.slice(at, BATCH_ROWS) for at in range(0, len(rows), BATCH_ROWS)]
        return stage_batches(writer, [part.combine_chunks() for part in parts], dims)
    axes = {dim: _axis(rows[dim], shape, axis) for axis, dim in enumerate(dims)}
    step = max(1, BATCH_ROWS // prod(shape[1:]))
    slabs = np.append(np.arange(0, shape[0], step), shape[0])
    edges = [slabs, *(np.array([0, size]) for size in shape[1:])]
    stored, slab = rows.drop_columns(list(dims)), prod(shape[1:])
    parts = [stored.slice(at * slab, (to - at) * slab) for at, to in pairwise(slabs.tolist())]
    return stage_grid(writer, [part.combine_chunks() for part in parts], axes, edges, rows.schema)


def stage_batches(
    writer: ChunkWriter, batches: Sequence[pa.Table], dims: Sequence[str]
) -> pa.Table:
    """Stages rows as one piece."""
    rows = pa.concat_tables(batches)
    distinct = {dim: rows[dim].unique() for dim in dims}
    bounds = {dim: [pc.min_max(batch[dim]) for batch in batches] for dim in dims}
    return _stage_piece(writer, batches, distinct, bounds, schema=rows.schema, size=rows.nbytes)


def stage_grid(
    writer: ChunkWriter,
    batches: Sequence[pa.Table],
    axes: Mapping[str, pa.Array],
    edges: Edges,
    schema: pa.Schema,
) -> pa.Table:
    """Stages a grid as one piece: a batch for each part of it, without coordinates.

    `schema` is that of the rows.
    """
    along = {
        dim: [pc.min_max(axis[at:to]) for at, to in pairwise(each.tolist())]
        for (dim, axis), each in zip(axes.items(), edges, strict=True)
    }
    parts = list(product(*along.values()))
    bounds = {dim: [part[k] for part in parts] for k, dim in enumerate(axes)}
    widths = [axis.nbytes / len(axis) for axis in axes.values()]
    size = sum(batch.nbytes + int(len(batch) * sum(widths)) for batch in batches)
    return _stage_piece(writer, batches, axes, bounds, schema=schema, size=size, edges=edges)


def _stage_piece(
    writer: ChunkWriter,
    parts: Sequence[pa.Table],
    distinct: Mapping[str, pa.Array],
    bounds: Mapping[str, Sequence[pa.Scalar]],
    *,
    schema: pa.Schema,
    size: int,
    edges: Edges | None = None,
) -> pa.Table:
    writer = replace(writer, inline_threshold_bytes=INLINE_BYTES)
    batches = [part.to_batches()[0] for part in parts]
    data, begins, lengths = dump_batches(batches[0].schema, batches)
    one = {dim: pa.ListArray.from_arrays([0, len(each)], each) for dim, each in distinct.items()}
    coordinates = pa.record_batch(one)
    packed, _, _ = dump_batches(coordinates.schema, [coordinates])
    cuts = None if edges is None else [each.tolist() for each in edges]
    columns: dict[str, pa.Array] = {
        **payload_columns("", writer.put_chunk(data)),
        **payload_columns("coordinates_", writer.put_chunk(packed)),
        "edges": pa.array([cuts], pa.list_(pa.list_(pa.int64()))),
        "rows": pa.array([sum(map(len, batches))]),
        "bytes": pa.array([size]),
        "start": pa.array([begins], pa.list_(pa.int64())),
        "length": pa.array([lengths], pa.list_(pa.int64())),
        "batch_rows": pa.array([[len(batch) for batch in batches]], pa.list_(pa.int64())),
    }
    for dim, ends in bounds.items():
        kind = pa.list_(schema.field(dim).type)
        for name, end in (("low", "min"), ("high", "max")):
            columns[f"{name} {dim}"] = pa.array([[each[end].as_py() for each in ends]], kind)
    return pa.table(columns).replace_schema_metadata({_SCHEMA: bytes(schema.serialize())})


def _axis(column: pa.ChunkedArray, shape: tuple[int, ...], axis: int) -> pa.Array:
    """Coordinates of a grid along one dimension."""
    inner = prod(shape[axis + 1 :])
    return column.take(pa.array(np.arange(shape[axis]) * inner)).combine_chunks()


def _sort(rows: pa.Table, dims: Sequence[str]) -> pa.Table:
    """Rows by their coordinates, so that a batch spans little."""
    tied: pa.Array | None = None
    for dim in dims:
        column = rows[dim].combine_chunks()
        one, other = column.slice(0, len(column) - 1), column.slice(1)
        falls = pc.greater(one, other)
        if pc.any(falls if tied is None else pc.and_(falls, tied)).as_py():
            return rows.sort_by([(dim, "ascending") for dim in dims])
        same = pc.equal(one, other)
        tied = same if tied is None else pc.and_(tied, same)
    return rows


def payload_columns(prefix: str, payload: Payload) -> dict[str, pa.Array]:
    name = payload.chunk_id.raw if isinstance(payload, Native) else None
    data = payload.data if isinstance(payload, Inline) else None
    return {
        f"{prefix}id": pa.array([name], pa.binary()),
        f"{prefix}data": pa.array([data], pa.binary()),
    }


def dump_batches(
    schema: pa.Schema, batches: Sequence[pa.RecordBatch]
) -> tuple[pa.Buffer, list[int], list[int]]:
    """A stream of Arrow, and where each batch is in it."""
    sink = pa.BufferOutputStream()
    ends: list[int] = []
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([], schema))  # the schema goes with the first
        first = sink.tell()
        for batch in batches:
            stream.write_batch(batch)
            ends.append(sink.tell())
    edges = [first, *ends]
    return sink.getvalue(), edges[:-1], [stop - start for start, stop in pairwise(edges)]


# Reading pieces


def rows_schema(pieces: pa.Table) -> pa.Schema:
    """Columns of the rows that were staged."""
    return pa.ipc.read_schema(pa.py_buffer(pieces.schema.metadata[_SCHEMA]))


def load_batches(
    store: ObjectStore, piece: Mapping[str, Any], schema: pa.Schema, wanted: Sequence[int]
) -> pa.Table:
    """Some batches of a piece, which is a row of the table; `schema` is that of their rows."""
    ranges = [Range(piece["start"][k], piece["start"][k] + piece["length"][k]) for k in wanted]
    if piece["data"] is not None:
        view = memoryview(piece["data"])
        parts: Sequence[Data] = [view[each.start : each.stop] for each in ranges]
    else:
        parts = store.get_ranges(chunk_key(ChunkId(piece["id"])), ranges)
    messages = (pa.ipc.read_message(pa.py_buffer(part)) for part in parts)
    return pa.Table.from_batches([pa.ipc.read_record_batch(m, schema) for m in messages], schema)


def find_coordinates(
    store: ObjectStore, pieces: pa.Table | None, columns: Mapping[str, StoredColumn]
) -> dict[str, Column]:
    """Stored coordinates of all rows, each once, by dimension."""
    found: dict[str, Column] = {
        name: np.zeros(0, dtype=column.work_dtype) for name, column in columns.items()
    }
    if pieces is None:
        return found
    for piece in pieces.select(["coordinates_id", "coordinates_data"]).to_pylist():
        table = load_coordinates(store, piece)
        for name, column in columns.items():
            values = encode_coordinate(column, table[name])
            found[name] = np.unique(np.concatenate([found[name], values]))
    return found


def load_coordinates(store: ObjectStore, piece: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Distinct coordinates of a piece by dimension; of a grid, its axes."""
    data = piece["coordinates_data"]
    if data is None:
        data = store.get(chunk_key(ChunkId(piece["coordinates_id"]))).data
    table = pa.ipc.open_stream(data).read_all()
    return {name: pc.list_flatten(table[name]).combine_chunks() for name in table.column_names}


def discard(store: ObjectStore, pieces: pa.Table | None) -> None:
    """Deletes staged rows, never what a commit may refer to; the rest is left to collection."""
    if pieces is None:
        return
    names = [name for name in ("id", "coordinates_id") if name in pieces.column_names]
    ids = [i for name in names for i in pieces[name].to_pylist() if i]
    if ids:
        with suppress(StorageError):  # the write itself has succeeded, or failed, already
            store.delete([chunk_key(ChunkId(each)) for each in ids])


def join_pieces(tables: Iterable[pa.Table | None]) -> pa.Table | None:
    found = [table for table in tables if table is not None]
    return pa.concat_tables(found) if found else None


def count_rows(pieces: pa.Table | None) -> int:
    return 0 if pieces is None else int(pc.sum(pieces["rows"]).as_py())


def dump_pieces(pieces: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pieces.schema) as stream:
        stream.write_table(pieces)
    return bytes(sink.getvalue())


def load_pieces(data: Data) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


# Pieces for another process: their table is an object whose name follows from that of the job.


def leave_pieces(store: ObjectStore, job: str, pieces: pa.Table | None) -> None:
    """Leaves an empty object if there were no rows: a missing one is an error."""
    store.put(job_key(job), b"" if pieces is None else dump_pieces(pieces))


def take_pieces(store: ObjectStore, job: str) -> pa.Table | None:
    """The table that was left for a job, which goes away; None if there were no rows."""
    data = bytes(store.get(job_key(job)).data)
    with suppress(StorageError):  # garbage collection takes it
        store.delete([job_key(job)])
    return load_pieces(data) if data else None


def job_key(job: str) -> str:
    """The name of a chunk that nothing refers to, as staged rows have one."""
    return chunk_key(ChunkId(blake2b(job.encode(), digest_size=ChunkId.size).digest()))
