"""Merges the changes of forks into those of a session. Pure: nothing is read from storage.

A fork is compared with the state it began with (its base) and with the target as it is now:

    metadata   now as in the base: the fork's wins; now equal to the fork's: nothing to do;
               otherwise both updated it
    new node   the path must be free, and its parents must be what the fork saw
    deletion   the node must be as in the base, and nothing new below it; or be gone too
    chunks     no other writer may have changed the chunk since, unless in the same way; and the
               array must still be divided into chunks and encoded as the fork saw it

So a fork may change what its parent had pending when it was created, and a copy of a fork may be
merged along with the fork itself. Conflicts of nodes are those of `conflicts`, for one fork after
the other. Chunks of all forks are compared together: each of them is looked at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Never

import numpy as np

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import ChunkChanges, Index
from frazil.engine.merge.chunk_overlaps import SameBytes, changed_since, find_overlaps, select
from frazil.engine.merge.conflicts import (
    NodeConflict,
    Theirs,
    encoding_of,
    existing_nodes,
    find_conflicts,
    find_misfits,
)
from frazil.engine.merge.solver import apply_nodes
from frazil.errors import ConflictType, SessionStateError
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Node, Nodes
from frazil.ids import NodeId
from frazil.paths import NodePath

_SHOWN = 10  # chunks of each array that a message lists

_DELETED_AND_MODIFIED = "{0} were both deleted and modified"
_MESSAGES: Mapping[ConflictType, str] = {  # in the order in which conflicts are reported
    ConflictType.DeleteOfUpdatedArray: _DELETED_AND_MODIFIED,
    ConflictType.DeleteOfUpdatedGroup: _DELETED_AND_MODIFIED,
    ConflictType.NewNodeInInvalidGroup: _DELETED_AND_MODIFIED,
    ConflictType.NewNodeConflictsWithExistingNode: "Multiple writers created the same {1}",
    ConflictType.ZarrMetadataUpdateOfDeletedArray: _DELETED_AND_MODIFIED,
    ConflictType.ZarrMetadataUpdateOfDeletedGroup: _DELETED_AND_MODIFIED,
    ConflictType.ZarrMetadataDoubleUpdate: "Multiple writers updated the same {1}",
    ConflictType.ChunksUpdatedInUpdatedArray: "",  # depends on what became of the array
    ConflictType.ChunksUpdatedInDeletedArray: _DELETED_AND_MODIFIED,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForkChanges:
    base: Nodes  # of the fork: inherited changes included
    inherited: Mapping[NodeId, ChunkChanges]  # pending when it was created, and not its own
    changes: ChangeSet


def merge_forks(
    target: ChangeSet,
    inherited: Mapping[NodeId, ChunkChanges],
    forks: Sequence[ForkChanges],
    *,
    same_bytes: SameBytes,
) -> ChangeSet:
    """The changes of `target` and all forks, as a new ChangeSet.

    `inherited` are chunk changes below the target's own, if it is a fork too. `same_bytes` is asked
    only about pairs of objects of one length. Raises SessionStateError[merge-failed].
    """
    merge = _Merge(target.copy(), inherited)
    for fork in forks:
        merge.add(fork)
    merge.require_fitting_chunks()
    merge.require_no_overlaps(same_bytes)
    merge.apply_chunks()
    return merge.result


@dataclass(frozen=True, slots=True)
class _Written:
    """Chunks of one array that one fork changed."""

    by: ForkChanges
    node: Node  # as the fork sees it
    changes: ChunkChanges


@dataclass(slots=True)
class _Merge:
    result: ChangeSet
    inherited: Mapping[NodeId, ChunkChanges]
    written: defaultdict[NodeId, list[_Written]] = field(default_factory=lambda: defaultdict(list))

    # Nodes

    def add(self, fork: ForkChanges) -> None:
        if fork.changes.edited:
            self._add_nodes(fork)
        nodes = fork.changes.known_nodes()
        for node_id, pending in fork.changes.chunks.items():
            changes = _clip_to_grid(nodes[node_id], pending.changes())
            self.written[node_id].append(_Written(fork, nodes[node_id], changes))

    def _add_nodes(self, fork: ForkChanges) -> None:
        ours = self._without_agreed(fork.changes)
        theirs = self._theirs(fork, ours)
        _require_none(find_conflicts(ours, theirs), ours, theirs)
        apply_nodes(ours, theirs)
        nodes = ours.known_nodes()
        self._require_no_children([nodes[node_id] for node_id in ours.created])

    def _without_agreed(self, changes: ChangeSet) -> ChangeSet:
        """The fork's changes without metadata that the target has already."""
        edited = [node for node in changes.edited.values() if node is not None]
        agreed = {
            node.id
            for node in edited
            if (here := self.result.find_node(node.path)) is not None
            and (here.id, here.user_data) == (node.id, node.user_data)
        }
        if not agreed:
            return changes
        ours = changes.copy()
        ours.created -= agreed
        ours.updated -= agreed
        return ours

    def _theirs(self, fork: ForkChanges, ours: ChangeSet) -> Theirs:
        """The target's changes since the fork was created. Nodes are looked up by path."""
        nodes = ours.known_nodes() | ours.deleted
        found = {i: self.result.find_node(nodes[i].path) for i in existing_nodes(ours)}
        remaining = {
            node_id: here
            for node_id, here in found.items()
            if here is not None and here.id == node_id
        }
        since = {
            node_id: changes
            for node_id in remaining
            if (node_id in ours.deleted or node_id in ours.updated)
            and (changes := self._since(fork, node_id)) is not None
        }
        return Theirs(
            base=fork.base,
            state=self.result,
            remaining=remaining,
            updated=self._updated(fork, ours, remaining),
            written={i: c.index for i, c in since.items() if i in ours.deleted and len(c.index)},
            refs={
                i: _clip_to_grid(remaining[i], c).refs
                for i, c in since.items()
                if i in ours.updated
            },
            added=self._added_below(fork.changes),
        )

    def _updated(
        self, fork: ForkChanges, ours: ChangeSet, remaining: Mapping[NodeId, Node]
    ) -> set[NodeId]:
        """Nodes that the target updated; deleted ones also if they were replaced or written to."""
        updated = set[NodeId]()
        for node_id in remaining.keys() & (ours.updated | ours.deleted.keys()):
            here = remaining[node_id]
            before = fork.base.lookup(here.path)
            if before is None or before.user_data != here.user_data:
                updated.add(node_id)
        for node_id, node in ours.deleted.items():
            if node_id in self.written or self._is_replaced(fork.changes, node):
                updated.add(node_id)
        return updated

    def _is_replaced(self, changes: ChangeSet, deleted: Node) -> bool:
        """True if the sides disagree about which node takes the place of the deleted one."""
        here, new = self.result.find_node(deleted.path), changes.find_node(deleted.path)
        if here is None or here.id == deleted.id:
            return here is None and new is not None
        return new is None or here.id != new.id

    def _added_below(self, changes: ChangeSet) -> dict[NodeId, list[Node]]:
        """Nodes at or below deleted ones that the fork did not know, by topmost deleted node."""
        paths = {node.path for node in changes.deleted.values()}
        known = changes.deleted.keys() | changes.created
        added: dict[NodeId, list[Node]] = {}
        for top in changes.deleted.values():
            if not any(above in paths for above in top.path.ancestors):
                new = [node for node in self.result.nodes(top.path) if node.id not in known]
                added |= {top.id: new} if new else {}
        return added

    def _require_no_children(self, created: Sequence[Node]) -> None:
        for node in created:
            if node.is_array and (names := self.result.child_names(node.path)):
                _fail_merge(
                    f"one writer created an array at `{node.path}`, another {names} below it"
                )

    # Chunks

    def require_fitting_chunks(self) -> None:
        """Raises if an array was deleted, or changed so that chunks of a fork cannot be used."""
        gone: dict[NodeId, Node] = {}
        for part in (part for parts in self.written.values() for part in parts):
            here = self.result.find_node(part.node.path)
            if here is None or here.id != part.node.id:
                gone[part.node.id] = part.node
            elif len(find_misfits(part.node, here, part.changes.refs)):
                _refuse_nodes([here], _misfit_message(part.node, here))
        _refuse_nodes(list(gone.values()), _DELETED_AND_MODIFIED)

    def require_no_overlaps(self, same_bytes: SameBytes) -> None:
        wrong = {}
        for node_id, parts in self.written.items():
            sets = [self._with_target(node_id, part) for part in parts]
            sets.append([part.changes for part in parts])
            overlaps = [find_overlaps(each) for each in sets if len(each) > 1]
            pairs = [pair for overlap in overlaps for pair in overlap.uncertain]
            answers = same_bytes(pairs) if pairs else []
            chunks = {tuple(row) for overlap in overlaps for row in overlap.differing.tolist()}
            chunks |= {pair.index for pair, same in zip(pairs, answers, strict=True) if not same}
            if chunks:
                wrong[parts[0].node.path.text] = sorted(chunks)
        if wrong:
            listed = "; ".join(f"{path}: {_format_chunks(wrong[path])}" for path in sorted(wrong))
            _fail_merge(f"Multiple writers wrote the same chunks: {listed}")

    def _with_target(self, node_id: NodeId, part: _Written) -> list[ChunkChanges]:
        """The target's changes to the same chunks since the fork was created, and the fork's."""
        since = self._since(part.by, node_id, of=part.changes)
        return [part.changes] if since is None else [since, part.changes]

    def _since(
        self, fork: ForkChanges, node_id: NodeId, *, of: ChunkChanges | None = None
    ) -> ChunkChanges | None:
        """The target's changes since the fork was created, to all chunks or those `of` changes."""
        own, below = self.result.chunks.get(node_id), self.inherited.get(node_id)
        if own is None:
            now = below
        else:
            now = own.changes() if below is None else own.changes().over(below)
        if now is not None and of is not None:
            now = select(now, distinct(of.index))
        then = fork.inherited.get(node_id)
        return now if now is None or then is None else changed_since(now, then)

    def apply_chunks(self) -> None:
        for parts in self.written.values():
            here = self.result.find_node(parts[0].node.path)
            if here is None:  # required above
                continue
            refs = ChunkRefs.concat([part.changes.refs for part in parts])
            deleted = np.concatenate([part.changes.deleted for part in parts])
            if len(refs):
                self.result.pending(here).set_many(refs)
            if len(deleted):
                self.result.pending(here).delete_many(deleted)


