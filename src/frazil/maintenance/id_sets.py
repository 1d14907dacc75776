"""Sets of ids as columns: millions of them, and no Python object for any.

An IdSet has twelve bytes for each id. A KeySet has keys of eight bytes, sorted in place. The key of
an id is its first eight bytes: two ids that differ only after these count as one. Ids are random:
that happens to a pair in 2**64, and where it does, a file too many is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

type Ids = npt.NDArray[np.uint8]  # (n, 12)
type Bools = npt.NDArray[np.bool_]

_HALVES = np.dtype([("high", ">u8"), ("low", ">u4")])
_PENDING = 1 << 18  # ids that wait to be sorted in together


@dataclass(frozen=True, slots=True, eq=False)
class IdSet:
    """Distinct ids in ascending order: the first eight bytes of each, and the last four."""

    high: npt.NDArray[np.uint64]  # (n,)
    low: npt.NDArray[np.uint32]  # (n,)

    @classmethod
    def empty(cls) -> "IdSet":
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    @classmethod
    def of(cls, ids: Ids) -> "IdSet":
        """Ids in any order, any number of times."""
        return _distinct(*id_halves(ids))

    @classmethod
    def union(cls, sets: Iterable["IdSet"]) -> "IdSet":
        every = list(sets)
        if len(every) <= 1:
            return every[0] if every else cls.empty()
        high = np.concatenate([each.high for each in every])
        return _distinct(high, np.concatenate([each.low for each in every]), in_parts=True)

    def __len__(self) -> int:
        return len(self.high)

    @property
    def nbytes(self) -> int:
        return self.high.nbytes + self.low.nbytes

    def ids(self) -> Ids:
        raw = np.empty((len(self), 12), np.uint8)
        raw[:, :8] = self.high.astype(">u8").view(np.uint8).reshape(-1, 8)
        raw[:, 8:] = self.low.astype(">u4").view(np.uint8).reshape(-1, 4)
        return raw

    def without(self, others: "IdSet") -> "IdSet":
        stays = ~others.contains(self.ids())
        return IdSet(self.high[stays], self.low[stays])

    def contains(self, ids: Ids) -> Bools:
        """True for the rows of `ids` that are in the set."""
        if not len(self):
            return np.zeros(len(ids), np.bool_)
        high, low = id_halves(ids)
        at = np.searchsorted(self.high, high)
        found = self._is_at(at, high, low)
        # Ids that begin alike are neighbours; random ones never do, but ids need not be random.
        while True:
            at += 1
            more = np.flatnonzero(~found & (at < len(self)))
            more = more[self.high[at[more]] == high[more]]
            if not len(more):
                return found
            found[more] = self.low[at[more]] == low[more]

    def _is_at(
        self,
        at: npt.NDArray[np.int64],
        high: npt.NDArray[np.uint64],
        low: npt.NDArray[np.uint32],
    ) -> Bools:
        place = np.minimum(at, len(self) - 1)
        same: Bools = (self.high[place] == high) & (self.low[place] == low)
        return same


class GrowingIdSet:
    """A set that ids are added to, batch by batch."""

    def __init__(self) -> None:
        self._sets: list[IdSet] = []
        self._pending: list[Ids] = []
        self._waiting = 0

    def add(self, ids: Ids) -> None:
        self._pending.append(ids)
        self._waiting += len(ids)
        if self._waiting >= _PENDING:
            self._settle()

    def add_set(self, other: IdSet) -> None:
        self._merge(other)

    def done(self) -> IdSet:
        self._settle()
        self._sets = [IdSet.union(self._sets)]
        return self._sets[0]

    def _settle(self) -> None:
        if self._pending:
            pending, self._pending, self._waiting = self._pending, [], 0
            self._merge(IdSet.of(np.concatenate(pending)))

    def _merge(self, new: IdSet) -> None:
        # Sets of about one size are merged, as in a merge sort: each id is moved log n times.
        while self._sets and len(self._sets[-1]) <= 2 * len(new):
            new = IdSet.union([self._sets.pop(), new])
        self._sets.append(new)


def id_halves(ids: Ids) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """The first eight and the last four bytes of each id, as numbers in the order of the ids."""
    both = np.ascontiguousarray(ids).view(_HALVES)[:, 0]
    return both["high"].astype(np.uint64), both["low"].astype(np.uint32)


def sort_order(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint32], *, in_parts: bool = False
) -> npt.NDArray[np.int64]:
    """The order that sorts them; quicker if told that they are sorted in parts."""
    order = np.argsort(high, kind="stable" if in_parts else None)
    first, second = high[order], low[order]
    if bool(((first[1:] == first[:-1]) & (second[1:] < second[:-1])).any()):
        order = np.lexsort((low, high))
    return order.astype(np.int64, copy=False)


def _distinct(
    high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint32], *, in_parts: bool = False
) -> IdSet:
    order = sort_order(high, low, in_parts=in_parts)
    high, low = high[order], low[order]
    del order
    new = np.ones(len(high), np.bool_)
    np.not_equal(high[1:], high[:-1], out=new[1:])
    new[1:] |= low[1:] != low[:-1]
    return IdSet(high, low) if bool(new.all()) else IdSet(high[new], low[new])


type Keys = npt.NDArray[np.uint64]

_TOGETHER = 1 << 16  # keys sorted while they are in the processor's cache


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
        for start in range(0, len(own), _TOGETHER):
            some = own[start : start + _TOGETHER]
            some[:] = some[_roughly_ascending(some)]
            some.sort(kind="stable")
        own.sort(kind="stable")  # which merges them
        return cls._distinct(own)

    @classmethod
    def _distinct(cls, own: Keys) -> "KeySet":
        """The set of keys that are in ascending order."""
        new = _is_first(own)
        return cls(own if bool(new.all()) else own[new])

    @classmethod
    def of_ids(cls, ids: Ids) -> "KeySet":
        return cls.of(id_halves(ids)[0])

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
        """True for the ids that are in the set."""
        return self.has(id_halves(ids)[0])

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
        self.add(id_halves(ids)[0])

    def add_set(self, other: KeySet) -> None:
        self._merge(other)

    def add_new(self, keys: Keys) -> npt.NDArray[np.int64]:
        """The first row of each key that was not there, in ascending order of keys."""
        self._settle()
        order = _roughly_ascending(keys)
        order = order[np.argsort(keys[order], kind="stable")]
        ordered = keys[order]
        new = _is_first(ordered)
        for each in self._sets:
            new &= ~each.has(ordered)
        self._merge(KeySet(ordered[new]))
        return order[new]

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


def _roughly_ascending(keys: Keys) -> npt.NDArray[np.int64]:
    """The order by the first two bytes, in which equal ones stay as they are.

    Numbers that small are sorted in linear time, and of random keys hardly any are out of place
    then: a stable sort after this one takes less than half the time of a sort alone.
    """
    first = (keys >> np.uint64(48)).astype(np.uint16)
    return np.argsort(first, kind="stable").astype(np.int64, copy=False)


def _is_first(ordered: Keys) -> Bools:
    """True where a key differs from its predecessor."""
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first
