"""Metadata of Zarr version 2 as metadata of version 3, for arrays whose chunks stay as they are.

Names of dimensions move from the attribute `_ARRAY_DIMENSIONS` to where version 3 has them. In
version 2 xarray takes the fill value for the mark of missing data; in version 3 that mark is the
attribute `_FillValue`, so it is written there too, in the form in which xarray reads it.
"""

import struct
from base64 import standard_b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from zarr.core.dtype import get_data_type_from_json

from frazil.errors import InvalidInputError
from frazil.references.codecs import codec_documents

_DIMENSIONS = "_ARRAY_DIMENSIONS"
_FILL = "_FillValue"
_OBJECT_CODECS = frozenset({"vlen-utf8", "vlen-bytes"})


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def array_document(array: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The `zarr.json` for a `.zarray` and its `.zattrs`. Raises InvalidInputError."""
    shape, chunks = array["shape"], array["chunks"]  # checked by whoever read the chunks
    filters = _filters(array.get("filters"))
    dtype = _data_type(array.get("dtype"), filters)
    native = dtype.to_native_dtype()
    fill, fill_json = _fill_value(dtype, array.get("fill_value"))
    names = attributes.get(_DIMENSIONS)
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.to_json(zarr_format=3),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(length, 1) for length in chunks]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_json,
        "codecs": codec_documents(
            filters,
            _compressor(array.get("compressor")),
            order=array.get("order", "C"),
            ndim=len(shape),
            endian=_endian(native),
            itemsize=native.itemsize,
        ),
        "attributes": _attributes(attributes, native, fill),
    }
    if names is not None:
        if not isinstance(names, list) or len(names) != len(shape) or not _are_names(names):
            raise InvalidInputError(f"{_DIMENSIONS} is {names!r}, expected {len(shape)} names")
        document["dimension_names"] = names
    return document


def _data_type(text: Any, filters: list[Mapping[str, Any]]) -> Any:
    codec = next((each.get("id") for each in filters if each.get("id") in _OBJECT_CODECS), None)
    try:
        name = [tuple(field) for field in text] if isinstance(text, list) else text
        return get_data_type_from_json({"name": name, "object_codec_id": codec}, zarr_format=2)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(
            f"the data type {text!r} has no counterpart in Zarr version 3", kind="bad-metadata"
        ) from error


def _filters(given: Any) -> list[Mapping[str, Any]]:
    if given is None:
        return []
    if isinstance(given, list) and all(isinstance(each, Mapping) for each in given):
        return given
    raise InvalidInputError(f"filters is {given!r}, expected a list of objects or null")


def _are_names(given: list[Any]) -> bool:
    return all(name is None or isinstance(name, str) for name in given)


def _compressor(given: Any) -> Mapping[str, Any] | None:
    if given is None or isinstance(given, Mapping):
        return given
    raise InvalidInputError(f"compressor is {given!r}, expected an object or null")


def _fill_value(dtype: Any, given: Any) -> tuple[Any, Any]:
    """The value, or None if there is none, and how version 3 says it."""
    if given is None:
        return None, dtype.to_json_scalar(dtype.default_scalar(), zarr_format=3)
    if isinstance(given, str) and given == "nan":  # some writers do not spell it NaN
        given = "NaN"
    try:
        with np.errstate(over="ignore"):  # the largest double is infinite as a float
            value = dtype.from_json_scalar(given, zarr_format=2)
            return value, dtype.to_json_scalar(value, zarr_format=3)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"fill_value is {given!r}, which is no {dtype.to_native_dtype()}", kind="bad-metadata"
        ) from error


def _endian(dtype: np.dtype[Any]) -> str | None:
    if dtype.itemsize == 1 or dtype.kind in "SVOTb":
        return None
    return "big" if dtype.newbyteorder("S").isnative else "little"


def _attributes(given: Mapping[str, Any], dtype: np.dtype[Any], fill: Any) -> dict[str, Any]:
    attributes = {name: value for name, value in given.items() if name != _DIMENSIONS}
    mark = fill if fill is not None else attributes.pop(_FILL, None)
    try:
        encoded = None if mark is None else _encode_mark(mark, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{_FILL} is {mark!r}, which is no {dtype}") from error
    if encoded is not None:
        attributes[_FILL] = encoded
    return attributes


def _encode_mark(mark: Any, dtype: np.dtype[Any]) -> Any:
    """A missing value as xarray writes it to the attributes of a version 3 array."""
    match dtype.kind:
        case "f":
            return standard_b64encode(struct.pack("<d", float(mark))).decode()
        case "i" | "u":
            return int(mark)
        case "b":
            return bool(mark)
        case _:
            return None  # xarray has no form for it, or cannot read its own
