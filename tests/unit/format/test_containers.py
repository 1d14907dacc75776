"""Which container a location is in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.flatbuf.strings import Strings
from frazil.format.storage_config import (
    Containers,
    ObjectStoreConfig,
    S3Options,
    VirtualChunkContainer,
    add_final_slash,
    require_container,
)
from frazil.format.urls import normalize_location

S3 = ObjectStoreConfig.S3(S3Options())
LOCAL = ObjectStoreConfig.LocalFileSystem("/")
ALL = Containers((
    VirtualChunkContainer("s3://b/", S3, "bucket"),
    VirtualChunkContainer("s3://b/deep/", S3),
    VirtualChunkContainer("s3://b/sp ace/", S3),
    VirtualChunkContainer("s3://b/sp%20ice/", S3),
    VirtualChunkContainer("file:///data/", LOCAL, "data"),
    VirtualChunkContainer("gcs://g/", ObjectStoreConfig.Gcs()),
))  # fmt: skip


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("s3://b/x", "s3://b/"),
        ("s3://b/deep/x", "s3://b/deep/"),
        ("s3://b/deeper/x", "s3://b/"),
        ("s3://b/d%65ep/x", "s3://b/deep/"),
        ("s3://b/sp%20ace/x", "s3://b/sp ace/"),
        ("s3://b/sp ice/x", "s3://b/sp%20ice/"),
        ("s3://bb/x", None),
        ("file:///data/x", "file:///data/"),
        ("file:///data", None),
        ("gs://g/x", None),
        ("s3://b%2Fx/y", None),
        ("s3://b%2F@evil/y", None),
        ("s3://%62/y", None),
    ],
)
def test_the_longest_prefix_wins_and_is_compared_decoded(location: str, prefix: str | None) -> None:
    found = ALL.find(location)
    assert (None if found is None else found.url_prefix) == prefix


PARTS = st.lists(
    st.sampled_from(["s3://b/", "vcc://bucket/", "vcc://data/", "vcc://none/", "file:///data/",
                     "gcs://g/", "deep/", "%2E%2E/", "..", "/", "sp%20ace/", "x", "."]),
    min_size=1, max_size=5,
).map("".join)  # fmt: skip


@given(st.lists(PARTS, max_size=8))
def test_many_are_judged_as_each_is(texts: list[str]) -> None:
    texts = [text for text in texts if "://" in text and not text.startswith("/")]
    locations = []
    for text in texts:
        try:
            locations.append(normalize_location(text))
        except InvalidInputError:
            continue
    judged = ALL.covered(Strings.from_list(locations)).tolist()
    for location, fine in zip(locations, judged, strict=True):
        if fine:
            ALL.require_covered(location)
        else:
            with pytest.raises(InvalidInputError):
                ALL.require_covered(location)


@pytest.mark.parametrize("location", ["s3://b%2F@evil/y", "s3://b%2Fy", "gcs://g%2f/y"])
def test_an_encoded_slash_does_not_end_the_name_of_a_host(location: str) -> None:
    """Or the credentials for one host would be sent to another."""
    assert ALL.find(location) is None
    assert ALL.covering(Strings.from_list([location])).tolist() == [-1]


def test_a_million_distinct_locations_are_no_loop() -> None:
    """Were it one, this would take minutes."""
    heap = np.frombuffer(b"s3://b/deep/0123456789" * 300_000, np.uint8)
    texts = Strings(heap, np.arange(300_000) * 22, np.full(300_000, 22))
    assert (ALL.covering(texts) == 1).all()


def test_relative_locations_are_completed_by_name() -> None:
    assert ALL.complete("vcc://data/a/b") == "file:///data/a/b"
    assert ALL.complete("s3://b/x") == "s3://b/x"
    for unknown in ("vcc://nobody/x", "vcc://data"):
        with pytest.raises(InvalidInputError) as caught:
            ALL.complete(unknown)
        assert caught.value.kind == "no-container-for-virtual-chunk"


def test_only_s3_takes_odd_keys() -> None:
    ALL.require_covered("s3://b/a//b")
    with pytest.raises(InvalidInputError, match=r'cannot address key "/a//b"') as caught:
        ALL.require_covered("gcs://g/a//b")
    assert caught.value.kind == "invalid-virtual-ref"


def test_a_missing_slash_is_added_to_what_was_stored() -> None:
    old = VirtualChunkContainer("s3://b", S3, "n")
    with pytest.raises(InvalidInputError):
        require_container(old)
    require_container(add_final_slash(old))
    assert add_final_slash(old) == VirtualChunkContainer("s3://b/", S3, "n")
