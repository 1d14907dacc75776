"""Parts of chunk objects as columns: an object, where the part begins in it, how long it is.

Two references to one part are to the same bytes for ever: objects never change. So a part can be
stored in another object, and every reference to it be changed.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.manifest import Manifest
from frazil.ids import ChunkId, ManifestId
from frazil.maintenance.id_sets import halves

type Ids = npt.NDArray[np.uint8]  # (n, 12)
type Ints = npt.NDArray[np.int64]
type Numbers = npt.NDArray[np.uint64]
type Column = npt.NDArray[np.unsignedinteger[Any]]

# Odd, and with bits all over: what differs in one column then differs in the sum, nearly always.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


def id_keys(ids: Ids) -> npt.NDArray[Any]:
    """Ids as byte strings that can be compared."""
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def grouped(columns: Sequence[Column]) -> tuple[Ints, Ints]:
    """The first row of each group of equal rows, and the group of each row."""
    numbers = _mixed(columns)
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    ordered = numbers[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    one, two = order[again], order[again + 1]
    if any((column[one] != column[two]).any() for column in columns):
        order = np.lexsort(columns).astype(np.int64)  # rows that differ have one number
        new = np.zeros(len(order), dtype=np.bool_)
        for column in columns:
            new[1:] |= column[order[1:]] != column[order[:-1]]
    else:
        new = np.ones(len(order), dtype=np.bool_)
        new[again + 1] = False
    new[:1] = True
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def _mixed(columns: Sequence[Column]) -> Numbers:
    """One number for each row: equal for equal rows, and hardly ever for others."""
    numbers = np.zeros(len(columns[0]), dtype=np.uint64)
    for column, factor in zip(columns, _FACTORS, strict=False):
        numbers ^= numbers >> np.uint64(29)
        numbers += column.astype(np.uint64, copy=False) * np.uint64(factor)
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Row i of each column is one part."""

    chunk_id: Ids
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def bytes(self) -> int:
        return int(self.length.sum())

    @property
    def columns(self) -> tuple[Column, ...]:
        """Numbers that make a part what it is; the first two those of the object."""
        return (*halves(self.chunk_id), self.offset, self.length)

    def distinct(self) -> "Parts":
        """Each once, by object and place in it."""
        rows, _ = grouped(self.columns)
        found = self.take(rows)
        high, low, offset, length = found.columns
        return found.take(np.lexsort((length, offset, low, high)).astype(np.int64))

    def take(self, rows: Ints | slice) -> "Parts":
        return Parts(self.chunk_id[rows], self.offset[rows], self.length[rows])

    @classmethod
    def concat(cls, parts: list["Parts"]) -> "Parts":
        return cls(
            np.concatenate([np.zeros((0, 12), dtype=np.uint8), *(p.chunk_id for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.offset for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.length for p in parts)]),
        )

    @classmethod
    def native(cls, refs: ChunkRefs) -> "Parts":
        """Parts that native references name, in their order."""
        rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
        return cls(refs.chunk_id[rows], refs.offset[rows], refs.length[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Relocation:
    """New places of parts; their lengths stay."""

    numbers: Numbers  # of the parts, ascending
    old: Parts
    chunk_id: Ids
    offset: Numbers

    @classmethod
    def of(cls, old: Parts, chunk_id: Ids, offset: Numbers) -> "Relocation":
        """Row i of the old parts, which are distinct, is at row i of the new places."""
        numbers = _mixed(old.columns)
        order = np.argsort(numbers, kind="stable").astype(np.int64)
        return cls(numbers[order], old.take(order), chunk_id[order], offset[order])

    def __len__(self) -> int:
        return len(self.numbers)

    def rows_of(self, parts: Parts) -> Ints:
        """Row of each, -1 where it stays where it is."""
        found = np.full(len(parts), -1, dtype=np.int64)
        if not len(self):
            return found
        columns, mine = parts.columns, self.old.columns
        numbers = _mixed(columns)
        rows = np.searchsorted(self.numbers, numbers).astype(np.int64)
        left = np.arange(len(parts), dtype=np.int64)
        while True:  # once, but for parts that differ and have one number
            inside = rows < len(self)
            left, rows = left[inside], rows[inside]
            alike = self.numbers[rows] == numbers[left]
            left, rows = left[alike], rows[alike]
            if not len(left):
                return found
            same = np.ones(len(left), dtype=np.bool_)
            for column, own in zip(columns, mine, strict=True):
                same &= column[left] == own[rows]
            found[left[same]] = rows[same]
            left, rows = left[~same], rows[~same] + 1

    def apply(self, refs: ChunkRefs) -> ChunkRefs | None:
        """The same chunks by references to where they are now; None if none of them moved."""
        native = np.flatnonzero(refs.kind == RefKind.NATIVE)
        found = self.rows_of(Parts.native(refs))
        moved, rows = native[found >= 0], found[found >= 0]
        if not len(moved):
            return None
        chunk_id, offset = refs.chunk_id.copy(), refs.offset.copy()
        chunk_id[moved], offset[moved] = self.chunk_id[rows], self.offset[rows]
        return replace(refs, chunk_id=chunk_id, offset=offset)

    def apply_to(self, manifest: Manifest) -> Manifest | None:
        """A new manifest, of all its arrays; None if nothing in it moved."""
        changed = {
            node: new
            for node, refs in manifest.arrays.items()
            if (new := self.apply(refs)) is not None
        }
        if not changed:
            return None
        return Manifest(id=ManifestId.random(), arrays={**manifest.arrays, **changed})


def random_ids(count: int) -> Ids:
    """Names for so many new objects."""
    raw = secrets.token_bytes(count * ChunkId.size)
    return np.frombuffer(raw, dtype=np.uint8).reshape(count, ChunkId.size)
