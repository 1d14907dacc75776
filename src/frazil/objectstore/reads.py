"""Plans of reads: nearby ranges merged into one read, parts of many objects shared by threads."""

from collections.abc import Buffer, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from frazil.objectstore.protocol import DataList
from frazil.ranges import Range


@dataclass(frozen=True, slots=True)
class MergedRead:
    """One read that serves the wanted ranges at positions `serves`."""

    span: Range
    serves: tuple[int, ...]


def merge_reads(wanted: Sequence[Range], *, gap_bytes: int, limit_bytes: int) -> list[MergedRead]:
    """Reads that together cover `wanted`, in ascending order; each range is served by one read.

    Ranges at most `gap_bytes` apart share a read, unless it would outgrow `limit_bytes`
    without overlap calling for it.
    """
    merged: list[MergedRead] = []
    start = stop = 0
    serves: list[int] = []
    for at in sorted(range(len(wanted)), key=lambda at: wanted[at].start):
        one = wanted[at]
        longer = max(stop, one.stop)
        near = one.start - stop <= gap_bytes and longer - start <= limit_bytes
        if serves and (near or one.start < stop):
            stop = longer
        else:
            if serves:
                merged.append(MergedRead(Range(start, stop), tuple(serves)))
            start, stop, serves = one.start, one.stop, []
        serves.append(at)
    if serves:
        merged.append(MergedRead(Range(start, stop), tuple(serves)))
    return merged


# Parts of many objects


type Targets = Sequence[memoryview | None]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of objects whose keys begin alike.

    Part i is `length[i]` bytes from `start[i]` on, wanted in `into[i]` if that is not None: a view
    of as many bytes, end to end. Parts `edges[k]` to `edges[k + 1]` are those of object k, in
    ascending order of their starts.
    """

    folder: str  # with a slash at its end
    names: list[str]  # (m,), without
    edges: list[int]  # (m + 1,)
    start: list[int]  # (n,)
    length: list[int]  # (n,)
    into: Targets  # (n,)

    def __len__(self) -> int:
        return len(self.names)

    def some(self, first: int, stop: int) -> "Parts":
        """Of these objects only."""
        low, high = self.edges[first], self.edges[stop]
        return Parts(
            self.folder,
            self.names[first:stop],
            [edge - low for edge in self.edges[first : stop + 1]],
            self.start[low:high],
            self.length[low:high],
            self.into[low:high],
        )


@runtime_checkable
class PartsStore(Protocol):
    """A store that reads many parts at once, and writes parts without putting them together."""

    def read_parts(self, parts: Parts) -> DataList:
        """Bytes of each part, shorter only at the end of its object.

        A part that is wanted somewhere and was put there is answered by that very target.
        """
        ...

    def put_pieces(self, key: str, pieces: Sequence[Buffer]) -> None:
        """Like `put` of the pieces, end to end, whatever is there."""
        ...


def shares(parts: Parts, width: int) -> list[tuple[int, int]]:
    """From, to: the objects that each of at most `width` threads may read.

    A thread is worth while for dozens of small files, or for one large one.
    """
    count, total = len(parts), sum(parts.length)
    number = max(1, min(width, count, max(count // _SHARE_OBJECTS, total // _SHARE_BYTES)))
    if number == 1:
        return [(0, count)]
    # Weighed by bytes, and by what an object costs that has none.
    sizes = np.add.reduceat(np.array(parts.length, np.int64), parts.edges[:-1]) + _OBJECT_BYTES
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.arange(1, number) * (ends[-1] / number)) + 1
    return list(pairwise(np.unique(np.concatenate([[0], cuts, [count]])).tolist()))


_SHARE_OBJECTS = 64
_SHARE_BYTES = 1 << 20
_OBJECT_BYTES = 1 << 15