def _clip_to_grid(node: Node, changes: ChunkChanges) -> ChunkChanges:
    """The changes without references outside the array's grid."""
    grid = () if node.array is None else node.array.num_chunks
    return replace(changes, refs=changes.refs.within(grid))


# Messages


def _require_none(conflicts: Sequence[NodeConflict], ours: ChangeSet, theirs: Theirs) -> None:
    """Raises if there are any: all of the first kind are reported together."""
    order = list(_MESSAGES)
    first = min((conflict.kind for conflict in conflicts), key=order.index, default=None)
    if first is None:
        return
    found = [conflict for conflict in conflicts if conflict.kind is first]
    known = ours.known_nodes() | ours.deleted
    nodes = [known[conflict.node_id] for conflict in found]
    if first is ConflictType.NewNodeInInvalidGroup:
        _refuse_group(nodes[0], found[0].path, theirs)
    if first is ConflictType.ChunksUpdatedInUpdatedArray:
        _refuse_nodes(nodes[:1], _misfit_message(theirs.remaining[nodes[0].id], nodes[0]))
    _refuse_nodes(nodes, _MESSAGES[first])


def _refuse_group(created: Node, path: NodePath, theirs: Theirs) -> Never:
    if theirs.state.find_node(path) is not None:
        _fail_merge(f"one writer created `{created.path}`, another an array at `{path}`")
    _fail_merge(f"Groups were both deleted and modified: {path}")


def _misfit_message(before: Node, after: Node) -> str:
    """Message for chunks written to the array as it was `before` that cannot be used."""
    if encoding_of(before.user_data) != encoding_of(after.user_data):
        return "{0} were both redefined and written to"
    return "{0} were both cut and written to where they end"


def _refuse_nodes(nodes: Sequence[Node], message: str) -> None:
    """Raises if there are any; `message` has places for the kind of node, in capitals and not."""
    for kind in ("arrays", "groups"):
        paths = sorted(node.path.text for node in nodes if node.is_array == (kind == "arrays"))
        if paths:
            _fail_merge(f"{message.format(kind.capitalize(), kind)}: {', '.join(paths)}")


def _format_chunks(chunks: Sequence[Index]) -> str:
    listed = ", ".join(str(list(index)) for index in chunks[:_SHOWN])
    more = len(chunks) - _SHOWN
    return f"{listed} and {more} more" if more > 0 else listed


def _fail_merge(why: str) -> Never:
    raise SessionStateError(f"failed to merge sessions: {why}", kind="merge-failed")
