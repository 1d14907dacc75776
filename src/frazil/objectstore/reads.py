"""Plans of reads: nearby ranges merged into one read, parts of many objects shared by threads."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from frazil.dataclass import dataclass
from frazil.ranges import Range

type Targets = Sequence[memoryview | None]

_SHARE_OBJECTS = 64
_SHARE_BYTES = 1 << 20
_OBJECT_BYTES = 1 << 15


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
        span = wanted[at]
        longer = max(stop, span.stop)
        near = span.start - stop <= gap_bytes and longer - start <= limit_bytes
        if serves and (near or span.start < stop):
            stop = longer
        else:
            if serves:
                merged.append(MergedRead(Range(start, stop), tuple(serves)))
            start, stop, serves = span.start, span.stop, []
        serves.append(at)
    if serves:
        merged.append(MergedRead(Range(start, stop), tuple(serves)))
    return merged


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of objects whose keys begin with the same folder.

    Part i is `length[i]` bytes from `start[i]` on, to be read into `into[i]` if that is not None:
    a contiguous view of as many bytes. Parts `edges[k]` to `edges[k + 1]` are those of object k,
    in ascending order of their starts.
    """

    folder: str  # with a trailing slash
    names: list[str]  # (m,), without
    edges: list[int]  # (m + 1,)
    start: list[int]  # (n,)
    length: list[int]  # (n,)
    into: Targets  # (n,)

    def __len__(self) -> int:
        return len(self.names)

    def some(self, first: int, stop: int) -> "Parts":
        """The parts of objects `first` to `stop` only."""
        low, high = self.edges[first], self.edges[stop]
        return Parts(
            self.folder,
            self.names[first:stop],
            [edge - low for edge in self.edges[first : stop + 1]],
            self.start[low:high],
            self.length[low:high],
            self.into[low:high],
        )


def thread_shares(parts: Parts, width: int) -> list[tuple[int, int]]:
    """The objects (first, stop) that each of at most `width` threads should read.

    A thread pays off for dozens of small files, or for one large one.
    """
    count, total = len(parts), sum(parts.length)
    number = max(1, min(width, count, max(count // _SHARE_OBJECTS, total // _SHARE_BYTES)))
    if number == 1:
        return [(0, count)]
    # Weighed by bytes, and by the cost of opening an object.
    sizes = np.add.reduceat(np.array(parts.length, np.int64), parts.edges[:-1]) + _OBJECT_BYTES
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.arange(1, number) * (ends[-1] / number)) + 1
    return list(pairwise(np.unique(np.concatenate([[0], cuts, [count]])).tolist()))
