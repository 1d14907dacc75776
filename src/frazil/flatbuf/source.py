"""The bytes of a buffer that is being decoded, read at places that are checked first."""

from math import prod
from struct import Struct
from typing import Self

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.places import Places
from frazil.flatbuf.ragged import Array, Bytes1, Ints, gather, splits_of
from frazil.flatbuf.schema import SCALAR_SIZES

_U4 = Struct("<I")
_STORED = {name: np.dtype(name).newbyteorder("<") for name in SCALAR_SIZES}


class Source:
    """The bytes, and how many more may be gathered from them.

    With `bounds`, starts and ends of several buffers that stand one after another: nothing in one
    of them may lead into another, and each has a budget of its own.
    """

    def __init__(self, heap: Bytes1, budget: int) -> None:
        self.heap = heap
        self.size = len(heap)
        self.budget = budget
        self.bounds: tuple[Ints, Ints] | None = None
        self.budgets: Ints = np.zeros(0, np.int64)
        self.data = memoryview(heap)  # the same bytes, for numbers that are read one at a time

    @classmethod
    def of_many(cls, heap: Bytes1, bounds: tuple[Ints, Ints], *, expansion: int) -> Self:
        """Several buffers, each of which may spend so many times its own size."""
        source = cls(heap, 0)
        source.bounds = bounds
        source.budgets = expansion * (bounds[1] - bounds[0])
        return source

    def spend(self, size: int) -> None:
        self.budget -= size
        if self.budget < 0:
            raise FormatError("vectors of the buffer overlap too much")

    def spend_at(self, places: Places, sizes: int | Ints) -> None:
        """The same for each place, from the budget of its buffer."""
        if self.bounds is None:
            self.spend(places.count * sizes if isinstance(sizes, int) else int(sizes.sum()))
            return
        splits = self._splits(places.array())
        if isinstance(sizes, int):
            spent = np.diff(splits) * sizes
        else:
            spent = np.diff(splits_of(sizes)[splits])
        self.budgets = self.budgets - spent
        if bool((self.budgets < 0).any()):
            raise FormatError("vectors of the buffer overlap too much")

    def units(self, dtype: str) -> Array:
        """The whole buffer as numbers of this type."""
        size = SCALAR_SIZES[dtype]
        return self.heap[: self.size // size * size].view(f"<{dtype}" if size > 1 else dtype)

    def at(self, dtype: str, places: Places) -> Array:
        """The number at each place, which is aligned and in bounds; maybe a view."""
        cells = self._cells(dtype, places)
        if not len(places.listed):
            return cells
        size = SCALAR_SIZES[dtype]
        units: Array = self.units(dtype)
        listed = units[places.listed // size] if size > 1 else units[places.listed]
        return np.concatenate([cells, listed]) if len(cells) else listed

    def _cells(self, dtype: str, places: Places, *, length: int | None = None) -> Array:
        """The numbers in the grid of the places, maybe a view; as many of each as `length` says."""
        kind, shape, steps = _STORED[dtype], places.shape, places.steps
        if length is not None:
            shape, steps = (*shape, length), (*steps, kind.itemsize)
        elif len(shape) == 1:
            return np.ndarray(shape, kind, self.heap, places.first, steps)
        if not prod(shape):
            return np.zeros(0, kind)
        cells: Array = np.ndarray(shape, kind, self.heap, places.first, steps)
        return cells.reshape(-1)

    def runs(self, dtype: str, places: Places, lengths: Ints) -> Array:
        """`lengths` numbers from each place on, end to end."""
        size = SCALAR_SIZES[dtype]
        if places.cells < 2 or lengths.strides[0] or not lengths[0]:
            return gather(self.units(dtype), places.array() // size, lengths)
        cells = self._cells(dtype, places, length=int(lengths[0]))
        if not len(places.listed):
            return cells
        listed = gather(self.units(dtype), places.listed // size, lengths[places.cells :])
        return np.concatenate([cells, listed])

    def run(self, dtype: str, place: int, length: int) -> Array:
        """`length` numbers from one place on, as a view."""
        return np.ndarray((length,), _STORED[dtype], self.heap, place)

    def u4(self, place: int) -> int:
        """One number, which is in bounds."""
        number: int = _U4.unpack_from(self.data, place)[0]
        return number

    def check(self, places: Places, size: int, align: int, what: str) -> None:
        """Raises unless `size` bytes at each place are in bounds and aligned."""
        if not places.count:
            return
        if places.lowest < 0 or places.highest + size > self.size:
            raise FormatError(f"{what} is outside the buffer of {self.size} bytes")
        if not places.are_aligned(align):
            raise FormatError(f"{what} is not aligned to {align} bytes")

    def require_same_buffer(self, here: Ints, there: Ints, size: int | Ints, what: str) -> None:
        """Raises unless `size` bytes at each place there are in the buffer of the place here.

        Places here are in the order of their buffers, and each is in one.
        """
        if self.bounds is None or not len(here):
            return
        splits = self._splits(here)
        used = np.flatnonzero(splits[1:] > splits[:-1])
        first = splits[used]
        lowest = np.minimum.reduceat(there, first)
        highest = np.maximum.reduceat(there + size, first)
        starts, ends = self.bounds
        if bool(((lowest < starts[used]) | (highest > ends[used])).any()):
            raise FormatError(f"{what} is outside its buffer")

    def _splits(self, places: Ints) -> Ints:
        """Start of each buffer's places, which are in the order of the buffers."""
        starts = np.zeros(0, np.int64) if self.bounds is None else self.bounds[0]
        return np.append(np.searchsorted(places, starts), len(places))

    def check_one(self, place: int, size: int, align: int, what: str) -> None:
        """The same of a single place."""
        if place < 0 or place + size > self.size:
            raise FormatError(f"{what} is outside the buffer of {self.size} bytes")
        if place & (align - 1):
            raise FormatError(f"{what} is not aligned to {align} bytes")


_U2_U2, _U2 = Struct("<HH"), Struct("<H")


class VTable:
    """The vtable of a table called `name` in messages, read number by number."""

    def __init__(self, source: Source, position: int, name: str) -> None:
        source.check_one(position, 4, 2, f"vtable of {name}")
        length, self.size = _U2_U2.unpack_from(source.data, position)  # `size`: of the table
        if length < 4 or length % 2 or position + length > source.size:
            raise FormatError(f"vtable of {name} has an impossible size")
        self._data = source.data
        self._position = position
        self._slots = (length - 4) // 2

    def require_inside(self, source: Source, last: int, name: str) -> None:
        """Raises unless a table at `last` ends inside the buffer."""
        if self.size < 4 or last + self.size > source.size:
            raise FormatError(f"{name} is outside the buffer of {source.size} bytes")

    def place(self, slot: int, size: int, what: str) -> int:
        """Offset of the slot inside the table; 0 if the table does not have it."""
        if slot >= self._slots:
            return 0
        place: int = _U2.unpack_from(self._data, self._position + 4 + 2 * slot)[0]
        if place and (place < 4 or place + size > self.size):
            raise FormatError(f"{what} is outside its table")
        return place
