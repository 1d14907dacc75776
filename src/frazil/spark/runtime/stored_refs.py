"""References to chunks that tasks stored, on their way into a session: as columns, or as manifests.

    executors   tasks store chunks -> blocks of references                       gather_blocks
    few         the driver collects the blocks, the commit makes manifests of them
    many        shuffle: blocks of one cell of the splitting to one executor
                executors: blocks, and what older manifests keep -> a manifest   write_cell
                driver: manifests attached to the arrays, by name and extents

A block is a row of an Arrow table. Of many references the driver learns what a manifest is called
and covers, and which chunks changed, in a bit for each or less: it takes the same memory for ten
thousand chunks as for ten million, and `spark.driver.maxResultSize` bounds neither. A task may run
twice: of what it stored, one set of references arrives.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import batched, groupby
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.engine.changes.attached_manifests import (
    Attached,
    AttachedManifest,
    EmptiedCell,
    LogWriter,
)
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.commit.splitting import cell_sizes, plan_manifests_in
from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.format.chunk_index import Box, ChunkSet, distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.nodes import ManifestRef, Node
from frazil.format.snapshot import ManifestFile
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.executor import Sizes, Task
from frazil.paths import NodePath
from frazil.spark.runtime.executor import Amounts, FilesOpener, JobExecutor
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.workers import carrying_errors, limit_gc

MOST_COLLECTED = 1 << 16  # references: executors write the manifests of more
CHUNKS_LOGGED_HERE = 1 << 16  # the transaction log of more is written by an executor
BLOCK_ROWS = 1 << 14  # half a megabyte, so that a batch of Arrow's is a few of them
_BLOCKS_PER_BATCH = 16
_LARGEST_CELL = 1 << 28  # chunks that there could be: each is a byte while a set is made

type Index = npt.NDArray[np.uint32]  # (n, ndim)
type Numbers = npt.NDArray[np.int64]

BLOCKS = pa.schema(
    [
        ("array", pa.int32()),
        ("cell", pa.int64()),
        ("refs", pa.binary()),  # and emptied chunks, pickled: only we read them
        ("count", pa.int64()),
        ("notes", pa.binary()),
    ]
)
MANIFESTS = pa.schema(
    [
        ("array", pa.int32()),
        ("cell", pa.int64()),
        ("rewritten", pa.bool_()),
        ("id", pa.binary()),
        ("refs", pa.int64()),
        ("size", pa.int64()),
        ("extents", pa.binary()),
        ("changed", pa.int64()),
        ("box", pa.binary()),
        ("bits", pa.binary()),
        ("chunks", pa.int64()),
        ("bytes", pa.int64()),
        ("count", pa.int64()),
        ("notes", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Chunks of one array that a task stored, and those that hold nothing and are not stored."""

    array: int  # its number among the targets
    refs: ChunkRefs
    emptied: Index | None = None
    count: int = 0  # of what the job counts, such as rows
    note: bytes = b""  # for the driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Chunks that tasks stored, and what they said about each array."""

    chunks: int
    size_bytes: int
    counts: Mapping[int, int] = field(default_factory=dict)
    notes: bytes = b""  # one after the other

    @classmethod
    def sum(cls, rows: Iterable[Mapping[str, Any]]) -> "Stored":
        chunks, size, counts, notes = 0, 0, dict[int, int](), list[bytes]()
        for row in rows:
            chunks += row["chunks"]
            size += row["bytes"]
            counts[row["array"]] = counts.get(row["array"], 0) + row["count"]
            notes.append(row["notes"])
        return cls(chunks=chunks, size_bytes=size, counts=counts, notes=b"".join(notes))


type Gather = Callable[[Iterable[Written]], Iterator[pa.RecordBatch]]
"""Makes rows of BLOCKS of what a task has stored; picklable."""


# Arrays that get chunks.


