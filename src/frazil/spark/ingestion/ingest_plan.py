"""The plan of an ingest: its work divided into tasks.

A task is a box of whole output chunks of one array, so no two tasks write one chunk, and each
input element is read by the one task that owns its chunk. Boxes grow from the last dimension to
the first, which is how the sources lie on disk, up to a size in bytes. Tasks are numbered; a Spark
partition is a run of numbers. The plan is small (arrays, sources and partitions; tasks are
computed from their number) and is shipped to executors as it is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.spark.ingestion.ingest_layout import Layout, TargetArray
from frazil.spark.table.documents import TEXT_BYTES

type Box = tuple[slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tiling:
    """The boxes of one array: its chunk grid from `first` on, in tiles of `tile` chunks."""

    first: tuple[int, ...]  # chunk index where the work begins: not zero when appending
    grid: tuple[int, ...]  # chunks along each dimension, from 0, up to where the work ends
    tile: tuple[int, ...]

    @property
    def tiles(self) -> tuple[int, ...]:
        """Boxes along each dimension."""
        return tuple(
            -(-(end - start) // step)
            for start, end, step in zip(self.first, self.grid, self.tile, strict=True)
        )

    @property
    def count(self) -> int:
        return math.prod(self.tiles)

    @property
    def chunks(self) -> int:
        return math.prod(end - start for start, end in zip(self.first, self.grid, strict=True))

    def box(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First and one-past-last chunk index of a box."""
        at = np.unravel_index(number, self.tiles) if self.tiles else ()
        lo = tuple(
            start + int(i) * step for start, i, step in zip(self.first, at, self.tile, strict=True)
        )
        hi = tuple(
            min(i + step, end) for i, step, end in zip(lo, self.tile, self.grid, strict=True)
        )
        return lo, hi


@dataclass(frozen=True, slots=True)
class Task:
    """Chunks `lo` (inclusive) to `hi` (exclusive) of one array."""

    array: int
    lo: tuple[int, ...]
    hi: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceRead:
    """`selection` of the array in a source goes to `into` of the task's block."""

    source: int
    selection: Box
    into: Box


@dataclass(frozen=True, slots=True)
class BaseRead:
    """The same, from the array as it was before the append."""

    selection: Box
    into: Box


type Read = SourceRead | BaseRead


@dataclass(frozen=True, slots=True, eq=False)
class IngestPlan:
    layout: Layout
    work: tuple[int, ...]  # arrays written by tasks, as positions in layout.arrays
    tilings: tuple[Tiling, ...]  # one per entry of `work`
    bounds: npt.NDArray[np.int64]  # (partitions + 1,) task numbers

    @property
    def partitions(self) -> int:
        return len(self.bounds) - 1

    @property
    def tasks(self) -> int:
        return int(self.bounds[-1])

    def tasks_of(self, partition: int) -> Iterator[Task]:
        for number in range(int(self.bounds[partition]), int(self.bounds[partition + 1])):
            yield self.task(number)

    def task(self, number: int) -> Task:
        for array, tiling in zip(self.work, self.tilings, strict=True):
            if number < tiling.count:
                return Task(array, *tiling.box(number))
            number -= tiling.count
        raise IndexError(number)

    def chunks(self) -> int:
        """Chunks that tasks write, empty ones included."""
        return sum(tiling.chunks for tiling in self.tilings)

    def size_bytes(self) -> int:
        """Raw bytes of what tasks write."""
        total = 0
        for position, tiling in zip(self.work, self.tilings, strict=True):
            array = self.layout.arrays[position]
            whole = Task(position, tiling.first, tiling.grid)
            total += region_bytes(array, whole) if tiling.count else 0
        return total


def plan_ingest(layout: Layout, *, task_bytes: int, partition_bytes: int) -> IngestPlan:
    """Tasks of at most `task_bytes` (one chunk at least), in partitions of about `partition_bytes`.

    Coordinates, whose values the driver knows, are not in the plan, nor are virtual arrays.
    """
    work = tuple(i for i, array in enumerate(layout.arrays) if array.is_copied)
    tilings = tuple(
        plan_tiling(
            layout.arrays[i],
            base_length=layout.base_length,
            stop=int(layout.starts[-1]),
            task_bytes=task_bytes,
        )
        for i in work
    )
    weights = [
        np.full(t.count, _chunk_bytes(layout.arrays[i]) * math.prod(t.tile), dtype=np.int64)
        for i, t in zip(work, tilings, strict=True)
    ]
    return IngestPlan(layout, work, tilings, _cut(weights, partition_bytes))


