"""Chunk indices as sortable keys: one number per row, so that order and lookup are one column's.

A row (i, j, k) inside the box [lo, hi) becomes its position in that box, row-major, which keeps the
lexicographic order. Boxes of 2^64 cells and more fall back to big-endian byte strings.
"""

from collections.abc import Iterator, Sequence
from math import prod
from operator import lt
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import zstandard

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.ragged import FEW, PIECE

type Keys = npt.NDArray[Any]  # (n,) uint64, or (n,) S bytes

_MAX_CELLS = 2**64 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """The part of a chunk grid that holds some rows; `hi` is exclusive."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]

    @classmethod
    def around(cls, *indices: npt.NDArray[np.uint32]) -> "Box":
        """The smallest box around all rows of `indices`, each (n, ndim)."""
        filled = [index for index in indices if len(index)]
        if not filled:
            ndim = indices[0].shape[1]
            return cls((0,) * ndim, (0,) * ndim)
        # Axis by axis, which numpy does forty times as fast as all of them at once.
        columns = [[index[:, axis] for index in filled] for axis in range(filled[0].shape[1])]
        return cls(
            tuple(min(int(part.min()) for part in column) for column in columns),
            tuple(max(int(part.max()) for part in column) + 1 for column in columns),
        )

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(hi - lo for lo, hi in zip(self.lo, self.hi, strict=True))

    @property
    def cells(self) -> int:
        return prod(self.sides)

    def contains(self, index: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """True for each row of `index`, (m, ndim), that lies inside."""
        inside = np.ones(len(index), dtype=np.bool_)
        for axis, (lo, hi) in enumerate(zip(self.lo, self.hi, strict=True)):
            inside &= (index[:, axis] >= lo) & (index[:, axis] < hi)
        return inside

    def keys(self, index: npt.NDArray[np.uint32]) -> Keys:
        """One key per row of `index`; keys of rows outside the box mean nothing."""
        if self.cells > _MAX_CELLS:
            big_endian = np.ascontiguousarray(index, dtype=">u4")
            return big_endian.view(f"S{4 * index.shape[1]}").reshape(-1)
        keys = np.zeros(len(index), dtype=np.uint64)
        for axis, (lo, side) in enumerate(zip(self.lo, self.sides, strict=True)):
            if axis:
                keys *= np.uint64(side)
            keys += index[:, axis]
            if lo:
                keys -= np.uint64(lo)
        return keys


@dataclass(frozen=True, slots=True, eq=False)
class SortedKeys:
    """Keys of rows that ascend, to be searched."""

    box: Box
    keys: Keys

    @classmethod
    def of(cls, index: npt.NDArray[np.uint32]) -> "SortedKeys":
        box = Box.around(index)
        return cls(box, box.keys(index))

    def find(self, index: Sequence[int]) -> int:
        """Row of one index, -1 if absent."""
        key, cells = 0, 1
        for position, lo, hi in zip(index, self.box.lo, self.box.hi, strict=True):
            if not lo <= position < hi:
                return -1
            key, cells = key * (hi - lo) + position - lo, cells * (hi - lo)
        count = len(self.keys)
        if count == cells:  # every cell is there: the key is the row
            return key
        if cells > _MAX_CELLS:
            return int(self.lookup(np.array([index], np.uint32))[0])
        row = int(np.searchsorted(self.keys, np.uint64(key)))
        return row if row < count and int(self.keys[row]) == key else -1

    def lookup(self, wanted: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Row of each wanted index, -1 where absent."""
        count = len(self.keys)
        inside = self.box.contains(wanted)
        if not count or not inside.any():
            return np.full(len(wanted), -1, dtype=np.int64)
        keys = self.box.keys(wanted)
        if count == self.box.cells:  # every cell is there: the key is the row
            return np.where(inside, keys.astype(np.int64), -1)
        rows = np.searchsorted(self.keys, keys).astype(np.int64)
        np.minimum(rows, count - 1, out=rows)
        return np.where(inside & (self.keys[rows] == keys), rows, -1)


def is_ascending(index: npt.NDArray[np.uint32]) -> bool:
    """True if the rows ascend strictly."""
    if len(index) <= FEW:
        return all(map(lt, rows := index.tolist(), rows[1:]))
    box = Box.around(index)
    for row in range(0, len(index) - 1, PIECE):  # in pieces, to bound memory
        keys = box.keys(index[row : row + PIECE + 1])
        if not (keys[1:] > keys[:-1]).all():
            return False
    return True


