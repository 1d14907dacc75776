"""Keys are read by their segments, and say one thing only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.paths import ROOT, NodePath
from frazil.zarrstore.keys import (
    ChunkKey,
    Directory,
    MetadataKey,
    chunk_keys,
    metadata_key,
    parse_directory,
    parse_key,
    require_key,
)

# Names chosen to collide with the marker, with indices and with the metadata file.
NAMES = st.sampled_from(["c", "0", "1", "abc", "cc", "c0", "00", "zarr.json.bak", "ü c"])
PATHS = st.lists(NAMES, max_size=5).map(lambda names: NodePath("/" + "/".join(names)))
INDEX = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("zarr.json", MetadataKey(ROOT)),
        ("/zarr.json", MetadataKey(ROOT)),
        ("a/zarr.json", MetadataKey(NodePath("/a"))),
        ("c/zarr.json", MetadataKey(NodePath("/c"))),
        ("a/c/0/zarr.json", MetadataKey(NodePath("/a/c/0"))),
        ("c", ChunkKey(ROOT, ())),
        ("c/3", ChunkKey(ROOT, (3,))),
        ("a/c", ChunkKey(NodePath("/a"), ())),
        ("a/c/0/12", ChunkKey(NodePath("/a"), (0, 12))),
        ("a/c/c", ChunkKey(NodePath("/a/c"), ())),
        ("a/c/0/c/1", ChunkKey(NodePath("/a/c/0"), (1,))),
        ("0/c/1", ChunkKey(NodePath("/0"), (1,))),
        ("zarr.json/c/1", ChunkKey(NodePath("/zarr.json"), (1,))),
        ("a/c/4294967295", ChunkKey(NodePath("/a"), (2**32 - 1,))),
    ],
)
def test_a_key_names_metadata_or_a_chunk(key: str, expected: MetadataKey | ChunkKey) -> None:
    assert parse_key(key) == expected


@pytest.mark.parametrize(
    "key",
    [
        "",
        "foo",
        "abc",
        "a/0/0",
        "a/c/0.0",
        "a/c/00",
        "a/c/-1",
        "a/c/1e3",
        "a/c/٣",
        "a/c/4294967296",
        "a/c/" + "9" * 10_000,
        "a/c/0/",
        "a//zarr.json",
        "../zarr.json",
        "a/./c/0",
        ".zgroup",
        "a/.zarray",
        ".zmetadata",
        "a/c0/0",
        "a\ud800/zarr.json",
    ],
)
def test_anything_else_is_no_key(key: str) -> None:
    assert parse_key(key) is None
    with pytest.raises(InvalidInputError) as caught:
        require_key(key)
    assert caught.value.kind == "invalid-key"


@given(PATHS)
def test_the_metadata_key_of_a_node_is_read_as_that_node(path: NodePath) -> None:
    assert parse_key(metadata_key(path)) == MetadataKey(path)


@given(PATHS, st.integers(0, 4).flatmap(lambda n: st.lists(st.tuples(*[INDEX] * n))))
def test_chunk_keys_are_read_as_the_chunks_they_were_made_for(
    path: NodePath, rows: list[tuple[int, ...]]
) -> None:
    ndim = len(rows[0]) if rows else 2
    index = np.array(rows, dtype=np.uint32).reshape(len(rows), ndim)
    assert [parse_key(key) for key in chunk_keys(path, index)] == [
        ChunkKey(path, row) for row in rows
    ]


def test_a_path_may_contain_what_formatting_would_trip_over() -> None:
    index = np.array([[1], [2]], dtype=np.uint32)
    assert chunk_keys(NodePath("/50%d\n{}"), index) == ["50%d\n{}/c/1", "50%d\n{}/c/2"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", Directory(ROOT, None)),
        ("/", Directory(ROOT, None)),
        ("a", Directory(NodePath("/a"), None)),
        ("a/", Directory(NodePath("/a"), None)),
        ("c", Directory(NodePath("/c"), ChunkKey(ROOT, ()))),
        ("a/c/", Directory(NodePath("/a/c"), ChunkKey(NodePath("/a"), ()))),
        ("a/c/0/1/", Directory(NodePath("/a/c/0/1"), ChunkKey(NodePath("/a"), (0, 1)))),
        ("a/c/0/c", Directory(NodePath("/a/c/0/c"), ChunkKey(NodePath("/a/c/0"), ()))),
        ("a/c/x", Directory(NodePath("/a/c/x"), None)),
        ("a//b", None),
        ("a/..", None),
    ],
)
def test_a_prefix_is_a_node_and_perhaps_the_start_of_chunks(
    prefix: str, expected: Directory | None
) -> None:
    assert parse_directory(prefix) == expected
