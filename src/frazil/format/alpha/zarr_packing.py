"""A `zarr.json` taken apart, as alpha1 and alpha2 store it: the inverse of zarr_metadata.py.

What has no place there is left out, as it was then, or refused where data could not be read again:
types of data that those documents do not list, for example.
"""

import json
import math
import struct
from base64 import b64decode
from typing import Any

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.alpha.unpacking import named
from frazil.format.alpha.zarr_metadata import WHOLE, array_document, zarr_json
from frazil.format.generation import Generation

_NUMBERS = {
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
}
_FLOATS = {"float16": "Float16", "float32": "Float32", "float64": "Float64"}
_COMPLEX = {"complex64": ("Complex64", "float32"), "complex128": ("Complex128", "float64")}
_BITS = {"float16": ("<H", "<e"), "float32": ("<I", "<f"), "float64": ("<Q", "<d")}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NOTHING: dict[str, Json] = {}


def array_parts(document: dict[str, Any], generation: Generation) -> tuple[Any, ...]:
    """The fields of an array's metadata; raises InvalidInputError if they cannot say all of it."""
    match document:
        case {
            "shape": list() as shape,
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list() as chunks}},
            "fill_value": fill_value,
            "codecs": list() as codecs,
        }:
            kind, fill = _fill(data_type, fill_value, generation)
            transformers = document.get("storage_transformers")
            names = document.get("dimension_names")
            return (
                tuple(shape),
                kind,
                tuple(chunks),
                _separator(document.get("chunk_key_encoding")),
                fill,
                _named_parts(codecs),
                None if transformers is None else _named_parts(transformers),
                None if names is None else tuple(names),
            )
    raise _bad("an array without a shape, type, regular chunk grid, fill value or codecs")


def node_parts(user_data: bytes, generation: Generation) -> tuple[Any, Any]:
    """The attributes and, of an array, the metadata."""
    document = json.loads(user_data)
    attributes = document.get("attributes")
    kept = None if attributes is None else {"Inline": named(attributes, "attributes")}
    is_group = document.get("node_type") == "group"
    return kept, None if is_group else array_parts(document, generation)


def as_stored(user_data: bytes, generation: Generation) -> bytes:
    """The `zarr.json` as it will be read back."""
    attributes, parts = node_parts(user_data, generation)
    given = None if attributes is None else attributes["Inline"]
    return zarr_json(None if parts is None else array_document(parts).document, given)


def _separator(encoding: Any) -> str:
    match encoding:
        case None | {"name": "default"} if not (encoding or _NOTHING).get("configuration"):
            return "Slash"
        case {"name": "default", "configuration": {"separator": "/"}}:
            return "Slash"
        case {"name": "default", "configuration": {"separator": "."}}:
            return "Dot"
    raise _bad(f"chunk_key_encoding is {encoding!r}, expected default")


def _named_parts(listed: Any) -> tuple[Any, ...]:
    parts = []
    for each in listed:
        match each:
            case str():
                parts.append((each, None))
            case {"name": str() as name}:
                parts.append((name, each.get("configuration")))
            case _:
                raise _bad(f"a codec is {each!r}, expected a name and a configuration")
    return tuple(parts)


def _fill(data_type: Any, value: Any, generation: Generation) -> tuple[Any, dict[str, Any]]:
    """The type of data and the fill value, as both are stored."""
    try:
        number = _number(data_type, value) if isinstance(data_type, str) else None
        if number is not None:
            return data_type, number
        match data_type, generation:
            case ("string", Generation.A2E) if isinstance(value, str):
                return data_type, {"String": value}
            case (("bytes" | "variable_length_bytes"), Generation.A2E):
                return "bytes", {"Bytes": _octets(value)}
            case (
                {"name": "raw_bytes", "configuration": {"length_bytes": size}},
                Generation.ALPHA1,
            ):
                return {"rawbits": 8 * size}, {"RawBits": _octets(value)}
    except (TypeError, ValueError, struct.error) as error:
        raise _bad(f"fill_value is {value!r} in an array of {data_type!r}") from error
    raise _bad(
        f"an array of {data_type!r} with fill_value {value!r} cannot be stored in generation"
        f" {generation}"
    )


def _number(data_type: str, value: Any) -> dict[str, Any] | None:
    """None for a type of data that is none of numbers."""
    if data_type == "bool" and isinstance(value, bool):
        return {"Bool": value}
    if data_type in _NUMBERS:
        return _whole(_NUMBERS[data_type], value)
    if data_type in _FLOATS:
        return {_FLOATS[data_type]: _float(value, data_type)}
    if data_type in _COMPLEX:
        name, part = _COMPLEX[data_type]
        real, imaginary = value
        return {name: (_float(real, part), _float(imaginary, part))}
    return None


def _whole(name: str, value: Any) -> dict[str, Any]:
    low, high = WHOLE[name]
    if type(value) is not int or not low <= value < high:
        raise ValueError(f"{value!r} is not a {name}")
    return {name: value}


def _float(value: Any, data_type: str) -> float:
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        whole, real = _BITS[data_type]
        bits = int(value, 16) if value.startswith("0x") else int(value, 2)
        number: float = struct.unpack(real, struct.pack(whole, bits))[0]
        return number
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return float(value)


def _octets(value: Any) -> tuple[int, ...]:
    return tuple(b64decode(value, validate=True) if isinstance(value, str) else bytes(value))


def _bad(reason: str) -> InvalidInputError:
    return InvalidInputError(f"bad zarr metadata: {reason}", kind="bad-metadata")
