"""What a set would become: metadata of version 3, references by column."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.changes.zarr_metadata import parse_node_metadata
from frazil.errors import FormatError
from frazil.flatbuf.strings import Strings
from frazil.paths import NodePath
from frazil.references.json_sets import parse_reference_set
from frazil.references.plan import ImportPlan, plan_import

ARRAY: dict[str, Any] = {
    "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "fill_value": "NaN", "order": "C",
    "filters": [{"id": "shuffle", "elementsize": 4}], "compressor": {"id": "zlib", "level": 1},
    "zarr_format": 2,
}  # fmt: skip


def planned(refs: dict[str, Any], group: str = "/") -> ImportPlan:
    return plan_import(
        parse_reference_set("refs.json", refs),
        group=NodePath(group),
        root=None,
        last_modified=7,
        sizes_of=lambda files: np.arange(len(files), dtype=np.uint64) + 100,
    )


def test_metadata_becomes_that_of_version_3() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}
    (array,) = planned({"g/a/.zarray": ARRAY, "g/a/.zattrs": attributes}, "/top").arrays
    document = json.loads(array.document)
    assert str(array.path) == "/top/g/a"
    assert document["data_type"] == "float32"
    assert document["dimension_names"] == ["y", "x"]
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [2, 3]
    assert [codec["name"] for codec in document["codecs"]] == [
        "bytes", "numcodecs.shuffle", "numcodecs.zlib",
    ]  # fmt: skip
    # xarray's form of a missing value: eight bytes of a double, in base64
    assert document["attributes"] == {"units": "K", "_FillValue": "AAAAAAAA+H8="}
    parse_node_metadata(array.document)


def test_groups_above_an_array_are_planned_too() -> None:
    plan = planned({"g/a/.zarray": ARRAY, "g/.zgroup": {}, "g/.zattrs": {"x": 1}}, "/top")
    assert {str(path): dict(attributes) for path, attributes in plan.groups.items()} == {
        "/": {},
        "/top": {},
        "/top/g": {"x": 1},
    }


def test_files_are_measured_once_each() -> None:
    asked: list[list[str]] = []

    def sizes_of(files: Strings) -> Any:
        asked.append(files.to_texts())
        return np.array([1000 + number for number in range(len(files))], np.uint64)

    refs = {"a/.zarray": ARRAY, "a/0.0": ["/x"], "a/0.1": ["/y"], "a/1.0": ["/x"]}
    plan = plan_import(
        parse_reference_set("refs", {**refs, "a/1.1": ["/z", 3, 4]}),
        group=NodePath("/"),
        root=None,
        last_modified=0,
        sizes_of=sizes_of,
    )
    assert asked == [["file:///x", "file:///y"]]
    assert plan.arrays[0].refs.length.tolist() == [1000, 1001, 1000, 4]


def test_what_is_expected_of_files_is_not_expected_of_inline_chunks() -> None:
    (array,) = planned({"a/.zarray": ARRAY, "a/0.0": ["/x", 0, 9], "a/0.1": "inline"}).arrays
    assert array.refs.last_modified.tolist() == [7, 0]


def test_an_empty_dimension_may_have_chunks_of_no_length() -> None:
    empty = {**ARRAY, "shape": [0, 6], "chunks": [0, 3]}
    (array,) = planned({"a/.zarray": empty}).arrays
    assert json.loads(array.document)["chunk_grid"]["configuration"]["chunk_shape"] == [1, 3]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=6,
)
codecs = st.fixed_dictionaries(
    {"id": st.sampled_from(["zlib", "gzip", "zstd", "blosc", "delta", "shuffle", "grib", "x"])},
    optional={"level": values, "shuffle": values, "dtype": values, "var": values},
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "dtype": values | st.sampled_from(["<i4", ">f8", "|S3", "|O", "<M8[ns]", "|b1", "<U2"]),
        "fill_value": values,
        "order": values | st.sampled_from("CF"),
        "filters": values | st.lists(codecs | values, max_size=2),
        "compressor": values | codecs,
        "chunks": values,
    },
)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@given(fields, st.dictionaries(st.sampled_from(["_ARRAY_DIMENSIONS", "_FillValue", "x"]), values))
def test_any_metadata_is_translated_or_refused(
    change: dict[str, Any], attributes: dict[str, Any]
) -> None:
    refs = {"a/.zarray": {**ARRAY, **change}, "a/.zattrs": attributes, "a/0.0": ["/x", 0, 1]}
    with suppress(FormatError):
        for array in planned(refs).arrays:
            parse_node_metadata(array.document)
