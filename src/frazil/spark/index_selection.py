"""Which positions along each dimension are wanted, said by their numbers.

As JSON (the option `isel`), an object of dimension names. Per dimension one of

    3                            that position; InvalidInputError if there is none
    [0, 5, -1]                   those positions, likewise; -1 is the last
    {"start": 2, "stop": 10}     from start up to but without stop, as a slice of Python;
                                 either may be left out
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.positions import Positions, compact


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
    """Of the option `isel`. Inverse of `format_index_selection`."""
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
    return json.dumps({name: _format(each) for name, each in selection.constraints})


def to_index_selection(isel: Mapping[str, object]) -> IndexSelection:
    """Of Python values: numbers, slices without a step, sequences of numbers."""
    return IndexSelection(tuple((name, _constraint(name, each)) for name, each in isel.items()))


def positions_at(dimension: str, size: int, wanted: IndexConstraint | None) -> Positions:
    """Of `size` positions those that are wanted, in ascending order."""
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


def both(some: Positions, others: Positions) -> Positions:
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


def _items(value: Iterable[Any]) -> Iterable[Any]:
    return np.atleast_1d(value) if isinstance(value, np.ndarray) else value


def _number(dimension: str, value: object) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InvalidInputError(
            f"`isel` of dimension {dimension!r} cannot be {value!r}: expected a number,"
            " a list of numbers, or start and stop"
        )
    return int(value)


def _format(constraint: IndexConstraint) -> object:
    match constraint:
        case Places(numbers):
            return list(numbers)
        case Span(start, stop):
            return {"start": start, "stop": stop}
        case _:
            assert_never(constraint)
