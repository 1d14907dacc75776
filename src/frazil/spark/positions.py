"""From constraints on a coordinate to positions along its dimension.

`Labels` and `Between` are exact. `Bounds` come from SQL predicates that Spark applies again, so
they may keep too much but never too little: comparisons are widened where Spark might compare in
another precision (FLOAT against DOUBLE, BIGINT against DOUBLE), and NaN, which Spark holds to be
greater than all numbers, is always kept.
"""

from collections.abc import Iterable
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.cf import Values
from frazil.spark.selection import Between, Bounds, Constraint, Label, Labels
from frazil.spark.timetext import Period, find_period

type Positions = range | npt.NDArray[np.int64]  # ascending, without duplicates
type Mask = npt.NDArray[np.bool_]

_EXACT_IN_DOUBLE = 2**53


def resolve(name: str, values: Values, constraints: Iterable[Constraint]) -> Positions:
    """Positions along dimension `name` that fulfil all constraints."""
    coordinate = _coordinate(name, values)
    keep = np.ones(len(values), dtype=np.bool_)
    for constraint in constraints:
        match constraint:
            case Labels(labels):
                keep &= coordinate.at(labels)
            case Between(start, stop):
                keep &= coordinate.between(start, stop)
            case Bounds():
                keep &= coordinate.within(constraint)
            case _:
                assert_never(constraint)
    return compact(np.flatnonzero(keep))


def compact(positions: npt.NDArray[np.int64]) -> Positions:
    """A `range` where there are no gaps: it pickles in a few bytes."""
    if len(positions) == 0:
        return range(0)
    first, last = int(positions[0]), int(positions[-1])
    return range(first, last + 1) if last - first + 1 == len(positions) else positions


class _Numbers:
    """Coordinate of integers, floats or text."""

    def __init__(self, name: str, values: npt.NDArray[Any], null: Mask) -> None:
        self.name, self.values, self.null = name, values, null

    def at(self, labels: tuple[Label, ...]) -> Mask:
        keep = np.zeros(len(self.values), dtype=np.bool_)
        for label in labels:
            found = self._equal(self._checked(label)) & ~self.null
            if not found.any():
                shown = _extent(self.values)
                raise InvalidInputError(
                    f"coordinate {self.name!r} has no value {label!r}; it has {shown}"
                )
            keep |= found
        return keep

    def between(self, start: Label | None, stop: Label | None) -> Mask:
        keep = ~self.null
        if start is not None:
            keep &= self.values >= self._as_stored(self._checked(start))
        if stop is not None:
            keep &= self.values <= self._as_stored(self._checked(stop))
        return keep

    def within(self, bounds: Bounds) -> Mask:
        keep = np.ones(len(self.values), dtype=np.bool_)
        # written as "not beyond", so that NaN stays
        for low, strict in ((bounds.ge, False), (bounds.gt, True)):
            if low is not None:
                keep &= ~self._below(self._checked(low), or_equal=strict)
        for high, strict in ((bounds.le, False), (bounds.lt, True)):
            if high is not None:
                keep &= ~self._above(self._checked(high), or_equal=strict)
        if bounds.among is not None:
            near = np.zeros(len(self.values), dtype=np.bool_)
            for label in bounds.among:
                value = self._checked(label)
                near |= ~(self._below(value, or_equal=False) | self._above(value, or_equal=False))
            keep &= near
        return keep

    def _checked(self, label: Label) -> Label:
        if isinstance(label, int | float) and not isinstance(label, bool):
            return label
        raise InvalidInputError(
            f"coordinate {self.name!r} is a number, so {label!r} selects nothing"
        )

    def _as_stored(self, label: Label) -> Label | np.generic:
        """0.1 as the float32 that a float32 coordinate would store for it."""
        return self.values.dtype.type(label) if self.values.dtype.kind == "f" else label

    def _equal(self, label: Label) -> Mask:
        return np.asarray(self.values == self._as_stored(label), dtype=np.bool_)

    def _below(self, label: Label, *, or_equal: bool) -> Mask:
        """Surely below (or equal to) the literal, in whatever precision Spark compares."""
        exact, others = self._readings(label)
        below: Mask = self.values < exact
        for other in others:
            below &= self.values < other
        return below | (self.values == exact) if or_equal and not others else below

    def _above(self, label: Label, *, or_equal: bool) -> Mask:
        exact, others = self._readings(label)
        above: Mask = self.values > exact
        for other in others:
            above &= self.values > other
        return above | (self.values == exact) if or_equal and not others else above

    def _readings(self, label: Label) -> tuple[Any, tuple[Any, ...]]:
        """The literal, and what else it may be to Spark after a cast."""
        if isinstance(label, str):
            return label, ()
        if self.values.dtype.kind == "f":
            wide = np.float64(label)
            with np.errstate(over="ignore"):
                narrow = np.float64(np.float32(label))
            as_float = self.values.dtype.itemsize < wide.itemsize and narrow != wide
            return wide, (narrow,) if as_float else ()
        exact = isinstance(label, int) and abs(label) <= _EXACT_IN_DOUBLE
        return label, () if exact else (np.float64(label),)


