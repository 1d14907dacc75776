"""Pieces of storage that references point to, as keys of 64 bits.

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

type Sizes = npt.NDArray[np.uint64]
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