def plan_tiling(array: TargetArray, *, base_length: int, stop: int, task_bytes: int) -> Tiling:
    """Plans the tiling of a range along the concat dimension."""
    grid = tuple(
        -(-(stop if axis == array.axis else size) // chunk)
        for axis, (size, chunk) in enumerate(zip(array.shape, array.chunks, strict=True))
    )
    first = tuple(
        base_length // chunk if axis == array.axis else 0 for axis, chunk in enumerate(array.chunks)
    )
    room = max(1, task_bytes // max(1, _chunk_bytes(array)))
    tile = [1] * len(grid)
    for axis in reversed(range(len(grid))):
        extent = max(1, grid[axis] - first[axis])
        boxes = -(-extent // max(1, min(room, extent)))
        tile[axis] = -(-extent // boxes)  # equal boxes rather than full ones and a rest
        room //= tile[axis]
    return Tiling(first, grid, tuple(tile))


def region(array: TargetArray, task: Task) -> Box:
    """The elements a task owns."""
    return tuple(
        slice(lo * chunk, min(hi * chunk, size))
        for lo, hi, chunk, size in zip(task.lo, task.hi, array.chunks, array.shape, strict=True)
    )


def region_bytes(array: TargetArray, task: Task) -> int:
    lengths = [int(s.stop) - int(s.start) for s in region(array, task)]
    return _item_bytes(array) * math.prod(lengths)


def plan_reads(layout: Layout, task: Task) -> list[Read]:
    """The reads that fill a task's block, which is as large as its region."""
    array = layout.arrays[task.array]
    owned = region(array, task)
    everywhere = tuple(slice(0, s.stop - s.start) for s in owned)
    if array.axis is None:
        return [SourceRead(0, owned, everywhere)]
    axis, along = array.axis, owned[array.axis]
    reads: list[Read] = []
    if along.start < layout.base_length:
        kept = slice(along.start, min(along.stop, layout.base_length))
        reads.append(
            BaseRead(
                _with(owned, axis, kept),
                _with(everywhere, axis, slice(0, kept.stop - kept.start)),
            )
        )
    starts = layout.starts
    sources = len(starts) - 1
    number = max(0, int(np.searchsorted(starts, along.start, side="right")) - 1)
    while number < sources and starts[number] < along.stop:
        begin = max(along.start, int(starts[number]))
        end = min(along.stop, int(starts[number + 1]))
        if begin < end:
            offset = int(starts[number])
            reads.append(
                SourceRead(
                    number,
                    _with(owned, axis, slice(begin - offset, end - offset)),
                    _with(everywhere, axis, slice(begin - along.start, end - along.start)),
                )
            )
        number += 1
    beyond = max(along.start, int(starts[-1]))
    if beyond < along.stop:
        kept = slice(beyond, along.stop)
        into = slice(beyond - along.start, along.stop - along.start)
        reads.append(BaseRead(_with(owned, axis, kept), _with(everywhere, axis, into)))
    return reads


def _with(box: Box, axis: int, part: slice) -> Box:
    return (*box[:axis], part, *box[axis + 1 :])


def _item_bytes(array: TargetArray) -> int:
    return TEXT_BYTES if array.dtype.hasobject else array.dtype.itemsize


def _chunk_bytes(array: TargetArray) -> int:
    return _item_bytes(array) * math.prod(array.chunks)


def _cut(weights: Sequence[npt.NDArray[np.int64]], partition_bytes: int) -> npt.NDArray[np.int64]:
    """Divides the row of tasks so that each run weighs at most `partition_bytes`, or is one
    task.
    """
    weight = np.concatenate(weights) if weights else np.zeros(0, dtype=np.int64)
    ends = np.cumsum(weight)
    bounds = [0]
    while bounds[-1] < len(weight):
        done = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        upto = int(np.searchsorted(ends, done + partition_bytes, side="right"))
        bounds.append(max(upto, bounds[-1] + 1))
    return np.array(bounds, dtype=np.int64)
