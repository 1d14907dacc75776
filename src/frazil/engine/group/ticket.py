"""Tickets: a commit as an object that another writer can make. See docs/design/035.

    offset  size  field
       0      7   magic       "frzlTKT"
       7      1   format      1; the rule of what fits is part of it
       8     32   checksum    sha256 of everything that follows
      40     20   lengths     of the five parts, 4 bytes each, little-endian

    head        a FlexBuffers map: branch, base, logged
    before      a snapshot file: nodes of the base that the changes concern
    after       a snapshot file: nodes that are new or changed; message and metadata of the commit
    references  a manifest file: chunks that were set
    log         a transaction log file: every change

Arrays have no manifests here: the writer that makes the commit takes those of the branch's tip.
"""

import hashlib
import struct
from collections.abc import Buffer, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import ChunkChanges, PendingChunks
from frazil.engine.changes.transaction_logs import ids_in
from frazil.engine.commit.commit import transaction_log
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.nodes import Node, Nodes
from frazil.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from frazil.format.transaction_log import TransactionLog, decode_txlog, encode_txlog
from frazil.ids import ManifestId, NodeId, SnapshotId

MAX_BYTES = 1 << 20
_FORMAT = 1
_START = struct.Struct("<7sB32s5I")
_MAGIC = b"frzlTKT"
_CHECKED_FROM = 40
_NO_ID, _NO_MANIFEST = SnapshotId(bytes(12)), ManifestId(bytes(12))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ticket:
    branch: str
    base: SnapshotId
    message: str
    metadata: dict[str, Json]
    logged_us: int  # of the newest entry of the ops log that its author had seen
    changes: ChangeSet  # on top of those nodes of the base that they concern


def can_be_staged(changes: ChangeSet) -> bool:
    """False for changes that only their author can commit."""
    edited = {node.id for node in changes.edited.values() if node is not None}
    return (
        not changes.moved
        and not changes.attached
        and changes.log_writer is None
        and edited == changes.created | changes.updated
    )


def encode_ticket(ticket: Ticket) -> bytes:
    """Its changes are those of a session: the base has all nodes of the snapshot."""
    changes = ticket.changes
    chunks = {i: pending.changes() for i, pending in changes.chunks.items()}
    chunks = {i: each for i, each in chunks.items() if len(each.refs) or len(each.deleted)}
    log = transaction_log(_NO_ID, changes)
    log = replace(log, updated_chunks={i: log.updated_chunks[i] for i in chunks})
    after = [node for node in changes.edited.values() if node is not None]
    head: Json = {"branch": ticket.branch, "base": str(ticket.base), "logged": ticket.logged_us}
    parts = [
        encode_flexbuffer(head),
        encode_snapshot(_snapshot(_nodes_before(changes, chunks))),
        encode_snapshot(_snapshot(after, ticket.message, ticket.metadata)),
        encode_manifest(
            Manifest(
                id=_NO_MANIFEST,
                arrays={i: each.refs for i, each in chunks.items() if len(each.refs)},
            )
        ),
        encode_txlog(log),
    ]
    checked = struct.pack("<5I", *map(len, parts)) + b"".join(parts)
    digest = hashlib.sha256(checked, usedforsecurity=False).digest()
    return _MAGIC + bytes([_FORMAT]) + digest + checked


def decode_ticket(data: Buffer) -> Ticket:
    """Raises FormatError, also for a format that this version does not know."""
    head, *files = _parts(bytes(data))
    branch, base, logged_us = _decode_head(head)
    before, after = decode_snapshot(files[0]), decode_snapshot(files[1])
    changes = _decode_changes(
        before.nodes, list(after.nodes), decode_manifest(files[2]).arrays, decode_txlog(files[3])
    )
    return Ticket(
        branch=branch,
        base=base,
        message=after.message,
        metadata=after.metadata,
        logged_us=logged_us,
        changes=changes,
    )


def _parts(data: bytes) -> list[bytes]:
    if len(data) > MAX_BYTES or len(data) < _START.size:
        raise FormatError(f"a ticket of {len(data)} bytes")
    magic, number, digest, *lengths = _START.unpack_from(data)
    if magic != _MAGIC or number != _FORMAT:
        raise FormatError("not a ticket, or one of another format")
    if hashlib.sha256(data[_CHECKED_FROM:], usedforsecurity=False).digest() != digest:
        raise FormatError("a ticket that is damaged")
    if sum(lengths) != len(data) - _START.size:
        raise FormatError("a ticket whose parts are not as long as it says")
    stops = np.cumsum([_START.size, *lengths]).tolist()
    return [data[start:stop] for start, stop in pairwise(stops)]


