"""Pieces of storage that references lead to, as keys of 64 bits.

native    the object and the offset in it: many references into a pack are many pieces
virtual   location, offset and length
inline    the manifest and the array in it
"""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from frazil.format.payloads import RefKind
from frazil.format.storage_refs import StorageRefs
from frazil.maintenance.id_sets import Ids, halves
from frazil.maintenance.key_sets import Keys

_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODD_TOO = np.uint64(0xC2B2AE3D27D4EB4F)

type Found = tuple[int, RefKind, Keys, npt.NDArray[np.uint64]]
"""The number of the array, the kind, and key and size of each piece."""


def pieces_of(refs: StorageRefs) -> Iterator[Found]:
    for number in range(len(refs.nodes)):
        rows = slice(int(refs.splits[number]), int(refs.splits[number + 1]))
        kinds = refs.kind[rows]
        for kind in RefKind:
            of_kind = kinds == kind
            if not of_kind.any():
                continue
            chosen = rows if of_kind.all() else rows.start + np.flatnonzero(of_kind)
            keys, sizes = _pieces(refs, number, kind, chosen)
            yield number, kind, keys, sizes


def id_keys(ids: Ids) -> Keys:
    """Of the whole id."""
    high, low = halves(ids)
    return high ^ (low.astype(np.uint64) * _ODD)


def _pieces(
    refs: StorageRefs, number: int, kind: RefKind, rows: slice | npt.NDArray[np.int64]
) -> tuple[Keys, npt.NDArray[np.uint64]]:
    sizes = refs.length[rows]
    match kind:
        case RefKind.NATIVE:
            return _mixed(id_keys(refs.chunk_id[rows]), refs.offset[rows]), sizes
        case RefKind.VIRTUAL:
            places = _mixed(_locations(refs, rows), refs.offset[rows])
            return _mixed(places, sizes), sizes
        case RefKind.INLINE:
            raw = refs.ids[refs.manifest[number]].reshape(1, 12)
            own = _mixed(id_keys(raw), np.frombuffer(refs.nodes[number].raw, np.uint64))
            return own, sizes.sum(dtype=np.uint64, keepdims=True)


def _locations(refs: StorageRefs, rows: slice | npt.NDArray[np.int64]) -> Keys:
    codes, strings = refs.location.codes[rows], refs.location.strings
    used, place = np.unique(codes, return_inverse=True)
    digests = [blake2b(each, digest_size=8).digest() for each in strings.take(used).to_list()]
    return np.frombuffer(b"".join(digests), np.uint64)[place]


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
