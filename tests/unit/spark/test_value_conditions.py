"""Conditions on values without Spark: each row by itself, in plain Python, gives the same."""

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import Values
from frazil.spark.table.value_condition import parse_value_conditions

ROWS = 12
NUMBERS = [-math.inf, -2.0, -0.0, 0.0, 1.0, 1.5, 3.0, math.inf]
WORDS = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

FLOATS = st.lists(st.sampled_from([*NUMBERS, math.nan, None]), min_size=ROWS, max_size=ROWS)
INTEGERS = st.lists(st.sampled_from([-3, 0, 1, 2, None]), min_size=ROWS, max_size=ROWS)
BOOLEANS = st.lists(st.sampled_from([True, False, None]), min_size=ROWS, max_size=ROWS)

ON_FLOATS = st.tuples(
    st.sampled_from(sorted(WORDS)),
    st.just({"column": "v", "type": "f8"}),
    st.sampled_from(NUMBERS).map(repr),
)
# a column of small integers, compared in wider types
ON_INTEGERS = st.one_of(
    st.tuples(
        st.sampled_from(sorted(WORDS)),
        st.just({"column": "n", "type": "i4"}),
        st.sampled_from(["-3", "0", "2", "70000"]),
    ),
    st.tuples(st.just("in"), st.just({"column": "n", "type": "i4"}), st.just(["1", "-3", "400"])),
    st.tuples(st.just("<"), st.just({"column": "n", "type": "f8"}), st.just("1.5")),
)
OTHERS = st.sampled_from([["null", "v"], ["present", "n"], ["true", "m"]])
CONDITIONS = st.recursive(
    st.one_of(ON_FLOATS.map(list), ON_INTEGERS.map(list), OTHERS),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(list),
        st.tuples(st.just("not"), inner).map(list),
    ),
    max_leaves=6,
)


def compare(word: str, value: float, number: float) -> bool:
    """A NaN is greater than every number."""
    if math.isnan(value):
        return word in {">", ">="}
    return bool(WORDS[word](value, number))


def evaluate(told: Any, row: dict[str, Any]) -> bool | None:
    """True, false or NULL, of one row."""
    match told:
        case ["and" | "or" as word, one, other]:
            parts = [evaluate(one, row), evaluate(other, row)]
            decides = word == "or"
            return decides if decides in parts else None if None in parts else not decides
        case ["not", inner]:
            found = evaluate(inner, row)
            return None if found is None else not found
        case ["null" | "present" as word, name]:
            return (row[name] is None) is (word == "null")
    return evaluate_value(told, row)


def evaluate_value(told: Any, row: dict[str, Any]) -> bool | None:
    word, named = told[:2]
    value = row[named if word == "true" else named["column"]]
    if value is None or word == "true":
        return None if value is None else bool(value)
    if word == "in":
        return value in map(float, told[2])
    return compare(word, value, float(told[2]))


def column(rows: list[Any], dtype: str) -> Values:
    null = np.array([value is None for value in rows])
    values = np.array([0 if value is None else value for value in rows], dtype)
    return Values(values, null if null.any() else None)


@given(CONDITIONS, FLOATS, INTEGERS, BOOLEANS)
def test_a_condition_holds_where_it_does_row_by_row(
    told: Any, v: list[Any], n: list[Any], m: list[Any]
) -> None:
    columns = {"v": column(v, "f8"), "n": column(n, "i1"), "m": column(m, "b1")}
    rows = [{"v": a, "n": b, "m": c} for a, b, c in zip(v, n, m, strict=True)]
    condition = parse_value_conditions([told])
    right = [evaluate(told, row) for row in rows]
    assert condition.holds(columns).tolist() == [found is True for found in right]
    assert condition.fails(columns).tolist() == [found is False for found in right]
    assert condition.names <= columns.keys()


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "v",
        [["xor", ["null", "v"], ["null", "n"]]],
        [["=", {"column": "v"}, "1"]],
        [["=", "v", "1"]],
        [["in", {"column": "v", "type": "f8"}, []]],
        [["null", 1]],
        [["not"]],
    ],
)
def test_what_is_no_condition_is_an_error(told: Any) -> None:
    with pytest.raises(InvalidInputError, match="planned scan"):
        parse_value_conditions(told)
