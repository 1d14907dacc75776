"""Snapshots and manifests written as alpha1 and alpha2 describe them, byte for byte as then.

Numbers take their smallest form, structs are arrays, and single precision is used where the type
says so: in fill values, and nowhere else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np

from frazil.errors import InvalidInputError
from frazil.format.alpha.identities import LONG_SIZE, id_text, node_number
from frazil.format.alpha.times import format_time
from frazil.format.alpha.zarr_packing import node_parts
from frazil.format.chunk_refs import ChunkRefs, Inline, Payload, RefKind, Virtual
from frazil.format.generation import Generation
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, Node
from frazil.format.snapshot import Snapshot, SnapshotHead
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
    """What a node is: a group, or an array with its metadata and manifests."""
    packer = msgpack.Packer(autoreset=False)
    if not isinstance(data, dict):
        packer.pack(data)
        return _taken(packer)
    metadata, manifests = data["Array"]
    packer.pack_map_header(1)
    packer.pack("Array")
    packer.pack_array_header(2)
    packer.pack_array_header(len(metadata))
    for each in metadata[:4]:
        _pack(packer, each)
    start = _taken(packer)
    fill = metadata[4]
    single = msgpack.Packer(use_single_float=not _SINGLE.isdisjoint(fill))
    packed: bytes = single.pack(fill)
    for each in (*metadata[5:], manifests):
        _pack(packer, each)
    return start + packed + _taken(packer)


def _taken(packer: Any) -> bytes:
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
    """Extents only where there are several: a single one holds whatever there is."""
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
