"""The changes of a session together with those of its forks. Decided here, without storage.

A fork's change is compared with what the fork found and with what is there now:

    metadata   now as the fork found it: the fork's wins; now equal to the fork's: nothing to do;
               otherwise both updated it
    new node   the place must be free, and its parents must be what the fork saw
    deletion   the node must be as the fork found it, and nothing new below it; or be gone too
    chunks     nobody else may have changed the chunk since, unless in the same way; and the array
               must still be cut into chunks and encoded as the fork thought

So a fork may change what its parent had pending when it was made, and a copy of a fork may be
merged along with the fork itself. All contradictions of one sort are reported together.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Never

import numpy as np

from frazil.errors import SessionStateError
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Node, Nodes
from frazil.ids import NodeId
from frazil.repo.changes import ChangeSet
from frazil.repo.chunk_overlaps import Doubt, changed_since, find_overlaps, only
from frazil.repo.pending import ChunkChanges, Index

_SHOWN = 10  # chunks of each array that a message lists

type SameBytes = Callable[[Sequence[Doubt]], list[bool]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForkChanges:
    base: Nodes  # as the fork found them
    inherited: Mapping[NodeId, ChunkChanges]  # pending when it was made, and not its own
    changes: ChangeSet


def merge_changes(
    target: ChangeSet,
    inherited: Mapping[NodeId, ChunkChanges],
    forks: Sequence[ForkChanges],
    *,
    same_bytes: SameBytes,
) -> ChangeSet:
    """What `target` becomes, which itself stays as it is.

    `inherited` are chunk changes below the target's own, if it is a fork too. `same_bytes` tells
    whether two objects for one chunk are equal; it is asked only about those of one length.
    Raises SessionStateError[merge-failed].
    """
    merge = _Merge(target.copy(), inherited)
    for fork in forks:
        merge.add_nodes(fork)
        merge.add_chunks(fork)
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

    def add_nodes(self, fork: ForkChanges) -> None:
        self._delete(fork)
        edited = sorted(
            (node for node in fork.changes.edited.values() if node is not None),
            key=lambda node: node.path.raw,  # parents come before their children
        )
        self._create(fork, [node for node in edited if node.id in fork.changes.created])
        self._update(fork, [node for node in edited if node.id in fork.changes.updated])

    def _delete(self, fork: ForkChanges) -> None:
        doomed, own = fork.changes.deleted, fork.changes.created
        both = [n for n in doomed.values() if self._is_changed(fork, n)]
        _refuse_nodes(both, "{0} were both deleted and modified")
        paths = {node.path for node in doomed.values()}
        tops = [n for n in doomed.values() if not any(a in paths for a in n.path.ancestors)]
        for top in tops:
            below = list(self.result.nodes(top.path))
            if any(node.id not in doomed and node.id not in own for node in below):
                _refuse_nodes([top], "{0} were both deleted and modified")
            for node in below:
                if node.id in doomed:
                    self.result.delete_node(node)

    def _is_changed(self, fork: ForkChanges, doomed: Node) -> bool:
        """Whether a node that the fork deleted is not as the fork found it, nor just gone."""
        here, new = self.result.find_node(doomed.path), fork.changes.find_node(doomed.path)
        if here is None:
            return new is not None  # gone, while the fork put another in its place
        if new is not None and here.id == new.id:  # was merged before
            return False
        if here.id != doomed.id or doomed.id in self.written:
            return True
        row = fork.base.find(doomed.path)
        if row >= 0 and fork.base.node(row).user_data != here.user_data:
            return True
        now = self._pending(doomed.id)
        if now is None:
            return False
        then = fork.inherited.get(doomed.id)
        return bool(len((now if then is None else changed_since(now, then)).index))

    def _create(self, fork: ForkChanges, nodes: Sequence[Node]) -> None:
        twice = []
        for node in nodes:
            here = self.result.find_node(node.path)
            if here is None:
                self._require_same_parents(fork, node)
                array = None if node.array is None else replace(node.array, manifests=())
                self.result.put_node(replace(node, array=array))
            elif here.id != node.id or here.user_data != node.user_data:
                twice.append(node)
        _refuse_nodes(twice, "Multiple writers created the same {1}")

    def _require_same_parents(self, fork: ForkChanges, node: Node) -> None:
        for path in node.path.ancestors:
            here = self.result.find_node(path)
            if here is None and (gone := fork.changes.find_node(path)) is not None:
                _refuse_nodes([gone], "{0} were both deleted and modified")
            if here is not None and here.array is not None:
                _refuse(f"one writer created `{node.path}`, another an array at `{path}`")
        if node.array is not None and (names := self.result.child_names(node.path)):
            _refuse(f"one writer created an array at `{node.path}`, another {names} below it")

    def _update(self, fork: ForkChanges, nodes: Sequence[Node]) -> None:
        gone, twice = [], []
        for node in nodes:
            here = self.result.find_node(node.path)
            row = fork.base.find(node.path)
            if here is None or here.id != node.id:
                gone.append(node)
            elif here.user_data == node.user_data:
                continue
            elif row < 0 or fork.base.node(row).user_data != here.user_data:
                twice.append(node)
            else:
                self._require_fitting_update(fork, here, node)
                manifests = () if here.array is None else here.array.manifests
                array = None if node.array is None else replace(node.array, manifests=manifests)
                self.result.put_node(replace(node, array=array))
        _refuse_nodes(gone, "{0} were both deleted and modified")
        _refuse_nodes(twice, "Multiple writers updated the same {1}")

    def _require_fitting_update(self, fork: ForkChanges, here: Node, node: Node) -> None:
        """Raises if the target wrote chunks since the fork was made that will not do any more."""
        now = self._pending(node.id)
        if now is None or here.array is None:
            return
        then = fork.inherited.get(node.id)
        since = now if then is None else changed_since(now, then)
        _require_fit(node, here, since.refs.within(here.array.num_chunks))

    # Chunks

    def add_chunks(self, fork: ForkChanges) -> None:
        gone = []
        for node, changes in _chunk_changes(fork.changes):
            here = self.result.find_node(node.path)
            if here is None or here.id != node.id:
                gone.append(node)
            self.written[node.id].append(_Written(fork, node, changes))
        _refuse_nodes(gone, "{0} were both deleted and modified")

    def require_fitting_chunks(self) -> None:
        """Raises if an array became another, for which the chunks of a fork do not do."""
        for part in (part for parts in self.written.values() for part in parts):
            here = self.result.find_node(part.node.path)
            if here is None or here.id != part.node.id:
                _refuse_nodes([part.node], "{0} were both deleted and modified")
            else:
                _require_fit(here, part.node, part.changes.refs)

    def require_no_overlaps(self, same_bytes: SameBytes) -> None:
        wrong = {}
        for node_id, parts in self.written.items():
            sets = [self._with_target(node_id, part) for part in parts]
            sets.append([part.changes for part in parts])
            found = [find_overlaps(each) for each in sets if len(each) > 1]
            doubts = [doubt for each in found for doubt in each.doubtful]
            answers = same_bytes(doubts) if doubts else []
            chunks = {tuple(row) for each in found for row in each.differing.tolist()}
            chunks |= {d.index for d, same in zip(doubts, answers, strict=True) if not same}
            if chunks:
                wrong[parts[0].node.path.text] = sorted(chunks)
        if wrong:
            listed = "; ".join(f"{path}: {_show(wrong[path])}" for path in sorted(wrong))
            _refuse(f"Multiple writers wrote the same chunks: {listed}")

    def _with_target(self, node_id: NodeId, part: _Written) -> list[ChunkChanges]:
        """What the target did to the same chunks since the fork was made, and what the fork did."""
        now = self._pending(node_id)
        if now is None:
            return [part.changes]
        now = only(now, distinct(part.changes.index))
        then = part.by.inherited.get(node_id)
        return [now if then is None else changed_since(now, then), part.changes]

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

    def _pending(self, node_id: NodeId) -> ChunkChanges | None:
        """Chunk changes of the target, its own over those it inherited."""
        pending, below = self.result.chunks.get(node_id), self.inherited.get(node_id)
        if pending is None:
            return below
        return pending.changes() if below is None else pending.changes().over(below)


def _chunk_changes(changes: ChangeSet) -> Iterator[tuple[Node, ChunkChanges]]:
    """Changed arrays with what was changed inside their grid."""
    nodes = changes.known_nodes()
    for node_id, pending in changes.chunks.items():
        node, found = nodes[node_id], pending.changes()
        grid = () if node.array is None else node.array.num_chunks
        yield node, replace(found, refs=found.refs.within(grid))


def _require_fit(node: Node, before: Node, refs: ChunkRefs) -> None:
    """Raises unless chunks that were written to the array as it was `before` are good in it now."""
    if not len(refs) or node.array is None or node.user_data == before.user_data:
        return
    if encoding_of(node.user_data) != encoding_of(before.user_data):
        _refuse_nodes([node], "{0} were both redefined and written to")
    if len(refs.within(node.array.num_chunks)) < len(refs):
        _refuse_nodes([node], "{0} were both cut and written to where they end")


def encoding_of(user_data: bytes) -> dict[str, Any]:
    """What of an array's metadata its stored chunks depend on."""
    document: dict[str, Any] = json.loads(user_data)
    free = {"attributes", "shape", "dimension_names", "fill_value"}
    return {name: value for name, value in document.items() if name not in free}


def _show(chunks: Sequence[Index]) -> str:
    listed = ", ".join(str(list(index)) for index in chunks[:_SHOWN])
    more = len(chunks) - _SHOWN
    return f"{listed} and {more} more" if more > 0 else listed


def _refuse_nodes(nodes: Sequence[Node], what: str) -> None:
    """Raises if there are any; `what` has places for the sort of node, in capitals and not."""
    for sort in ("arrays", "groups"):
        paths = [n.path for n in nodes if (n.array is not None) == (sort == "arrays")]
        if paths:
            listed = ", ".join(sorted(path.text for path in paths))
            _refuse(f"{what.format(sort.capitalize(), sort)}: {listed}")


def _refuse(why: str) -> Never:
    raise SessionStateError(f"failed to merge sessions: {why}", kind="merge-failed")
