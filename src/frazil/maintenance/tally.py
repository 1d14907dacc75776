"""Bytes counted once, however many references lead to them, and who they belong to.

Each row is a piece of storage: a key of twelve bytes, its size, and its owners: two sets, of refs
and of arrays. Few different sets occur, so a row holds the number of its set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.maintenance.id_sets import Ids, halves

type Codes = npt.NDArray[np.int32]

_PENDING = 1 << 18


class OwnerSets:
    """Sets of numbers, numbered."""

    def __init__(self, sets: Iterable[frozenset[int]] = ()) -> None:
        self.sets: list[frozenset[int]] = []
        self._codes: dict[frozenset[int], int] = {}
        for each in sets:
            self.code(each)

    def code(self, owners: frozenset[int]) -> int:
        found = self._codes.setdefault(owners, len(self.sets))
        if found == len(self.sets):
            self.sets.append(owners)
        return found

    def union(self, left: Codes, right: Codes) -> Codes:
        """The set that each pair of sets has together."""
        pairs, place = np.unique(
            left.astype(np.int64) << 32 | right.astype(np.int64), return_inverse=True
        )
        codes = [
            self.code(self.sets[pair >> 32] | self.sets[pair & 0xFFFFFFFF])
            for pair in pairs.tolist()
        ]
        return np.array(codes, np.int32)[place]

    def recode(self, sets: Sequence[frozenset[int]]) -> Codes:
        """The number that each set has here."""
        return np.array([self.code(each) for each in sets], np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of storage, as columns."""

    high: npt.NDArray[np.uint64]  # (n,) of the key, as in an IdSet
    low: npt.NDArray[np.uint32]  # (n,)
    size_bytes: npt.NDArray[np.uint64]  # (n,)
    refs: Codes  # (n,)
    arrays: Codes  # (n,)

    @classmethod
    def of(
        cls,
        ids: Ids,
        size_bytes: npt.NDArray[np.uint64],
        *,
        refs: int | Codes = 0,
        arrays: int | Codes = 0,
    ) -> "Pieces":
        high, low = halves(ids)
        count = len(high)
        return cls(
            high,
            low,
            size_bytes.astype(np.uint64, copy=False),
            np.broadcast_to(np.asarray(refs, np.int32), (count,)),
            np.broadcast_to(np.asarray(arrays, np.int32), (count,)),
        )

    @classmethod
    def empty(cls) -> "Pieces":
        return cls.of(np.zeros((0, 12), np.uint8), np.zeros(0, np.uint64))

    @classmethod
    def concat(cls, parts: Sequence["Pieces"]) -> "Pieces":
        return cls(
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.size_bytes for part in parts]),
            np.concatenate([part.refs for part in parts]),
            np.concatenate([part.arrays for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.high)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> "Pieces":
        return Pieces(
            self.high[rows],
            self.low[rows],
            self.size_bytes[rows],
            self.refs[rows],
            self.arrays[rows],
        )

    @property
    def nbytes(self) -> int:
        return 28 * len(self)


class Tally:
    """Pieces that are added batch by batch; of equal keys one stays, with all their owners."""

    def __init__(self, refs: OwnerSets, arrays: OwnerSets) -> None:
        self.refs = refs
        self.arrays = arrays
        self.peak_bytes = 0
        self._settled: list[Pieces] = []
        self._pending: list[Pieces] = []
        self._waiting = 0

    def add(self, pieces: Pieces) -> None:
        self._pending.append(pieces)
        self._waiting += len(pieces)
        if self._waiting >= _PENDING:
            self._settle()

    def done(self) -> Pieces:
        self._settle()
        if not self._settled:
            return Pieces.empty()
        if len(self._settled) > 1:
            self._settled = [self._distinct(Pieces.concat(self._settled))]
        return self._settled[0]

    def _settle(self) -> None:
        if not self._pending:
            return
        pending, self._pending, self._waiting = self._pending, [], 0
        new = self._distinct(Pieces.concat(pending))
        while self._settled and len(self._settled[-1]) <= 2 * len(new):
            new = self._distinct(Pieces.concat([self._settled.pop(), new]))
        self._settled.append(new)
        self.peak_bytes = max(self.peak_bytes, sum(each.nbytes for each in self._settled))

    def _distinct(self, pieces: Pieces) -> Pieces:
        order = np.lexsort((pieces.arrays, pieces.refs, pieces.low, pieces.high))
        pieces = pieces.take(order.astype(np.int64, copy=False))
        is_new, differs = _first_of_equals(pieces)
        starts = np.flatnonzero(is_new)
        if len(starts) == len(pieces):
            return pieces
        kept = pieces.take(starts)
        refs, arrays = kept.refs.copy(), kept.arrays.copy()
        # Further owners of the same piece: as many rounds as one piece has kinds of owners.
        group = np.cumsum(is_new) - 1
        rows = np.flatnonzero(~is_new & differs)
        while len(rows):
            owner = group[rows]
            first = np.ones(len(rows), np.bool_)
            first[1:] = owner[1:] != owner[:-1]
            now, place = rows[first], owner[first]
            refs[place] = self.refs.union(refs[place], pieces.refs[now])
            arrays[place] = self.arrays.union(arrays[place], pieces.arrays[now])
            rows = rows[~first]
        sizes = np.maximum.reduceat(pieces.size_bytes, starts)
        return Pieces(kept.high, kept.low, sizes, refs, arrays)


def _first_of_equals(
    pieces: Pieces,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Of each row, which is sorted, whether its key, and whether key or owners, are new."""
    is_new = np.ones(len(pieces), np.bool_)
    is_new[1:] = pieces.high[1:] != pieces.high[:-1]
    is_new[1:] |= pieces.low[1:] != pieces.low[:-1]
    differs = is_new.copy()
    differs[1:] |= pieces.refs[1:] != pieces.refs[:-1]
    differs[1:] |= pieces.arrays[1:] != pieces.arrays[:-1]
    return is_new, differs


def bytes_by_owner(
    codes: Codes, size_bytes: npt.NDArray[np.uint64], owners: OwnerSets, count: int
) -> tuple[list[int], list[int]]:
    """Of each of `count` owners: the bytes it has, and those of them that no other has."""
    by_set = np.zeros(len(owners.sets), np.uint64)
    np.add.at(by_set, codes, size_bytes)
    total, alone = [0] * count, [0] * count
    for each, size in zip(owners.sets, by_set.tolist(), strict=True):
        for owner in each:
            total[owner] += size
            if len(each) == 1:
                alone[owner] += size
    return total, alone
