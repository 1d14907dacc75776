"""Locations of many virtual chunks, in every shape that callers have them in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.format import texts
from frazil.zarrstore.arrow_texts import ArrowArrayLike, ArrowStreamLike, arrow_column


@dataclass(frozen=True, slots=True, eq=False)
class CodedLocations:
    """A table of distinct locations, and for each chunk the number of its own; -1 for none."""

    codes: npt.ArrayLike  # (n,) whole numbers
    locations: Sequence[str]


type Locations = Sequence[str] | CodedLocations | ArrowArrayLike | ArrowStreamLike


@runtime_checkable
class _HasArray(Protocol):
    def __array__(self) -> npt.NDArray[np.generic]: ...


def column_of(locations: Locations) -> StringColumn:
    """A row per chunk; none where there is no location. Nothing is checked of the texts."""
    match locations:
        case CodedLocations(codes, table):
            return _coded(np.asarray(codes), table)
        case list() | tuple():
            return texts.coded(locations)
        case ArrowArrayLike() | ArrowStreamLike():
            return arrow_column(locations)
        case _:
            return texts.coded(list(locations))


def numbers_of(numbers: object) -> npt.NDArray[np.uint64]:
    """Offsets or lengths. An array must be of uint64, an Arrow column need not be."""
    if isinstance(numbers, np.ndarray) or not isinstance(numbers, _HasArray):
        return np.asarray(numbers)
    column = np.asarray(numbers)
    if column.dtype.kind not in "iu" or (len(column) and int(column.min()) < 0):
        raise TypeError(f"offsets and lengths must be whole numbers from 0 on, got {column.dtype}")
    return column.astype(np.uint64)


def _coded(codes: npt.NDArray[np.generic], table: Sequence[str]) -> StringColumn:
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise TypeError(f"codes must be a 1-dimensional array of integers, got {codes.dtype}")
    numbers = codes.astype(np.int64)
    if len(numbers) and not (int(numbers.min()) >= -1 and int(numbers.max()) < len(table)):
        raise InvalidInputError(
            f"a code is not from -1 to {len(table) - 1}, the last location of the table",
            kind="invalid-virtual-ref",
        )
    return StringColumn(numbers, texts.table(list(table)))
