"""The payloads of files that say little, from plain records (flatbuf/plain.py).

A commit of one chunk writes three such files. They say the same as those made of columns.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, encode_flexbuffer
from frazil.flatbuf.plain import Alike, encode_plain, raw_cells
from frazil.format.chunk_refs import (
    ChunkRefs,
    ETag,
    Inline,
    LastModified,
    Native,
    Payload,
    RefKind,
    Virtual,
)
from frazil.format.nodes import Node
from frazil.format.schemas import (
    IDENTIFIER,
    MANIFEST,
    NODE_ARRAY,
    NODE_GROUP,
    SNAPSHOT,
    TRANSACTION_LOG,
)
from frazil.ids import ManifestId, NodeId, SnapshotId

FEW = 16  # references, changed chunks and nodes up to which this is faster
_ALIKE = 4  # references up to which it is faster to write them one by one

type Record = dict[str, Any]


def manifest_payload(
    manifest: ManifestId, arrays: Mapping[NodeId, ChunkRefs], *, spec_version: int
) -> bytearray | None:
    """None if it has too many references that are not alike. Locations are not compressed."""
    listed: list[Record] = []
    one_by_one = 0
    for node, refs in sorted(arrays.items()):
        rows = _alike(refs) if len(refs) > _ALIKE else None
        one_by_one += len(refs) if rows is None else 0
        if one_by_one > FEW:
            return None
        listed.append({"node_id": node.raw, "refs": _references(refs) if rows is None else rows})
    record: Record = {
        "id": manifest.raw,
        "arrays": listed,
        # Absent would mean 1, so that 0 is written out.
        "compression_algorithm": 0 if spec_version >= 2 else None,
    }
    return encode_plain(MANIFEST, record, identifier=IDENTIFIER)


def _alike(refs: ChunkRefs) -> Alike | None:
    """Those of an array that are all native, or all inline and of one length."""
    kind, count = refs.kind[0], len(refs)
    if kind == RefKind.VIRTUAL or not (refs.kind == kind).all():
        return None
    sample: Record = {"index": [0] * refs.ndim}
    fields = {"index": raw_cells(refs.index, "<u4")}
    if kind == RefKind.NATIVE:
        sample |= {"chunk_id": bytes(12), "length": 0}
        fields |= {"chunk_id": refs.chunk_id, "length": raw_cells(refs.length, "<u8")}
        if refs.offset.any():
            sample["offset"], fields["offset"] = 0, raw_cells(refs.offset, "<u8")
        return Alike(sample, fields, count)
    length, codes = int(refs.length[0]), refs.inline.codes
    if not ((refs.length == length) & (codes >= 0)).all():
        return None
    sample["inline"] = bytes(length)
    content = refs.inline.strings.take(codes).joined()
    return Alike(sample, fields | {"inline": content.reshape(count, length)}, count)


def _references(refs: ChunkRefs) -> list[Record]:
    return [
        {"index": index} | _reference(refs.payload(row))
        for row, index in enumerate(refs.index.tolist())
    ]


def _reference(payload: Payload) -> Record:
    match payload:
        case Inline(data):
            return {"inline": data}
        case Native(chunk_id, offset, length):
            return {"chunk_id": chunk_id.raw, "offset": offset or None, "length": length}
        case Virtual(location, offset, length, checksum):
            placed = {"location": location, "offset": offset or None, "length": length}
            match checksum:
                case ETag(value):
                    return placed | {"checksum_etag": value}
                case LastModified(seconds):
                    return placed | {"checksum_last_modified": seconds}
                case None:
                    return placed


def log_payload(
    snapshot: SnapshotId,
    node_lists: Sequence[tuple[str, npt.NDArray[np.uint8]]],
    chunks: Mapping[NodeId, npt.NDArray[np.uint32]],
    *,
    spec_version: int,
) -> bytearray:
    """Of a log without moves."""
    record: Record = {"id": snapshot.raw}
    for name, ids in node_lists:
        record[name] = b"".join(sorted(raw.tobytes() for raw in ids)) if len(ids) else b""
    record["updated_chunks"] = [
        {
            "node_id": node.raw,
            "chunks": [{"coords": coords} for coords in sorted({*map(tuple, index.tolist())})],
        }
        for node, index in sorted(chunks.items())
    ]
    if spec_version >= 2:
        record["moved_nodes"] = []
    return encode_plain(TRANSACTION_LOG, record, identifier=IDENTIFIER)


def metadata_items(metadata: Mapping[str, Json]) -> list[Record]:
    """In files of version 2."""
    return [
        {"name": name, "value": encode_flexbuffer(value)}
        for name, value in sorted(
            ((name.encode(), value) for name, value in metadata.items()), key=lambda item: item[0]
        )
    ]


def snapshot_payload(head: Record, nodes: Sequence[Node], files: Sequence[Record]) -> bytearray:
    """Of version 2: `head` without its lists of nodes and files, both in order."""
    record = head | {
        "nodes": [_node(node) for node in nodes],
        "manifest_files": b"",
        "manifest_files_v2": files,
    }
    return encode_plain(SNAPSHOT, record, identifier=IDENTIFIER)


def _node(node: Node) -> Record:
    array = node.array
    if array is None:
        data: tuple[int, Record] = (NODE_GROUP, {})
    else:
        if any(count >= 2**32 for count in array.num_chunks):
            raise FormatError("an axis has more chunks than the format can count")
        names = array.dimension_names
        axes = zip(array.shape, array.num_chunks, strict=True)
        data = (
            NODE_ARRAY,
            {
                "shape": b"",
                "dimension_names": None if names is None else [{"name": name} for name in names],
                "manifests": [
                    {
                        "object_id": ref.id.raw,
                        "extents": b"".join(pack("<2I", *pair) for pair in ref.extents),
                    }
                    for ref in array.manifests
                ],
                "shape_v2": [{"array_length": length, "num_chunks": n} for length, n in axes],
            },
        )
    return {
        "id": node.id.raw,
        "path": node.path.raw,
        "user_data": node.user_data,
        "node_data": data,
    }
