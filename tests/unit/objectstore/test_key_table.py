"""Many keys without an object for each: found as in a dict, in the order that sorting gives."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from frazil.objectstore.archive import KeyTable

KEYS = st.one_of(
    st.binary(min_size=1, max_size=6).filter(lambda key: b"\0" not in key),
    st.builds(lambda tail: b"refs/" + b"a" * 38 + tail, st.binary(max_size=3)).filter(
        lambda key: b"\0" not in key
    ),
)


@given(st.lists(KEYS, unique=True, max_size=200), KEYS)
def test_keys_are_found_and_put_in_order(keys: list[bytes], other: bytes) -> None:
    table = KeyTable()
    for number, key in enumerate(keys):
        assert table.find(key) == -1
        assert table.add(key) == number
    assert list(table) == keys
    assert [table.find(key) for key in keys] == list(range(len(keys)))
    assert (table.find(other) >= 0) == (other in keys)
    assert [keys[row] for row in table.order().tolist()] == sorted(keys)


def test_a_key_takes_little_more_than_its_bytes() -> None:
    tracemalloc.start()
    table = KeyTable()
    for number in range(20_000):
        table.add(f"chunks/{number:020}".encode())
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 20_000 < 27 + 8 + 24
