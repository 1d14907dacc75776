"""The changes between two snapshots, applied to a third: revert, cherry-pick and merge are this.

What changed from `base` to `source` is taken for the changes of a session that began at `base`, and
carried over what changed from `base` to `tip` as rebase would. So conflicts about metadata and
chunks are found and solved by the same rules: "ours" are the changes being applied, "theirs" what
the branch has. What both did alike is no conflict, and is left out. Found beyond rebase: chunks
that the branch wrote to an array that the changes cut off there, or encode in another way.

Chunks that one side only moved to another object, by packing, count as unchanged: `moved_chunks`.
A chunk that both sides left alone stays where the branch has it.

Rebase knows other commits by their logs; here all three trees are known, so the paths of nodes are
decided by `placement`, and moves of either side are carried.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import ChunkChanges, Index, PendingChunks
from frazil.engine.merge.chunk_overlaps import Canonical, SameBytes, changed_since, find_overlaps
from frazil.engine.merge.comparison import NodeChanges, ReadRefs, chunks_between, compare
from frazil.engine.merge.conflicts import Theirs, find_content_conflicts
from frazil.engine.merge.placement import Placement, place_nodes
from frazil.engine.merge.solver import Merged, Policy, merge_changes
from frazil.format.chunk_index import Box, distinct
from frazil.format.nodes import Node, Nodes
from frazil.ids import NodeId

_COMPARED_AT_ONCE = 64  # pairs of stored chunks


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """The three snapshots."""

    base: Nodes
    tip: Nodes
    source: Nodes


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Access to the references and bytes that are compared."""

    refs: ReadRefs
    same_bytes: SameBytes  # asked only about chunks that both sides wrote, in one length
    canonical: Callable[[NodeId], Canonical | None] = lambda _: None  # what was only moved


def three_way(trees: Trees, *, policy: Policy, reading: Reading) -> Merged:
    sides = _Sides.of(trees, reading)
    placement = place_nodes(
        base=trees.base, tip=trees.tip, source=trees.source, ours=sides.ours, theirs=sides.theirs
    )
    ours = sides.patch(placement)
    theirs = sides.their_changes(ours)
    conflicts = find_content_conflicts(ours, theirs)
    merged = merge_changes(ours, theirs, policy, conflicts=conflicts, placement=placement)
    if merged.changes is not None:
        _clean_up(merged.changes)
    return merged


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    trees: Trees
    reading: Reading
    ours: NodeChanges
    theirs: NodeChanges
    their_chunks: dict[NodeId, ChunkChanges]  # of arrays that we touch too

    @classmethod
    def of(cls, trees: Trees, reading: Reading) -> "_Sides":
        ours, theirs = compare(trees.base, trees.source), compare(trees.base, trees.tip)
        touched = ours.created.keys() | ours.deleted.keys() | ours.changed.keys()
        chunks = {
            node_id: chunks_between(before, after, reading.refs, reading.canonical(node_id))
            for node_id, (before, after) in _pairs(theirs).items()
            if node_id in touched and after.array is not None
        }
        return cls(trees, reading, ours, theirs, chunks)

    def their_changes(self, ours: ChangeSet) -> Theirs:
        """The changes of the branch, except metadata that we changed alike."""
        updated = {
            node_id
            for node_id, (before, after) in self.theirs.changed.items()
            if before.user_data != after.user_data and not self._is_agreed(after)
        }
        chunks = {node_id: c for node_id, c in self.their_chunks.items() if len(c.index)}
        return Theirs.between(
            ours,
            self.trees.base,
            self.trees.tip,
            new=self.theirs.created,
            updated=updated,
            written={node_id: distinct(changes.index) for node_id, changes in chunks.items()},
            refs={node_id: changes.refs for node_id, changes in chunks.items()},
        )

    def _is_agreed(self, theirs: Node) -> bool:
        """True if we gave the node the metadata that it has on the branch."""
        ours = self.ours.changed.get(theirs.id)
        return ours is not None and ours[1].user_data == theirs.user_data

    def patch(self, placement: Placement) -> ChangeSet:
        """Our changes, without what is so on the branch already, by the paths of the source."""
        patch = ChangeSet(self.trees.source)
        patch.deleted.update(self.ours.deleted)
        patch.moved.update({move.node_id: move for move in self.ours.moves})
        for node in self.ours.created.values():
            if node.id not in placement.there:
                patch.created.add(node.id)
            if node.id not in placement.there or node.is_array:
                array = None if node.array is None else replace(node.array, manifests=())
                patch.edited[node.path.text] = replace(node, array=array)
        for before, after in self.ours.changed.values():
            there = self.theirs.changed.get(after.id, (before, before))[1]
            if after.user_data not in (before.user_data, there.user_data):
                patch.updated.add(after.id)
                patch.edited[after.path.text] = after
        self._add_chunks(patch)
        return patch

    def _add_chunks(self, patch: ChangeSet) -> None:
        for node_id, (before, after) in _pairs(self.ours).items():
            if after.array is None:
                continue
            canonical = self.reading.canonical(node_id)
            changes = chunks_between(before, after, self.reading.refs, canonical)
            then = self.their_chunks.get(node_id)
            if then is not None and then.refs.ndim == changes.refs.ndim:
                changes = self._without_equal(changed_since(changes, then, canonical), then)
            if len(changes.index):
                patch.chunks[node_id] = PendingChunks.of(changes)
                patch.find_node(after.path)  # known from now on

    def _without_equal(self, ours: ChunkChanges, theirs: ChunkChanges) -> ChunkChanges:
        """Without the chunks that they stored too, byte for byte."""
        pairs = find_overlaps([ours, theirs]).uncertain
        equal: list[Index] = []
        for start in range(0, len(pairs), _COMPARED_AT_ONCE):
            asked = pairs[start : start + _COMPARED_AT_ONCE]
            answers = self.reading.same_bytes(asked)
            equal += [pair.index for pair, same in zip(asked, answers, strict=True) if same]
            if not all(answers):
                break  # the array is in conflict, so the rest need not be read to know it
        if not equal:
            return ours
        index = np.array(equal, dtype=np.uint32).reshape(len(equal), ours.refs.ndim)
        rows = np.setdiff1d(np.arange(len(ours.refs)), ours.refs.lookup(index))
        return ChunkChanges(refs=ours.refs.take(rows), deleted=ours.deleted)


def _pairs(changes: NodeChanges) -> dict[NodeId, tuple[Node | None, Node]]:
    """Nodes that one side made or changed, before, if they were there, and after."""
    made: dict[NodeId, tuple[Node | None, Node]]
    made = {node_id: (None, node) for node_id, node in changes.created.items()}
    return made | dict(changes.changed)


def _clean_up(changes: ChangeSet) -> None:
    """Removes deletions outside the grid; then nothing may be left to do."""
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
