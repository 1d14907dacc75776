"""Zarr metadata and `config.yaml` of the generations before version 1.

An array's metadata is stored in parts, which are assembled to a `zarr.json`:

    [shape, data_type, chunk_shape, chunk_key_encoding, fill_value, codecs,
     storage_transformers | nil, dimension_names | nil]

Other fields that a client had written were dropped then. Bits without a type, `r16`, and bytes as
fill values take the form that zarr-python uses for them now.

The configuration of A2h to V1pre2 is decoded to the JSON that version 2 stores. Only A2i differs in
form: virtual chunk containers are a list, each with its options in it. Names that have no meaning
any more are passed on and ignored.
"""

import json
import math
from base64 import b64encode
from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml
from frazil.generations.msgpack_values import (
    describe_value,
    fields,
    items,
    json_object,
    mapping,
    number,
    text,
    variant,
)

WHOLE = {
    f"{kind}{bits}": (-(1 << bits - 1) if kind == "Int" else 0, 1 << bits - (kind == "Int"))
    for kind in ("Int", "UInt")
    for bits in (8, 16, 32, 64)
}  # name of a fill value -> what it may be
SINGLE = {"Float16", "Float32"}
FLOATS = SINGLE | {"Float64"}
COMPLEX = {"Complex64", "Complex128"}
BYTES = {"Bytes", "RawBits"}
_SEPARATORS: dict[str, Json] = {
    "Slash": {"name": "default", "configuration": {"separator": "/"}},
    "Dot": {"name": "default", "configuration": {"separator": "."}},
    "Default": {"name": "default"},
}


@dataclass(frozen=True, slots=True)
class ArrayDocument:
    """The `zarr.json` of an array, but for its attributes, and what the engine must know of it."""

    document: dict[str, Json]
    shape: tuple[int, ...]
    num_chunks: tuple[int, ...]
    dimension_names: tuple[str | None, ...] | None


def array_document(value: Any) -> ArrayDocument:
    parts = fields(value, (8,), "the metadata of an array")
    shape = tuple(number(each, "a length") for each in items(parts[0], "a shape"))
    chunks = tuple(number(each, "a chunk length") for each in items(parts[2], "a chunk shape"))
    if len(chunks) != len(shape) or 0 in chunks:
        raise FormatError(f"chunks of shape {chunks} in an array of shape {shape}")
    names = None if parts[7] is None else _names(parts[7], len(shape))
    document: dict[str, Json] = {
        "shape": list(shape),
        "data_type": _data_type(parts[1]),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": _key_encoding(parts[3]),
        "fill_value": _fill_value(parts[4]),
        "codecs": _named_parts(parts[5], "a codec"),
    }
    if parts[6] is not None:
        document["storage_transformers"] = _named_parts(parts[6], "a storage transformer")
    if names is not None:
        document["dimension_names"] = list(names)
    counts = tuple(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))
    return ArrayDocument(document, shape, counts, names)


def zarr_json(document: dict[str, Json] | None, attributes: dict[str, Json] | None) -> bytes:
    """The `zarr.json` of an array, or of a group if `document` is None, with its attributes."""
    head: dict[str, Json] = {
        "zarr_format": 3,
        "node_type": "group" if document is None else "array",
    }
    if attributes is not None:
        head["attributes"] = attributes
    try:
        whole = json.dumps({**head, **(document or {})}, ensure_ascii=False, allow_nan=False)
        return whole.encode()
    except (ValueError, RecursionError) as error:
        raise FormatError(f"metadata cannot be JSON: {error}") from error


def _names(value: Any, count: int) -> tuple[str | None, ...]:
    names = items(value, "dimension names")
    if len(names) != count:
        raise FormatError(f"{len(names)} dimension names for {count} dimensions")
    return tuple(None if name is None else text(name, "a dimension name") for name in names)


def _data_type(value: Any) -> Json:
    match value:
        case str():
            return value
        case {"rawbits": int() as bits} if len(value) == 1 and bits > 0 and bits % 8 == 0:
            return {"name": "raw_bytes", "configuration": {"length_bytes": bits // 8}}
    raise FormatError(f"a data type is {describe_value(value)}")


def _key_encoding(value: Any) -> Json:
    found = _SEPARATORS.get(value) if isinstance(value, str) else None
    if found is None:
        raise FormatError(f"a chunk key encoding is {describe_value(value)}")
    return found


def _named_parts(value: Any, what: str) -> list[Json]:
    """Codecs, or transformers: a name and perhaps a configuration each."""
    found: list[Json] = []
    for each in items(value, f"the list of {what}"):
        name, configuration = fields(each, (2,), what)
        part: dict[str, Json] = {"name": text(name, f"the name of {what}")}
        if configuration is not None:
            mapping(configuration, f"the configuration of {what}")
            part["configuration"] = json_object(configuration, f"the configuration of {what}")
        found.append(part)
    return found


def _fill_value(value: Any) -> Json:
    kind, content = variant(value, "a fill value")
    if kind == "Bool" and isinstance(content, bool):
        return content
    if kind == "String" and isinstance(content, str):
        return content
    if kind in WHOLE and type(content) is int:
        low, high = WHOLE[kind]
        if low <= content < high:
            return content
    if kind in FLOATS:
        return _float(content)
    if kind in COMPLEX:
        return [_float(each) for each in fields(content, (2,), "a complex fill value")]
    if kind in BYTES:
        octets = bytes(number(each, "a byte", bits=8) for each in items(content, "a fill value"))
        return b64encode(octets).decode()
    raise FormatError(f"a fill value is {kind[:20]!r} of {describe_value(content)}")


def _float(value: Any) -> Json:
    if type(value) not in {float, int}:
        raise FormatError(f"a fill value is {describe_value(value)}, expected a number")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


_STORES = {
    "S3": "s3_compatible",
    "GoogleCloudStorage": "gcs",
    "Azure": "azure",
    "Tigris": "tigris",
    "LocalFileSystem": "local_file_system",
}
_S3_OPTIONS = ("region", "endpoint_url", "anonymous", "allow_http")


def decode_old_config(data: Buffer) -> Json:
    found: Any = decode_config_yaml(data)
    match found:
        case {"virtual_chunk_containers": list() as listed}:
            found["virtual_chunk_containers"] = dict(
                _container(each) for each in listed if isinstance(each, dict)
            )
    config: Json = found
    return config


def _container(given: dict[str, Any]) -> tuple[str, Json]:
    prefix = str(given.get("prefix", ""))
    kind = _STORES.get(str(given.get("object_store")), "s3_compatible")
    options: Json = {}
    if kind in {"s3_compatible", "tigris"}:
        options = {name: given[name] for name in _S3_OPTIONS if name in given}
    elif kind == "local_file_system":
        options = prefix
    store: dict[str, Json] = {kind: options}
    return prefix, {"name": given.get("name"), "url_prefix": prefix, "store": store}
