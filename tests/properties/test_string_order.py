"""Strings in order, seen eight bytes at a time, against Python's own comparison."""

from hypothesis import given
from hypothesis import strategies as st

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
