"""Where a session's changes contradict those of a commit that was made meanwhile.

"Ours" are the session's changes, "theirs" those of the commit. Pure: nodes and columns in,
contradictions out. What is found beyond the reference:
a child that was added to a group while the other side deleted the group, and a new node where
both sides deleted the old one and made another. What is not a contradiction here: a move that
concerns none of our nodes, and a group of ours where we deleted an array. Our own moves are
looked at too: where they lead must still be free, and what they move still be there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import Conflict, ConflictType
from frazil.format.chunk_index import SortedKeys, distinct
from frazil.format.nodes import Node, Nodes, id_column
from frazil.format.schemas import NODE_ARRAY
from frazil.format.transaction_log import TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.repo.changes import ChangeSet
from frazil.repo.logs import ids_in
from frazil.repo.moves import find_obstacles


@dataclass(frozen=True, slots=True, eq=False)
class Theirs:
    """A commit: what it says it changed, and all nodes before and after it."""

    log: TransactionLog
    before: Nodes
    after: Nodes


@dataclass(frozen=True, slots=True, eq=False)
class Clash:
    """A conflict, and what a solver must know of it."""

    kind: ConflictType
    path: NodePath
    node_id: NodeId
    chunks: npt.NDArray[np.uint32] | None = None  # (n, ndim), ascending

    @property
    def conflict(self) -> Conflict:
        chunks = None if self.chunks is None else self.chunks.tolist()
        return Conflict(self.kind, self.path.text, chunks)


def find_clashes(ours: ChangeSet, theirs: Theirs) -> list[Clash]:
    return [
        *_moved_nodes(ours, theirs),
        *_our_moves(ours, theirs),
        *_new_nodes(ours, theirs),
        *_groups_of_new_nodes(ours, theirs),
        *find_content_clashes(ours, theirs),
    ]


def find_content_clashes(ours: ChangeSet, theirs: Theirs) -> list[Clash]:
    """All but those about the places of nodes: these concern nodes by id, wherever they are."""
    return [
        *_metadata(ours, theirs),
        *_chunks(ours, theirs),
        *_deleted_arrays(ours, theirs.log),
        *_deleted_groups(ours, theirs),
    ]


def rows_by_id(nodes: Nodes, wanted: Iterable[NodeId]) -> dict[NodeId, int]:
    """Rows of those of the wanted nodes that are there."""
    keys = _keys(nodes.table.struct("id").values)
    looked_for = _keys(id_column([node_id.raw for node_id in wanted], NodeId.size))
    rows = np.flatnonzero(np.isin(keys, looked_for)).tolist()
    return {id_at(nodes, row): row for row in rows}


def id_at(nodes: Nodes, row: int) -> NodeId:
    return NodeId(nodes.table.struct("id").values[row].tobytes())


def added_below(ours: ChangeSet, theirs: Theirs) -> dict[NodeId, list[int]]:
    """By each group that we delete, rows of the nodes that they added to it.

    What they added to a group that we moved out of there goes with that group.
    """
    groups = [node.id for node in ours.deleted.values() if node.array is None]
    if not groups:
        return {}
    doomed = {
        theirs.after.path_text(row): node_id
        for node_id, row in rows_by_id(theirs.after, groups).items()
    }
    added: dict[NodeId, list[int]] = {}
    moved = {theirs.after.path_text(row) for row in rows_by_id(theirs.after, ours.moved).values()}
    new = ids_in(theirs.log.new_groups, theirs.log.new_arrays)
    for row in rows_by_id(theirs.after, new).values() if doomed else ():
        above = NodePath(theirs.after.path_text(row)).ancestors
        nearest = next((p.text for p in above if p.text in doomed or p.text in moved), "")
        group = doomed.get(nearest)
        if group is not None:
            added.setdefault(group, []).append(row)
    return added


def _moved_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    """Nodes of ours that they moved, or that are where they moved something to."""
    if not theirs.log.moved:
        return
    touched = {node.id: node.path for node in ours.deleted.values()}
    touched |= {node.id: node.path for node in _current(ours).values()}
    ends = {path for move in theirs.log.moved for path in (move.from_path, move.to_path)}
    above_ends = {path for end in ends for path in end.ancestors}
    for node_id, path in touched.items():
        concerned = path in ends or any(above in ends for above in path.ancestors)
        if concerned or (node_id in ours.deleted and path in above_ends):
            yield Clash(ConflictType.MoveOperationCannotBeRebased, path, node_id)


def _our_moves(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    for kind, path, node_id in find_obstacles(ours.moved, theirs.log.moved, theirs.after):
        yield Clash(kind, path, node_id)


def _new_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    for node in _created(ours):
        row = theirs.after.find(node.path)
        if row >= 0 and id_at(theirs.after, row) not in ours.deleted:
            yield Clash(ConflictType.NewNodeConflictsWithExistingNode, node.path, node.id)


def _groups_of_new_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    """Groups that we add to, and that they deleted or made arrays."""
    types = theirs.after.table.union("node_data").types
    missing = dict[NodePath, Clash]()
    for node in _created(ours):
        for above in node.path.ancestors:
            row = theirs.after.find(above)
            clash = Clash(ConflictType.NewNodeInInvalidGroup, above, node.id)
            if row >= 0:
                if types[row] == NODE_ARRAY and id_at(theirs.after, row) not in ours.deleted:
                    yield clash
            elif (group := ours.find_node(above)) is not None and group.id not in ours.created:
                missing[above] = clash
    yield from missing.values()


def _metadata(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    deleted = _gone(ours, theirs)
    updated = ids_in(theirs.log.updated_arrays, theirs.log.updated_groups)
    for node_id, node in _current(ours).items():
        if node_id not in ours.updated:
            continue
        if node_id in deleted:
            is_array = node.array is not None
            yield Clash(
                ConflictType.ZarrMetadataUpdateOfDeletedArray
                if is_array
                else ConflictType.ZarrMetadataUpdateOfDeletedGroup,
                node.path,
                node_id,
            )
        elif node_id in updated:
            yield Clash(ConflictType.ZarrMetadataDoubleUpdate, node.path, node_id)


def _chunks(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    log = theirs.log
    deleted, updated = _gone(ours, theirs), ids_in(log.updated_arrays)
    nodes = _current(ours)
    for node_id, pending in ours.chunks.items():
        path = nodes[node_id].path
        if node_id in deleted:
            yield Clash(ConflictType.ChunksUpdatedInDeletedArray, path, node_id)
            continue
        if node_id in updated:
            yield Clash(ConflictType.ChunksUpdatedInUpdatedArray, path, node_id)
        if node_id in log.updated_chunks:
            both = _common(pending.changes().index, log.updated_chunks[node_id])
            if len(both):
                yield Clash(ConflictType.ChunkDoubleUpdate, path, node_id, both)


def _deleted_arrays(ours: ChangeSet, log: TransactionLog) -> Iterator[Clash]:
    changed = ids_in(log.updated_arrays) | log.updated_chunks.keys()
    changed -= ids_in(log.deleted_arrays)
    for node_id, node in ours.deleted.items():
        if node_id in changed:
            yield Clash(ConflictType.DeleteOfUpdatedArray, node.path, node_id)


def _deleted_groups(ours: ChangeSet, theirs: Theirs) -> Iterator[Clash]:
    log = theirs.log
    changed = ids_in(log.updated_groups) | added_below(ours, theirs).keys()
    changed -= ids_in(log.deleted_groups)
    for node_id, node in ours.deleted.items():
        if node_id in changed:
            yield Clash(ConflictType.DeleteOfUpdatedGroup, node.path, node_id)


def _current(ours: ChangeSet) -> dict[NodeId, Node]:
    """Our nodes as they are now: created, updated, or with chunks changed."""
    nodes = ours.known_nodes()
    touched = ours.created | ours.updated | ours.chunks.keys()
    return {node_id: nodes[node_id] for node_id in touched}


def _gone(ours: ChangeSet, theirs: Theirs) -> set[NodeId]:
    """Nodes that we changed and that are no longer there, whether a log says so or not."""
    changed = (ours.updated | ours.chunks.keys()) - ours.created
    return changed - rows_by_id(theirs.after, changed).keys()


def _created(ours: ChangeSet) -> list[Node]:
    return [node for node in ours.edited.values() if node is not None and node.id in ours.created]


def _keys(ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """One number for each of (n, 8) ids."""
    return np.ascontiguousarray(ids).view(np.uint64).reshape(-1)


def _common(ours: npt.NDArray[np.uint32], theirs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The rows of both, in ascending order."""
    if ours.shape[1] != theirs.shape[1]:
        return ours[:0]
    return distinct(ours[SortedKeys.of(distinct(theirs)).lookup(ours) >= 0])
