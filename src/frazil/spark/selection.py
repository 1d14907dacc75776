"""Which positions along each dimension are wanted, said by coordinate values.

As JSON (the option `sel`), an object of dimension names, or a list of such objects that must all
hold. Per dimension one of

    40.5                               that value; InvalidInputError if the coordinate lacks it
    [40.5, 41.0]                       those values, likewise
    {"start": 40, "stop": 50}          from start to stop, both included; either may be left out
    {"ge": 40, "gt": .., "le": .., "lt": .., "in": [..]}
                                       what a SQL predicate leaves over: may keep more than the
                                       predicate does, never less; values need not exist

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

from frazil.errors import InvalidInputError
from frazil.spark.timetext import format_micros

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
    """What holds for every row that a predicate keeps. None says nothing."""

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
    """Of the option `sel`. Inverse of `format_selection`."""
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
    return json.dumps([{name: _format(c)} for name, c in selection.constraints])


def to_selection(sel: Mapping[str, object]) -> Selection:
    """Of Python values: scalars, `slice`s, lists, arrays; times as datetime, datetime64 or text."""
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


def _format(constraint: Constraint) -> object:
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
