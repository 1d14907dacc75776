"""Chunks that several writers changed, found in bulk.

Writers of one chunk agree if they did the same to it: both deleted it, or gave it equal
references. References to different objects of the repository may still be to equal bytes, which
only reading them can tell: such pairs are uncertain.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.chunk_reads import fetch_payload
from frazil.engine.changes.pending import ChunkChanges, Index
from frazil.engine.files.files import Files
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_index import Box, distinct
from frazil.format.chunk_refs import ChunkRefs, Payload, RefKind

type Canonical = Callable[[ChunkRefs], ChunkRefs]
"""Replaces places that hold the same bytes by one of them."""


@dataclass(frozen=True, slots=True)
class UncertainPair:
    """Two stored objects of one length for one chunk."""

    index: Index
    payloads: tuple[Payload, Payload]


type SameBytes = Callable[[Sequence[UncertainPair]], list[bool]]
"""For each pair, True if the two objects are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    differing: npt.NDArray[np.uint32]  # (m, ndim), ascending and distinct
    uncertain: tuple[UncertainPair, ...]


def find_overlaps(parts: Sequence[ChunkChanges]) -> Overlaps:
    """Chunks that two of the parts change in different ways. O(n log n) in all their rows."""
    index = np.concatenate([p.refs.index for p in parts] + [p.deleted for p in parts])
    keys = Box.around(index).keys(index)
    order = np.argsort(keys, kind="stable")
    again = keys[order][1:] == keys[order][:-1]
    if not again.any():  # as it should be: then there is nothing to compare
        return Overlaps(differing=index[:0], uncertain=())
    left, right = order[:-1][again], order[1:][again]
    # The order is stable, so of two rows for a chunk one that deletes it comes last.
    refs = _Stack.of([part.refs for part in parts])
    both_set = right < refs.count
    mixed = (left < refs.count) & ~both_set
    left_set, right_set = left[both_set], right[both_set]
    differ = ~refs.are_same(left_set, right_set)
    uncertain = differ & refs.may_be_same(left_set, right_set)
    certain = np.concatenate([left[mixed], left_set[differ & ~uncertain]])
    return Overlaps(
        differing=distinct(index[certain]),
        uncertain=tuple(
            UncertainPair(tuple(index[one].tolist()), (refs.payload(one), refs.payload(two)))
            for one, two in zip(
                left_set[uncertain].tolist(), right_set[uncertain].tolist(), strict=True
            )
        ),
    )


def bytes_comparer(files: Files) -> SameBytes:
    """Compares pairs by reading all of both objects."""

    def compare(pair: UncertainPair) -> bool:
        one, two = (fetch_payload(files, payload, None) for payload in pair.payloads)
        return bytes(one) == bytes(two)

    return lambda pairs: files.pool.map(compare, list(pairs))


def select(changes: ChunkChanges, wanted: npt.NDArray[np.uint32]) -> ChunkChanges:
    """The changes to the wanted chunks, (m, ndim), ascending."""
    rows = changes.refs.lookup(wanted)
    return ChunkChanges(
        refs=changes.refs.take(rows[rows >= 0]), deleted=wanted[changes.deletes(wanted)]
    )


def changed_since(
    now: ChunkChanges, then: ChunkChanges, canonical: Canonical | None = None
) -> ChunkChanges:
    """Changes in `now` that `then` does not have, or has with another reference.

    References are compared as `canonical` gives them, and returned as they are.
    """
    rows = then.refs.lookup(now.refs.index)
    compared = [now.refs, then.refs]
    stack = _Stack.of(compared if canonical is None else list(map(canonical, compared)))
    known = np.flatnonzero(rows >= 0)
    same = np.zeros(len(now.refs), dtype=np.bool_)
    same[known] = stack.are_same(known, rows[known] + len(now.refs))
    return ChunkChanges(
        refs=now.refs.take(np.flatnonzero(~same)),
        deleted=now.deleted[~then.deletes(now.deleted)],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Stack:
    """References of several parts under one numbering."""

    parts: Sequence[ChunkRefs]
    starts: npt.NDArray[np.int64]  # (parts + 1,) number of each part's first row

    @classmethod
    def of(cls, parts: Sequence[ChunkRefs]) -> "_Stack":
        return cls(parts, np.array([0, *accumulate(map(len, parts))], dtype=np.int64))

    @property
    def count(self) -> int:
        return int(self.starts[-1])

    def are_same(
        self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """True where both references of a pair are equal in every respect."""
        rows = np.unique(np.concatenate([left, right]))
        columns = _columns(self._take(rows))
        one, two = np.searchsorted(rows, left), np.searchsorted(rows, right)
        same = np.ones(len(left), dtype=np.bool_)
        for column in columns:
            equal = column[one] == column[two]
            same &= equal.all(axis=1) if equal.ndim > 1 else equal
        return same

    def may_be_same(
        self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """True where both of a pair are stored in the repository with the same length."""
        kind = np.concatenate([part.kind for part in self.parts])
        length = np.concatenate([part.length for part in self.parts])
        stored = kind == RefKind.NATIVE
        found: npt.NDArray[np.bool_] = (
            stored[left] & stored[right] & (length[left] == length[right])
        )
        return found

    def payload(self, number: int) -> Payload:
        part = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.parts[part].payload(number - int(self.starts[part]))

    def _take(self, rows: npt.NDArray[np.int64]) -> list[ChunkRefs]:
        """The rows asked for, which ascend, part by part."""
        cuts = np.searchsorted(rows, self.starts)
        return [
            part.take(rows[cuts[at] : cuts[at + 1]] - self.starts[at])
            for at, part in enumerate(self.parts)
        ]


def _columns(parts: Sequence[ChunkRefs]) -> list[npt.NDArray[np.generic]]:
    """All that makes a reference what it is; equal texts have equal numbers."""
    plain = ("kind", "chunk_id", "offset", "length", "last_modified")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in plain]
    for name in ("location", "etag", "inline"):
        texts = StringColumn.concat([getattr(part, name) for part in parts])
        codes, _ = texts.strings.unique()
        columns.append(np.append(codes, -1)[texts.codes])
    return columns
