"""Snapshots and manifests encoded as the documents alpha1 and alpha2 describe, byte for byte.

Numbers take their smallest form, structs are arrays, and single precision is used in fill values
of single-precision types only. A `zarr.json` is taken apart, the inverse of alpha_metadata.py:
fields that have no place are left out, as they were then, or refused where the data could not be
read again, such as data types that the documents do not list.
"""

import json
import math
import struct
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs, Inline, Payload, RefKind, Virtual
from frazil.format.generation import Generation
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, Node
from frazil.format.snapshot import Snapshot, SnapshotHead
from frazil.generations.alpha_metadata import WHOLE, array_document, zarr_json
from frazil.generations.msgpack_values import (
    LONG_SIZE,
    format_time,
    id_text,
    json_object,
    node_number,
)
from frazil.ids import ManifestId, SnapshotId, format_ids

_SINGLE = {"Float16", "Float32", "Complex64"}
_MAX_HISTORY = 2**16 - 1  # entries: that many can be counted


def encode_old_snapshot(
    snapshot: Snapshot, history: Sequence[SnapshotHead], generation: Generation
) -> bytes:
    """`history` are the ancestors, the parent first."""
    is_first = generation is Generation.ALPHA1
    kept = list(history[:_MAX_HISTORY])
    commits = tuple(_commit(head, long=is_first) for head in kept)
    nodes = sorted(snapshot.nodes, key=lambda node: node.path.segments)
    files = tuple(_id(file.id, long=is_first) for file in snapshot.manifest_files)
    parts = (
        len(history),
        len(kept),
        tuple(reversed(commits)) if is_first else commits,  # the oldest first, then
        _commit(snapshot.head, long=is_first),
        format_time(snapshot.flushed_at_us),
        snapshot.metadata,
        {node.path.text: _node(node, generation) for node in nodes},
    )
    start: tuple[Any, ...] = () if is_first else (0, {}, tuple((file, 0) for file in files), ())
    return pack_snapshot((*start, *parts))


def encode_old_manifest(manifest: Manifest, generation: Generation) -> bytes:
    chunks: dict[Any, Any] = {}
    for node, refs in sorted(manifest.arrays.items()):
        number = node_number(node.raw)
        keys = [(number, tuple(index)) for index in refs.index.tolist()]
        chunks.update(zip(keys, _payloads(refs, generation), strict=True))
    parts = (chunks,) if generation is Generation.ALPHA1 else (0, {}, chunks)
    packed: bytes = msgpack.packb(parts)
    return packed


