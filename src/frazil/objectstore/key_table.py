"""Keys in the order they came, each once, without a Python object for any: they may be millions.

A key takes its own bytes, eight for where it ends, and eight or so in a table by which it is found.
"""

from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_WIDTH = 40  # bytes; keys of files are shorter, and are put in order as numpy puts strings


class KeyTable:
    """Not to be used by several threads at once."""

    def __init__(self) -> None:
        self._heap = bytearray()
        self._ends = array("Q")
        self._slots = array("I", bytes(4 * 64))  # rows from 1 on, 0 where there is none

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        return map(self.key, range(len(self)))

    def key(self, row: int) -> bytes:
        start = self._ends[row - 1] if row else 0
        return bytes(self._heap[start : self._ends[row]])

    def find(self, key: bytes) -> int:
        """Its row, -1 if it is not there."""
        return self._slots[self._slot(key)] - 1

    def add(self, key: bytes) -> int:
        """The row of a key that is not there yet."""
        if 2 * len(self) >= len(self._slots):
            self._grow()
        self._heap += key
        self._ends.append(len(self._heap))
        self._slots[self._slot(key)] = len(self)
        return len(self) - 1

    def order(self) -> npt.NDArray[np.int64]:
        """Rows in ascending order of the bytes of their keys."""
        edges = np.zeros(len(self) + 1, np.int64)
        edges[1:] = self._ends
        starts, lengths = edges[:-1], np.diff(edges)
        short = self._beginnings(starts, lengths)
        order = np.argsort(short, kind="stable").astype(np.int64)
        if len(lengths) and int(lengths.max()) > _WIDTH:
            self._settle(order, short)
        return order

    def _beginnings(
        self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bytes_]:
        """The first bytes of each key."""
        cells = np.zeros((len(starts), _WIDTH), np.uint8)
        heap = np.frombuffer(bytes(self._heap), np.uint8)
        for at in range(_WIDTH):
            has = np.flatnonzero(lengths > at)
            cells[has, at] = heap[starts[has] + at]
        return cells.reshape(-1).view(f"S{_WIDTH}")

    def _settle(self, order: npt.NDArray[np.int64], short: npt.NDArray[np.bytes_]) -> None:
        """Puts right, in place, the order of keys that begin alike."""
        ordered = short[order]
        alike = np.flatnonzero(ordered[1:] == ordered[:-1])
        start = 0
        while start < len(alike):
            stop = start + 1
            while stop < len(alike) and alike[stop] == alike[stop - 1] + 1:
                stop += 1
            rows = slice(int(alike[start]), int(alike[stop - 1]) + 2)
            order[rows] = sorted(order[rows].tolist(), key=self.key)
            start = stop

    def _slot(self, key: bytes) -> int:
        """Where it is, or would be."""
        mask = len(self._slots) - 1
        at = hash(key) & mask
        while (row := self._slots[at]) and self.key(row - 1) != key:
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        self._slots = array("I", bytes(8 * len(self._slots)))
        for row in range(len(self)):
            self._slots[self._slot(self.key(row))] = row + 1
