"""Selections along dimensions, by coordinate values or by positions.

As JSON (the option `sel`), an object of dimension names, or a list of such objects that must all
hold. Per dimension one of

    40.5                               that value; InvalidInputError if the coordinate lacks it
    [40.5, 41.0]                       those values, likewise
    {"start": 40, "stop": 50}          from start to stop, both included; either may be left out
    {"ge": 40, "gt": .., "le": .., "lt": .., "in": [..]}
                                       bounds, which may keep more than they say, never less
                                       (NaN, for one); values need not exist

Times are ISO text, in UTC unless it names another offset. As with xarray, text in `sel` stands for
the whole period it names: "2024-03" is that month, and a stop of "2024-03-02" includes that day.
The bounds `ge`, `gt`, `le`, `lt`, `in` take it as an instant, as SQL does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import Values
from frazil.spark.table.timetext import Period, find_period, format_micros

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # arithmetic on naive times
_US = timedelta(microseconds=1)

type Label = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Labels:
    """Values that must all be there."""

    values: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends included; None is open."""

    start: Label | None
    stop: Label | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of coordinates, as in SQL. None means unbounded."""

    ge: Label | None = None
    gt: Label | None = None
    le: Label | None = None
    lt: Label | None = None
    among: tuple[Label, ...] | None = None


type Constraint = Labels | Between | Bounds


@dataclass(frozen=True, slots=True)
class Selection:
    """Constraints by dimension, all of which hold. Several may be on one dimension."""

    constraints: tuple[tuple[str, Constraint], ...] = ()

    def __and__(self, other: "Selection") -> "Selection":
        return Selection(self.constraints + other.constraints)

    def on(self, dimension: str) -> tuple[Constraint, ...]:
        return tuple(c for name, c in self.constraints if name == dimension)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.constraints))


EVERYTHING = Selection()


def parse_selection(text: str) -> Selection:
    """Parses the option `sel`; the inverse of `format_selection`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(
            f"the option `sel` is not JSON: {error}; expected something like"
            ' {"lat": {"start": 40, "stop": 50}, "time": "2024-01-01"}'
        ) from error
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise InvalidInputError(f"`sel` must be an object of dimension names, not {text}")
    return Selection(tuple((d, _parse(d, v)) for part in parts for d, v in part.items()))


def format_selection(selection: Selection) -> str:
    return json.dumps([{name: _format_label(c)} for name, c in selection.constraints])


def to_selection(sel: Mapping[str, object]) -> Selection:
    """Converts Python values to a selection: scalars, `slice`s, lists, arrays; times as datetime,
    datetime64 or text.
    """
    return Selection(tuple((d, _from_python(d, v)) for d, v in sel.items()))


_BOUNDS = ("ge", "gt", "le", "lt")


def _parse(dimension: str, value: object) -> Constraint:
    if isinstance(value, list):
        return Labels(tuple(_label(dimension, v) for v in value))
    if not isinstance(value, dict):
        return Labels((_label(dimension, value),))
    given = {k: v for k, v in value.items() if v is not None}
    if given.keys() <= {"start", "stop"}:
        found = {k: _label(dimension, v) for k, v in given.items()}
        return Between(found.get("start"), found.get("stop"))
    if given.keys() <= {*_BOUNDS, "in"}:
        limits = {k: _label(dimension, v) for k, v in given.items() if k != "in"}
        among = given.get("in")
        if among is not None and not isinstance(among, list):
            raise InvalidInputError(f"`in` of dimension {dimension!r} in `sel` must be a list")
        listed = None if among is None else tuple(_label(dimension, v) for v in among)
        return Bounds(**limits, among=listed)
    raise InvalidInputError(
        f"`sel` of dimension {dimension!r} has keys {', '.join(map(repr, given))};"
        " expected start and stop, or ge, gt, le, lt and in"
    )


def _format_label(constraint: Constraint) -> object:
    match constraint:
        case Labels(values):
            return list(values)
        case Between(start, stop):
            return {"start": start, "stop": stop}
        case Bounds(among=among):
            limits = {key: getattr(constraint, key) for key in _BOUNDS}
            given = {k: v for k, v in limits.items() if v is not None}
            return given if among is None else {**given, "in": list(among)}
        case _:
            assert_never(constraint)


def _label(dimension: str, value: object) -> Label:
    if isinstance(value, bool | int | float | str):
        return value
    raise InvalidInputError(
        f"`sel` of dimension {dimension!r} cannot be {json.dumps(value)}:"
        " expected a number or text, a list of them, or an object"
    )


def _from_python(dimension: str, value: object) -> Constraint:
    match value:
        case Labels() | Between() | Bounds():
            return value
        case slice(start=start, stop=stop, step=None):
            return Between(_open_label(dimension, start), _open_label(dimension, stop))
        case slice():
            raise InvalidInputError(f"`sel` of dimension {dimension!r}: a slice with a step")
        case str() | bytes():
            return Labels((_python_label(dimension, value),))
        case np.ndarray() | Sequence() | set() | frozenset() | range():
            return Labels(tuple(_python_label(dimension, v) for v in _items(value)))
        case _:
            return Labels((_python_label(dimension, value),))


def _items(value: Iterable[Any]) -> Iterable[Any]:
    return np.atleast_1d(value) if isinstance(value, np.ndarray) else value


def _open_label(dimension: str, value: object) -> Label | None:
    return None if value is None else _python_label(dimension, value)


