"""Which part of a chunk grid a map shows, and in which of its cells each chunk lies.

A map has rows and columns. With two dimensions chosen these are theirs; without, all chunks follow
each other in row-major order and are wrapped. The cells of a map are at most MAX_CELLS each way: if
there are more chunks in its window, several share a cell.
"""

from dataclasses import dataclass
from math import isqrt, prod

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.web.asking import Asked

MAX_CELLS = 512
_MAX_WRAPPED = 2**62

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapView:
    grid: tuple[int, ...]
    axes: tuple[int, int] | None  # dimensions of rows and columns; None: wrapped
    at: tuple[int | None, ...]  # positions in the other dimensions, None for all
    rows: int  # of the whole map
    columns: int
    window: tuple[int, int, int, int]  # first and last row, first and last column; last exclusive

    @property
    def height(self) -> int:
        return min(self.window[1] - self.window[0], MAX_CELLS)

    @property
    def width(self) -> int:
        return min(self.window[3] - self.window[2], MAX_CELLS)

    @property
    def depth(self) -> int:
        """Chunks that lie behind each other at every place of the map."""
        if self.axes is None:
            return 1
        free = [n for axis, n in enumerate(self.grid) if axis not in self.axes]
        places = [place for axis, place in enumerate(self.at) if axis not in self.axes]
        return prod(n for n, place in zip(free, places, strict=True) if place is None)

    def slots(self) -> npt.NDArray[np.float64]:
        """How many chunks of the grid each cell stands for, (height, width)."""
        r0, r1, c0, c1 = self.window
        down, across = _shares(r1 - r0, self.height), _shares(c1 - c0, self.width)
        slots = np.outer(down, across).astype(float) * self.depth
        if self.axes is None and r1 == self.rows and self.rows:  # the last row may be short
            used = prod(self.grid) - (self.rows - 1) * self.columns
            slots[-1] -= np.diff(np.maximum(_edges(c1 - c0, self.width) + c0, used))
        return slots

    def cells(self, index: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
        """Which rows of `index`, (n, ndim), are shown, and the cell of each of them."""
        shown = np.ones(len(index), np.bool_)
        if self.axes is None:
            position = np.zeros(len(index), np.int64)
            for axis, count in enumerate(self.grid):
                position = position * count + index[:, axis]
            row, column = np.divmod(position, max(self.columns, 1))
        else:
            for axis, place in enumerate(self.at):
                if axis not in self.axes and place is not None:
                    shown &= index[:, axis] == place
            row, column = (index[:, axis].astype(np.int64) for axis in self.axes)
        r0, r1, c0, c1 = self.window
        shown &= (row >= r0) & (row < r1) & (column >= c0) & (column < c1)
        chosen = np.flatnonzero(shown)
        down = (row[chosen] - r0) * self.height // max(r1 - r0, 1)
        across = (column[chosen] - c0) * self.width // max(c1 - c0, 1)
        return chosen, down * self.width + across


def asked_view(asked: Asked, grid: tuple[int, ...]) -> MapView:
    """Without wishes: the two longest dimensions and all of the others, or wrapped if only one."""
    axes = _asked_axes(asked, grid)
    at = asked.places("chunk_at", len(grid)) or (None,) * len(grid)
    if axes is None:
        total = prod(grid)
        if total > _MAX_WRAPPED:
            raise InvalidInputError("too many chunks to be wrapped: choose two dimensions")
        columns = min(total, max(1, isqrt(total * 2)))
        rows, at = -(-total // max(columns, 1)), (None,) * len(grid)
    else:
        rows, columns = grid[axes[0]], grid[axes[1]]
    return MapView(
        grid=grid,
        axes=axes,
        at=tuple(
            None if n is None else min(n, max(k - 1, 0)) for n, k in zip(at, grid, strict=True)
        ),
        rows=rows,
        columns=columns,
        window=_asked_window(asked, rows, columns),
    )


def _asked_axes(asked: Asked, grid: tuple[int, ...]) -> tuple[int, int] | None:
    wanted = asked.values.get("map_axes") or None
    if wanted == "wrapped":
        return None
    if wanted is not None:
        return require_axes(asked.numbers("map_axes") or (), len(grid))
    long = sorted(sorted(range(len(grid)), key=lambda axis: -grid[axis])[:2])
    if len(long) < 2 or min(grid[axis] for axis in long) < 2:
        return None
    rows, columns = sorted(long, key=lambda axis: grid[axis])  # screens are wide
    return rows, columns


def require_axes(axes: tuple[int, ...], ndim: int) -> tuple[int, int]:
    if len(axes) != 2 or axes[0] == axes[1] or max(axes) >= ndim:
        raise InvalidInputError(f"expected two of {ndim} dimensions, got {list(axes)}")
    return axes[0], axes[1]


def _asked_window(asked: Asked, rows: int, columns: int) -> tuple[int, int, int, int]:
    found = asked.numbers("window") or (0, rows, 0, columns)
    if len(found) != 4:
        raise InvalidInputError(f"a window has four numbers, got {len(found)}")
    r0, r1, c0, c1 = found
    r0, c0 = min(r0, max(rows - 1, 0)), min(c0, max(columns - 1, 0))
    return r0, min(max(r1, r0 + 1), rows), c0, min(max(c1, c0 + 1), columns)


def _edges(length: int, cells: int) -> Ints:
    """Where each cell begins, and where the last ends: as the division in `cells` has it."""
    at = np.arange(cells + 1, dtype=np.int64) * length
    return -(-at // max(cells, 1))


def _shares(length: int, cells: int) -> Ints:
    return np.diff(_edges(length, cells))
