"""Selections by position, against numpy."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.table.metadata_tables import pack
from frazil.spark.table.selection import (
    format_index_selection,
    intersect,
    parse_index_selection,
    positions_at,
    to_index_selection,
)

ends = st.none() | st.integers(-12, 12)
spans = st.builds(slice, ends, ends)


def chosen(size: int, wanted: object) -> list[int]:
    selection = to_index_selection({"x": wanted})
    assert parse_index_selection(format_index_selection(selection)) == selection
    return list(positions_at("x", size, selection.on("x")))


@given(st.integers(0, 10), spans)
def test_a_slice_is_pythons(size: int, span: slice) -> None:
    assert chosen(size, span) == list(range(size))[span]


@given(st.integers(1, 10), st.lists(st.integers(-10, 9), max_size=5))
def test_numbers_are_positions_once_and_in_order(size: int, numbers: list[int]) -> None:
    if all(-size <= number < size for number in numbers):
        assert chosen(size, numbers) == sorted({range(size)[number] for number in numbers})
    else:
        with pytest.raises(InvalidInputError, match=f"which has {size} positions"):
            chosen(size, numbers)


@given(st.integers(0, 10), spans, st.sets(st.integers(0, 9)))
def test_both_is_what_is_in_both(size: int, span: slice, others: set[int]) -> None:
    first = range(size)[span]
    second = np.array(sorted(others), dtype=np.int64)
    assert list(intersect(first, second)) == sorted(set(first) & others)
    assert list(intersect(first, range(3, 8))) == sorted(set(first) & set(range(3, 8)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": 1.5}, "expected a number"),
        ({"x": True}, "expected a number"),
        ({"x": "3"}, "expected a number"),
        ({"x": slice(0, 4, 2)}, "a slice with a step"),
        ({"x": ["a"]}, "expected a number"),
    ],
)
def test_mistakes_are_told(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        to_index_selection(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "must be an object"),
        ('{"x": {"from": 1}}', "expected start and stop"),
        ("x", "JSON"),
    ],
)
def test_mistakes_in_text_are_told(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_index_selection(text)


@given(st.lists(st.integers(0, 20)), st.integers(1, 30))
def test_packing_keeps_order_and_limit(weights: list[int], limit: int) -> None:
    packed = pack(list(enumerate(weights)), limit)
    assert [item for group in packed for item in group] == list(range(len(weights)))
    assert all(len(group) == 1 or sum(weights[k] for k in group) <= limit for group in packed)
    for one, following in pairwise(packed):
        assert sum(weights[k] for k in one) + weights[following[0]] > limit
