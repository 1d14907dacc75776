"""Conflicts between two sides that changed the same base: the core of every merge.

"Ours" are the changes to be applied, "theirs" the state that they are applied to: a commit that a
rebase passes, the tip of a branch in a merge, the session that a fork is merged into. Pure: nodes
and columns in, conflicts out.

How the changes of either side are obtained differs, and is decided by the caller:

    rebase        ours: the session's ChangeSet      theirs: transaction logs
    three-way     ours: two snapshots, compared      theirs: two snapshots, compared
    forks         ours: the fork's ChangeSet         theirs: the target's, looked up node by node

Detected beyond the reference: a child that was added to a group while the other side deleted the
group, and a new node where both sides deleted the old one and created another. Not a conflict
here: a move that concerns none of our nodes, and a group of ours where we deleted an array. Where
our own moves lead is the subject of `placement`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet, top_moves
from frazil.engine.changes.transaction_logs import ids_in
from frazil.errors import Conflict, ConflictType
from frazil.format.chunk_index import Box, SortedKeys, distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Node, Nodes, id_column
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath

_NO_ROWS = np.zeros(0, dtype=np.int64)
_NOT_ENCODING = {"attributes", "shape", "dimension_names", "fill_value"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theirs:
    """Their state, and what they changed since the base, as far as it concerns our changes."""

    base: Nodes
    state: ChangeSet  # their nodes, to which our changes are applied
    remaining: Mapping[NodeId, Node]  # nodes that we changed and they still have, as theirs
    updated: AbstractSet[NodeId]  # nodes with other metadata than in the base
    written: Mapping[NodeId, npt.NDArray[np.uint32]]  # chunks set or deleted, (n, ndim)
    refs: Mapping[NodeId, ChunkRefs] = field(default_factory=dict)  # chunks set, if known
    added: Mapping[NodeId, Sequence[Node]] = field(default_factory=dict)  # by group that we delete
    moves: Sequence[Move] = ()

    @classmethod
    def between(
        cls,
        ours: ChangeSet,
        base: Nodes,
        after: Nodes,
        *,
        new: Iterable[NodeId],
        updated: AbstractSet[NodeId],
        written: Mapping[NodeId, npt.NDArray[np.uint32]],
        refs: Mapping[NodeId, ChunkRefs] | None = None,
        moves: Sequence[Move] = (),
    ) -> "Theirs":
        """Their changes from one snapshot's nodes to another's."""
        rows = rows_by_id(after, existing_nodes(ours))
        remaining = {node_id: after.node(row) for node_id, row in rows.items()}
        return cls(
            base=base,
            state=ChangeSet(after),
            remaining=remaining,
            updated=updated & remaining.keys(),
            written={i: chunks for i, chunks in written.items() if i in remaining},
            refs=refs or {},
            added=_added_below(ours, remaining, after, new),
            moves=moves,
        )

    @classmethod
    def of_log(cls, ours: ChangeSet, base: Nodes, after: Nodes, log: TransactionLog) -> "Theirs":
        """The changes of a commit, as its transaction log lists them."""
        return cls.between(
            ours,
            base,
            after,
            new=ids_in(log.new_groups, log.new_arrays),
            updated=ids_in(log.updated_arrays, log.updated_groups),
            written=log.updated_chunks,
            moves=log.moved,
        )


@dataclass(frozen=True, slots=True, eq=False)
class NodeConflict:
    """A conflict with the details that a solver needs."""

    kind: ConflictType
    path: NodePath
    node_id: NodeId
    chunks: npt.NDArray[np.uint32] | None = None  # (n, ndim), ascending

    @property
    def conflict(self) -> Conflict:
        chunks = None if self.chunks is None else self.chunks.tolist()
        return Conflict(self.kind, self.path.text, chunks)


def find_conflicts(ours: ChangeSet, theirs: Theirs) -> list[NodeConflict]:
    return [
        *_move_conflicts(ours, theirs),
        *_new_nodes(ours, theirs),
        *_groups_of_new_nodes(ours, theirs),
        *find_content_conflicts(ours, theirs),
    ]


def find_content_conflicts(ours: ChangeSet, theirs: Theirs) -> list[NodeConflict]:
    """All but those about the paths of nodes: these concern nodes by id, at any path."""
    return [
        *_misfit_chunks(ours, theirs),
        *_metadata_conflicts(ours, theirs),
        *_chunk_conflicts(ours, theirs),
        *_delete_conflicts(ours, theirs),
    ]


def existing_nodes(ours: ChangeSet) -> set[NodeId]:
    """Nodes of the base that we changed or deleted."""
    return (ours.updated | ours.deleted.keys() | ours.chunks.keys()) - ours.created


def rows_by_id(nodes: Nodes, wanted: Iterable[NodeId]) -> dict[NodeId, int]:
    """Rows of those of the wanted nodes that exist."""
    looked_for = _keys(id_column([node_id.raw for node_id in wanted], NodeId.size))
    if not len(looked_for):
        return {}
    keys = _keys(nodes.table.struct("id").values)
    rows = np.flatnonzero(np.isin(keys, looked_for)).tolist()
    return {id_at(nodes, row): row for row in rows}


def id_at(nodes: Nodes, row: int) -> NodeId:
    return NodeId(nodes.table.struct("id").values[row].tobytes())


def find_misfits(before: Node, after: Node, refs: ChunkRefs) -> npt.NDArray[np.int64]:
    """Rows of chunks written to the array as `before` that cannot be used as it is `after`."""
    if before.array is None or after.array is None or before.user_data == after.user_data:
        return _NO_ROWS
    if encoding_of(before.user_data) != encoding_of(after.user_data):
        return np.arange(len(refs))
    grid = after.array.num_chunks
    return np.flatnonzero(~Box((0,) * len(grid), grid).contains(refs.index))


def encoding_of(user_data: bytes) -> dict[str, Any]:
    """The part of an array's metadata that its stored chunks depend on."""
    document: dict[str, Any] = json.loads(user_data)
    return {name: value for name, value in document.items() if name not in _NOT_ENCODING}


