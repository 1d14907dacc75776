"""Bytes counted once, however many references cover them, and their owners.

Each row is a piece of storage: a key, its size, and its owners: two sets, of refs and of arrays.
Few different sets occur, so a row holds the number of its set. Keys have 64 bits:

native    the object and the offset in it: many references into a pack are many pieces
virtual   location, offset and length
inline    the manifest and the array in it
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import RefKind
from frazil.format.projections import StorageRefs
from frazil.maintenance.id_sets import Ids, Keys, halves

type Codes = npt.NDArray[np.int32]
type Sizes = npt.NDArray[np.uint64]

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

    keys: Keys  # (n,)
    size_bytes: Sizes  # (n,)
    refs: Codes  # (n,)
    arrays: Codes  # (n,)

    @classmethod
    def of(cls, keys: Keys, size_bytes: Sizes, *, refs: int = 0, arrays: int = 0) -> "Pieces":
        """All of the same owners."""
        count = len(keys)
        return cls(
            keys,
            size_bytes.astype(np.uint64, copy=False),
            np.broadcast_to(np.int32(refs), (count,)),
            np.broadcast_to(np.int32(arrays), (count,)),
        )

    @classmethod
    def empty(cls) -> "Pieces":
        return cls.of(np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    @classmethod
    def concat(cls, parts: Sequence["Pieces"]) -> "Pieces":
        return cls(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.size_bytes for part in parts]),
            np.concatenate([part.refs for part in parts]),
            np.concatenate([part.arrays for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[np.int64]) -> "Pieces":
        return Pieces(self.keys[rows], self.size_bytes[rows], self.refs[rows], self.arrays[rows])

    @property
    def nbytes(self) -> int:
        return 24 * len(self)


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
        """All pieces, in ascending order of keys."""
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
        self.peak_bytes = max(self.peak_bytes, 2 * sum(each.nbytes for each in self._settled))

    def _distinct(self, pieces: Pieces) -> Pieces:
        pieces = pieces.take(np.argsort(pieces.keys).astype(np.int64, copy=False))
        is_new = np.ones(len(pieces), np.bool_)
        np.not_equal(pieces.keys[1:], pieces.keys[:-1], out=is_new[1:])
        if bool(is_new.all()):
            return pieces
        starts = np.flatnonzero(is_new)
        kept = pieces.take(starts)
        refs, arrays = self._owners(pieces, is_new, kept)
        return Pieces(kept.keys, np.maximum.reduceat(pieces.size_bytes, starts), refs, arrays)

    def _owners(
        self, pieces: Pieces, is_new: npt.NDArray[np.bool_], kept: Pieces
    ) -> tuple[Codes, Codes]:
        """The owners of each piece to be kept: those of all pieces that are the same."""
        refs, arrays = kept.refs, kept.arrays
        group = np.cumsum(is_new) - 1
        rows = np.flatnonzero((pieces.refs != refs[group]) | (pieces.arrays != arrays[group]))
        if not len(rows):
            return refs, arrays
        refs, arrays = refs.copy(), arrays.copy()
        # The owners that one piece has besides: each only once, then one of them a round.
        place, other = group[rows], pieces.take(rows)
        order = np.lexsort((other.arrays, other.refs, place))
        place, other = place[order], other.take(order)
        differs = np.ones(len(place), np.bool_)
        differs[1:] = place[1:] != place[:-1]
        differs[1:] |= other.refs[1:] != other.refs[:-1]
        differs[1:] |= other.arrays[1:] != other.arrays[:-1]
        place, other = place[differs], other.take(np.flatnonzero(differs))
        while len(place):
            first = np.ones(len(place), np.bool_)
            first[1:] = place[1:] != place[:-1]
            at, now = place[first], np.flatnonzero(first)
            refs[at] = self.refs.union(refs[at], other.refs[now])
            arrays[at] = self.arrays.union(arrays[at], other.arrays[now])
            place, other = place[~first], other.take(np.flatnonzero(~first))
        return refs, arrays


def bytes_by_owner(
    codes: Codes, size_bytes: Sizes, owners: OwnerSets, count: int
) -> tuple[list[int], list[int]]:
    """Bytes of each of `count` owners: all, and those that no other owner has."""
    by_set = np.zeros(len(owners.sets), np.uint64)
    np.add.at(by_set, codes, size_bytes)
    total, alone = [0] * count, [0] * count
    for each, size in zip(owners.sets, by_set.tolist(), strict=True):
        for owner in each:
            total[owner] += size
            if len(each) == 1:
                alone[owner] += size
    return total, alone


_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODD_TOO = np.uint64(0xC2B2AE3D27D4EB4F)

type Numbers = npt.NDArray[np.int64]
type Rows = slice | Numbers
type Found = tuple[RefKind, Numbers, Keys, Sizes]
"""A kind, and for each piece of it: the number of the array, the key, the size."""


def pieces_of(refs: StorageRefs) -> Iterator[Found]:
    """All pieces of each kind that occurs."""
    array = np.repeat(np.arange(len(refs.nodes), dtype=np.int64), np.diff(refs.splits))
    for kind in RefKind:
        of_kind = refs.kind == kind
        if not of_kind.any():
            continue
        rows = slice(None) if of_kind.all() else np.flatnonzero(of_kind)
        match kind:
            case RefKind.NATIVE:
                yield kind, array[rows], *_native(refs, rows)
            case RefKind.VIRTUAL:
                yield kind, array[rows], *_virtual(refs, rows)
            case RefKind.INLINE:
                yield kind, *_inline(refs, array[rows], refs.length[rows])


def id_keys(ids: Ids) -> Keys:
    """Keys of whole ids."""
    high, low = halves(ids)
    return high ^ (low.astype(np.uint64) * _ODD)


def _native(refs: StorageRefs, rows: Rows) -> tuple[Keys, Sizes]:
    return _mixed(id_keys(refs.chunk_id[rows]), refs.offset[rows]), refs.length[rows]


def _virtual(refs: StorageRefs, rows: Rows) -> tuple[Keys, Sizes]:
    sizes = refs.length[rows]
    return _mixed(_mixed(_locations(refs, rows), refs.offset[rows]), sizes), sizes


def _inline(refs: StorageRefs, array: Numbers, sizes: Sizes) -> tuple[Numbers, Keys, Sizes]:
    """One piece for each array, of which these are the rows, in order."""
    starts = np.flatnonzero(np.diff(array, prepend=-1))
    arrays = array[starts]
    nodes = np.frombuffer(b"".join(refs.nodes[at].raw for at in arrays.tolist()), np.uint64)
    keys = _mixed(id_keys(refs.ids[refs.manifest[arrays]]), nodes)
    return arrays, keys, np.add.reduceat(sizes, starts, dtype=np.uint64)


def _locations(refs: StorageRefs, rows: Rows) -> Keys:
    texts = refs.location.strings.to_list()
    digests = [blake2b(each, digest_size=8).digest() for each in texts]
    return np.frombuffer(b"".join(digests), np.uint64)[refs.location.codes[rows]]


def _mixed(keys: Keys, numbers: npt.NDArray[np.uint64]) -> Keys:
    """Other keys for other numbers; the same ones for 0."""
    if not numbers.any():
        return keys
    scattered = numbers * _ODD
    scattered ^= scattered >> np.uint64(29)
    scattered *= _ODD_TOO
    scattered ^= scattered >> np.uint64(32)
    mixed = (keys ^ scattered) * _ODD
    mixed ^= mixed >> np.uint64(31)
    return np.where(numbers == 0, keys, mixed)
