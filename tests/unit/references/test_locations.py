"""Paths and URLs as reference sets have them, as locations of virtual chunks."""

import pytest

from frazil.errors import InvalidInputError
from frazil.format.urls import place_of
from frazil.references.plan import locate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/a.nc", "file:///data/a.nc"),
        ("/data/a b#1%.nc", "file:///data/a%20b%231%25.nc"),
        ("file:///data/a%20b.nc", "file:///data/a%2520b.nc"),  # fsspec decodes nothing
        ("local:///data/a.nc", "file:///data/a.nc"),
        ("s3://bucket/key.nc", "s3://bucket/key.nc"),
        ("S3A://bucket/key.nc", "s3://bucket/key.nc"),
        ("s3://bucket/a%20b?c#d", "s3://bucket/a%2520b%3Fc%23d"),
        ("gs://bucket/ä.nc", "gs://bucket/%C3%A4.nc"),
        ("https://host/a%20b.nc?token=1", "https://host/a%20b.nc?token=1"),
        ("vcc://archive/a.nc", "vcc://archive/a.nc"),
    ],
)
def test_a_location_names_the_same_file(text: str, expected: str) -> None:
    assert locate(text, root=None) == expected


def test_the_key_is_what_was_written() -> None:
    key = "odd %20 key? #1 ä/é.nc"
    assert place_of(locate(f"s3://bucket/{key}", root=None)).key == key
    assert place_of(locate(f"/{key}", root=None)).key == key


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("/data", "file:///data/x/a.nc"),
        ("/data/", "file:///data/x/a.nc"),
        ("s3://bucket/some", "s3://bucket/some/x/a.nc"),
        ("https://host", "https://host/x/a.nc"),
    ],
)
def test_a_relative_path_is_below_the_root(root: str, expected: str) -> None:
    assert locate("x/a.nc", root=root) == expected


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("a.nc", None),
        ("a.nc", "relative"),
        ("", "/data"),
        ("s3://", None),
        ("simplecache::s3://bucket/key", None),
    ],
)
def test_what_names_nothing_is_refused(text: str, root: str | None) -> None:
    with pytest.raises(InvalidInputError):
        locate(text, root=root)
