"""Locations in bulk mean what they mean one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.flatbuf.strings import Strings
from frazil.format.urls import (
    Place,
    contains_any,
    decode_path,
    decode_paths,
    has_odd_segments,
    longest_prefix,
    normalize_location,
    normalize_locations,
    place_of,
    starts_with,
)

LETTERS = st.text("ab/%2.e:üé ?#\\", max_size=12)
HEADS = st.sampled_from(
    ["s3://b/", "s3://c/", "file:///", "file:///a/", "S3://b/", "vcc://n/", "FILE:///", "gcs://b"]
)
LOCATIONS = st.builds(str.__add__, HEADS, LETTERS)


@given(st.lists(LOCATIONS, max_size=12))
def test_a_table_is_made_regular_as_each_location_is(texts: list[str]) -> None:
    assert normalize_locations(Strings.from_list(texts)).to_texts() == [
        normalize_location(text) for text in texts
    ]


@given(LOCATIONS)
def test_what_is_regular_stays(text: str) -> None:
    assert normalize_location(normalize_location(text)) == normalize_location(text)


def test_more_stores_than_are_looked_for_are_fine() -> None:
    texts = [f"s3://bucket-{number}/key" for number in range(200)] + ["S3://b/x"]
    assert normalize_locations(Strings.from_list(texts)).to_texts() == [*texts[:-1], "s3://b/x"]


def test_the_first_mistake_is_named() -> None:
    texts = Strings.from_list(["s3://b/x", "foo/bar", "s3://"])
    with pytest.raises(InvalidInputError, match="foo/bar") as caught:
        normalize_locations(texts)
    assert caught.value.kind == "invalid-virtual-ref"


@given(st.lists(st.text("abc/", max_size=20)), st.text("abc/", max_size=20))
def test_prefixes_are_found(texts: list[str], prefix: str) -> None:
    found = starts_with(Strings.from_list(texts), prefix.encode()).tolist()
    assert found == [text.startswith(prefix) for text in texts]


@given(
    st.lists(st.text("ab", max_size=6)),
    st.lists(st.text("ab", max_size=6), unique=True, max_size=6),
)
def test_the_longest_prefix_wins(texts: list[str], prefixes: list[str]) -> None:
    found = longest_prefix(Strings.from_list(texts), [each.encode() for each in prefixes])
    for text, number in zip(texts, found.tolist(), strict=True):
        fitting = [each for each in prefixes if text.startswith(each)]
        assert (prefixes[number] if number >= 0 else None) == max(fitting, key=len, default=None)


@given(st.lists(st.text("ab/.", max_size=8)), st.lists(st.sampled_from(["//", "/.", "a"])))
def test_marks_are_found(texts: list[str], marks: list[str]) -> None:
    found = contains_any(Strings.from_list(texts), [mark.encode() for mark in marks]).tolist()
    assert found == [any(mark in text for mark in marks) for text in texts]


@given(st.lists(LOCATIONS))
def test_a_table_is_decoded_as_each_text_is(texts: list[str]) -> None:
    found = decode_paths(Strings.from_list(texts)).to_list()
    assert found == [decode_path(text).encode(errors="surrogateescape") for text in texts]


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3://b/a/b%20c.nc?q#f", Place("s3", "b", "a/b c.nc")),
        ("s3://b", Place("s3", "b", "")),
        ("https://u@h:1/x%3Fy", Place("https", "u@h:1", "x?y")),
        ("file:///a/b", Place("file", "", "a/b")),
        ("gcs://b//x", Place("gcs", "b", "/x")),
    ],
)
def test_a_location_names_an_object(location: str, place: Place) -> None:
    assert place_of(location) == place


@pytest.mark.parametrize(("key", "odd"), [
    ("a/b", False), ("a/b/", False), ("", False), ("a//b", True), ("/a", True), ("a/./b", True),
    ("a/..", True), ("..", True), ("a/.hidden", False), ("...", False),
])  # fmt: skip
def test_odd_segments(key: str, *, odd: bool) -> None:
    assert has_odd_segments(key) is odd