def pack_snapshot(parts: Sequence[Any]) -> bytes:
    """The fields of a snapshot file, the nodes last, with fill values in their precision."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(parts))
    for each in parts[:-1]:
        _pack(packer, each)
    nodes: Mapping[str, tuple[Any, ...]] = parts[-1]
    packer.pack_map_header(len(nodes))
    found = [packer.bytes()]
    packer.reset()
    for path, node in nodes.items():
        packer.pack(path)
        packer.pack_array_header(len(node))
        for each in node[:-1]:
            _pack(packer, each)
        found += [packer.bytes(), _packed_data(node[-1])]
        packer.reset()
    return b"".join(found)


def _pack(packer: Any, value: Any) -> None:
    try:
        packer.pack(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidInputError(f"metadata cannot be stored: {error}") from error


def _packed_data(data: Any) -> bytes:
    """The variant of a node: a group, or an array with its metadata and manifests."""
    packer = msgpack.Packer(autoreset=False)
    if not isinstance(data, dict):
        packer.pack(data)
        return _flush_packer(packer)
    metadata, manifests = data["Array"]
    packer.pack_map_header(1)
    packer.pack("Array")
    packer.pack_array_header(2)
    packer.pack_array_header(len(metadata))
    for each in metadata[:4]:
        _pack(packer, each)
    start = _flush_packer(packer)
    fill = metadata[4]
    single = msgpack.Packer(use_single_float=not _SINGLE.isdisjoint(fill))
    packed: bytes = single.pack(fill)
    for each in (*metadata[5:], manifests):
        _pack(packer, each)
    return start + packed + _flush_packer(packer)


def _flush_packer(packer: Any) -> bytes:
    data: bytes = packer.bytes()
    packer.reset()
    return data


def _id(identity: SnapshotId | ManifestId, *, long: bool) -> str:
    return id_text(identity.raw, long=long)


def _commit(head: SnapshotHead, *, long: bool) -> tuple[str, str, str]:
    return _id(head.id, long=long), format_time(head.flushed_at_us), head.message


def _node(node: Node, generation: Generation) -> tuple[Any, ...]:
    attributes, metadata = node_parts(node.user_data, generation)
    data: Any = "Group"
    if node.array is not None:
        data = {"Array": (metadata, _manifests(node.array, generation))}
    return node_number(node.id.raw), node.path.text, attributes, data


def _manifests(array: ArrayData, generation: Generation) -> tuple[Any, ...]:
    """Extents are written only for several manifests: a single one holds all chunks."""
    is_first = generation is Generation.ALPHA1
    found = []
    for ref in array.manifests:
        bounds: tuple[Any, ...] = ()
        if len(array.manifests) > 1 and ref.extents:
            bounds = tuple(zip(*ref.extents, strict=True))
        flags = ((),) if is_first else ()
        found.append((_id(ref.id, long=is_first), *flags, bounds))
    return tuple(found)


def _payloads(refs: ChunkRefs, generation: Generation) -> Iterator[dict[str, Any]]:
    ids = refs.chunk_id
    if generation is Generation.ALPHA1:
        ids = np.pad(ids, ((0, 0), (0, LONG_SIZE - ids.shape[1])))
    places = zip(format_ids(ids), refs.offset.tolist(), refs.length.tolist(), strict=True)
    for row, (kind, place) in enumerate(zip(refs.kind.tolist(), places, strict=True)):
        if kind == RefKind.NATIVE:
            yield {"Ref": place}
        else:
            yield _payload(refs.payload(row), generation)


def _payload(found: Payload, generation: Generation) -> dict[str, Any]:
    is_first = generation is Generation.ALPHA1
    match found:
        case Inline(data):
            return {"Inline": bytes(data)}
        case Virtual(location, offset, length, None):
            place = location if is_first else {"Absolute": location}
            return {"Virtual": (place, offset, length)}
        case _:
            raise InvalidInputError(
                f"generation {generation} has no checksums of virtual chunks", kind="bad-metadata"
            )


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
    """The fields of an array's metadata. Raises InvalidInputError for metadata without a field."""
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
    raise _metadata_error(
        "an array without a shape, type, regular chunk grid, fill value or codecs"
    )


def node_parts(user_data: bytes, generation: Generation) -> tuple[Any, Any]:
    """The attributes and, of an array, the metadata."""
    document = json.loads(user_data)
    attributes = document.get("attributes")
    kept = None if attributes is None else {"Inline": json_object(attributes, "attributes")}
    is_group = document.get("node_type") == "group"
    return kept, None if is_group else array_parts(document, generation)


def roundtrip_metadata(user_data: bytes, generation: Generation) -> bytes:
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
    raise _metadata_error(f"chunk_key_encoding is {encoding!r}, expected default")


def _named_parts(listed: Any) -> tuple[Any, ...]:
    parts = []
    for each in listed:
        match each:
            case str():
                parts.append((each, None))
            case {"name": str() as name}:
                parts.append((name, each.get("configuration")))
            case _:
                raise _metadata_error(f"a codec is {each!r}, expected a name and a configuration")
    return tuple(parts)


def _fill(data_type: Any, value: Any, generation: Generation) -> tuple[Any, dict[str, Any]]:
    """The data type and the fill value, as stored."""
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
        raise _metadata_error(f"fill_value is {value!r} in an array of {data_type!r}") from error
    raise _metadata_error(
        f"an array of {data_type!r} with fill_value {value!r} cannot be stored in generation"
        f" {generation}"
    )


def _number(data_type: str, value: Any) -> dict[str, Any] | None:
    """The fill value of a numeric data type; None for another type."""
    if data_type == "bool" and isinstance(value, bool):
        return {"Bool": value}
    if data_type in _NUMBERS:
        return _integer(_NUMBERS[data_type], value)
    if data_type in _FLOATS:
        return {_FLOATS[data_type]: _float(value, data_type)}
    if data_type in _COMPLEX:
        name, part = _COMPLEX[data_type]
        real, imaginary = value
        return {name: (_float(real, part), _float(imaginary, part))}
    return None


def _integer(name: str, value: Any) -> dict[str, Any]:
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


def _metadata_error(reason: str) -> InvalidInputError:
    return InvalidInputError(f"bad zarr metadata: {reason}", kind="bad-metadata")
