"""Sets of 64-bit keys: eight bytes for each member, sorted in place.

Of ids, the first eight bytes: two that differ only after these are taken for one. Ids are random,
so that happens to a pair in 2**64; where it does, a file too many is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.maintenance.id_sets import Bools, Ids, halves

type Keys = npt.NDArray[np.uint64]

_PENDING = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    keys: Keys  # (n,) ascending, none twice

    @classmethod
    def empty(cls) -> "KeySet":
        return cls(np.zeros(0, np.uint64))

    @classmethod
    def of(cls, keys: Keys) -> "KeySet":
        """Keys in any order; the array is sorted in place if it can be."""
        own = keys if keys.flags.writeable else keys.copy()
        own.sort()
        return cls._distinct(own)

    @classmethod
    def _distinct(cls, own: Keys) -> "KeySet":
        """Of keys in ascending order."""
        new = np.ones(len(own), np.bool_)
        np.not_equal(own[1:], own[:-1], out=new[1:])
        return cls(own if bool(new.all()) else own[new])

    @classmethod
    def of_ids(cls, ids: Ids) -> "KeySet":
        return cls.of(halves(ids)[0])

    @classmethod
    def union(cls, sets: Iterable["KeySet"]) -> "KeySet":
        every = [each for each in sets if len(each)]
        if len(every) <= 1:
            return every[0] if every else cls.empty()
        merged = np.concatenate([each.keys for each in every])
        merged.sort(kind="stable")  # which merges what is sorted in parts, in linear time
        return cls._distinct(merged)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes

    def contains(self, ids: Ids) -> Bools:
        """Of each id whether it is in the set."""
        return self.has(halves(ids)[0])

    def has(self, keys: Keys) -> Bools:
        if not len(self):
            return np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        found: Bools = self.keys[at] == keys
        return found


class GrowingKeySet:
    """A set that keys are added to, batch by batch."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._sets: list[KeySet] = []
        self._pending: list[Keys] = []
        self._waiting = 0

    def add(self, keys: Keys) -> None:
        self._pending.append(keys)
        self._waiting += len(keys)
        if self._waiting >= _PENDING:
            self._settle()

    def add_ids(self, ids: Ids) -> None:
        self.add(halves(ids)[0])

    def add_new(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Rows of the keys that were not there, each once."""
        self._settle()
        distinct, rows = np.unique(keys, return_index=True)
        new = np.ones(len(distinct), np.bool_)
        for each in self._sets:
            new &= ~each.has(distinct)
        self._merge(KeySet(distinct[new]))
        return rows[new].astype(np.int64, copy=False)

    def done(self) -> KeySet:
        self._settle()
        self._sets = [KeySet.union(self._sets)]
        return self._sets[0]

    def _settle(self) -> None:
        if self._pending:
            pending, self._pending, self._waiting = self._pending, [], 0
            self._merge(KeySet.of(np.concatenate(pending)))

    def _merge(self, new: KeySet) -> None:
        # Sets of about one size are merged, as in a merge sort: each key is moved log n times.
        while self._sets and len(self._sets[-1]) <= 2 * len(new):
            new = KeySet.union([self._sets.pop(), new])
        self._sets.append(new)
        self.peak_bytes = max(self.peak_bytes, 2 * sum(each.nbytes for each in self._sets))


class DistinctSum:
    """Sizes added up, each key's only once."""

    def __init__(self) -> None:
        self.total = 0
        self._seen = GrowingKeySet()
        self._keys: list[Keys] = []
        self._sizes: list[npt.NDArray[np.uint64]] = []
        self._waiting = 0

    def add(self, keys: Keys, sizes: npt.NDArray[np.uint64]) -> None:
        self._keys.append(keys)
        self._sizes.append(sizes)
        self._waiting += len(keys)
        if self._waiting >= _PENDING:
            self._settle()

    def done(self) -> int:
        self._settle()
        return self.total

    def _settle(self) -> None:
        if self._keys:
            rows = self._seen.add_new(np.concatenate(self._keys))
            self.total += int(np.concatenate(self._sizes)[rows].sum())
            self._keys, self._sizes, self._waiting = [], [], 0