def _added_below(
    ours: ChangeSet, remaining: Mapping[NodeId, Node], after: Nodes, new: Iterable[NodeId]
) -> dict[NodeId, list[Node]]:
    """Nodes that they added to groups that we delete, by group.

    What they added to a group that we moved out of it goes with that group.
    """
    deleted = (remaining[i] for i in ours.deleted if i in remaining)
    doomed = {node.path.text: node.id for node in deleted if not node.is_array}
    if not doomed:
        return {}
    added: dict[NodeId, list[Node]] = {}
    moved = {after.path_text(row) for row in rows_by_id(after, ours.moved).values()}
    for row in rows_by_id(after, new).values():
        above = NodePath(after.path_text(row)).ancestors
        nearest = next((p.text for p in above if p.text in doomed or p.text in moved), "")
        group = doomed.get(nearest)
        if group is not None:
            added.setdefault(group, []).append(after.node(row))
    return added


def _move_conflicts(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    """Nodes of ours that they moved, or that are where they moved something to."""
    if not theirs.moves:
        return
    touched = {node.id: node.path for node in ours.deleted.values()}
    nodes = ours.known_nodes()
    touched |= {i: nodes[i].path for i in ours.created | ours.updated | ours.chunks.keys()}
    ends = {path for move in theirs.moves for path in (move.from_path, move.to_path)}
    above_ends = {path for end in ends for path in end.ancestors}

    def is_concerned(path: NodePath, *, with_nodes_below: bool) -> bool:
        at_end = path in ends or any(above in ends for above in path.ancestors)
        return at_end or (with_nodes_below and path in above_ends)

    for node_id, path in touched.items():
        if is_concerned(path, with_nodes_below=node_id in ours.deleted):
            yield NodeConflict(ConflictType.MoveOperationCannotBeRebased, path, node_id)
    for move in top_moves(ours.moved.values()):
        if any(is_concerned(p, with_nodes_below=True) for p in (move.from_path, move.to_path)):
            kind = ConflictType.MoveOperationCannotBeRebased
            yield NodeConflict(kind, move.from_path, move.node_id)


def _new_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    for node in _created_nodes(ours):
        occupant = theirs.state.find_node(node.path)
        if occupant is not None and occupant.id not in ours.deleted:
            kind = ConflictType.NewNodeConflictsWithExistingNode
            yield NodeConflict(kind, node.path, node.id)


def _groups_of_new_nodes(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    """Groups that we add to, and that they deleted or replaced by arrays."""
    missing = dict[NodePath, NodeConflict]()
    for node in _created_nodes(ours):
        for above in node.path.ancestors:
            occupant = theirs.state.find_node(above)
            conflict = NodeConflict(ConflictType.NewNodeInInvalidGroup, above, node.id)
            if occupant is not None:
                if occupant.is_array and occupant.id not in ours.deleted:
                    yield conflict
            elif (group := ours.find_node(above)) is not None and group.id not in ours.created:
                missing[above] = conflict
    yield from missing.values()


def _misfit_chunks(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    """Chunks that they wrote, of arrays that we cut off there or encode in another way."""
    nodes = ours.known_nodes() if theirs.refs else {}
    for node_id in ours.updated & theirs.refs.keys():
        move = ours.moved.get(node_id)
        path = nodes[node_id].path if move is None else move.from_path
        before = theirs.base.lookup(path)
        if before is None:
            continue
        refs = theirs.refs[node_id]
        lost = find_misfits(before, nodes[node_id], refs)
        if len(lost):
            kind = ConflictType.ChunksUpdatedInUpdatedArray
            yield NodeConflict(kind, path, node_id, distinct(refs.index[lost]))


def _metadata_conflicts(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    nodes = ours.known_nodes() if ours.updated else {}
    for node_id in ours.updated:
        node = nodes[node_id]
        if node_id not in theirs.remaining:
            yield NodeConflict(
                ConflictType.ZarrMetadataUpdateOfDeletedArray
                if node.is_array
                else ConflictType.ZarrMetadataUpdateOfDeletedGroup,
                node.path,
                node_id,
            )
        elif node_id in theirs.updated:
            yield NodeConflict(ConflictType.ZarrMetadataDoubleUpdate, node.path, node_id)


def _chunk_conflicts(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    nodes = ours.known_nodes() if ours.chunks else {}
    for node_id, pending in ours.chunks.items():
        path = nodes[node_id].path
        if node_id not in theirs.remaining and node_id not in ours.created:
            yield NodeConflict(ConflictType.ChunksUpdatedInDeletedArray, path, node_id)
            continue
        if node_id in theirs.updated:
            yield NodeConflict(ConflictType.ChunksUpdatedInUpdatedArray, path, node_id)
        if node_id in theirs.written:
            both = _common_rows(pending.changes().index, theirs.written[node_id])
            if len(both):
                yield NodeConflict(ConflictType.ChunkDoubleUpdate, path, node_id, both)


def _delete_conflicts(ours: ChangeSet, theirs: Theirs) -> Iterator[NodeConflict]:
    if not ours.deleted:
        return
    changed = theirs.updated | theirs.written.keys() | theirs.added.keys()
    deleted = [node for node_id, node in ours.deleted.items() if node_id in changed]
    for node in sorted(deleted, key=lambda node: not node.is_array):
        yield NodeConflict(
            ConflictType.DeleteOfUpdatedArray
            if node.is_array
            else ConflictType.DeleteOfUpdatedGroup,
            node.path,
            node.id,
        )


def _created_nodes(ours: ChangeSet) -> list[Node]:
    return [node for node in ours.edited.values() if node is not None and node.id in ours.created]


def _keys(ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """One number for each of (n, 8) ids."""
    return np.ascontiguousarray(ids).view(np.uint64).reshape(-1)


def _common_rows(
    ours: npt.NDArray[np.uint32], theirs: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """The rows of both, in ascending order."""
    if ours.shape[1] != theirs.shape[1]:
        return ours[:0]
    return distinct(ours[SortedKeys.of(distinct(theirs)).lookup(ours) >= 0])