class _Text(_Numbers):
    def _checked(self, label: Label) -> Label:
        if isinstance(label, str):
            return label
        raise InvalidInputError(f"coordinate {self.name!r} is text, so {label!r} selects nothing")


class _Times:
    """Coordinate of timestamps, as microseconds in UTC."""

    def __init__(self, name: str, values: npt.NDArray[np.int64], null: Mask) -> None:
        self.name, self.values, self.null = name, values, null

    def at(self, labels: tuple[Label, ...]) -> Mask:
        keep = np.zeros(len(self.values), dtype=np.bool_)
        for label in labels:
            period = self._period(label)
            found = (self.values >= period.start) & (self.values < period.stop) & ~self.null
            if not found.any():
                shown = _extent(self.values[~self.null].view("datetime64[us]"))
                raise InvalidInputError(
                    f"coordinate {self.name!r} has no value {label!r}; it has {shown}"
                )
            keep |= found
        return keep

    def between(self, start: Label | None, stop: Label | None) -> Mask:
        keep = ~self.null
        if start is not None:
            keep &= self.values >= self._period(start).start
        if stop is not None:
            keep &= self.values < self._period(stop).stop
        return keep

    def within(self, bounds: Bounds) -> Mask:
        keep = ~self.null
        if bounds.ge is not None:
            keep &= self.values >= self._period(bounds.ge).start
        if bounds.gt is not None:
            keep &= self.values > self._period(bounds.gt).start
        if bounds.le is not None:
            keep &= self.values <= self._period(bounds.le).start
        if bounds.lt is not None:
            keep &= self.values < self._period(bounds.lt).start
        if bounds.among is not None:
            keep &= np.isin(self.values, [self._period(label).start for label in bounds.among])
        return keep

    def _period(self, label: Label) -> Period:
        period = find_period(label) if isinstance(label, str) else None
        if period is None:
            raise InvalidInputError(
                f"coordinate {self.name!r} is a time, and {label!r} is none;"
                " expected text like '2024-03-01' or '2024-03-01T06:00:00'"
            )
        return period


def _coordinate(name: str, values: Values) -> _Numbers | _Times:
    stored = values.values
    null = values.null if values.null is not None else np.zeros(len(stored), dtype=np.bool_)
    match stored.dtype.kind:
        case "M":
            return _Times(name, stored.astype("datetime64[us]").view(np.int64), null)
        case "i" | "u" | "f":
            return _Numbers(name, stored, null)
        case "U" | "T" | "O":
            return _Text(name, stored, null)
        case _:
            raise InvalidInputError(f"no selection on coordinate {name!r} of dtype {stored.dtype}")


def _extent(values: npt.NDArray[Any]) -> str:
    if len(values) == 0:
        return "no values"
    return f"{len(values)} values from {values[0]} to {values[-1]}"
