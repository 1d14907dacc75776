"""The `zarr.json` of what an ingest creates, as xarray would write it to Zarr format 3.

`_FillValue` is both an attribute (in xarray's encoding) and the array's fill value, so that chunks
which hold nothing else need not be stored, and read as missing all the same.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from frazil.spark.ingestion.ingest_layout import TargetArray
from frazil.spark.table.documents import Json, dump_document, json_attributes, json_scalar

COMPRESSION: Mapping[str, Json] = {  # what zarr itself chooses
    "name": "zstd",
    "configuration": {"level": 0, "checksum": False},
}


def array_document(array: TargetArray) -> bytes:
    dtype, stored = array.dtype, array.stored
    fill: Json = json_scalar(fill_value(array))
    if stored is not None and stored.fill is not None and "_FillValue" not in array.attrs:
        fill = json.loads(stored.fill)  # what the source reads as where nothing was written
    return dump_document(
        {
            "shape": list(array.shape),
            "data_type": _data_type(dtype) if stored is None else stored.data_type,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": list(array.chunks)},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": _codecs(dtype) if stored is None else json.loads(stored.codecs),
            "attributes": json_attributes(array.attrs, dtype),
            "dimension_names": list(array.dims),
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }
    )


def _data_type(dtype: np.dtype[np.generic]) -> str:
    return "string" if dtype.hasobject else dtype.name


def _codecs(dtype: np.dtype[np.generic]) -> list[Json]:
    serializer: dict[str, Json] = {"name": "bytes"}
    if dtype.hasobject:
        serializer = {"name": "vlen-utf8"}
    elif dtype.itemsize > 1:
        serializer = {"name": "bytes", "configuration": {"endian": "little"}}
    return [serializer, dict(COMPRESSION)]


def fill_value(array: TargetArray) -> Any:
    """Value of an absent chunk: `_FillValue`, else xarray's choice for the type."""
    if array.dtype.hasobject:
        return ""
    given = array.attrs.get("_FillValue")
    if given is not None:
        return np.asarray(given).reshape(-1)[0].astype(array.dtype)
    return array.dtype.type(np.nan if array.dtype.kind == "f" else 0)