def _python_label(dimension: str, value: object) -> Label:
    match value:
        case datetime():
            local = (value.replace(tzinfo=None) - _EPOCH) // _US
            return format_micros(local - (value.utcoffset() or timedelta(0)) // _US)
        case date():
            return value.isoformat()
        case np.datetime64():
            return format_micros(int(value.astype("datetime64[us]").astype(np.int64)))
        case np.generic():
            return _label(dimension, value.item())
        case bool() | int() | float() | str():
            return value
        case _:
            raise InvalidInputError(
                f"`sel` of dimension {dimension!r} cannot be {value!r}: expected a number, text,"
                " a time, a slice, or a list of them"
            )


# Positions along a dimension, from constraints on its coordinate.
#
# `Labels` and `Between` are exact. `Bounds` are for those who apply a predicate of SQL again, so
# they may keep too much but never too little: comparisons are widened where Spark might compare in
# another precision (FLOAT against DOUBLE, BIGINT against DOUBLE), and NaN, which Spark holds to be
# greater than all numbers, is always kept.

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
        """Surely below (or equal to) the literal, in any precision that Spark compares in."""
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


# Selections of positions along dimensions, by number.
#
# As JSON (the option `isel`), an object of dimension names. Per dimension one of
#
#     3                            that position; InvalidInputError if there is none
#     [0, 5, -1]                   those positions, likewise; -1 is the last
#     {"start": 2, "stop": 10}     from start up to but without stop, as a slice of Python;
#                                  either may be left out


@dataclass(frozen=True, slots=True)
class Places:
    """Numbers that must all be positions."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Without its end; None is open."""

    start: int | None
    stop: int | None


type IndexConstraint = Places | Span


@dataclass(frozen=True, slots=True)
class IndexSelection:
    constraints: tuple[tuple[str, IndexConstraint], ...] = ()

    def on(self, dimension: str) -> IndexConstraint | None:
        return dict(self.constraints).get(dimension)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.constraints)


ALL_POSITIONS = IndexSelection()


def parse_index_selection(text: str) -> IndexSelection:
    """Parses the option `isel`; the inverse of `format_index_selection`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(
            f"the option `isel` is not JSON: {error}; expected something like"
            ' {"time": {"start": 0, "stop": 24}, "lat": [0, -1]}'
        ) from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"`isel` must be an object of dimension names, not {text}")
    return to_index_selection({name: _from_json(name, each) for name, each in value.items()})


def format_index_selection(selection: IndexSelection) -> str:
    return json.dumps({name: _format_index(each) for name, each in selection.constraints})


def to_index_selection(isel: Mapping[str, object]) -> IndexSelection:
    """Converts numbers, slices without a step and sequences of numbers to a selection."""
    return IndexSelection(tuple((name, _constraint(name, each)) for name, each in isel.items()))


def positions_at(dimension: str, size: int, wanted: IndexConstraint | None) -> Positions:
    """Returns the selected ones of `size` positions, in ascending order."""
    match wanted:
        case None:
            return range(size)
        case Span(start, stop):
            return range(size)[slice(start, stop)]
        case Places(numbers):
            beyond = [number for number in numbers if not -size <= number < size]
            if beyond:
                raise InvalidInputError(
                    f"`isel` wants {', '.join(map(str, beyond))} of dimension {dimension!r},"
                    f" which has {size} positions"
                )
            chosen = np.unique(np.array(numbers, dtype=np.int64) % max(size, 1))
            return compact(chosen)
        case _:
            assert_never(wanted)


def intersect(some: Positions, others: Positions) -> Positions:
    """Positions in both, which ascend."""
    if isinstance(some, range) and isinstance(others, range):
        return range(max(some.start, others.start), min(some.stop, others.stop))
    return compact(np.intersect1d(_numbers(some), _numbers(others), assume_unique=True))


def _numbers(positions: Positions) -> npt.NDArray[np.int64]:
    return np.asarray(positions, dtype=np.int64)


def _from_json(dimension: str, value: object) -> object:
    if not isinstance(value, dict):
        return value
    if not value.keys() <= {"start", "stop"}:
        raise InvalidInputError(
            f"`isel` of dimension {dimension!r} has keys {', '.join(map(repr, value))};"
            " expected start and stop"
        )
    return slice(value.get("start"), value.get("stop"))


def _constraint(dimension: str, value: object) -> IndexConstraint:
    match value:
        case slice(start=start, stop=stop, step=None):
            ends = [None if end is None else _number(dimension, end) for end in (start, stop)]
            return Span(*ends)
        case slice():
            raise InvalidInputError(f"`isel` of dimension {dimension!r}: a slice with a step")
        case str() | bytes():
            return Places((_number(dimension, value),))
        case np.ndarray() | Sequence() | range() | set() | frozenset():
            return Places(tuple(_number(dimension, each) for each in _items(value)))
        case _:
            return Places((_number(dimension, value),))


def _number(dimension: str, value: object) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InvalidInputError(
            f"`isel` of dimension {dimension!r} cannot be {value!r}: expected a number,"
            " a list of numbers, or start and stop"
        )
    return int(value)


def _format_index(constraint: IndexConstraint) -> object:
    match constraint:
        case Places(numbers):
            return list(numbers)
        case Span(start, stop):
            return {"start": start, "stop": stop}
        case _:
            assert_never(constraint)
