"""Where rows go: blocks of whole chunks, and cells in them. Pure.

All arrays of a write are cut by one grid of blocks, each of which holds whole chunks of every
array; so a block has one owner, and its chunks are made at once.

    positions (row)   ->   block (row), cell in the block (row)        both row-major
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod

import numpy as np
import numpy.typing as npt

type Indices = npt.NDArray[np.int64]
type Region = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """`shape` of the arrays, and of a block; the last blocks may be cut off."""

    shape: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-size // step) for size, step in zip(self.shape, self.block, strict=True))

    @property
    def cells(self) -> int:
        """Of one block."""
        return prod(self.block)

    def region(self, block: int) -> Region:
        """Of the arrays, cut off at their ends."""
        index = np.unravel_index(block, self.counts)
        return tuple(
            slice(int(k) * step, min((int(k) + 1) * step, size))
            for k, step, size in zip(index, self.block, self.shape, strict=True)
        )


def plan_blocks(shape: Sequence[int], chunks: Sequence[Sequence[int]]) -> BlockGrid:
    """Blocks that hold whole chunks of all arrays; `chunks` are theirs, by dimension."""
    block = []
    for axis, size in enumerate(shape):
        step = lcm(*(one[axis] for one in chunks))
        block.append(max(1, min(step, size)))  # longer than the array is no longer a multiple
    return BlockGrid(tuple(shape), tuple(block))


def grow_blocks(grid: BlockGrid, *, max_cells: int) -> BlockGrid:
    """Blocks of several of the grid's, along the last dimensions first."""
    block = list(grid.block)
    for axis in reversed(range(len(block))):
        room = max(1, max_cells // prod(block))
        block[axis] = min(block[axis] * room, max(1, grid.shape[axis]))
    return BlockGrid(grid.shape, tuple(block))


def place(grid: BlockGrid, positions: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Block and cell of each row, of its position along every dimension."""
    blocks = np.zeros(len(positions[0]), dtype=np.int64)
    cells = np.zeros(len(positions[0]), dtype=np.int64)
    for along, count, step in zip(positions, grid.counts, grid.block, strict=True):
        blocks *= count
        blocks += along // step
        cells *= step
        cells += along % step
    return blocks, cells


def position_of(grid: BlockGrid, block: int, cell: int) -> tuple[int, ...]:
    """Inverse of `place`, of one row."""
    outer = np.unravel_index(block, grid.counts)
    inner = np.unravel_index(cell, grid.block)
    return tuple(
        int(k) * step + int(j) for k, j, step in zip(outer, inner, grid.block, strict=True)
    )


def find_duplicate(cells: Indices, count: int) -> int | None:
    """A cell that is there twice, of `count`."""
    if len(cells) <= 1:
        return None
    seen = np.zeros(count, dtype=bool)
    seen[cells] = True
    if int(np.count_nonzero(seen)) == len(cells):
        return None
    ordered = np.sort(cells)
    return int(ordered[1:][ordered[1:] == ordered[:-1]][0])


def group_rows(blocks: Indices) -> Iterator[tuple[int, Indices]]:
    """Each block, ascending, and its rows in their order."""
    if not len(blocks):
        return
    order = np.argsort(blocks, kind="stable")
    ordered = blocks[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    stops = [*starts[1:].tolist(), len(order)]
    for start, stop in zip(starts.tolist(), stops, strict=True):
        yield int(ordered[start]), order[start:stop]