def _decode_head(data: bytes) -> tuple[str, SnapshotId, int]:
    match decode_flexbuffer(data):
        case {"branch": str(branch), "base": str(base), "logged": int(logged_us)}:
            try:
                return branch, SnapshotId.parse(base), logged_us
            except ValueError as error:
                raise FormatError(f"a ticket with the base {base!r}") from error
    raise FormatError("a ticket without a branch, a base or a time")


def _snapshot(
    nodes: Iterable[Node], message: str = "", metadata: Mapping[str, Json] | None = None
) -> Snapshot:
    return Snapshot(
        id=_NO_ID,
        parent_id=None,
        flushed_at_us=0,
        message=message,
        metadata=dict(metadata or {}),
        manifest_files=(),
        nodes=Nodes.from_nodes(sorted(map(_without_manifests, nodes), key=lambda n: n.path.raw)),
    )


def _without_manifests(node: Node) -> Node:
    if node.array is None or not node.array.manifests:
        return node
    return replace(node, array=replace(node.array, manifests=()))


def _nodes_before(changes: ChangeSet, chunks: Iterable[NodeId]) -> list[Node]:
    """Nodes of the base that are changed or deleted, and groups above new ones."""
    paths = {node.path for node in changes.deleted.values()}
    for node in changes.edited.values():
        if node is not None:
            paths |= {node.path, *node.path.ancestors}
    paths |= {path for node_id in chunks if (path := changes.path_of(node_id)) is not None}
    found = (changes.base.lookup(path) for path in paths)
    return [node for node in found if node is not None]


def _decode_changes(
    base: Nodes, after: list[Node], refs: Mapping[NodeId, ChunkRefs], log: TransactionLog
) -> ChangeSet:
    """The change set; every part must agree with the others."""
    before = {node.id: node for node in base}
    edited = {node.id: node for node in after}
    arrays = {"created": ids_in(log.new_arrays), "updated": ids_in(log.updated_arrays)}
    groups = {"created": ids_in(log.new_groups), "updated": ids_in(log.updated_groups)}
    created, updated = (arrays[each] | groups[each] for each in ("created", "updated"))
    deleted = ids_in(log.deleted_arrays, log.deleted_groups)
    is_array = arrays["created"] | arrays["updated"] | ids_in(log.deleted_arrays)
    sound = [
        not log.moved,
        len(before) == len(base),
        len(edited) == len(after) == len({node.path for node in after}),
        edited.keys() == created | updated,
        created.isdisjoint(before) and updated <= before.keys(),
        deleted <= before.keys() - updated,
        all(before[i].path == edited[i].path for i in updated & before.keys()),
        all(node.is_array == (i in is_array) for i, node in edited.items()),
        all(before[i].is_array == (i in is_array) for i in (updated | deleted) & before.keys()),
        all(_has_no_manifests(node) for node in (*before.values(), *after)),
        refs.keys() <= log.updated_chunks.keys(),
    ]
    if not all(sound):
        raise FormatError("a ticket whose parts do not agree")
    changes = ChangeSet(base)
    for node_id in deleted:
        changes.deleted[node_id] = before[node_id]
        changes.edited[before[node_id].path.text] = None
    for node in after:
        occupant = base.lookup(node.path)
        if node.id in created and occupant is not None and occupant.id not in deleted:
            raise FormatError("a ticket with a new node in the place of another")
        changes.edited[node.path.text] = node
    changes.created, changes.updated = created, updated
    for node_id, index in log.updated_chunks.items():
        array = edited.get(node_id) or before.get(node_id)
        if array is None or node_id in deleted:
            raise FormatError("a ticket with chunks of an unknown array")
        changes.find_node(array.path)  # so that it is found by its id
        changes.chunks[node_id] = _decode_chunks(array, refs.get(node_id), index)
    return changes


def _has_no_manifests(node: Node) -> bool:
    array = node.array
    return array is None or (not array.manifests and len(array.shape) == len(array.num_chunks))


def _decode_chunks(
    node: Node, refs: ChunkRefs | None, index: npt.NDArray[np.uint32]
) -> PendingChunks:
    """Chunks of the log that have no reference were deleted."""
    ndim = -1 if node.array is None else len(node.array.shape)
    refs = ChunkRefs.empty(ndim) if refs is None and ndim >= 0 else refs
    if refs is None or refs.ndim != ndim or index.shape[1] != ndim:
        raise FormatError("a ticket with chunks of another number of dimensions")
    index = distinct(index)
    rows = refs.lookup(index)
    if np.count_nonzero(rows >= 0) != len(refs):
        raise FormatError("a ticket with references that its log does not list")
    return PendingChunks.of(ChunkChanges(refs=refs, deleted=index[rows < 0]))
