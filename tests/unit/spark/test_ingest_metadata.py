"""The documents that ingest writes, read by zarr and xarray."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import zarr
from xarray.backends.zarr import FillValueCoder
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.array_documents import array_document
from frazil.spark.ingestion.ingest_layout import TargetArray
from frazil.spark.table.documents import group_document, json_attributes, resized_document
from frazil.zarrstore.array_codecs import encode_region

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "O"]


def target(
    dtype: str = "f4",
    *,
    shape: tuple[int, ...] = (10, 7),
    attrs: Mapping[str, object] | None = None,
) -> TargetArray:
    return TargetArray(
        name="a",
        dims=("time", "x")[: len(shape)],
        shape=shape,
        chunks=(4, 7)[: len(shape)],
        dtype=np.dtype(dtype),
        attrs=attrs or {},
        axis=0 if shape else None,
    )


def zarr_array(document: bytes) -> "zarr.Array[Any]":
    store = MemoryStore()
    asyncio.run(store.set("zarr.json", default_buffer_prototype().buffer.from_bytes(document)))
    return zarr.open_array(store, mode="r+")


def values_of(dtype: str) -> np.ndarray[Any, Any]:
    numbers = np.arange(70).reshape(10, 7)
    return (
        np.vectorize("n{}".format, otypes="O")(numbers) if dtype == "O" else numbers.astype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_reads_the_document(dtype: str) -> None:
    array = zarr_array(array_document(target(dtype)))

    assert (array.shape, array.chunks) == ((10, 7), (4, 7))
    assert array.metadata.dimension_names == ("time", "x")  # type: ignore[union-attr]  # format 3
    if dtype != "O":
        assert array.dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_encoded_chunks_are_what_zarr_stores(dtype: str) -> None:
    document, values = array_document(target(dtype)), values_of(dtype)
    array = zarr_array(document)
    array[...] = values

    made = encode_region(document, (slice(4, 10), slice(0, 7)), values[4:])

    assert sorted(made) == [(1, 0), (2, 0)]
    for index, chunk in made.items():
        key = "/".join(map(str, ("c", *index)))
        stored = asyncio.run(array.store.get(key, default_buffer_prototype()))
        assert stored is not None
        assert bytes(chunk) == stored.to_bytes()


def test_an_array_without_dimensions_has_one_chunk() -> None:
    document = array_document(target("i4", shape=()))

    assert list(encode_region(document, (), np.array(5, dtype="i4"))) == [()]


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f4", "f8", "c16"])
def test_fill_values_are_written_as_xarray_writes_them(dtype: str) -> None:
    value = np.dtype(dtype).type(1)
    document = json.loads(array_document(target(dtype, attrs={"_FillValue": value})))

    assert document["attributes"]["_FillValue"] == FillValueCoder.encode(
        value.item(), np.dtype(dtype)
    )
    assert zarr_array(json.dumps(document).encode()).fill_value == value


def test_floats_without_a_fill_value_get_nan_and_integers_zero() -> None:
    assert np.isnan(zarr_array(array_document(target("f4"))).fill_value)
    assert zarr_array(array_document(target("i4"))).fill_value == 0


def test_attributes_are_json_that_every_reader_takes() -> None:
    attrs = {
        "number": np.float32(1.5),
        "whole": np.int64(3),
        "list": np.array([1.0, np.inf]),
        "nan": np.nan,
        "bytes": b"text",
        "nested": {"a": (1, 2)},
        "missing_value": np.float32("nan"),
        "_NCProperties": "version=2",
    }

    written = json_attributes(attrs, np.dtype("f4"))

    assert written == {
        "number": 1.5,
        "whole": 3,
        "list": [1.0, "Infinity"],
        "nan": "NaN",
        "bytes": "text",
        "nested": {"a": [1, 2]},
    }
    assert json.loads(group_document(attrs))["node_type"] == "group"


def test_an_attribute_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        json_attributes({"odd": object()})


def test_a_resized_document_differs_in_shape_only() -> None:
    before = array_document(target(attrs={"units": "K"}))

    after = json.loads(resized_document(before, (20, 7)))

    assert after.pop("shape") == [20, 7]
    assert after == {key: value for key, value in json.loads(before).items() if key != "shape"}
