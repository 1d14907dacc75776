"""Rows that are a whole grid: every combination of some coordinates, in row-major order. No I/O.

Rows that a query over arrays gives come in this order, so their coordinates need not be stored for
each of them, and their values are copied to where they belong as blocks.

    time   1 1 1 1 2 2 2 2
    lat    7 7 8 8 7 7 8 8    ->  shape (2, 2, 2), axes (1 2) (7 8) (3 4)
    lon    3 4 3 4 3 4 3 4
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

type Codes = npt.NDArray[np.signedinteger | np.unsignedinteger]

_FIXED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows from the first up to, not including, the last; with a shape if they are a grid."""

    start: int
    stop: int
    shape: tuple[int, ...] | None


def codes_of(column: pa.Array) -> Codes:
    """Numbers that are equal where values are the same, to the last bit."""
    kind = column.type
    if pa.types.is_primitive(kind) and kind.bit_width in _FIXED:
        number = pa.from_numpy_dtype(_FIXED[kind.bit_width])
        return np.asarray(column.view(number).to_numpy(zero_copy_only=False))
    return np.asarray(column.dictionary_encode().indices.to_numpy(zero_copy_only=False))


def find_shape(columns: Sequence[Codes]) -> tuple[int, ...] | None:
    """The shape of the grid that the rows are; None if they are none."""
    shape: list[int] = []
    for axis in reversed(range(len(columns))):
        codes = columns[axis]
        again = np.flatnonzero(codes[1:] == codes[0])[:1]
        size = int(again[0]) + 1 if len(again) else len(codes)
        if len(codes) % size or len(np.unique(codes[:size])) != size:
            return None
        if not (codes.reshape(-1, size) == codes[:size]).all():
            return None
        inner = [column.reshape(-1, size) for column in columns[:axis]]
        if not all((column == column[:, :1]).all() for column in inner):
            return None
        columns = [column[:, 0] for column in inner]
        shape.append(size)
        length = len(codes) // size
    return tuple(reversed(shape)) if length == 1 else None


def last_edge(columns: Sequence[Codes]) -> int:
    """The row that the last part of a grid begins at, which may go on after these rows.

    Parts are along the first dimension that has more than one value in them.
    """
    for codes in columns[:-1]:
        if codes[0] != codes[-1]:
            return int(np.flatnonzero(codes[1:] != codes[:-1])[-1]) + 1
    return 0


def divide(columns: Sequence[Codes], start: int = 0, axis: int = 0) -> Iterator[Part]:
    """Grids in rows of a larger one that they are a run of, however they are cut off."""
    count = len(columns[0])
    shape = find_shape(columns)
    if shape is not None or axis == len(columns) - 1:
        yield Part(start, start + count, shape)
        return
    codes = columns[axis]
    edges = (np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()
    if not edges:
        yield from divide(columns, start, axis + 1)
        return
    first, last = edges[0], edges[-1]
    middle = find_shape([column[first:last] for column in columns]) if first < last else ()
    if middle is None:
        yield Part(start, start + count, None)
        return
    yield from divide([column[:first] for column in columns], start, axis + 1)
    if middle:
        yield Part(start + first, start + last, middle)
    yield from divide([column[last:] for column in columns], start + last, axis + 1)
