"""Coordinates of a dimension: which there will be, and where in them a row belongs.

A new dimension gets the values of its rows, each once, ascending unless asked otherwise. One that
is there keeps its values where they are; where it may grow, new values follow in its own order:

    there       10 20 30
    rows        40 35           ->  10 20 30 35 40
    rows        25              ->  refused (or appended as it is, with `unordered`)

One that has a single value so far goes on in the direction that is asked for, else in that of the
first new values: the first two decide.

A dimension without coordinate is addressed by position.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInputError
from frazil.spark.writing.columns import Column, StoredColumn, text_of

type Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownDimension:
    """A dimension before the write. Size 0 and no values if it is new."""

    name: str
    column: StoredColumn
    has_coordinate: bool
    values: Column  # stored; of no length without a coordinate
    size: int
    is_new: bool
    descending: bool | None = None  # as asked for; None for as it is, or ascending


@dataclass(frozen=True, slots=True)
class Growth:
    """What rows may do to a dimension that is there."""

    grows: bool  # new values may be added
    touches: bool  # rows at values that are there may come
    unordered: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """A dimension as it will be. `values` is None where rows say the position."""

    name: str
    column: StoredColumn
    size: int
    values: Column | None


def merge_coordinate(known: KnownDimension, found: Column, growth: Growth) -> Coordinate:
    """`found` are the distinct values of the rows, in any order."""
    found = np.unique(found)
    if not known.has_coordinate:
        return _merge_positions(known, found, growth)
    if known.is_new:
        values = found[::-1] if known.descending else found
        return Coordinate(known.name, known.column, len(values), values)
    there = np.isin(found, known.values)
    fresh = found[~there]
    _require_growth(known, found[there], fresh, growth)
    if not len(fresh):
        return Coordinate(known.name, known.column, known.size, known.values)
    descends = _descends(known, fresh)
    ordered = fresh[::-1] if descends else fresh
    if not growth.unordered:
        _require_order(known, ordered, descends=descends)
    values = np.concatenate([known.values, ordered])
    return Coordinate(known.name, known.column, len(values), values)


def locate(coordinate: Coordinate, column: Column) -> Indices:
    """Position of each value, -1 where there is none."""
    if coordinate.values is None:
        inside = (column >= 0) & (column < coordinate.size)
        return np.where(inside, column, -1).astype(np.int64)
    if len(coordinate.values) == 0:
        return np.full(len(column), -1, dtype=np.int64)
    if coordinate.values.dtype.kind == "O":
        found = pc.index_in(pa.array(column), value_set=pa.array(coordinate.values))
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = np.argsort(coordinate.values, kind="stable")
    by_value = coordinate.values[order]
    place = np.minimum(np.searchsorted(by_value, column), len(order) - 1)
    return np.where(by_value[place] == column, order[place], -1).astype(np.int64)


def require_distinct(known: KnownDimension) -> None:
    """A value that is there twice names two places."""
    if len(np.unique(known.values)) != len(known.values):
        raise InvalidInputError(
            f"the coordinate {known.name!r} has a value twice: rows cannot say where they go"
        )


def refuse_unknown(coordinate: Coordinate, value: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{coordinate.name} is {text_of(coordinate.column, value)} in a row, which is outside"
        " the grid"
    )


def _merge_positions(known: KnownDimension, found: Column, growth: Growth) -> Coordinate:
    if len(found) and found[0] < 0:
        raise InvalidInputError(f"dimension {known.name!r} has the position {found[0]} in a row")
    wanted = int(found[-1]) + 1 if len(found) else 0
    if not known.is_new:
        _require_growth(known, found[found < known.size], found[found >= known.size], growth)
    return Coordinate(known.name, known.column, max(known.size, wanted), None)


def _require_growth(known: KnownDimension, there: Column, fresh: Column, growth: Growth) -> None:
    if len(fresh) and not growth.grows:
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, fresh[0])} in a row, which is outside the"
            f" grid; values of the rows that are not in the coordinate: {len(fresh)}"
        )
    if len(there) and not growth.touches:
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, there[0])} in a row, which the array has"
            " already: appending never overwrites (mode 'region' or 'upsert' does)"
        )


def _descends(known: KnownDimension, fresh: Column) -> bool:
    """The first two values decide: with fewer than two, what is asked for, else the new ones."""
    if len(known.values) > 1:
        return bool(known.values[0] > known.values[-1])
    if known.descending is not None or not len(known.values):
        return bool(known.descending)
    return bool(fresh[-1] < known.values[0])  # all of them: they are ascending


def _require_order(known: KnownDimension, fresh: Column, *, descends: bool) -> None:
    if not len(known.values):
        return
    last, first = known.values[-1], fresh[0]
    if (first > last) if descends else (first < last):
        raise InvalidInputError(
            f"{known.name} is {text_of(known.column, first)} in a row, but the array goes on from"
            f" {text_of(known.column, last)}: it would no longer be in order"
            " (option `unordered` allows it)"
        )
