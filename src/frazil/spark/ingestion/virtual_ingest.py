"""References to the chunks of sources, found by executors.

What becomes of them is in runtime/stored_refs.py: executors write manifests, and the driver
attaches these to the arrays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.ids import ChunkId
from frazil.references.plan import locate
from frazil.spark.ingestion.ingest_layout import Layout, TargetArray
from frazil.spark.ingestion.tasks import Records
from frazil.spark.runtime.stored_refs import BLOCK_ROWS, Written
from frazil.spark.sources.source_files import with_local_copy
from frazil.spark.sources.source_reader import AnySource, Piece, pieces_of, source_chunks
from frazil.spark.sources.source_types import ChunkTable, Source

# Locations of a source's chunks: a row of an Arrow table for each array.

_TABLES = pa.schema(
    [
        ("index", pa.large_binary()),
        ("offset", pa.large_binary()),
        ("length", pa.large_binary()),
        ("paths", pa.list_(pa.string())),
        ("modified", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class WantedChunks:
    """Chunks wanted of a variable; `stacked` as in StoredAs."""

    name: str
    chunks: tuple[int, ...]
    stacked: int


def encode_tables(tables: Sequence[ChunkTable]) -> pa.Table:
    rows = [
        {
            "index": table.index.astype("<i8").tobytes(),
            "offset": table.offset.astype("<u8").tobytes(),
            "length": table.length.astype("<u8").tobytes(),
            "paths": list(table.paths),
            "modified": table.modified_s,
        }
        for table in tables
    ]
    return pa.Table.from_pylist(rows, schema=_TABLES)


def decode_tables(
    found: pa.Table | None, wanted: Sequence[WantedChunks]
) -> list[ChunkTable] | None:
    """None for what is nothing of the kind."""
    if found is None or found.schema.names != _TABLES.names or found.num_rows != len(wanted):
        return None
    try:
        rows = zip(found.to_pylist(), wanted, strict=True)
        return [_table(row, len(one.chunks)) for row, one in rows]
    except ValueError:
        return None


def _table(row: dict[str, Any], ndim: int) -> ChunkTable:
    offset = np.frombuffer(row["offset"], "<u8").astype(np.uint64)
    return ChunkTable(
        np.frombuffer(row["index"], "<i8").astype(np.int64).reshape(len(offset), ndim),
        offset,
        np.frombuffer(row["length"], "<u8").astype(np.uint64),
        tuple(row["paths"]),
        row["modified"],
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VirtualJob:
    """Everything that executors need, picklable."""

    layout: Layout
    sources: tuple[AnySource, ...]  # in the order of the layout
    source_group: str | None
    arrays: tuple[int, ...]  # that are virtual, as positions in the layout
    grids: tuple[tuple[int, ...], ...]  # of chunks, of each of them
    base: Session  # read-only; its files are where manifests go
    records: Records | None  # of what was found in sources
    marks: Mapping[str, str]  # by path, which version of a source this is about

    def size_bytes(self) -> int:
        """Bytes of all values that are referred to, uncompressed."""
        arrays = [self.layout.arrays[position] for position in self.arrays]
        total = 0
        for array in arrays:
            lengths = list(array.shape)
            if array.axis is not None:
                lengths[array.axis] -= self.layout.base_length
            total += prod(lengths) * array.dtype.itemsize
        return total

    def chunk_bytes(self, number: int) -> int:
        """Bytes of a chunk of the virtual array of that number, uncompressed."""
        found = self.layout.arrays[self.arrays[number]]
        return prod(found.chunks) * found.dtype.itemsize


def refer(job: VirtualJob, number: int) -> Iterator[Written]:
    """All references to one source of the layout."""
    for piece in pieces_of(job.sources[number]):
        targets = _targets_of(job, number, piece)
        wanted = [_wanted(job.layout.arrays[job.arrays[target]]) for target in targets]
        for target, table in zip(targets, _tables(job, piece.source, wanted), strict=True):
            array = job.layout.arrays[job.arrays[target]]
            starts = dict(piece.starts)
            if array.axis is not None:
                starts[array.dims[array.axis]] = int(job.layout.starts[number])
            index = _place(array, table, starts)
            yield from _virtual(target, job.grids[target], index, table)
            yield from _padded(job, target, index, table)


def record_names(job: VirtualJob) -> Iterator[ChunkId]:
    """Names of all records that executors may have made."""
    for number, source in enumerate(job.sources):
        for piece in pieces_of(source):
            targets = _targets_of(job, number, piece)
            arrays = [job.layout.arrays[job.arrays[target]] for target in targets]
            name = _record_name(job, piece.source, [_wanted(array) for array in arrays])
            if name is not None:
                yield name


def _targets_of(job: VirtualJob, number: int, piece: Piece) -> list[int]:
    """Virtual arrays, by number, to which a piece of the source of that number contributes."""
    found = []
    for target, position in enumerate(job.arrays):
        array = job.layout.arrays[position]
        elsewhere = any(dim not in array.dims and start for dim, start in piece.starts.items())
        if not elsewhere and (array.axis is not None or number == 0):
            found.append(target)
    return found


def _wanted(array: TargetArray) -> WantedChunks:
    return WantedChunks(array.name, array.chunks, array.stored.stacked if array.stored else 0)


def _tables(job: VirtualJob, source: Source, wanted: Sequence[WantedChunks]) -> list[ChunkTable]:
    """Tables that an earlier run has found, if it left a record."""
    name = _record_name(job, source, wanted)
    if job.records is not None and name is not None:
        known = decode_tables(job.records.find(name), wanted)
        if known is not None:
            return known
    with with_local_copy(source) as readable:
        found = [
            source_chunks(
                readable, one.name, one.chunks, group=job.source_group, stacked=one.stacked
            )
            for one in wanted
        ]
    has_padding = any(table.padded for table in found)  # which is not put on record
    if job.records is not None and name is not None and not has_padding:
        job.records.put(name, encode_tables(found))
    return found


def _record_name(job: VirtualJob, source: Source, wanted: Sequence[WantedChunks]) -> ChunkId | None:
    """None if there is no record: reading the header of a local file is as fast."""
    if job.records is None or source.remote is None or not wanted:
        return None
    asked = [(one.name, one.chunks, one.stacked) for one in wanted]
    return job.records.name("virtual", source.path, job.marks[source.path], job.source_group, asked)


def _place(array: TargetArray, table: ChunkTable, starts: dict[str, int]) -> npt.NDArray[np.uint32]:
    """Indices in the grid of the array."""
    origin = [
        starts.get(dim, 0) // chunk for dim, chunk in zip(array.dims, array.chunks, strict=True)
    ]
    return (table.index + np.array(origin, dtype=np.int64)).astype(np.uint32)


def _virtual(
    target: int, grid: tuple[int, ...], index: npt.NDArray[np.uint32], table: ChunkTable
) -> Iterator[Written]:
    """References to chunks as they are in the source."""
    inside = (index < np.array(grid, dtype=np.int64)).all(axis=1)
    inside[list(table.padded)] = False
    chosen = np.flatnonzero(inside)
    locations = Strings.from_list([locate(path, root=None).encode() for path in table.paths])
    for start in range(0, len(chosen), BLOCK_ROWS):
        rows = chosen[start : start + BLOCK_ROWS]
        codes = rows if len(locations) > 1 else np.zeros(len(rows), np.int64)
        refs = ChunkRefs.from_columns(
            index[rows],
            RefKind.VIRTUAL,
            offset=table.offset[rows],
            length=table.length[rows],
            location=StringColumn(codes.astype(np.int64), locations),
            last_modified=table.modified_s,
        )
        _require_each_once(table, rows, refs)
        yield Written(target, refs)


def _require_each_once(table: ChunkTable, rows: npt.NDArray[np.int64], refs: ChunkRefs) -> None:
    if len(refs) != len(rows):
        raise InvalidInputError(f"{table.paths[0]}: a chunk is there twice", kind="bad-metadata")


def _padded(
    job: VirtualJob, target: int, index: npt.NDArray[np.uint32], table: ChunkTable
) -> Iterator[Written]:
    """Chunks that are stored, since the source has no such chunks."""
    writer = ChunkWriter(job.base.files.store, inline_threshold_bytes=0)
    for row, data in table.padded.items():
        if data:
            yield Written(target, writer.put_chunks(index[row : row + 1], [data]))
