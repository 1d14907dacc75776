"""Positions in a buffer, of which a million that are evenly spaced need no more room than one."""

from dataclasses import dataclass

import numpy as np

from frazil.flatbuf.ragged import PIECE, Array, Ints, constant, distinct, even_step


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """`count` positions, `step` apart from `first` on, or else as they are listed."""

    count: int
    first: int
    step: int = 0  # 0 where all are the same, or listed
    listed: Ints | None = None  # (count,)

    @classmethod
    def of(cls, positions: Ints) -> "Places":
        count = len(positions)
        first = int(positions[0]) if count else 0
        step = even_step(positions)
        if step is None or step < 0:
            return cls(count, first, 0, positions)
        return cls(count, first, step)

    def array(self) -> Ints:
        """All of them, (count,); not to be changed."""
        if self.listed is not None:
            return self.listed
        return self.part(0, self.count)

    def part(self, start: int, stop: int) -> Ints:
        """Those from one number up to another; not to be changed."""
        if self.listed is not None:
            return self.listed[start:stop]
        positions = np.arange(start, min(stop, self.count), dtype=np.int64)
        positions *= self.step
        positions += self.first
        return positions

    def shifted(self, by: int) -> "Places":
        listed = None if self.listed is None else self.listed + by
        return Places(self.count, self.first + by, self.step, listed)

    def plus(self, offsets: Array) -> "Places":
        """Each of them so much further on."""
        return self._moved(np.add, offsets)

    def minus(self, offsets: Array) -> "Places":
        return self._moved(np.subtract, offsets)

    def _moved(self, operation: np.ufunc, offsets: Array) -> "Places":
        if self.count <= PIECE:
            return Places.of(operation(self.array(), offsets))
        first, second = operation(self.part(0, 2), offsets[:2]).tolist()
        even = Places(self.count, first, second - first)
        for start in range(0, self.count, PIECE):  # in pieces, to bound memory
            stop = start + PIECE
            found = operation(self.part(start, stop), offsets[start:stop])
            if even.step < 0 or not np.array_equal(found, even.part(start, stop)):
                return Places(self.count, first, 0, operation(self.array(), offsets))
        return even

    def distinct(self, unit: int) -> tuple[Ints, "Places"]:
        """Codes and the places they number, each once; all are multiples of `unit`."""
        if self.listed is not None:
            codes, found = distinct(self.listed, unit)
            return codes, Places.of(found)
        if self.step or not self.count:
            return np.arange(self.count, dtype=np.int64), self
        return constant(0, np.int64, self.count), Places(1, self.first)

    @property
    def lowest(self) -> int:
        return self.first if self.listed is None else int(self.listed.min())

    @property
    def highest(self) -> int:
        if self.listed is not None:
            return int(self.listed.max())
        return self.first + self.step * (self.count - 1)

    def are_aligned(self, align: int) -> bool:
        """Whether all are multiples of `align`, a power of two."""
        if self.listed is not None:
            return not int(np.bitwise_or.reduce(self.listed)) & (align - 1)
        step = self.step if self.count > 1 else 0
        return not (self.first | step) & (align - 1)