def order_last_wins(index: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64] | None:
    """Rows in ascending order of index, of equal ones only the last; None if nothing changes."""
    if is_ascending(index):
        return None
    keys = Box.around(index).keys(index)
    order = np.argsort(keys, kind="stable").astype(np.int64)
    ordered = keys[order]
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    return order[is_last]


def distinct(index: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The rows of `index`, each once, in ascending order."""
    order = order_last_wins(index)
    return index if order is None else index[order]


# -------------------------------------------------------------------------------------------------
# Sets of millions of chunks, in a bit per chunk or less: what a commit changed.
#
# A box of the grid, and a bit for each of its chunks in row-major order. The bits
# are compressed: where all chunks of the box are in it, as is usual, next to nothing is left.

_ROWS_AT_ONCE = 1 << 16
_MAX_BOX = 1 << 33  # chunks, so that bits of a box fit into a gigabyte


@dataclass(frozen=True, slots=True)
class ChunkSet:
    lo: tuple[int, ...]
    shape: tuple[int, ...]
    count: int  # chunks in the set
    bits: bytes  # compressed; eight chunks a byte, the first in the highest bit

    @classmethod
    def of(cls, index: npt.NDArray[np.uint32]) -> Self:
        """The chunks with these indices, (n, ndim)."""
        if not len(index):
            return cls((0,) * index.shape[1], (0,) * index.shape[1], 0, b"")
        box = Box.around(index)
        shape = tuple(hi - lo for lo, hi in zip(box.lo, box.hi, strict=True))
        size = prod(shape)
        if size > _MAX_BOX:
            raise FormatError(f"chunks in a box of {size}: too far apart for a set of them")
        marks = np.zeros(size, dtype=np.bool_)
        marks[_places(index, box.lo, shape)] = True
        packed = zstandard.ZstdCompressor(level=1).compress(np.packbits(marks).tobytes())
        return cls(box.lo, shape, int(marks.sum()), packed)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def index(self) -> npt.NDArray[np.uint32]:
        """All of them, (n, ndim), ascending."""
        parts = list(self.blocks())
        return np.concatenate(parts) if parts else np.zeros((0, self.ndim), dtype=np.uint32)

    def blocks(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The same, some at a time."""
        packed = self.unpacked()
        size = prod(self.shape)
        for start in range(0, size if self.count else 0, _ROWS_AT_ONCE):
            found = self._between(packed, start, min(size, start + _ROWS_AT_ONCE))
            if len(found):
                yield found

    def unpacked(self) -> npt.NDArray[np.uint8]:
        """The bits, for `within`."""
        if self.count == 0:
            return np.zeros(0, dtype=np.uint8)
        return np.frombuffer(zstandard.ZstdDecompressor().decompress(self.bits), dtype=np.uint8)

    def within(
        self, unpacked: npt.NDArray[np.uint8], first: int, last: int
    ) -> npt.NDArray[np.uint32]:
        """The chunks of the set whose first index is at least `first` and less than `last`."""
        inner = prod(self.shape[1:])
        start, stop = (min(max(each - self.lo[0], 0), self.shape[0]) for each in (first, last))
        return self._between(unpacked, start * inner, stop * inner)

    def _between(
        self, packed: npt.NDArray[np.uint8], start: int, stop: int
    ) -> npt.NDArray[np.uint32]:
        """Chunks at these places of the box, (n, ndim)."""
        bits = np.unpackbits(packed[start // 8 : -(-stop // 8)])[start % 8 :][: stop - start]
        places = np.flatnonzero(bits) + start
        if not self.shape:
            return np.zeros((len(places), 0), dtype=np.uint32)
        found = np.stack(np.unravel_index(places, self.shape), axis=1).astype(np.uint32)
        return found + np.array(self.lo, dtype=np.uint32)


def _places(
    index: npt.NDArray[np.uint32], lo: tuple[int, ...], shape: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Position of each chunk in the box, in row-major order."""
    places = np.zeros(len(index), dtype=np.int64)
    for axis, (low, length) in enumerate(zip(lo, shape, strict=True)):
        places *= length
        places += index[:, axis].astype(np.int64) - low
    return places
