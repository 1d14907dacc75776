"""Rows that are a whole grid: every combination of some coordinates, in row-major order. No I/O.

Rows that a query over arrays gives come in this order, so their coordinates need not be stored for
each of them, and their values are copied to where they belong as blocks.

    time   1 1 1 1 2 2 2 2
    lat    7 7 8 8 7 7 8 8    ->  shape (2, 2, 2), axes (1 2) (7 8) (3 4)
    lon    3 4 3 4 3 4 3 4
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

type Codes = npt.NDArray[np.signedinteger | np.unsignedinteger]

_WINDOW_ROWS = 1 << 14  # that are looked at first
_FIXED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are a grid, from the first up to, not including, the last."""

    start: int
    stop: int
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.stop - self.start


def codes_of(column: pa.Array) -> Codes:
    """Numbers that are equal where values are the same, to the last bit."""
    kind = column.type
    if pa.types.is_primitive(kind) and kind.bit_width in _FIXED:
        number = pa.from_numpy_dtype(_FIXED[kind.bit_width])
        return np.asarray(column.view(number).to_numpy(zero_copy_only=False))
    return np.asarray(column.dictionary_encode().indices.to_numpy(zero_copy_only=False))


def find_grid(columns: Sequence[Codes]) -> tuple[int, ...]:
    """The shape of the largest grid that the rows begin with, if only of the first row."""
    shape: list[int] = []
    for axis in reversed(range(len(columns))):
        size = _first_run(columns[: axis + 1])
        whole = [column[: len(column) // size * size].reshape(-1, size) for column in columns]
        same = (whole[axis] == whole[axis][0]).all(axis=1)
        for outer in whole[:axis]:
            same &= (outer == outer[:, :1]).all(axis=1)
        count = len(same) if same.all() else int(np.argmin(same))
        columns = [outer[:count, 0] for outer in whole[:axis]]
        shape.append(size)
    return tuple(reversed(shape))


def _first_run(columns: Sequence[Codes]) -> int:
    """Number of rows that differ in the last column alone, and have no value of it twice."""
    codes = columns[-1]
    size = _first(codes[1:] == codes[0], len(codes) - 1) + 1
    for outer in columns[:-1]:
        size = _first(outer[1:size] != outer[0], size - 1) + 1
    distinct = np.unique(codes[:size], return_index=True)[1]
    if len(distinct) < size:  # up to the first value that was there before
        size = _first(np.bincount(distinct, minlength=size) == 0, size)
    return size


def _first(found: npt.NDArray[np.bool_], otherwise: int) -> int:
    """Index of the first that is true."""
    index = int(np.argmax(found)) if len(found) else 0
    return index if index < len(found) and found[index] else otherwise


def last_edge(columns: Sequence[Codes]) -> int:
    """The row that the last part of a grid begins at, which may go on after these rows.

    Parts are along the first dimension that has more than one value in them.
    """
    for codes in columns[:-1]:
        if codes[0] != codes[-1]:
            return int(np.flatnonzero(codes[1:] != codes[:-1])[-1]) + 1
    return 0


def divide(columns: Sequence[Codes]) -> Iterator[Part]:
    """Grids that follow each other, each as large as it can be.

    Such as those that a larger one is cut off to, and those of chunks that were read in turn.
    """
    start, count, window = 0, len(columns[0]), _WINDOW_ROWS
    while start < count:
        shape = find_grid([column[start : start + window] for column in columns])
        size = prod(shape)
        if size > window // 2 and start + window < count:
            window *= 4  # it may go on
            continue
        yield Part(start, start + size, shape)
        start += size
        window = max(4 * size, _WINDOW_ROWS)
