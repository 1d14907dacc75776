"""Snapshots and transaction logs before version 1, decoded to the records of version 2.

History: up to A3c each snapshot lists all of its ancestors, from A3d on it names its parent, and
snapshots of A1a have no history. A transaction log is

    [version, new_groups, new_arrays, deleted_groups, deleted_arrays, updated_user_attributes,
     updated_zarr_metadata, {node: [[i, j ...] ...]}]                   A3e has no version

Version 1 lists updated nodes as groups and arrays instead, which needs the snapshot's nodes.
"""

from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.envelope import FileType
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes, id_column
from frazil.format.schemas import NODE_ARRAY
from frazil.format.snapshot import ManifestFile, Snapshot, SnapshotHead
from frazil.format.transaction_log import TransactionLog, decode_txlog
from frazil.generations.alpha_manifest import index_rows
from frazil.generations.alpha_metadata import array_document, zarr_json
from frazil.generations.msgpack_values import (
    Fields,
    describe_value,
    fields,
    is_flatbuffer,
    items,
    json_object,
    mapping,
    node_id,
    number,
    object_id,
    parse_time,
    payload,
    text,
    unpack,
    variant,
)
from frazil.generations.v1pre import decode_v1pre
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath

BARE, EARLY, LISTED, ENVELOPED, LINKED = 1, 7, 11, 9, 8  # by their number of fields


@dataclass(frozen=True, slots=True)
class OldSnapshot:
    """A snapshot, and the history that its file lists.

    `snapshot.id` is the name of the file. Up to A2f the first snapshot of a repository calls itself
    something else inside, `own_id`, and its descendants call it that.
    """

    snapshot: Snapshot
    own_id: SnapshotId
    history: tuple[SnapshotHead, ...]  # all ancestors, the parent first; none from A3d on
    fields: int  # of the file: which layout it has; 0 for those in FlatBuffers


def decode_old_snapshot(
    data: Buffer, name: SnapshotId, *, max_size: int | None = None
) -> OldSnapshot:
    """Decodes a snapshot. `name` is that of the file."""
    content = payload(data, FileType.SNAPSHOT, max_size=max_size)
    if is_flatbuffer(content):
        snapshot = decode_v1pre(content)
        return OldSnapshot(snapshot, snapshot.id, (), 0)
    parts = fields(unpack(content), (BARE, EARLY, LISTED, ENVELOPED, LINKED), "a snapshot")
    match len(parts):
        case 1:
            return _decode_bare(parts, name)
        case 8:
            return _decode_linked(parts, name)
        case _:
            return _decode_listed(parts, name)


def _decode_bare(parts: Fields, name: SnapshotId) -> OldSnapshot:
    snapshot = Snapshot(
        id=name,
        parent_id=None,
        flushed_at_us=0,
        message="",
        metadata={},
        manifest_files=(),
        nodes=_nodes(parts[0]),
    )
    return OldSnapshot(_with_files(snapshot), name, (), BARE)


def _decode_listed(parts: Fields, name: SnapshotId) -> OldSnapshot:
    files: Any = ()
    match len(parts):
        case 11:
            files = parts[2]
        case 9:
            files = parts[0]
    _, _, listed, metadata, _, properties, nodes = parts[-7:]
    history = _newest_first(items(listed, "the history of a snapshot"))
    own = _commit(metadata, {})
    snapshot = Snapshot(
        id=name,
        parent_id=history[0].id if history else None,
        flushed_at_us=own.flushed_at_us,
        message=own.message,
        metadata=json_object(properties, "the metadata of a snapshot"),
        manifest_files=_manifest_files(files),
        nodes=_nodes(nodes),
    )
    return OldSnapshot(_with_files(snapshot), own.id, history, len(parts))


def _decode_linked(parts: Fields, name: SnapshotId) -> OldSnapshot:
    own, parent, flushed_at, message, metadata, files, _, nodes = parts
    snapshot = Snapshot(
        id=name,
        parent_id=None if parent is None else SnapshotId(object_id(parent, "a parent")),
        flushed_at_us=parse_time(flushed_at, "the time of a snapshot"),
        message=text(message, "the message of a snapshot"),
        metadata=json_object(metadata, "the metadata of a snapshot"),
        manifest_files=_manifest_files(files),
        nodes=_nodes(nodes),
    )
    own_id = SnapshotId(object_id(own, "the id of a snapshot"))
    return OldSnapshot(_with_files(snapshot), own_id, (), LINKED)


