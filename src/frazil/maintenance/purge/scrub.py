"""Files without what is purged. Pure: decoded files in, others out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.refs.commit_metadata import NOTES, carried_keys, with_keys
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.metadata import encode_metadata
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath

_CONSOLIDATED = "consolidated_metadata"
_RESERVED = ("__icechunk", NOTES)


@dataclass(frozen=True, slots=True, eq=False)
class Scrubbed:
    snapshot: Snapshot
    removed: tuple[Node, ...]


def without_path(snapshot: Snapshot, path: NodePath) -> Scrubbed | None:
    """No node at or below the path, nor what groups above it say of such nodes; None if so."""
    removed = tuple(snapshot.nodes.node(row) for row in snapshot.nodes.under(path))
    above = [
        changed
        for group in path.ancestors
        if (row := snapshot.nodes.find(group)) >= 0
        and (changed := _without_consolidated(snapshot.nodes.node(row), path)) is not None
    ]
    if not removed and not above:
        return None
    nodes = snapshot.nodes.patched(remove=[node.path for node in removed], put=above)
    used = {raw.tobytes() for raw in nodes.manifest_ids()}
    kept = tuple(file for file in snapshot.manifest_files if file.id.raw in used)
    return Scrubbed(replace(snapshot, nodes=nodes, manifest_files=kept), removed)


def with_manifests(snapshot: Snapshot, new: Mapping[ManifestId, ManifestFile]) -> Snapshot | None:
    """The snapshot with some manifests replaced; None if it has none of these."""
    if new.keys().isdisjoint(file.id for file in snapshot.manifest_files):
        return None
    put = [
        replace(node, array=_with_manifests(node.array, new))
        for node in snapshot.nodes
        if node.array is not None
        and not new.keys().isdisjoint(ref.id for ref in node.array.manifests)
    ]
    files = {new.get(file.id, file).id: new.get(file.id, file) for file in snapshot.manifest_files}
    nodes = snapshot.nodes.patched(remove=[], put=put)
    return replace(snapshot, nodes=nodes, manifest_files=tuple(files.values()))


@dataclass(frozen=True, slots=True)
class KeptNodes:
    """Nodes that were at the path in some snapshots and are at another path in others."""

    all: frozenset[NodeId]
    before: frozenset[NodeId]  # those at another path in the snapshot's parent
    after: frozenset[NodeId]  # ... in the snapshot itself

    def unlisted(self, gone: set[NodeId]) -> tuple[set[NodeId], set[NodeId]]:
        """Nodes that the log cannot tell of, and those that it cannot tell the deletion of."""
        return gone | (self.all - self.after), gone | (self.all - self.before)


@dataclass(frozen=True, slots=True)
class MovedNodes:
    """Nodes that were at the path, and the snapshots that have them at another path."""

    nodes: frozenset[NodeId] = frozenset()
    by_snapshot: Mapping[SnapshotId, frozenset[NodeId]] = field(default_factory=dict)
    parents: Mapping[SnapshotId, SnapshotId | None] = field(default_factory=dict)

    def around(self, snapshot: SnapshotId) -> KeptNodes | None:
        """Kept nodes before and after a commit; None if there are none, or it is unknown."""
        if not self.nodes or snapshot not in self.parents:
            return None
        parent, nothing = self.parents[snapshot], frozenset[NodeId]()
        before = nothing if parent is None else self.by_snapshot.get(parent, nothing)
        return KeptNodes(self.nodes, before, self.by_snapshot.get(snapshot, nothing))


def without_nodes(
    log: TransactionLog, gone: set[NodeId], path: NodePath, kept: KeptNodes | None = None
) -> TransactionLog | None:
    """No such node, and no move from or to the path; None if there is none.

    A node that was moved away from there is new where it went; one that was moved there is
    deleted. One that is at another path only in other snapshots (`kept`) is not listed.
    """
    moves = [move for move in log.moved if concerns(move.from_path, move.to_path, path)]
    unlisted, undeleted = (set(gone), set(gone)) if kept is None else kept.unlisted(gone)
    lists = {
        name: ids[~np.isin(_numbers(ids), _keys(_nodes_to_drop(name, unlisted, undeleted)))]
        for name, ids in log.node_lists()
    }
    chunks = {node: index for node, index in log.updated_chunks.items() if node not in unlisted}
    same = all(len(lists[name]) == len(ids) for name, ids in log.node_lists())
    if same and not moves and len(chunks) == len(log.updated_chunks):
        return None
    for move in moves:
        if move.node_id not in gone:
            name = _list_for(move, path)
            if name is not None:
                raw = np.frombuffer(move.node_id.raw, dtype=np.uint8).reshape(1, -1)
                lists[name] = np.concatenate([lists[name], raw])
    kept_moves = tuple(move for move in log.moved if move not in moves)
    return TransactionLog(id=log.id, **lists, updated_chunks=chunks, moved=kept_moves)


def _nodes_to_drop(name: str, unlisted: set[NodeId], undeleted: set[NodeId]) -> set[NodeId]:
    return undeleted if name.startswith("deleted") else unlisted


def concerns(source: NodePath, target: NodePath, path: NodePath) -> bool:
    return any(each == path or each.is_under(path) for each in (source, target))


def redact_commit(
    snapshot: Snapshot, replacement: str, *, with_metadata: bool
) -> tuple[str, dict[str, Json]]:
    """The message and the metadata that a commit is left with."""
    kept = {key: value for key, value in snapshot.metadata.items() if key in _RESERVED}
    return replacement, kept if with_metadata else snapshot.metadata


def info_with(
    info: RepoInfo, said: Mapping[SnapshotId, tuple[str, dict[str, Json]]]
) -> RepoInfo | None:
    """The repo info with other messages and metadata; None if nothing changes."""
    table, changed = info.snapshots.table, False
    for snapshot, (message, metadata) in said.items():
        row = info.snapshots.find(snapshot)
        if row < 0:
            continue
        now = info.snapshots.message(row), info.snapshots.metadata(row)
        listed = with_keys(metadata, carried_keys(now[1]))  # which the file may not have
        if now != (message, listed):
            table, changed = _with_row(table, row, message, listed), True
    return replace(info, snapshots=SnapshotInfos(table)) if changed else None


def _with_row(table: Table, row: int, message: str, metadata: Mapping[str, Json]) -> Table:
    own = table.take(slice(row, row + 1)).replace(
        message=StringColumn.from_list([message]),
        metadata=TableVectorColumn.of(encode_metadata(metadata)),
    )
    return Table.concat([table.take(slice(0, row)), own, table.take(slice(row + 1, None))])


def _with_manifests(array: ArrayData, new: Mapping[ManifestId, ManifestFile]) -> ArrayData:
    refs = tuple(
        replace(ref, id=new[ref.id].id) if ref.id in new else ref for ref in array.manifests
    )
    return replace(array, manifests=refs)


def _without_consolidated(group: Node, path: NodePath) -> Node | None:
    """A group that does not describe such nodes below it; None if it did not anyway."""
    if _CONSOLIDATED.encode() not in group.user_data:
        return None
    try:
        document = json.loads(group.user_data)
    except ValueError:
        return None
    relative = path.text[len(group.path.descendant_prefix) :]
    if not isinstance(document, dict) or not _drop(document, relative):
        return None
    return replace(group, user_data=json.dumps(document, ensure_ascii=False).encode())


def _drop(document: dict[str, Any], relative: str) -> bool:
    """Drops entries of nodes at or below `relative`; True if there were any."""
    consolidated = document.get(_CONSOLIDATED)
    listed = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    if not isinstance(listed, dict):
        return False
    doomed = [name for name in listed if name == relative or name.startswith(relative + "/")]
    for name in doomed:
        del listed[name]
    inner = [
        _drop(said, relative[len(name) + 1 :])
        for name, said in listed.items()
        if relative.startswith(name + "/") and isinstance(said, dict)
    ]
    return bool(doomed) or any(inner)


def _list_for(move: Move, path: NodePath) -> str | None:
    """The list of a log for a node whose move is no longer recorded."""
    was, is_now = (each == path or each.is_under(path) for each in (move.from_path, move.to_path))
    if was and is_now:
        return None
    return ("deleted_" if is_now else "new_") + ("arrays" if move.is_array else "groups")


def _numbers(ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(ids).view(np.uint64).reshape(-1)


def _keys(ids: set[NodeId]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(b"".join(each.raw for each in ids), dtype=np.uint64)
