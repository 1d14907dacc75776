"""Snapshots of the generations before version 1, as the records of today.

What there is of history: up to A3c each snapshot lists all of its ancestors, from A3d on it names
its parent, and those of A1a say nothing at all. FORMATS: 4.3.
"""

from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.alpha.identities import node_id, object_id
from frazil.format.alpha.times import parse_time
from frazil.format.alpha.unpacking import (
    Fields,
    fields,
    is_flatbuffer,
    items,
    mapping,
    named,
    number,
    payload,
    shown,
    text,
    unpack,
    variant,
)
from frazil.format.alpha.v1pre import decode_v1pre
from frazil.format.alpha.zarr_metadata import array_document, zarr_json
from frazil.format.envelope import FileType
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.snapshot import ManifestFile, Snapshot, SnapshotHead
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath

BARE, EARLY, LISTED, ENVELOPED, LINKED = 1, 7, 11, 9, 8  # by their number of fields


@dataclass(frozen=True, slots=True)
class OldSnapshot:
    """A snapshot, and what its file says beyond that.

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
    """`name` is that of the file."""
    content = payload(data, FileType.SNAPSHOT, max_size=max_size)
    if is_flatbuffer(content):
        snapshot = decode_v1pre(content)
        return OldSnapshot(snapshot, snapshot.id, (), 0)
    parts = fields(unpack(content), (BARE, EARLY, LISTED, ENVELOPED, LINKED), "a snapshot")
    match len(parts):
        case 1:
            return _bare(parts, name)
        case 8:
            return _linked(parts, name)
        case _:
            return _listed(parts, name)


def _bare(parts: Fields, name: SnapshotId) -> OldSnapshot:
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


def _listed(parts: Fields, name: SnapshotId) -> OldSnapshot:
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
        metadata=named(properties, "the metadata of a snapshot"),
        manifest_files=_manifest_files(files),
        nodes=_nodes(nodes),
    )
    return OldSnapshot(_with_files(snapshot), own.id, history, len(parts))


def _linked(parts: Fields, name: SnapshotId) -> OldSnapshot:
    own, parent, flushed_at, message, metadata, files, _, nodes = parts
    snapshot = Snapshot(
        id=name,
        parent_id=None if parent is None else SnapshotId(object_id(parent, "a parent")),
        flushed_at_us=parse_time(flushed_at, "the time of a snapshot"),
        message=text(message, "the message of a snapshot"),
        metadata=named(metadata, "the metadata of a snapshot"),
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
    """Up to A1c the oldest comes first; times tell, and where they do not the order is today's."""
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
    return len(parts) == 3 and isinstance(parts[0], tuple) and parts[1] not in {0, 1}


def _with_files(snapshot: Snapshot) -> Snapshot:
    """With every manifest in use among those listed: earlier generations do not list them."""
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
        manifest_files=snapshot.manifest_files + more,
        nodes=snapshot.nodes,
    )


def _nodes(value: Any) -> Nodes:
    nodes = [_node(key, each) for key, each in mapping(value, "the nodes of a snapshot").items()]
    return Nodes.from_nodes(nodes)


def _node(key: Any, value: Any) -> Node:
    own, path, attributes, data = fields(value, (4,), "a node")
    if key != path:
        raise FormatError(f"a node is listed as {shown(key)} and calls itself {shown(path)}")
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
    if name != "Inline":  # elsewhere: planned, and never written by anybody
        raise FormatError("attributes in a file of their own were never defined")
    return named(content, "the attributes of a node")


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
