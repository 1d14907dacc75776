"""Zarr metadata as JSON: attributes, fill values and group documents, as xarray writes them."""

import base64
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frazil.errors import InvalidInputError

type Attributes = Mapping[str, Any]
type Json = bool | int | float | str | list[Json] | dict[str, Json] | None

DEFAULT_CHUNK_BYTES = 8 << 20
TEXT_BYTES = 32  # a guess: text has no fixed size

# A growing coordinate gets room for many appends in its first chunk. The unused part compresses to
# nothing, and readers fetch one chunk for years of hours instead of one per append.
GROWING_COORDINATE_CHUNK = 8192
# Bookkeeping of the HDF5 library and of xarray: not about the data.
_INTERNAL = frozenset({"_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"})


def group_document(attrs: Attributes) -> bytes:
    return dump_document(
        {"attributes": json_attributes(attrs), "zarr_format": 3, "node_type": "group"},
    )


def resized_document(document: bytes, shape: Sequence[int]) -> bytes:
    """The same array with another shape."""
    return dump_document({**json.loads(document), "shape": list(shape)})


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
    """Encodes a fill value as xarray does: floats as the base 64 of their eight bytes, without
    loss.
    """
    scalar = np.asarray(value).reshape(-1)[0].astype(dtype).item()
    if isinstance(scalar, float):
        return _base64(scalar)
    if isinstance(scalar, complex):
        return [_base64(scalar.real), _base64(scalar.imag)]
    plain: Json = scalar
    return plain


def _base64(value: float) -> str:
    return base64.b64encode(struct.pack("<d", value)).decode()


def decode_fill(value: Json, dtype: np.dtype[Any]) -> Json:
    """Decodes the attribute `_FillValue` of an array, in the notation of the Zarr specification.

    What is not in xarray's encoding is returned as it is.
    """
    try:
        match dtype.kind, value:
            case "f", str():
                return json_scalar(_number(value))
            case "c", [str() as real, str() as imaginary]:
                return json_scalar(complex(_number(real), _number(imaginary)))
    except (ValueError, struct.error):
        pass
    return value


def _number(text: str) -> float:
    number: float = struct.unpack("<d", base64.b64decode(text, validate=True))[0]
    return number


def _json(value: object) -> Json:
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    match plain:
        case float() | complex():
            return json_scalar(plain)
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


def json_scalar(value: Any) -> Json:
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


def dump_document(document: Mapping[str, Json]) -> bytes:
    # Other readers take no NaN in JSON, even where Python's own does.
    return json.dumps(document, indent=2, allow_nan=False).encode()


def coordinate_chunks(length: int, *, grows: bool) -> tuple[int, ...]:
    """One chunk for the whole coordinate."""
    return (max(length, GROWING_COORDINATE_CHUNK if grows else 1),)
