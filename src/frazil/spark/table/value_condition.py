"""Conditions on the values of variables, evaluated by numpy as Spark evaluates them over rows.

The Java side writes them (java/frazil/spark/ValueCondition.java), as nested lists:

    [">=", {"column": "t2m", "type": "f4"}, "273.25"]     also = < <= >; the values in this type
    ["in", {"column": "level", "type": "i4"}, ["1", "2"]]
    ["null", "t2m"]   ["present", "t2m"]   ["true", "mask"]
    ["and", ..., ...]   ["or", ..., ...]   ["not", ...]

A condition is true, false or NULL, as in SQL. A NaN is greater than every number, and equal to none
of those that come here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import Values

type Mask = npt.NDArray[np.bool_]
type Columns = Mapping[str, Values]  # of one shape


# Each has `names`, the variables that it is about; `holds` is where it is true, `fails` where it is
# false, and not NULL.
type ValueCondition = All | Not | Null | Compared


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[ValueCondition, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.names for part in self.parts))

    def holds(self, columns: Columns) -> Mask:
        return reduce(and_, [part.holds(columns) for part in self.parts])

    def fails(self, columns: Columns) -> Mask:
        return reduce(or_, [part.fails(columns) for part in self.parts])


@dataclass(frozen=True, slots=True)
class Not:
    inner: ValueCondition

    @property
    def names(self) -> frozenset[str]:
        return self.inner.names

    def holds(self, columns: Columns) -> Mask:
        return self.inner.fails(columns)

    def fails(self, columns: Columns) -> Mask:
        return self.inner.holds(columns)


@dataclass(frozen=True, slots=True)
class Null:
    name: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def holds(self, columns: Columns) -> Mask:
        values, null = columns[self.name].values, columns[self.name].null
        return np.zeros(values.shape, np.bool_) if null is None else null

    def fails(self, columns: Columns) -> Mask:
        return ~self.holds(columns)


@dataclass(frozen=True, slots=True)
class Compared:
    """A variable, in `dtype`, compared with one of several numbers."""

    name: str
    dtype: str
    word: str
    numbers: tuple[int | float, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def holds(self, columns: Columns) -> Mask:
        return _where_present(columns[self.name], self._compare(columns))

    def fails(self, columns: Columns) -> Mask:
        return _where_present(columns[self.name], ~self._compare(columns))

    def _compare(self, columns: Columns) -> Mask:
        values, dtype = columns[self.name].values, np.dtype(self.dtype)
        if dtype.kind == "f" and values.dtype != dtype:  # what loses digits loses them first
            values = values.astype(dtype)
        # a scalar of the type: it decides in which one numpy compares
        found = [_COMPARISONS[self.word](values, dtype.type(each)) for each in self.numbers]
        return reduce(or_, found)


# a NaN is greater than any number: numpy's `<` and `<=` are false for it, as Spark's are
_COMPARISONS: dict[str, Callable[[npt.NDArray[Any], Any], Mask]] = {
    "=": lambda values, number: values == number,
    "<": lambda values, number: values < number,
    "<=": lambda values, number: values <= number,
    ">": lambda values, number: ~(values <= number),
    ">=": lambda values, number: ~(values < number),
}


def _where_present(values: Values, found: Mask) -> Mask:
    """False where a value is NULL."""
    return found if values.null is None else found & ~values.null


def parse_value_conditions(told: Any) -> ValueCondition:
    """Parses conditions of which all have to hold. Raises InvalidInputError."""
    if not isinstance(told, list) or not told:
        raise InvalidInputError("conditions of a planned scan are a list")
    return All(tuple(_parse(each) for each in told))


def _parse(told: Any) -> ValueCondition:
    match told:
        case ["and", one, other]:
            return All((_parse(one), _parse(other)))
        case ["or", one, other]:
            return Not(All((Not(_parse(one)), Not(_parse(other)))))
        case ["not", inner]:
            return Not(_parse(inner))
        case ["null" | "present" as word, str(name)]:
            return Null(name) if word == "null" else Not(Null(name))
    return _parse_compared(told)


def _parse_compared(told: Any) -> Compared:
    match told:
        case ["true", str(name)]:
            return Compared(name, "b1", "=", (1,))
        case ["in", {"column": str(name), "type": str(code)}, [_, *_] as numbers]:
            return Compared(name, code, "=", tuple(_number(code, each) for each in numbers))
        case [str(word), {"column": str(name), "type": str(code)}, number] if word in _COMPARISONS:
            return Compared(name, code, word, (_number(code, number),))
    raise InvalidInputError("a planned scan has a condition that is not known")


def _number(code: str, text: Any) -> int | float:
    return float(text) if code.startswith("f") else int(text)
