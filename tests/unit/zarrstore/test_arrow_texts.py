"""Columns of text from Arrow, without its library."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.zarrstore.virtual import CodedLocations, arrow_column, column_of, numbers_of

TEXTS = st.lists(st.none() | st.text(max_size=30))
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@given(TEXTS, st.sampled_from(KINDS), st.integers(0, 5))
def test_a_column_is_what_arrow_says_it_is(
    texts: list[str | None], kind: Any, skipped: int
) -> None:
    array = pa.array(texts, kind)[skipped:]
    assert arrow_column(array).to_texts() == texts[skipped:]


@given(st.lists(TEXTS, max_size=4), st.sampled_from(KINDS))
def test_so_is_one_in_several_pieces(pieces: list[list[str | None]], kind: Any) -> None:
    array = pa.chunked_array([pa.array(one, kind) for one in pieces], kind)
    assert arrow_column(array).to_texts() == [text for one in pieces for text in one]


def test_texts_that_come_coded_stay_so() -> None:
    column = column_of(pa.array(["s3://b/x"] * 1000).dictionary_encode())
    assert len(column.strings) == 1
    assert column.to_texts() == ["s3://b/x"] * 1000


@pytest.mark.parametrize("array", [pa.array([1, 2]), pa.array([b"a"]), pa.array([["a"]])])
def test_what_is_no_text_is_refused(array: Any) -> None:
    with pytest.raises(TypeError, match="not text"):
        arrow_column(array)


def test_numbers_may_be_of_any_whole_type_in_arrow_and_only_there() -> None:
    found = numbers_of(pa.array([1, 2], pa.int32()))
    assert found.dtype == np.uint64
    assert found.tolist() == [1, 2]
    assert numbers_of(np.array([1, 2])).dtype == np.int64  # for the caller to refuse
    for wrong in (pa.array([-1]), pa.array([1.5])):
        with pytest.raises(TypeError):
            numbers_of(wrong)


def test_locations_by_code() -> None:
    column = column_of(CodedLocations(np.array([1, -1, 0, 1], np.int8), ["a", "b"]))
    assert column.to_texts() == ["b", None, "a", "b"]


@pytest.mark.parametrize("codes", [[2], [-2], [0.5], [[0]]])
def test_codes_must_be_of_the_table(codes: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        column_of(CodedLocations(codes, ["a", "b"]))
