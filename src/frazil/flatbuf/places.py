"""Positions in a buffer: of the rows of a table, of a field in each, of what they point to."""

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from frazil.dataclass import dataclass
from frazil.flatbuf.ragged import PIECE, Array, Ints, constant, even_step, factorize

# Fewer positions are even or listed: looking for a grid takes longer than what it saves.
FEWEST_OF_GRID = 1 << 12
# Positions by which a grid is recognised. No band of the encoder has as many.
_HEAD = 1 << 14

_NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """`count` positions: first those of a grid, row by row, and then others, as they are listed.

    The cells of the grid are `steps` apart along its axes, from `first` on. Evenly spaced
    positions are a grid of one axis; rows that the encoder has striped are one of three.
    """

    count: int
    first: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    listed: Ints = _NONE

    @classmethod
    def even(cls, count: int, first: int, step: int = 0) -> "Places":
        return cls(count, first, (count,), (step,))

    @classmethod
    def of(cls, positions: Ints) -> "Places":
        count = len(positions)
        step = even_step(positions)
        if step is not None:
            return cls.even(count, int(positions[0]) if count else 0, step)
        if count < FEWEST_OF_GRID:
            return cls(count, 0, (0,), (0,), positions)
        return cls._recognised(count, lambda start, stop: positions[start:stop])

    @classmethod
    def _recognised(cls, count: int, part: Callable[[int, int], Ints]) -> "Places":
        """The positions of which any part can be asked for, as a grid if they are one."""
        grid = _grid_of(part(0, min(count, _HEAD)), count)
        if grid is None or not all(
            np.array_equal(part(*piece), grid.part(*piece)) for piece in grid.pieces()
        ):
            return cls(count, 0, (0,), (0,), part(0, count))
        return cls(count, grid.first, grid.shape, grid.steps, part(grid.count, count))

    @property
    def is_even(self) -> bool:
        return len(self.shape) == 1 and self.shape[0] == self.count

    @property
    def cells(self) -> int:
        """Number of positions in the grid."""
        return prod(self.shape)

    def array(self) -> Ints:
        """All of them, (count,); not to be changed."""
        return self.part(0, self.count) if self.shape[0] else self.listed

    def part(self, start: int, stop: int) -> Ints:
        """The positions numbered `start` to `stop`; not to be changed."""
        if not self.shape[0]:
            return self.listed[start:stop]
        cells = self.cells
        if start >= cells:
            return self.listed[start - cells : stop - cells]
        found = self._of_grid(start, min(stop, cells))
        return np.append(found, self.listed[: stop - cells]) if stop > cells else found

    def _of_grid(self, start: int, stop: int) -> Ints:
        if len(self.shape) == 1:
            even = np.arange(start, stop, dtype=np.int64)
            even *= self.steps[0]
            even += self.first
            return even
        block = prod(self.shape[1:])
        positions = np.arange(start // block, -(-stop // block), dtype=np.int64)
        positions *= self.steps[0]
        positions += self.first
        for size, step in zip(self.shape[1:], self.steps[1:], strict=True):
            positions = np.add.outer(positions, np.arange(size, dtype=np.int64) * step).ravel()
        skipped = start // block * block
        return positions[start - skipped : stop - skipped]

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Numbers of positions in the grid, some at a time, to bound memory."""
        cells = self.cells
        for start in range(0, cells, PIECE):
            yield start, min(start + PIECE, cells)

    def shifted(self, by: int) -> "Places":
        listed = self.listed + by if len(self.listed) else self.listed
        return Places(self.count, self.first + by, self.shape, self.steps, listed)

    def plus(self, offsets: Array) -> "Places":
        """Each of them so much further on."""
        return self._moved(np.add, offsets)

    def minus(self, offsets: Array) -> "Places":
        return self._moved(np.subtract, offsets)

    def _moved(self, operation: np.ufunc, offsets: Array) -> "Places":
        if self.count <= _HEAD:
            return Places.of(operation(self.array(), offsets))
        return Places._recognised(
            self.count,
            lambda start, stop: operation(self.part(start, stop), offsets[start:stop]),
        )

    def distinct(self, unit: int) -> tuple[Ints, "Places"]:
        """Codes and the places they number, each once; all are multiples of `unit`."""
        if self._are_distinct:
            return np.arange(self.count, dtype=np.int64), self
        if self.is_even:
            return constant(0, np.int64, self.count), Places.even(1, self.first)
        codes, found = factorize(self.array(), unit)
        return codes, Places.of(found)

    @property
    def _are_distinct(self) -> bool:
        """True if that is plain to see without comparing those of the grid."""
        if self.is_even:
            return self.count < 2 or self.steps[0] != 0
        if not self.shape[0]:
            return False
        reach = 0
        for step, size in sorted(zip(map(abs, self.steps), self.shape, strict=True)):
            if size > 1 and step <= reach:
                return False
            reach += step * (size - 1)
        if not len(self.listed):
            return True
        others = np.sort(self.listed)
        return int(others[0]) > self._reach[1] and bool((others[1:] > others[:-1]).all())

    def without_repeats(self) -> Ints:
        """The same positions, each at least once; those of an axis without steps only once."""
        axes = [axis for axis, step in enumerate(self.steps) if step]
        shape, steps = ([of[axis] for axis in axes] for of in (self.shape, self.steps))
        count = min(prod(shape), self.cells)
        grid = Places(count, self.first, (1, *shape), (0, *steps))
        return np.append(grid._of_grid(0, count), np.unique(self.listed))

    @property
    def _reach(self) -> tuple[int, int]:
        """The lowest and the highest position of the grid."""
        if len(self.shape) == 1:
            last = self.first + self.steps[0] * (self.shape[0] - 1)
            return (self.first, last) if last >= self.first else (last, self.first)
        ends = [step * (size - 1) for step, size in zip(self.steps, self.shape, strict=True)]
        down, up = (sum(pick(end, 0) for end in ends) for pick in (min, max))
        return self.first + down, self.first + up

    @property
    def lowest(self) -> int:
        if not len(self.listed):
            return self._reach[0]
        listed = int(self.listed.min())
        return min(self._reach[0], listed) if self.shape[0] else listed

    @property
    def highest(self) -> int:
        if not len(self.listed):
            return self._reach[1]
        listed = int(self.listed.max())
        return max(self._reach[1], listed) if self.shape[0] else listed

    def are_aligned(self, align: int) -> bool:
        """True if all are multiples of `align`, a power of two."""
        bits = int(np.bitwise_or.reduce(self.listed)) if len(self.listed) else 0
        if self.shape[0]:
            bits |= self.first
            for step, size in zip(self.steps, self.shape, strict=True):
                bits |= step if size > 1 else 0
        return not bits & (align - 1)


def _grid_of(head: Ints, count: int) -> Places | None:
    """The grid of which `count` positions may consist that begin with `head`; None for none.

    Nothing behind the head is looked at. Of a grid of several axes only whole bands count.
    """
    if len(head) < 2:
        return None
    across = int(head[1] - head[0])
    width = _run_length(head)
    if width == len(head):
        return Places.even(count, int(head[0]), across)
    if count < FEWEST_OF_GRID or width < 2 or across < 0:
        return None
    down = int(head[width] - head[0])
    depth = _run_length(head[::width])
    if depth * width >= len(head) == count:
        depth = count // width
    bands = count // (width * depth)
    if down < 0 or (bands > 1 and width * depth >= len(head)):
        return None
    along = int(head[width * depth] - head[0]) if bands > 1 else 0
    if along < 0:
        return None
    shape = (bands, depth, width)
    return Places(bands * depth * width, int(head[0]), shape, (along, down, across))


def _run_length(positions: Ints) -> int:
    """Number of positions, from the first on, that are at equal distances."""
    if len(positions) < 2:
        return len(positions)
    steps = np.diff(positions)
    others = steps != steps[0]
    return int(np.argmax(others)) + 1 if others.any() else len(positions)