def _commit(value: Any, metadata: dict[str, Json]) -> SnapshotHead:
    own, written_at, message = fields(value, (3,), "an entry of a history")
    return SnapshotHead(
        id=SnapshotId(object_id(own, "the id of a snapshot")),
        parent_id=None,
        flushed_at_us=parse_time(written_at, "the time of a snapshot"),
        message=text(message, "the message of a snapshot"),
        metadata=metadata,
    )


def _newest_first(listed: Fields) -> tuple[SnapshotHead, ...]:
    """Ancestors, the parent first: up to A1c files list the oldest first, as times show."""
    heads = [_commit(each, {}) for each in listed]
    if len(heads) > 1 and heads[0].flushed_at_us < heads[-1].flushed_at_us:
        heads.reverse()
    if not heads:
        return ()
    parents = [head.id for head in heads[1:]]
    return tuple(
        SnapshotHead(head.id, parent, head.flushed_at_us, head.message, head.metadata)
        for head, parent in zip(heads, [*parents, None], strict=True)
    )


def _manifest_files(value: Any) -> tuple[ManifestFile, ...]:
    """[id, version, size, rows], of which the later fields, and in A3e the version, are missing."""
    found = []
    for each in items(value, "the list of manifests"):
        parts = fields(each, (2, 3, 4), "an entry of the list of manifests")
        sizes = parts[1:] if _is_unversioned(parts) else parts[2:]
        size, rows = (*(number(one, "the size of a manifest") for one in sizes), 0, 0)[:2]
        found.append(ManifestFile(ManifestId(object_id(parts[0], "a manifest id")), size, rows))
    return tuple(found)


def _is_unversioned(parts: Fields) -> bool:
    """Three fields are [id, size, rows] in A3e and [id, version, size] before A3c.

    The one has ids of bytes and sizes of at least a header, the other versions of 0 or 1.
    """
    is_known = parts[1] in (0, 1)
    return len(parts) == 3 and isinstance(parts[0], tuple) and not is_known


def _with_files(snapshot: Snapshot) -> Snapshot:
    """Lists every manifest that nodes use: earlier generations do not list them."""
    known = {file.id.raw for file in snapshot.manifest_files}
    used = {raw.tobytes() for raw in snapshot.nodes.manifest_ids()} - known
    more = tuple(ManifestFile(ManifestId(raw), 0, 0) for raw in sorted(used))
    if not more:
        return snapshot
    return Snapshot(
        id=snapshot.id,
        parent_id=snapshot.parent_id,
        flushed_at_us=snapshot.flushed_at_us,
        message=snapshot.message,
        metadata=snapshot.metadata,
        manifest_files=(*snapshot.manifest_files, *more),
        nodes=snapshot.nodes,
    )


def _nodes(value: Any) -> Nodes:
    nodes = [_node(key, each) for key, each in mapping(value, "the nodes of a snapshot").items()]
    return Nodes.from_nodes(nodes)


def _node(key: Any, value: Any) -> Node:
    own, path, attributes, data = fields(value, (4,), "a node")
    if key != path:
        raise FormatError(
            f"a node is listed as {describe_value(key)} and calls itself {describe_value(path)}"
        )
    try:
        place = NodePath(text(path, "the path of a node"))
    except InvalidInputError as error:
        raise FormatError(f"node path is not valid: {error}") from error
    given = None if attributes is None else _attributes(attributes)
    identity = NodeId(node_id(own))
    if data == "Group":
        return Node(identity, place, zarr_json(None, given))
    name, content = variant(data, "what a node is")
    if name != "Array":
        raise FormatError(f"a node is {name[:20]!r}, neither an array nor a group")
    metadata, manifests = fields(content, (2,), "an array")
    found = array_document(metadata)
    refs = tuple(
        manifest_ref(each, found.num_chunks) for each in items(manifests, "an array's manifests")
    )
    array = ArrayData(found.shape, found.num_chunks, found.dimension_names, refs)
    return Node(identity, place, zarr_json(found.document, given), array)


