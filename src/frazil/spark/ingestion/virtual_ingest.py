"""References to the chunks of sources, and the manifests that hold them.

    driver      cells of the manifests' splitting, and which manifests they replace    VirtualJob
    executors   sources -> references, in blocks of one cell                           refer
    shuffle     blocks of one cell to one executor
    executors   blocks, and what is kept of older manifests -> one manifest per cell   write_cell
    driver      manifests attached to the arrays: names and extents, no references

A block is a row of an Arrow table; its columns hold the references as bytes, as in references.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs, Native, RefKind
from frazil.format.manifest import Manifest
from frazil.format.nodes import ManifestRef, Node
from frazil.format.snapshot import ManifestFile
from frazil.ids import ChunkId, ManifestId
from frazil.references.plan import locate
from frazil.spark.ingestion.ingest_layout import Layout, TargetArray
from frazil.spark.ingestion.tasks import Records
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


BLOCK_ROWS = 1 << 14  # half a megabyte, so that a batch of Arrow's is a few of them


@dataclass(frozen=True, slots=True, eq=False)
class VirtualTarget:
    """An array that gets references, and how its manifests are split."""

    array: int  # position in the layout
    node: Node
    cell: tuple[int, ...]  # chunks along each axis
    rewrite: tuple[ManifestRef, ...]  # manifests of the base that share a cell with the new ones

    @property
    def grid(self) -> tuple[int, ...]:
        return () if self.node.array is None else self.node.array.num_chunks

    @property
    def cells(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(-(-count // size) for count, size in zip(self.grid, self.cell, strict=True))

    def cells_to_keep(self) -> list[int]:
        """Cells that older manifests hold chunks of."""
        found: set[int] = set()
        for ref in self.rewrite:
            extents = ref.extents or tuple((0, count) for count in self.grid)
            ranges = [
                np.arange(start // size, min(-(-stop // size), count))
                for (start, stop), size, count in zip(extents, self.cell, self.cells, strict=True)
            ]
            mesh = np.stack([each.ravel() for each in np.meshgrid(*ranges, indexing="ij")], axis=1)
            found.update(_numbers(mesh, self.cells).tolist())
        return sorted(found)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VirtualJob:
    """Everything that executors need, picklable."""

    layout: Layout
    sources: tuple[AnySource, ...]  # in the order of the layout
    source_group: str | None
    targets: tuple[VirtualTarget, ...]
    base: Session  # read-only; its files are where manifests go
    records: Records | None  # of what was found in sources
    marks: Mapping[str, str]  # by path, which version of a source this is about

    def size_bytes(self) -> int:
        """Bytes of all values that are referred to, uncompressed."""
        arrays = [self.layout.arrays[target.array] for target in self.targets]
        total = 0
        for array in arrays:
            lengths = list(array.shape)
            if array.axis is not None:
                lengths[array.axis] -= self.layout.base_length
            total += prod(lengths) * array.dtype.itemsize
        return total

    def chunk_bytes(self, array: int) -> int:
        found = self.layout.arrays[array]
        return prod(found.chunks) * found.dtype.itemsize

    def target(self, array: int) -> VirtualTarget:
        return next(target for target in self.targets if target.array == array)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """References of one array that belong to one cell."""

    array: int
    cell: int
    index: npt.NDArray[np.uint32]  # (n, ndim)
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,)
    locations: Sequence[str]  # one for all, or one for each
    modified_s: int
    chunk_ids: bytes = b""  # of chunks that were stored, and are not virtual; or nothing

    def to_row(self) -> dict[str, Any]:
        return {
            "array": self.array,
            "cell": self.cell,
            "index": self.index.astype("<u4").tobytes(),
            "offset": self.offset.astype("<u8").tobytes(),
            "length": self.length.astype("<u8").tobytes(),
            "location": "\0".join(self.locations).encode(),
            "modified": self.modified_s,
            "chunk_id": self.chunk_ids,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any], ndim: int) -> "Block":
        offset = np.frombuffer(row["offset"], dtype="<u8").astype(np.uint64)
        index = np.frombuffer(row["index"], dtype="<u4").reshape(len(offset), ndim)
        return cls(
            row["array"],
            row["cell"],
            index.astype(np.uint32),
            offset,
            np.frombuffer(row["length"], dtype="<u8").astype(np.uint64),
            row["location"].decode().split("\0"),
            row["modified"],
            row["chunk_id"],
        )


def appended_cells(
    array: TargetArray, grid: tuple[int, ...], cell: tuple[int, ...], base_length: int
) -> npt.NDArray[np.uint32]:
    """A chunk of each cell that is written to, (n, ndim): all after what there was."""
    ranges = []
    for axis, (count, size, chunk) in enumerate(zip(grid, cell, array.chunks, strict=True)):
        first = base_length // chunk if axis == array.axis else 0
        ranges.append(np.arange(first // size, -(-count // size)) * size)
    if not ranges:
        return np.zeros((1, 0), dtype=np.uint32)
    # A cell's first chunk may be one that was there: the cell is what matters.
    mesh = np.meshgrid(*ranges, indexing="ij")
    return np.stack([each.ravel() for each in mesh], axis=1).astype(np.uint32)


def refer(job: VirtualJob, number: int) -> Iterator[Block]:
    """All references to one source of the layout, cut by cells."""
    for piece in pieces_of(job.sources[number]):
        targets = _targets_of(job, number, piece)
        wanted = [_wanted(job.layout.arrays[target.array]) for target in targets]
        for target, table in zip(targets, _tables(job, piece.source, wanted), strict=True):
            array = job.layout.arrays[target.array]
            starts = dict(piece.starts)
            if array.axis is not None:
                starts[array.dims[array.axis]] = int(job.layout.starts[number])
            index = _place(array, table, starts)
            yield from _blocks(target, index, table)
            yield from _padded_blocks(job, target, index, table)


def record_names(job: VirtualJob) -> Iterator[ChunkId]:
    """Names of all records that executors may have made."""
    for number, source in enumerate(job.sources):
        for piece in pieces_of(source):
            arrays = [job.layout.arrays[each.array] for each in _targets_of(job, number, piece)]
            name = _record_name(job, piece.source, [_wanted(array) for array in arrays])
            if name is not None:
                yield name


def _targets_of(job: VirtualJob, number: int, piece: Piece) -> list[VirtualTarget]:
    """Arrays to which a piece of the source of that number contributes."""
    found = []
    for target in job.targets:
        array = job.layout.arrays[target.array]
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


def write_cell(job: VirtualJob, array: int, cell: int, blocks: Sequence[Block]) -> dict[str, Any]:
    """Stores the manifest of one cell; says what is to be attached, as a row of a table."""
    target = job.target(array)
    filled = [block for block in blocks if len(block.index)]
    new = ChunkRefs.concat([_refs(block) for block in filled]) if filled else None
    if new is not None and len(new) != sum(len(block.index) for block in filled):
        name = job.layout.arrays[array].name
        raise InvalidInputError(f"two sources have the same chunk of {name!r}")
    changed = ChunkSet.of(np.zeros((0, len(target.grid)), np.uint32) if new is None else new.index)
    kept = _kept(job, target, cell)
    parts = [part for part in (*kept, new) if part is not None and len(part)]
    if not parts:
        return {"array": array, "id": b"", "refs": 0, "size": 0, "extents": b"", **_row_of(changed)}
    refs = ChunkRefs.concat(parts)
    manifest = Manifest(id=ManifestId.random(), arrays={target.node.id: refs})
    file = job.base.files.put_manifest(manifest)
    extents = np.array(refs.bounding_box(), dtype="<i8")
    return {
        "array": array,
        "id": manifest.id.raw,
        "refs": file.num_refs,
        "size": file.size_bytes,
        "extents": extents.tobytes(),
        **_row_of(changed),
    }


def attached_manifest(row: dict[str, Any]) -> AttachedManifest | None:
    """Result of `write_cell`; None if there was nothing to write."""
    if not row["id"]:
        return None
    extents = np.frombuffer(row["extents"], dtype="<i8").reshape(-1, 2).tolist()
    lo, shape = np.frombuffer(row["box"], dtype="<i8").reshape(2, -1).tolist()
    return AttachedManifest(
        ManifestFile(id=ManifestId(row["id"]), size_bytes=row["size"], num_refs=row["refs"]),
        tuple((start, stop) for start, stop in extents),
        ChunkSet(tuple(lo), tuple(shape), row["changed"], row["bits"]),
    )


def _row_of(changed: ChunkSet) -> dict[str, Any]:
    box = np.array([changed.lo, changed.shape], dtype="<i8").tobytes()
    return {"changed": changed.count, "box": box, "bits": changed.bits}


def _place(array: TargetArray, table: ChunkTable, starts: dict[str, int]) -> npt.NDArray[np.uint32]:
    """Indices in the grid of the array."""
    origin = [
        starts.get(dim, 0) // chunk for dim, chunk in zip(array.dims, array.chunks, strict=True)
    ]
    return (table.index + np.array(origin, dtype=np.int64)).astype(np.uint32)


def _blocks(
    target: VirtualTarget, index: npt.NDArray[np.uint32], table: ChunkTable
) -> Iterator[Block]:
    inside = (index < np.array(target.grid, dtype=np.int64)).all(axis=1)
    inside[list(table.padded)] = False
    cells = index.astype(np.int64) // np.array(target.cell, dtype=np.int64)
    numbers = _numbers(cells, target.cells)
    order = np.flatnonzero(inside)[np.argsort(numbers[inside], kind="stable")]
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    locations = [locate(path, root=None) for path in table.paths]
    for run in np.split(order, cuts):
        for start in range(0, len(run), BLOCK_ROWS):
            rows = run[start : start + BLOCK_ROWS]
            named = [locations[row] for row in rows] if len(locations) > 1 else locations
            yield Block(
                target.array,
                int(numbers[rows[0]]),
                index[rows],
                table.offset[rows],
                table.length[rows],
                named,
                table.modified_s,
            )


def _padded_blocks(
    job: VirtualJob, target: VirtualTarget, index: npt.NDArray[np.uint32], table: ChunkTable
) -> Iterator[Block]:
    """Blocks of chunks that are stored, since the source has no such chunks."""
    writer = ChunkWriter(job.base.files.store, inline_threshold_bytes=0)
    cell = np.array(target.cell, dtype=np.int64)
    for row, data in table.padded.items():
        stored = writer.put_chunk(data) if data else None
        if isinstance(stored, Native):
            at = index[row : row + 1]
            (number,) = _numbers(at.astype(np.int64) // cell, target.cells).tolist()
            length = np.array([stored.length], np.uint64)
            offset = np.zeros(1, np.uint64)
            chunk_ids = stored.chunk_id.raw
            yield Block(target.array, number, at, offset, length, [], 0, chunk_ids)


def _numbers(cells: npt.NDArray[np.int64], count: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Number of each cell, counted in row-major order."""
    numbers = np.zeros(len(cells), dtype=np.int64)
    for axis, length in enumerate(count):
        numbers = numbers * length + cells[:, axis]
    return numbers


