"""The `zarr.json` of what an ingest creates, as xarray would write it to Zarr format 3.

`_FillValue` is both an attribute (in xarray's encoding) and the array's fill value, so that chunks
which hold nothing else need not be stored, and read as missing all the same.
"""

import base64
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.layout import TargetArray
from frazil.spark.sources.source_types import Attributes

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None

COMPRESSION: Mapping[str, Json] = {  # what zarr itself chooses
    "name": "zstd",
    "configuration": {"level": 0, "checksum": False},
}
# Bookkeeping of the HDF5 library and of xarray: not about the data.
_INTERNAL = frozenset({"_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"})


def group_document(attrs: Attributes) -> bytes:
    return _dump(
        {"attributes": json_attributes(attrs), "zarr_format": 3, "node_type": "group"},
    )


def array_document(array: TargetArray) -> bytes:
    dtype, stored = array.dtype, array.stored
    fill: Json = _json_scalar(fill_value(array))
    if stored is not None and stored.fill is not None and "_FillValue" not in array.attrs:
        fill = json.loads(stored.fill)  # what the source reads as where nothing was written
    return _dump(
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


def resized_document(document: bytes, shape: Sequence[int]) -> bytes:
    """The same array with another shape."""
    return _dump({**json.loads(document), "shape": list(shape)})


def fill_value(array: TargetArray) -> Any:
    """What an absent chunk reads as: `_FillValue`, else what xarray chooses for the type."""
    if array.dtype.hasobject:
        return ""
    given = array.attrs.get("_FillValue")
    if given is not None:
        return np.asarray(given).reshape(-1)[0].astype(array.dtype)
    return array.dtype.type(np.nan if array.dtype.kind == "f" else 0)


def json_attributes(
    attrs: Attributes, dtype: np.dtype[np.generic] | None = None
) -> dict[str, Json]:
    """Attributes as JSON; `dtype` is the array's, None for a group."""
    plain = {key: _json(value) for key, value in attrs.items() if key not in _INTERNAL}
    if plain.get("missing_value") == "NaN" and dtype is not None and dtype.kind == "f":
        del plain["missing_value"]  # says nothing: NaN is missing anyway
    fill = plain.pop("_FillValue", None)
    if fill is not None and dtype is not None and not dtype.hasobject:
        plain["_FillValue"] = _encode_fill(attrs["_FillValue"], dtype)
    return plain


def _encode_fill(value: object, dtype: np.dtype[np.generic]) -> Json:
    """As xarray does: floats as the base 64 of their eight bytes, so that none loses a bit."""
    scalar = np.asarray(value).reshape(-1)[0].astype(dtype).item()
    if isinstance(scalar, float):
        return _base64(scalar)
    if isinstance(scalar, complex):
        return [_base64(scalar.real), _base64(scalar.imag)]
    plain: Json = scalar
    return plain


def _base64(value: float) -> str:
    return base64.b64encode(struct.pack("<d", value)).decode()


def _json(value: object) -> Json:
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    match plain:
        case float() | complex():
            return _json_scalar(plain)
        case None | bool() | int() | str():
            return plain
        case bytes():
            return plain.decode("utf-8", "replace")
        case list() | tuple():
            return [_json(item) for item in plain]
        case dict():
            return {str(key): _json(item) for key, item in plain.items()}
        case _:
            raise InvalidInputError(f"attribute value {value!r} cannot be written as JSON")


def _json_scalar(value: Any) -> Json:
    """A fill value in the notation of the Zarr specification."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        return [_json_float(value.real), _json_float(value.imag)]
    if isinstance(value, float):
        return _json_float(value)
    result: Json = value
    return result


def _json_float(value: float) -> Json:
    """JSON has no number for what is not finite: the names that Zarr gives them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _dump(document: Mapping[str, Json]) -> bytes:
    # Other readers take no NaN in JSON, even where Python's own does.
    return json.dumps(document, indent=2, allow_nan=False).encode()
