"""Places of rows: blocks of whole chunks, and cells in them. No I/O.

All arrays of a write are cut by one grid of blocks, each of which holds whole chunks of every
array; so a block has one owner, and its chunks are made at once.

    positions (row)   ->   block (row), cell in the block (row)        both row-major
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInputError
from frazil.spark.writing.columns import Column, StoredColumn, text_of

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
        """Cells of one block."""
        return prod(self.block)

    def region(self, block: int) -> Region:
        """Region of the arrays, cut off at their ends."""
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


# Coordinates of a dimension: which there will be, and where in them a row belongs.
#
# A new dimension gets the values of its rows, each once, ascending unless asked otherwise. One that
# is there keeps its values where they are; where it may grow, new values follow in its own order:
#
#     there       10 20 30
#     rows        40 35           ->  10 20 30 35 40
#     rows        25              ->  refused (or appended as it is, with `unordered`)
#
# One that has a single value so far goes on in the direction that is asked for, else in that of the
# first new values: the first two decide.
#
# A dimension without coordinate is addressed by position.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownDimension:
    """A dimension before the write. Size 0 and no values if it is new."""

    name: str
    column: StoredColumn
    has_coordinate: bool
    values: Column  # stored; of no length without a coordinate
    size: int
    is_new: bool
    descending: bool | None = None  # as asked for; None for as it is, or ascending


@dataclass(frozen=True, slots=True)
class Growth:
    """Permitted change of an existing dimension by rows."""

    grows: bool  # new values may be added
    touches: bool  # rows at values that are there may come
    unordered: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """A dimension as it will be. `values` is None where rows say the position."""

    name: str
    column: StoredColumn
    size: int
    values: Column | None


def merge_coordinate(known: KnownDimension, found: Column, growth: Growth) -> Coordinate:
    """`found` are the distinct values of the rows, in any order."""
    found = np.unique(found)
    if not known.has_coordinate:
        return _merge_positions(known, found, growth)
    if known.is_new:
        values = found[::-1] if known.descending else found
        return Coordinate(known.name, known.column, len(values), values)
    there = np.isin(found, known.values)
    fresh = found[~there]
    _require_growth(known, found[there], fresh, growth)
    if not len(fresh):
        return Coordinate(known.name, known.column, known.size, known.values)
    descends = _descends(known, fresh)
    ordered = fresh[::-1] if descends else fresh
    if not growth.unordered:
        _require_order(known, ordered, descends=descends)
    values = np.concatenate([known.values, ordered])
    return Coordinate(known.name, known.column, len(values), values)


def locate(coordinate: Coordinate, column: Column) -> Indices:
    """Position of each value, -1 where there is none."""
    if coordinate.values is None:
        inside = (column >= 0) & (column < coordinate.size)
        return np.where(inside, column, -1).astype(np.int64)
    if len(coordinate.values) == 0:
        return np.full(len(column), -1, dtype=np.int64)
    if coordinate.values.dtype.kind == "O":
        found = pc.index_in(pa.array(column), value_set=pa.array(coordinate.values))
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = np.argsort(coordinate.values, kind="stable")
    by_value = coordinate.values[order]
    place = np.minimum(np.searchsorted(by_value, column), len(order) - 1)
    return np.where(by_value[place] == column, order[place], -1).astype(np.int64)


def require_distinct(known: KnownDimension) -> None:
    """A value that is there twice names two places."""
    if len(np.unique(known.values)) != len(known.values):
        raise InvalidInputError(
            f"the coordinate {known.name!r} has a value twice: rows cannot say where they go"
        )


def outside_grid_error(coordinate: Coordinate, value: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{coordinate.name} is {text_of(coordinate.column, value)} in a row, which is outside"
        " the grid"
    )


def _merge_positions(known: KnownDimension, found: Column, growth: Growth) -> Coordinate:
    if len(found) and found[0] < 0:
        raise InvalidInputError(f"dimension {known.name!r} has the position {found[0]} in a row")
    wanted = int(found[-1]) + 1 if len(found) else 0
    if not known.is_new:
        _require_growth(known, found[found < known.size], found[found >= known.size], growth)
    return Coordinate(known.name, known.column, max(known.size, wanted), None)


def _require_growth(known: KnownDimension, there: Column, fresh: Column, growth: Growth) -> None:
    if len(fresh) and not growth.grows:
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, fresh[0])} in a row, which is outside the"
            f" grid; values of the rows that are not in the coordinate: {len(fresh)}"
        )
    if len(there) and not growth.touches:
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, there[0])} in a row, which the array has"
            " already: appending never overwrites (mode 'region' or 'upsert' does)"
        )


def _descends(known: KnownDimension, fresh: Column) -> bool:
    """The first two values decide: with fewer than two, what is asked for, else the new ones."""
    if len(known.values) > 1:
        return bool(known.values[0] > known.values[-1])
    if known.descending is not None or not len(known.values):
        return bool(known.descending)
    return bool(fresh[-1] < known.values[0])  # all of them: they are ascending


def _require_order(known: KnownDimension, fresh: Column, *, descends: bool) -> None:
    if not len(known.values):
        return
    last, first = known.values[-1], fresh[0]
    if (first > last) if descends else (first < last):
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, first)} in a row, but the array goes on from"
            f" {text_of(known.column, last)}: it would no longer be in order"
            " (option `unordered` allows it)"
        )
