"""Divides rows into ranges that fit into memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def waves(sizes: Sequence[int] | npt.NDArray[Any], most: int) -> Iterator[slice]:
    """Consecutive slices of rows: as many as have `most` together, and at least one."""
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def wave_spans(sizes: Sequence[int] | npt.NDArray[Any], most: int) -> list[range]:
    """The same as ranges, for `Executor.run`."""
    return [range(rows.start, rows.stop) for rows in waves(sizes, most)]
