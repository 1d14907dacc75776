"""Sets of chunks that take a bit a chunk, or less: what was changed, when that is millions.

A box of the grid, and for each of its chunks in row-major order whether it is in the set. The bits
are compressed: where all chunks of the box are in it, as is usual, next to nothing is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
import numpy.typing as npt
import zstandard

from frazil.errors import FormatError
from frazil.format.index_keys import Box

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
        """Those of the set whose first index is `first` or more, and less than `last`."""
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
    """Where each chunk is in the box, counted in row-major order."""
    places = np.zeros(len(index), dtype=np.int64)
    for axis, (low, length) in enumerate(zip(lo, shape, strict=True)):
        places *= length
        places += index[:, axis].astype(np.int64) - low
    return places
