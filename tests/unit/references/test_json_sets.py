"""Reference sets in JSON: what is read, and what is refused, naming the set and the key."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.references.columns import ChunkColumns
from frazil.references.json_sets import decode_json_set

ARRAY = {
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<f4",
    "fill_value": None,
    "order": "C",
    "filters": None,
    "compressor": None,
    "zarr_format": 2,
}


def decoded(document: Any) -> Any:
    return decode_json_set("refs.json", json.dumps(document).encode())


def rows(chunks: ChunkColumns) -> dict[tuple[int, ...], Any]:
    locations, inline = chunks.location.to_texts(), chunks.inline.to_list()
    return {
        tuple(index): inline[row]
        if inline[row] is not None
        else (
            locations[row],
            int(chunks.offset[row]),
            int(chunks.length[row]),
            bool(chunks.whole[row]),
        )
        for row, index in enumerate(chunks.index.tolist())
    }


def test_version_0_is_keys_and_values() -> None:
    found = decoded(
        {
            ".zgroup": {"zarr_format": 2},
            "a/.zarray": json.dumps(ARRAY),
            "a/0.0": ["s3://b/k", 10, 20],
            "a/0.1": ["s3://b/whole"],
            "a/1.0": "text",
            "a/1.1": "base64:" + base64.b64encode(b"\x00\xff").decode(),
        }
    )
    assert rows(found.chunks["a"]) == {
        (0, 0): ("s3://b/k", 10, 20, False),
        (0, 1): ("s3://b/whole", 0, 0, True),
        (1, 0): b"text",
        (1, 1): b"\x00\xff",
    }


def test_version_1_has_templates_and_generators() -> None:
    found = decoded(
        {
            "version": 1,
            "templates": {"u": "s3://bucket/file", "f": "gs://{{c}}"},
            "gen": [
                {
                    "key": "a/{{i}}.{{j}}",
                    "url": "{{u}}{{i}}",
                    "offset": "{{j * 24}}",
                    "length": "24",
                    "dimensions": {"i": {"stop": 2}, "j": {"stop": 2}},
                }
            ],
            "refs": {
                "a/.zarray": ARRAY,
                "b/.zarray": {**ARRAY, "shape": [3], "chunks": [1]},
                "b/0": ["{{u}}", 0, 4],
                "b/2": ["{{f(c='text')}}", 8, 4],
            },
        }
    )
    assert rows(found.chunks["a"]) == {
        (0, 0): ("s3://bucket/file0", 0, 24, False),
        (0, 1): ("s3://bucket/file0", 24, 24, False),
        (1, 0): ("s3://bucket/file1", 0, 24, False),
        (1, 1): ("s3://bucket/file1", 24, 24, False),
    }
    assert rows(found.chunks["b"]) == {
        (0,): ("s3://bucket/file", 0, 4, False),
        (2,): ("gs://text", 8, 4, False),
    }


def test_equal_locations_are_one() -> None:
    refs = {f"a/{i}.{j}": ["s3://b/k", i, 1] for i in range(2) for j in range(2)}
    found = decoded({"version": 1, "refs": {"a/.zarray": ARRAY, **refs}})
    assert len(found.chunks["a"].location.strings) == 1


def test_indices_may_be_separated_by_slashes() -> None:
    found = decoded(
        {"g/a/.zarray": {**ARRAY, "dimension_separator": "/"}, "g/a/1/1": ["s3://b/k", 0, 1]}
    )
    assert rows(found.chunks["g/a"]) == {(1, 1): ("s3://b/k", 0, 1, False)}


@pytest.mark.parametrize(
    ("encoding", "key"),
    [
        ({"name": "default"}, "c/1/0"),
        ({"name": "default", "configuration": {"separator": "."}}, "c.1.0"),
        ({"name": "v2"}, "1.0"),
        ({"name": "v2", "configuration": {"separator": "/"}}, "1/0"),
    ],
)
def test_arrays_of_version_3_have_their_own_keys(encoding: dict[str, Any], key: str) -> None:
    document = {
        "node_type": "array",
        "shape": [4, 6],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": encoding,
    }
    found = decoded({"a/zarr.json": document, f"a/{key}": ["s3://b/k", 0, 1]})
    assert rows(found.chunks["a"]) == {(1, 0): ("s3://b/k", 0, 1, False)}


@pytest.mark.parametrize("document", [{"a/c": "x"}, {"a/0": "x"}])
def test_a_scalar_has_one_chunk(document: dict[str, Any]) -> None:
    version_2 = {**ARRAY, "shape": [], "chunks": []}
    version_3 = {
        "node_type": "array",
        "shape": [],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
    }
    key, metadata = ("a/zarr.json", version_3) if "a/c" in document else ("a/.zarray", version_2)
    assert rows(decoded({key: metadata, **document}).chunks["a"]) == {(): b"x"}


def test_metadata_may_be_only_consolidated() -> None:
    found = decoded({".zmetadata": {"metadata": {"a/.zarray": ARRAY}}, "a/0.0": ["s3://b/k", 0, 1]})
    assert list(found.chunks) == ["a"]


@pytest.mark.parametrize(
    ("refs", "message"),
    [
        ({"a/0.0": ["s3://b/k", -1, 1]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", 0, 0]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", 0, 2**64]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", 0]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", "0", "1"]}, "a/0.0"),
        ({"a/0.0": [None, 0, 1]}, "a/0.0"),
        ({"a/0.0": [None]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", True, 1]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", 0.0, 1]}, "a/0.0"),
        ({"a/0.0": ["s3://b/k", 0, 1], "a/0.1": ["s3://b/k", 0, 1.5]}, "a/0.1"),
        ({"a/0.0": []}, "a/0.0"),
        ({"a/0.0": 3}, "a/0.0"),
        ({"a/0.0": None}, "a/0.0"),
        ({"a/0.0": ""}, "a/0.0"),
        ({"a/0.0": "base64:?"}, "a/0.0"),
        ({"a/0": ["s3://b/k", 0, 1]}, "a/0"),
        ({"a/0.0.0": ["s3://b/k", 0, 1]}, "a/0.0.0"),
        ({"a/0.x": ["s3://b/k", 0, 1]}, "a/0.x"),
        ({"a/0.2": ["s3://b/k", 0, 1]}, "a/0.2"),
        ({"a/0.99999999999999999999": ["s3://b/k", 0, 1]}, "a/0.9999"),
        ({"a/0.0\n0.1": ["s3://b/k", 0, 1]}, "a/0.0"),
        ({"b/0.0": ["s3://b/k", 0, 1]}, "b/0.0"),
        ({"stray": "x"}, "stray"),
        ({"b/.zarray": "{"}, "b/.zarray"),
        ({"b/.zarray": "[]"}, "b/.zarray"),
        ({"b/.zarray": {**ARRAY, "shape": "4"}}, "b/.zarray"),
        ({"b/.zarray": {**ARRAY, "chunks": [2]}}, "b/.zarray"),
        ({"b/.zarray": {**ARRAY, "dimension_separator": "-"}}, "b/.zarray"),
        ({"b/zarr.json": {"node_type": "array"}}, "b/zarr.json"),
        ({"/.zarray": ARRAY}, "/.zarray"),
        ({"/zarr.json": {**ARRAY, "node_type": "array"}}, "/zarr.json"),
    ],
)
def test_what_is_wrong_is_named(refs: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        decoded({"version": 1, "refs": {"a/.zarray": ARRAY, **refs}})
    assert caught.value.where == "refs.json"
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "{}", '{"version": 2, "refs": {}}', '{"version": 1, "refs": []}',
     '{"version": 1, "refs": {}, "templates": {"a": 1}}', '{"version": 1, "gen": [1]}',
     "[" * 100_000],
)  # fmt: skip
def test_what_is_no_set_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError, match=r"refs\.json"):
        decode_json_set("refs.json", text.encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
keys = st.sampled_from(
    ["a/.zarray", "a/.zattrs", "a/0.0", "a/0.1", ".zgroup", "version", "refs", "gen", "templates",
     "a/zarr.json", ".zmetadata", "x", "/.zarray", "/zarr.json"]
)  # fmt: skip


@given(st.dictionaries(keys, json_values | st.just(ARRAY) | st.just(["s3://b/k", 0, 1])))
def test_any_json_is_read_or_refused(document: dict[str, Any]) -> None:
    try:
        found = decoded(document)
    except FormatError:
        return
    assert all(np.all(chunks.index >= 0) for chunks in found.chunks.values())