@dataclass(frozen=True, eq=False)
class CellTarget:
    """An array that gets chunks, and how its manifests are split; picklable."""

    path: NodePath
    node: Node
    size: tuple[int, ...]  # of a cell, in chunks along each axis
    old: tuple[ManifestRef, ...]  # manifests in the cells that may be written to

    @property
    def grid(self) -> tuple[int, ...]:
        return () if self.node.array is None else self.node.array.num_chunks

    @property
    def ndim(self) -> int:
        return len(self.grid)

    @property
    def cells(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(-(-count // size) for count, size in zip(self.grid, self.size, strict=True))

    @property
    def cell_chunks(self) -> int:
        """Chunks that a cell can have."""
        return prod(min(count, size) for count, size in zip(self.grid, self.size, strict=True))

    def numbers(self, index: Index) -> Numbers:
        """Number of the cell of each chunk, counted in row-major order."""
        numbers = np.zeros(len(index), dtype=np.int64)
        for axis, (count, size) in enumerate(zip(self.cells, self.size, strict=True)):
            numbers = numbers * count + index[:, axis] // np.uint32(size)
        return numbers

    @cached_property
    def wide(self) -> frozenset[ManifestId]:
        """Manifests of more than one cell, and beyond the grid: always rewritten."""
        return frozenset(ref.id for ref in self.old if not self._is_in_one_cell(ref))

    @cached_property
    def wide_cells(self) -> frozenset[int]:
        """Cells that such manifests hold chunks of."""
        found: set[int] = set()
        for ref in self.old:
            if ref.id in self.wide:
                found.update(self._cells_of(ref).tolist())
        return frozenset(found)

    @cached_property
    def by_cell(self) -> dict[int, list[ManifestRef]]:
        """Old manifests by the cells that they hold chunks of."""
        found: dict[int, list[ManifestRef]] = {}
        for ref in self.old:
            for cell in self._cells_of(ref).tolist():
                found.setdefault(cell, []).append(ref)
        return found

    def _bounds(self, ref: ManifestRef) -> list[tuple[int, int]]:
        if len(ref.extents) == self.ndim:
            return list(ref.extents)
        return [(0, count) for count in self.grid]

    def _is_in_one_cell(self, ref: ManifestRef) -> bool:
        bounds = zip(self._bounds(ref), self.size, self.grid, strict=True)
        return all(
            start // size == (max(stop, 1) - 1) // size and stop <= count
            for (start, stop), size, count in bounds
        )

    def _cells_of(self, ref: ManifestRef) -> Numbers:
        ranges = [
            np.arange(start // size, min(-(-stop // size), count))
            for (start, stop), size, count in zip(
                self._bounds(ref), self.size, self.cells, strict=True
            )
        ]
        numbers = np.zeros(1, dtype=np.int64)
        for along, count in zip(ranges, self.cells, strict=True):
            numbers = (numbers[:, None] * count + along[None, :]).reshape(-1)
        return numbers


def plan_target(session: Session, path: NodePath, box: Box | None = None) -> CellTarget:
    """Plans which manifests of an array may be rewritten; `box` is the part that gets chunks."""
    node = session.node(path)
    size = cell_sizes(session.files.settings.splitting, node)
    grid = () if node.array is None else node.array.num_chunks
    current = () if node.array is None else node.array.manifests
    whole = Box((0,) * len(grid), grid)
    plan = plan_manifests_in(current, box or whole, grid=grid, cell=size)
    return CellTarget(path, node, size, plan.rewrite)


# Blocks: what tasks say that they stored.


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """References of several tasks or regions, of one cell unless they were not divided."""

    array: int
    cell: int  # -1 if nothing but a count and notes is told
    refs: ChunkRefs
    emptied: Index
    count: int = 0
    notes: bytes = b""

    def to_row(self) -> dict[str, Any]:
        """A row of BLOCKS."""
        return {
            "array": self.array,
            "cell": self.cell,
            "refs": pickle.dumps((self.refs.compact(), self.emptied)),
            "count": self.count,
            "notes": self.notes,
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Block":
        refs, emptied = pickle.loads(row["refs"])  # noqa: S301 -- by our executors
        return cls(row["array"], row["cell"], refs, emptied, row["count"], row["notes"])


def gather_blocks(
    written: Iterable[Written], targets: Sequence[CellTarget], *, by_cell: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of BLOCKS: references of tasks put together, and divided by cells if asked to."""
    for some in batched(make_blocks(written, targets, by_cell=by_cell), _BLOCKS_PER_BATCH):
        yield pa.RecordBatch.from_pylist([block.to_row() for block in some], schema=BLOCKS)


def make_blocks(
    written: Iterable[Written], targets: Sequence[CellTarget], *, by_cell: bool
) -> Iterator[Block]:
    pending: dict[int, list[Written]] = {}
    waiting: dict[int, int] = {}
    for one in written:
        pending.setdefault(one.array, []).append(one)
        more = len(one.refs) + (0 if one.emptied is None else len(one.emptied))
        waiting[one.array] = waiting.get(one.array, 0) + more
        if waiting[one.array] >= BLOCK_ROWS:
            waiting[one.array] = 0
            some = pending.pop(one.array)
            yield from _blocks_of(one.array, targets[one.array], some, by_cell=by_cell)
    for array, some in pending.items():
        yield from _blocks_of(array, targets[array], some, by_cell=by_cell)


def _blocks_of(
    array: int, target: CellTarget, some: Sequence[Written], *, by_cell: bool
) -> Iterator[Block]:
    refs, emptied = _together(target, [(one.refs, one.emptied) for one in some])
    count, notes = sum(one.count for one in some), b"".join(one.note for one in some)
    if not by_cell:
        yield Block(array, 0, refs, emptied, count, notes)
        return
    of_refs, of_emptied = target.numbers(refs.index), target.numbers(emptied)
    cells = np.union1d(of_refs, of_emptied).tolist()
    for cell in cells or [-1]:
        mine = refs.take(np.flatnonzero(of_refs == cell)) if len(cells) > 1 else refs
        yield Block(array, cell, mine, emptied[of_emptied == cell], count, notes)
        count, notes = 0, b""


def _together(
    target: CellTarget, parts: Sequence[tuple[ChunkRefs, Index | None]]
) -> tuple[ChunkRefs, Index]:
    """All references and emptied chunks. Raises InvalidInputError for two of one chunk."""
    nothing = np.zeros((0, target.ndim), dtype=np.uint32)
    refs = ChunkRefs.concat([ChunkRefs.empty(target.ndim), *(refs for refs, _ in parts)])
    listed = [nothing, *(index for _, index in parts if index is not None)]
    emptied = distinct(np.concatenate(listed))
    expected = sum(len(each) for each, _ in parts) + sum(map(len, listed))
    overlap = len(emptied) and (refs.lookup(emptied) >= 0).any()
    if overlap or len(refs) + len(emptied) != expected:
        raise InvalidInputError(
            f"two tasks wrote the same chunk of {target.path.name!r}; by plan each has one owner"
        )
    return refs, emptied


def empty_blocks(targets: Sequence[CellTarget]) -> Iterator[Block]:
    """Blocks of cells that are rewritten in any case, also if they get no chunk."""
    for array, target in enumerate(targets):
        index = np.zeros((0, target.ndim), dtype=np.uint32)
        for cell in sorted(target.wide_cells):
            yield Block(array, cell, ChunkRefs.empty(target.ndim), index)


# Manifests, one for each cell.


@dataclass(frozen=True, slots=True, eq=False)
class WriteCells:
    """Writes manifests of rows of BLOCKS that are ordered by cell; one cell is in memory."""

    base: Session  # read-only; its files are where manifests go
    targets: tuple[CellTarget, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            # one after the other: Spark makes batches of up to 256 MB
            ones = (batch.slice(at, 1) for batch in batches for at in range(batch.num_rows))
            rows = (row for one in ones for row in one.to_pylist())
            for _, some in groupby(rows, key=itemgetter("array", "cell")):
                told = self.write([Block.of_row(row) for row in some])
                yield pa.RecordBatch.from_pylist([told], schema=MANIFESTS)
            self.base.files.store.sync()

    def write(self, blocks: Sequence[Block]) -> dict[str, Any]:
        """Writes the manifest of a cell, which the blocks are all of; returns a row of MANIFESTS.

        The store is to be synced after it.
        """
        array, cell = blocks[0].array, blocks[0].cell
        target = self.targets[array]
        new, emptied = _together(target, [(block.refs, block.emptied) for block in blocks])
        told = {
            "array": array,
            "cell": cell,
            "chunks": len(new),
            "bytes": int(new.length.sum(dtype=np.uint64)),
            "count": sum(block.count for block in blocks),
            "notes": b"".join(block.notes for block in blocks),
        }
        return told | write_cell(self.base, target, cell, new, emptied)


def write_cell(
    base: Session, target: CellTarget, cell: int, new: ChunkRefs, emptied: Index
) -> dict[str, Any]:
    """Stores the manifest of a cell with these chunks, and without those that hold nothing.

    Returns what is to be attached, as columns of a row.
    """
    old = _old_refs(base, target, cell)
    gone = emptied[old.lookup(emptied) >= 0] if len(old) else emptied[:0]
    changed = ChunkSet.of(np.concatenate([new.index, gone]))
    if not changed.count and cell not in target.wide_cells:
        return _manifest_row(None, (), changed, rewritten=False)
    refs = ChunkRefs.merged(old, new, gone)
    if not len(refs):
        return _manifest_row(None, (), changed, rewritten=True)
    manifest = Manifest(id=ManifestId.random(), arrays={target.node.id: refs})
    file = base.files.put_manifest(manifest)
    return _manifest_row(file, refs.bounding_box(), changed, rewritten=True)


def _old_refs(base: Session, target: CellTarget, cell: int) -> ChunkRefs:
    """References of older manifests to the cell's chunks."""
    found = [ChunkRefs.empty(target.ndim)]
    for ref in target.by_cell.get(cell, ()):
        refs = refs_in(base.files, target.node, ref)
        if refs is not None:
            refs = refs.within(target.grid)
            found.append(refs.take(np.flatnonzero(target.numbers(refs.index) == cell)))
    return ChunkRefs.concat(found)


def _manifest_row(
    file: ManifestFile | None,
    extents: tuple[tuple[int, int], ...],
    changed: ChunkSet,
    *,
    rewritten: bool,
) -> dict[str, Any]:
    return {
        "rewritten": rewritten,
        "id": b"" if file is None else file.id.raw,
        "refs": 0 if file is None else file.num_refs,
        "size": 0 if file is None else file.size_bytes,
        "extents": np.array(extents, dtype="<i8").tobytes(),
        "changed": changed.count,
        "box": np.array([changed.lo, changed.shape], dtype="<i8").tobytes(),
        "bits": changed.bits,
    }


def _attached(row: Mapping[str, Any]) -> Attached:
    lo, shape = np.frombuffer(row["box"], dtype="<i8").reshape(2, -1).tolist()
    changed = ChunkSet(tuple(lo), tuple(shape), row["changed"], row["bits"])
    if not row["id"]:
        return EmptiedCell(changed)
    extents = np.frombuffer(row["extents"], dtype="<i8").reshape(-1, 2).tolist()
    return AttachedManifest(
        ManifestFile(id=ManifestId(row["id"]), size_bytes=row["size"], num_refs=row["refs"]),
        tuple((start, stop) for start, stop in extents),
        changed,
    )


# The driver's part.


@dataclass(frozen=True, slots=True, eq=False)
class RefsSink:
    """Takes references to chunks that tasks store into a session."""

    executor: JobExecutor
    session: Session
    base: Session  # read-only, the snapshot that the session began with
    targets: tuple[CellTarget, ...]
    many: bool  # executors write manifests

    def gather(self) -> Gather:
        return partial(gather_blocks, targets=self.targets, by_cell=self.many)

    def run(
        self,
        task: Task[Iterable[Written]],
        count: int,
        doing: str,
        *,
        sizes: Sizes,
        partitions: int,
    ) -> Stored:
        """Runs tasks that store chunks; as `SparkExecutor.run`."""
        amounts = Amounts(count, sizes)
        if not count:
            return Stored(chunks=0, size_bytes=0)
        with self.executor.counter(doing, amounts.total) as counter:
            store = _StoreTask(self.executor.files, task, counter, amounts, self.gather())
            return self.take(self.executor.map_rows(count, partitions, store, BLOCKS))

    def take(self, blocks: Any) -> Stored:
        """Evaluates rows of BLOCKS, as the executor has them, and lets the session have what they
        tell of.
        """
        if not self.many:
            return self.set_refs(self.executor.collect(blocks))
        cells = sum(prod(target.cells) for target in self.targets)
        empty = [block.to_row() for block in empty_blocks(self.targets)]
        write = WriteCells(self.base, self.targets)
        manifests = self.executor.gather_rows(
            blocks, pa.Table.from_pylist(empty, schema=BLOCKS), ("array", "cell"), write, MANIFESTS,
            groups=cells,
        )  # fmt: skip
        return self.attach(self.executor.collect(manifests))

    def set_refs(self, table: pa.Table) -> Stored:
        """References of rows of BLOCKS, which the commit makes manifests of."""
        by_array: dict[int, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            by_array.setdefault(row["array"], []).append(row)
        told = []
        for array, rows in by_array.items():
            target = self.targets[array]
            blocks = [Block.of_row(row) for row in rows]
            refs, emptied = _together(target, [(block.refs, block.emptied) for block in blocks])
            if len(refs):
                self.session.set_chunk_refs(target.path, refs)
            _delete_chunks(self.session, target.path, emptied)
            size = int(refs.length.sum(dtype=np.uint64))
            told.append({"array": array, "chunks": len(refs), "bytes": size, "count": 0,
                         "notes": b""})  # fmt: skip
            told += [{**row, "chunks": 0, "bytes": 0} for row in rows]
        return Stored.sum(told)

    def attach(self, table: pa.Table) -> Stored:
        """Manifests that WriteCells wrote."""
        writer = partial(write_log, self.executor, self.base)
        return attach_manifests(self.session, self.targets, table, writer)


def attach_manifests(
    session: Session, targets: Sequence[CellTarget], table: pa.Table, writer: LogWriter | None
) -> Stored:
    """Lets a session have manifests, which are rows of MANIFESTS; `writer` stores a long log."""
    rows = table.to_pylist()
    changed = sum(row["changed"] for row in rows)
    for array, target in enumerate(targets):
        mine = [row for row in rows if row["array"] == array and row["rewritten"]]
        cells = {row["cell"] for row in mine}
        gone = {ref.id for cell in cells for ref in target.by_cell.get(cell, ())}
        gone |= target.wide
        replaced = [ref.id for ref in target.old if ref.id in gone]
        if mine or replaced:
            session.attach_manifests(
                target.path, [_attached(row) for row in mine], replaced,
                log_writer=writer if changed > CHUNKS_LOGGED_HERE else None,
            )  # fmt: skip
    return Stored.sum(rows)


def plan_sink(
    executor: JobExecutor,
    repository: Repository,
    session: Session,
    arrays: Sequence[tuple[NodePath, Box | None]],
    chunks: int,
) -> RefsSink:
    """Plans how references get into the session, for jobs that store up to so many `chunks`.

    The arrays are as they will be, pending in the session; a box is the part that gets chunks.
    """
    targets = tuple(plan_target(session, path, box) for path, box in arrays)
    many = chunks > MOST_COLLECTED and can_write_cells(targets)
    base = repository.readonly_session(Exactly(session.snapshot_id))
    return RefsSink(executor, session, base, targets, many)


def can_write_cells(targets: Iterable[CellTarget]) -> bool:
    """False if a set of the chunks of a cell would take too much memory."""
    return all(target.cell_chunks <= _LARGEST_CELL for target in targets)


def write_log(
    executor: JobExecutor,
    base: Session,
    log: TransactionLog,
    chunks: Mapping[NodeId, Sequence[ChunkSet]],
) -> None:
    """Writes a transaction log; runs on an executor, since a log has some three bytes for each
    chunk.
    """
    deque(executor.run(partial(_write_log, base, log, chunks), 1, "writing the log", sizes=0), 0)


def _write_log(
    base: Session, log: TransactionLog, chunks: Mapping[NodeId, Sequence[ChunkSet]], *_: object
) -> None:
    base.files.put_log_stream(log, chunks)
    base.files.store.sync()


@dataclass(frozen=True, slots=True)
class _StoreTask:
    files: FilesOpener
    task: Task[Iterable[Written]]
    counter: Counter
    amounts: Amounts
    gather: Gather

    def __call__(self, rows: range) -> Iterator[pa.RecordBatch]:
        yield from self.gather(self.task(self.files.open(), rows))
        self.counter.add(self.amounts.of(rows))


def _delete_chunks(session: Session, path: NodePath, index: Index) -> None:
    """Deletes those that are there: others have not changed."""
    if not len(index):
        return
    there = [session.chunk_payload(path, tuple(each)) is not None for each in index.tolist()]
    found = index[np.array(there, dtype=np.bool_)]
    if len(found):
        session.delete_chunks(path, found)
