"""The changes between two snapshots, applied to a third: revert, cherry-pick and merge are this.

What changed from `base` to `source` is taken for the changes of a session that began at `base`, and
carried over what changed from `base` to `tip` as rebase would. So conflicts are found and solved
by the same rules: "ours" are the changes being applied, "theirs" what the branch has. What both
did alike is no conflict, and is left out. Found beyond rebase: chunks that the branch wrote to an
array that the changes cut off there, or encode in another way.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from frazil.errors import ConflictType
from frazil.format.index_keys import Box, distinct
from frazil.format.nodes import Nodes, id_column
from frazil.format.snapshot import Node
from frazil.format.txlog import Move, TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.repo.changes import ChangeSet
from frazil.repo.chunk_overlaps import changed_since
from frazil.repo.conflicts import Clash, Theirs, find_clashes
from frazil.repo.merging import encoding_of
from frazil.repo.node_changes import NodeChanges, ReadRefs, chunk_changes, compare
from frazil.repo.pending import ChunkChanges, PendingChunks
from frazil.repo.rebase import rebased
from frazil.repo.solver import Policy, resolve


@dataclass(frozen=True, slots=True, eq=False)
class ThreeWay:
    clashes: list[Clash]
    changes: ChangeSet | None  # relative to the tip; None if a clash is not solved


def three_way(
    *, base: Nodes, tip: Nodes, source: Nodes, policy: Policy, read: ReadRefs
) -> ThreeWay:
    sides = _Sides.of(base, tip, source, read)
    ours, theirs = sides.patch(), Theirs(sides.log(), base, tip)
    clashes = [*sides.own_clashes(ours), *find_clashes(ours, theirs)]
    resolution = resolve(clashes, policy, ours, theirs)
    if resolution is None:
        return ThreeWay(clashes, None)
    return ThreeWay(clashes, _tidied(rebased(ours, tip, resolution)))


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    base: Nodes
    tip: Nodes
    read: ReadRefs
    ours: NodeChanges
    theirs: NodeChanges
    their_chunks: dict[NodeId, ChunkChanges]  # of arrays that we touch too

    @classmethod
    def of(cls, base: Nodes, tip: Nodes, source: Nodes, read: ReadRefs) -> "_Sides":
        ours, theirs = compare(base, source), compare(base, tip)
        touched = ours.created.keys() | ours.deleted.keys() | ours.changed.keys()
        pairs = {node_id: (None, node) for node_id, node in theirs.created.items()} | theirs.changed
        chunks = {
            node_id: chunk_changes(before, after, read)
            for node_id, (before, after) in pairs.items()
            if node_id in touched and after.array is not None
        }
        return cls(base, tip, read, ours, theirs, chunks)

    def log(self) -> TransactionLog:
        """What the branch did, but for metadata that we changed alike."""
        theirs = self.theirs
        agreed = {
            node_id
            for node_id, (_, ours) in self.ours.changed.items()
            if node_id in theirs.changed and theirs.changed[node_id][1].user_data == ours.user_data
        }
        updated = [
            after
            for node_id, (before, after) in theirs.changed.items()
            if before.user_data != after.user_data and node_id not in agreed
        ]
        lists = {"new": theirs.created.values(), "deleted": theirs.deleted.values()}
        lists["updated"] = {node.id: node for node in updated}.values()
        return TransactionLog(
            id=SnapshotId.random(),  # of no snapshot: this log is not stored
            **{
                f"{what}_{sort}": id_column(
                    sorted(node.id.raw for node in nodes if node.is_array == (sort == "arrays")),
                    NodeId.size,
                )
                for what, nodes in lists.items()
                for sort in ("groups", "arrays")
            },
            updated_chunks={
                node_id: distinct(changes.index)
                for node_id, changes in self.their_chunks.items()
                if len(changes.index)
            },
            moved=_moves(theirs),
        )

    def patch(self) -> ChangeSet:
        """Our changes, without what is so on the branch already."""
        patch = ChangeSet(self.base)
        for node in self.ours.deleted.values():
            patch.deleted[node.id] = node
            patch.edited[node.path.text] = None
        for node in self.ours.created.values():
            if not self._is_there(node):
                patch.created.add(node.id)
            if not self._is_there(node) or node.is_array:
                array = None if node.array is None else replace(node.array, manifests=())
                patch.edited[node.path.text] = replace(node, array=array)
        for before, after in self.ours.changed.values():
            there = self.theirs.changed.get(after.id, (before, before))[1]
            if after.user_data not in (before.user_data, there.user_data):
                patch.updated.add(after.id)
                patch.edited[before.path.text] = replace(after, path=before.path)
        self._add_chunks(patch)
        return patch

    def _add_chunks(self, patch: ChangeSet) -> None:
        pairs = {i: (None, node) for i, node in self.ours.created.items()} | self.ours.changed
        for node_id, (before, after) in pairs.items():
            if after.array is None:
                continue
            changes = chunk_changes(before, after, self.read)
            then = self.their_chunks.get(node_id)
            if then is not None and then.refs.ndim == changes.refs.ndim:
                changes = changed_since(changes, then)
            if len(changes.index):
                patch.chunks[node_id] = PendingChunks.of(changes)
                patch.find_node(after.path if before is None else before.path)  # known from now on

    def _is_there(self, node: Node) -> bool:
        """Whether the branch has a node that we made, or a group just like it."""
        row = self.tip.find(node.path)
        if row < 0:
            return False
        there = self.tip.node(row)
        same = there.user_data == node.user_data and there.is_array == node.is_array
        return same and (there.id == node.id or not node.is_array)

    def own_clashes(self, patch: ChangeSet) -> Iterator[Clash]:
        for move in _moves(self.ours):
            kind = ConflictType.MoveOperationCannotBeRebased
            yield Clash(kind, move.from_path, move.node_id)
        here = {node.id: node.path for node in self.theirs.created.values()}
        for node in self.ours.created.values():
            if here.get(node.id, node.path) != node.path:
                yield Clash(ConflictType.NewNodeConflictsWithExistingNode, node.path, node.id)
        for node_id in patch.updated & self.their_chunks.keys():
            lost = _lost(*self.ours.changed[node_id], self.their_chunks[node_id])
            if len(lost.index):
                path = self.ours.changed[node_id][0].path
                kind = ConflictType.ChunksUpdatedInUpdatedArray
                yield Clash(kind, path, node_id, distinct(lost.index))


def _lost(before: Node, after: Node, written: ChunkChanges) -> ChunkChanges:
    """Those of the chunks that are of no use to the array as it becomes."""
    none = ChunkChanges.none(written.refs.ndim)
    if after.array is None or before.array is None:
        return none
    grid = after.array.num_chunks
    if encoding_of(before.user_data) != encoding_of(after.user_data):
        return ChunkChanges(refs=written.refs, deleted=none.deleted)
    inside = Box((0,) * len(grid), grid).contains(written.refs.index)
    return ChunkChanges(refs=written.refs.take(np.flatnonzero(~inside)), deleted=none.deleted)


def _moves(changes: NodeChanges) -> tuple[Move, ...]:
    return tuple(
        Move(before.path, after.path, after.id, after.is_array)
        for before, after in changes.changed.values()
        if before.path != after.path
    )


def _tidied(changes: ChangeSet) -> ChangeSet:
    """Without deletions outside the grid, and empty if nothing is left to do."""
    nodes = changes.known_nodes()
    for node_id, pending in list(changes.chunks.items()):
        array, found = nodes[node_id].array, pending.changes()
        grid = () if array is None else array.num_chunks
        inside = Box((0,) * len(grid), grid).contains(found.deleted)
        kept = ChunkChanges(refs=found.refs, deleted=found.deleted[inside])
        if len(kept.index):
            changes.chunks[node_id] = PendingChunks.of(kept)
        else:
            del changes.chunks[node_id]
    changes.overtaken = False
    return changes
