"""Many small reads of one object as a few larger ones: the plan, without the reading."""

from collections.abc import Sequence
from dataclasses import dataclass

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
