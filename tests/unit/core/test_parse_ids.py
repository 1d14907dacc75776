"""Ids of many texts at once are those of each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.ids import ALPHABET, format_ids, parse_base32, parse_ids

letters = st.text(ALPHABET + "abILOU -/é", min_size=18, max_size=22)


@given(st.lists(st.binary(min_size=12, max_size=12)), st.lists(letters))
def test_ids_are_read_as_they_are_written_and_nothing_else_is(
    raw: list[bytes], odd: list[str]
) -> None:
    written = format_ids(np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 12))
    ids, good = parse_ids([*written, *odd])
    assert [row.tobytes() for row in ids[: len(raw)]] == raw
    assert good[: len(raw)].all()
    for text, row, known in zip(odd, ids[len(raw) :], good[len(raw) :], strict=True):
        assert bool(known) == (format_ids(row.reshape(1, 12)) == [text])
        assert not known or parse_base32(text, 12) == row.tobytes()