def _refs(block: Block) -> ChunkRefs:
    if block.chunk_ids:
        ids = np.frombuffer(block.chunk_ids, np.uint8).reshape(-1, 12)
        return ChunkRefs.native(block.index, ids, block.offset, block.length)
    texts = Strings.from_list([each.encode() for each in block.locations])
    shared = len(block.locations) == 1
    codes = np.zeros(len(block.index), np.int64) if shared else np.arange(len(block.index))
    return ChunkRefs.from_columns(
        block.index,
        RefKind.VIRTUAL,
        offset=block.offset,
        length=block.length,
        location=StringColumn(codes.astype(np.int64), texts),
        last_modified=block.modified_s,
    )


def _kept(job: VirtualJob, target: VirtualTarget, cell: int) -> list[ChunkRefs]:
    """References of older manifests to the cell's chunks; new references win."""
    if not target.rewrite:
        return []
    at = np.array(np.unravel_index(cell, target.cells) if target.cells else (), dtype=np.int64)
    size = np.array(target.cell, dtype=np.int64)
    found = []
    for ref in target.rewrite:
        refs = refs_in(job.base.files, target.node, ref)
        if refs is not None:
            mine = (refs.index.astype(np.int64) // size == at).all(axis=1)
            found.append(refs.take(np.flatnonzero(mine)))
    return found