def _attributes(value: Any) -> dict[str, Json]:
    name, content = variant(value, "the attributes of a node")
    if name != "Inline":  # files of attributes were planned, and never written
        raise FormatError("attributes in a file of their own were never defined")
    return json_object(content, "the attributes of a node")


def manifest_ref(value: Any, grid: tuple[int, ...]) -> ManifestRef:
    """[id, extents], up to A2b with flags between.

    Extents are [] up to A3b: any chunk may be there. From A3c on they are [[from ...], [to ...]].
    """
    parts = fields(value, (2, 3), "a reference to a manifest")
    manifest = ManifestId(object_id(parts[0], "a manifest id"))
    bounds = items(parts[-1], "the extents of a manifest")
    if not bounds:
        return ManifestRef(manifest, tuple((0, count) for count in grid))
    starts, stops = (
        [number(each, "a chunk index", bits=32) for each in items(bound, "an extent")]
        for bound in fields(bounds, (2,), "the extents of a manifest")
    )
    if not len(starts) == len(stops) == len(grid):
        raise FormatError("the extents of a manifest are of another dimensionality than its array")
    return ManifestRef(manifest, tuple(zip(starts, stops, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class OldLog:
    """A log, with the updated nodes in one list."""

    log: TransactionLog
    updated: frozenset[bytes]

    def resolved(self, nodes: Nodes) -> TransactionLog:
        """The log with updated arrays and groups apart; new nodes are not listed as updated."""
        log = self.log
        new = {raw.tobytes() for ids in (log.new_groups, log.new_arrays) for raw in ids}
        is_array = nodes.table.union("node_data").types == NODE_ARRAY
        arrays, groups = list[bytes](), list[bytes]()
        for raw, array in zip(nodes.raw_ids(), is_array.tolist(), strict=True):
            if raw in self.updated and raw not in new:
                (arrays if array else groups).append(raw)
        return TransactionLog(
            id=log.id,
            new_groups=log.new_groups,
            new_arrays=log.new_arrays,
            deleted_groups=log.deleted_groups,
            deleted_arrays=log.deleted_arrays,
            updated_arrays=_sorted_ids(arrays),
            updated_groups=_sorted_ids(groups),
            updated_chunks=log.updated_chunks,
        )


def decode_old_log(data: Buffer, name: SnapshotId, *, max_size: int | None = None) -> OldLog:
    """Decodes a transaction log. `name` is that of the file, and of the snapshot."""
    content = payload(data, FileType.TRANSACTION_LOG, max_size=max_size)
    if is_flatbuffer(content):
        log = decode_txlog(data, max_size=max_size)
        both = (log.updated_arrays, log.updated_groups)
        return OldLog(log, frozenset(raw.tobytes() for ids in both for raw in ids))
    parts = fields(unpack(content), (7, 8), "a transaction log")[-7:]
    updated = {node_id(each) for one in parts[4:6] for each in items(one, "a list of nodes")}
    log = TransactionLog(
        id=name,
        new_groups=_ids(parts[0]),
        new_arrays=_ids(parts[1]),
        deleted_groups=_ids(parts[2]),
        deleted_arrays=_ids(parts[3]),
        updated_chunks=_chunks(parts[6]),
    )
    return OldLog(log, frozenset(updated))


def _ids(value: Any) -> npt.NDArray[np.uint8]:
    return _sorted_ids([node_id(each) for each in items(value, "a list of nodes")])


def _sorted_ids(raw: list[bytes]) -> npt.NDArray[np.uint8]:
    return id_column(sorted(raw), NodeId.size)


def _chunks(value: Any) -> dict[NodeId, npt.NDArray[np.uint32]]:
    found = {}
    for node, listed in mapping(value, "the updated chunks").items():
        rows = items(listed, "a list of chunks")
        if len({len(items(each, "a chunk index")) for each in rows}) > 1:
            raise FormatError("chunk indices of one array differ in length")
        if rows:
            found[NodeId(node_id(node))] = index_rows(list(rows))
    return found
