"""Tasks of a write of many rows, round by round, each as a write of task numbers.

    pieces       if rows would be read for many chunks: pieces of staged rows are cut (assembly)
    chunks       a box of the grid for each task: staged rows -> chunks
                     few    their references are the tasks' messages; the driver commits
                     many   they are put aside by cell of the manifests (keep_blocks)
    manifests    some cells for each task: references, and what older manifests keep -> manifests
                     their names are the tasks' messages; the driver attaches them and commits

Between rounds a state waits in the storage (commit.WriteState). Where others have committed in the
meantime and the write may be planned again, the next round makes chunks once more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, override

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, SessionStateError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.ids import ManifestId, SnapshotId
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.runtime.stored_refs import (
    MANIFESTS,
    Block,
    CellTarget,
    WriteCells,
    Written,
    can_write_cells,
    empty_blocks,
    make_blocks,
)
from frazil.spark.runtime.workers import carrying_errors, limit_gc
from frazil.spark.writing.assembly import Box, assemble, cut_piece, find_spans, plan_cuts
from frazil.spark.writing.blocks import Indices
from frazil.spark.writing.commit import RowsPlan, WriteState
from frazil.spark.writing.options import WriteOptions, open_repository
from frazil.spark.writing.session import Assembly, StoredChunks, join_chunks
from frazil.spark.writing.stage import (
    INLINE_BYTES,
    count_rows,
    discard,
    dump_batches,
    dump_pieces,
    join_pieces,
    load_batches,
    load_pieces,
    payload_columns,
)

TASK_REFS = 1 << 18  # of the cells of a task, unless one cell has more
_KEPT = pa.schema([("refs", pa.binary()), ("emptied", pa.binary())])

type Cell = tuple[int, int]
"""An array, and a cell of its manifests."""


@dataclass
class ChunksMessage(WriterCommitMessage):
    """Message of a task: the chunks that it made, of each array."""

    stored: tuple[StoredChunks, ...]


@dataclass
class TableMessage(WriterCommitMessage):
    """Message of a task: a table, of blocks that it put aside or of manifests; None if empty."""

    data: bytes | None


type Messages = Sequence[WriterCommitMessage | None]


def tables_in(messages: Messages) -> pa.Table | None:
    return join_pieces(
        load_pieces(message.data)
        for message in messages
        if isinstance(message, TableMessage) and message.data is not None
    )


@dataclass(frozen=True, slots=True, eq=False)
class PieceTasks:
    """Cuts pieces where boxes end."""

    state: WriteState
    assembly: Assembly
    cuts: Sequence[Indices]

    def __len__(self) -> int:
        return len(self.state.pieces)

    def run(self, store: ObjectStore, numbers: Iterable[int]) -> TableMessage:
        pieces = self.state.pieces
        cut = join_pieces(cut_piece(store, pieces, n, self.assembly, self.cuts) for n in numbers)
        self.assembly.writer.sync()
        return TableMessage(None if cut is None else dump_pieces(cut))

    def finish(
        self, repository: Repository, options: WriteOptions, messages: Messages
    ) -> WriteState | None:
        del options
        pieces = tables_in(messages)
        if pieces is None or count_rows(pieces) != count_rows(self.state.pieces):
            raise SessionStateError("rows of this write are missing: write again")
        discard(repository.store, self.state.pieces)
        return replace(self.state, pieces=pieces, is_cut=True)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTasks:
    """Makes the chunks of boxes."""

    state: WriteState
    assembly: Assembly
    boxes: Sequence[Box]
    targets: tuple[CellTarget, ...] | None  # None for few chunks

    def __len__(self) -> int:
        return len(self.boxes)

    def run(self, store: ObjectStore, numbers: Iterable[int]) -> ChunksMessage | TableMessage:
        made = self._make(store, numbers)
        writer, targets = self.assembly.writer, self.targets
        if targets is None:
            message: ChunksMessage | TableMessage = ChunksMessage(tuple(join_chunks(made)))
        else:
            written = (Written(one.array, one.refs, one.emptied) for one in made)
            blocks = make_blocks(written, targets, by_cell=True)
            kept = keep_blocks(writer, blocks, targets)
            message = TableMessage(None if kept is None else dump_pieces(kept))
        writer.sync()
        return message

    def _make(self, store: ObjectStore, numbers: Iterable[int]) -> Iterator[StoredChunks]:
        spans = find_spans(self.assembly.layout, self.state.pieces)
        for number in numbers:
            box = self.boxes[number]
            yield from assemble(store, self.state.pieces, spans, self.assembly, box)

    def finish(
        self, repository: Repository, options: WriteOptions, messages: Messages
    ) -> WriteState | None:
        """Commits, or says what the next round is to do."""
        if self.targets is not None:
            blocks = tables_in(messages)
            if blocks is not None:
                sizes = tuple(target.size for target in self.targets)
                return replace(self.state, blocks=blocks, cells=sizes)
        plan = make_plan(repository, options, self.state)
        stored = [m.stored for m in messages if isinstance(m, ChunksMessage)]
        plan.merge_chunks(one for some in stored for one in some)
        return commit_plan(repository, options, self.state, plan)


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTasks:
    """Writes manifests of the references that tasks put aside."""

    state: WriteState
    write_cells: WriteCells
    tasks: Sequence[Sequence[Cell]]

    def __len__(self) -> int:
        return len(self.tasks)

    def run(self, store: ObjectStore, numbers: Iterable[int]) -> TableMessage:
        rows = list[dict[str, Any]]()
        for number in numbers:
            blocks = load_blocks(store, self.state.blocks, self.targets, self.tasks[number])
            for _, some in groupby(blocks, key=attrgetter("array", "cell")):
                rows.append(self.write_cells.write(list(some)))
        self.write_cells.base.files.store.sync()
        return TableMessage(dump_pieces(pa.Table.from_pylist(rows, schema=MANIFESTS)))

    @property
    def targets(self) -> tuple[CellTarget, ...]:
        return self.write_cells.targets

    def finish(
        self, repository: Repository, options: WriteOptions, messages: Messages
    ) -> WriteState | None:
        """Commits, or says what the next round is to do."""
        plan, manifests = make_plan(repository, options, self.state), tables_in(messages)
        if manifests is not None:
            plan.attach_manifests(self.targets, manifests)
        more = commit_plan(repository, options, self.state, plan)
        discard(repository.store, self.state.blocks)
        return more


def make_plan(repository: Repository, options: WriteOptions, state: WriteState) -> RowsPlan:
    plan = state.rows_commit(options).plan(repository, state.pieces)
    if plan is None:
        raise SessionStateError("nothing is left of the rows of this write")
    return plan


def commit_plan(
    repository: Repository, options: WriteOptions, state: WriteState, plan: RowsPlan
) -> WriteState | None:
    """Commits, or plans again what may be and is in conflict."""
    try:
        plan.commit(state.rows_commit(options).commit, repository)
    except ConflictError:
        if state.tries <= 1:
            raise
        return state.again(repository, options)
    discard(repository.store, state.pieces)
    return None


type Tasks = PieceTasks | ChunkTasks | ManifestTasks


def plan_tasks(repository: Repository, options: WriteOptions, state: WriteState) -> Tasks:
    plan, native = make_plan(repository, options, state), options.native
    if not state.is_cut and plan.needs_cuts:
        return PieceTasks(state, plan.assembly, plan_cuts(plan.boxes))
    targets = plan.targets()
    if state.blocks is None:
        many = native is not None and plan.most_chunks > native.most_chunks
        divided = targets if many and can_write_cells(targets) else None
        return ChunkTasks(state, plan.assembly, plan.boxes, divided)
    if tuple(target.size for target in targets) != state.cells:
        raise SessionStateError(
            "how the repository splits manifests has changed since this write began: write again"
        )
    base = repository.readonly_session(Exactly(SnapshotId.parse(state.base)))
    return ManifestTasks(state, WriteCells(base, targets), divide_cells(state.blocks, targets))


class TasksWriter(DataSourceArrowWriter):
    """Does the tasks of a round, whose numbers it gets as rows."""

    def __init__(self, options: WriteOptions) -> None:
        with carrying_errors():
            repository = open_repository(options)
            state = WriteState.find(repository.store, options)
            if state is None:
                raise SessionStateError("no rows wait for the tasks of this write")
            self.options = replace(options, mode=state.mode)
            self.tasks = plan_tasks(repository, self.options, state)

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChunksMessage | TableMessage:
        limit_gc()
        with carrying_errors():
            store = open_repository(self.options).store
            return self.tasks.run(
                store, (n for batch in iterator for n in batch.column(0).to_pylist())
            )

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        native = self.options.native
        with carrying_errors():
            repository = open_repository(self.options)
            more = self.tasks.finish(repository, self.options, messages)
            if more is not None and native is not None:
                more.save(repository, self.options, epoch=native.epoch, round_=native.round + 1)
            self._delete_state(repository)

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # The write that this is a part of is aborted as well, and deletes the rows.
        with carrying_errors():
            repository = open_repository(self.options)
            discard(repository.store, self.tasks.state.blocks)
            if not isinstance(self.tasks, ManifestTasks):
                discard(repository.store, tables_in(messages))
            self._delete_state(repository)

    def _delete_state(self, repository: Repository) -> None:
        native = self.options.native
        if native is not None:
            WriteState.delete(
                repository.store, self.options, epoch=native.epoch, round_=native.round
            )


def count_tasks(options: WriteOptions, rows: int) -> int:
    """Number of tasks of a round; 0 if the write is done."""
    repository, native = open_repository(options), options.native
    state = WriteState.find(repository.store, options)
    if state is not None:
        return len(plan_tasks(repository, replace(options, mode=state.mode), state))
    if native is not None and not native.round and rows > native.most_rows:
        raise SessionStateError("no rows wait for the tasks of this write")
    return 0


# Blocks of references that are put aside: an object for each task, with a batch for each cell.
#
#     column        has
#     id, data      the name of the object; or the object itself, if small
#     start, length lists: where each batch is in the object
#     array, cell   lists: what each batch has references of
#     refs          list: how many


def keep_blocks(
    writer: ChunkWriter, blocks: Iterable[Block], targets: Sequence[CellTarget]
) -> pa.Table | None:
    """Stores blocks, and returns where they are; `writer` is to be synced after it."""
    writer = replace(writer, inline_threshold_bytes=INLINE_BYTES)
    batches, columns = list[pa.RecordBatch](), list[tuple[int, int, int]]()
    ordered = sorted((b for b in blocks if b.cell >= 0), key=attrgetter("array", "cell"))
    for (array, cell), grouped in groupby(ordered, key=attrgetter("array", "cell")):
        some = list(grouped)
        rows = [_encode(block, targets[array]) for block in some]
        batches.append(pa.RecordBatch.from_pylist(rows, schema=_KEPT))
        columns.append((array, cell, sum(len(block.refs) for block in some)))
    if not batches:
        return None
    data, starts, lengths = dump_batches(_KEPT, batches)
    arrays, cells, counts = zip(*columns, strict=True)
    lists = {"start": starts, "length": lengths, "array": arrays, "cell": cells, "refs": counts}
    numbers = {name: pa.array([list(each)], pa.list_(pa.int64())) for name, each in lists.items()}
    return pa.table({**payload_columns("", writer.put_chunk(data)), **numbers})


def _encode(block: Block, target: CellTarget) -> dict[str, bytes]:
    """References as a manifest, which is not code, as a pickle would be."""
    manifest = Manifest(id=ManifestId.random(), arrays={target.node.id: block.refs})
    return {
        "refs": encode_manifest(manifest, level=1) if len(block.refs) else b"",
        "emptied": block.emptied.astype("<u4").tobytes(),
    }


def _decode(row: dict[str, bytes], target: CellTarget, cell: Cell) -> Block:
    refs = ChunkRefs.empty(target.ndim)
    if row["refs"]:
        (refs,) = decode_manifest(row["refs"]).arrays.values()
    emptied = np.frombuffer(row["emptied"], dtype="<u4").reshape(-1, target.ndim)
    return Block(*cell, refs, emptied.astype(np.uint32))


def divide_cells(kept: pa.Table, targets: Sequence[CellTarget]) -> list[list[Cell]]:
    """Cells for each task, with about as many references."""
    weights: dict[Cell, int] = {(block.array, block.cell): 0 for block in empty_blocks(targets)}
    columns = [pc.list_flatten(kept[name]).to_pylist() for name in ("array", "cell", "refs")]
    for array, cell, refs in zip(*columns, strict=True):
        weights[array, cell] = weights.get((array, cell), 0) + refs
    tasks, weight = list[list[Cell]](), 0
    for each, refs in sorted(weights.items()):
        if not tasks or weight + refs > TASK_REFS:
            tasks.append([])
            weight = 0
        tasks[-1].append(each)
        weight += refs
    return tasks


def load_blocks(
    store: ObjectStore, kept: pa.Table | None, targets: Sequence[CellTarget], cells: Sequence[Cell]
) -> list[Block]:
    """Blocks of some cells, those of one after those of another; none is without one."""
    wanted = set(cells)
    found = [b for b in empty_blocks(targets) if (b.array, b.cell) in wanted]
    for piece in [] if kept is None else kept.to_pylist():
        every = zip(piece["array"], piece["cell"], strict=True)
        chosen = [number for number, each in enumerate(every) if each in wanted]
        batches = load_batches(store, piece, _KEPT, chosen).to_batches() if chosen else []
        for number, batch in zip(chosen, batches, strict=True):
            cell = piece["array"][number], piece["cell"][number]
            found += [_decode(row, targets[cell[0]], cell) for row in batch.to_pylist()]
    return sorted(found, key=attrgetter("array", "cell"))
