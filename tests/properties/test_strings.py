"""Strings, and columns of them, against Python's own.

Their order is found by looking at eight bytes at a time.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import LONGEST, Strings

# Few different bytes, so that strings share beginnings, and zeros, which also fill up words.
ITEMS = st.lists(st.binary(max_size=20).map(lambda raw: bytes(byte % 3 for byte in raw)))


@given(items=ITEMS)
def test_order_is_that_of_the_bytes(items: list[bytes]) -> None:
    assert Strings.from_list(items).are_ascending() == (items == sorted(items))


@given(items=ITEMS)
def test_sorted_strings_are_ascending_wherever_they_lie(items: list[bytes]) -> None:
    items = sorted(items)
    backwards = Strings.from_list(items[::-1]).take(slice(None, None, -1))
    assert backwards.to_list() == items
    assert backwards.are_ascending()


def test_long_strings_are_compared_to_their_ends() -> None:
    long = b"x" * (LONGEST + 1)
    assert Strings.from_list([long + b"a", long + b"b"]).are_ascending()
    assert not Strings.from_list([long + b"b", long + b"a"]).are_ascending()


@st.composite
def parts(draw: st.DrawFn) -> list[StringColumn]:
    """Rows of a few columns, some of them of the same one, in any order and any number."""
    items = st.lists(st.none() | st.text(max_size=5), max_size=12)
    columns = [StringColumn.from_list(draw(items)) for _ in range(draw(st.integers(1, 4)))]
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=8))
    numbers = [
        draw(st.lists(st.integers(0, len(column) - 1), max_size=4)) if len(column) else []
        for column in chosen
    ]
    return [
        column.take(np.array(rows, np.int64)) for column, rows in zip(chosen, numbers, strict=True)
    ]


@given(parts())
def test_joined_columns_have_all_rows_and_no_other_strings(some: list[StringColumn]) -> None:
    joined = StringColumn.concat(some)
    assert joined.to_list() == [item for part in some for item in part.to_list()]
    if len({id(part.strings) for part in some}) > 1:
        assert set(joined.strings.to_list()) == set(joined.to_list()) - {None}
