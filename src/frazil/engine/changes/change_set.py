"""A session's changes to the snapshot that it started from.

Nodes are known by path while they are edited and by id in the transaction log: a node that is
deleted and created again is two nodes. A transaction log lists only net moves, one for each node; a
"top" move is one that does not merely follow from the move of the group above it.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import (
    AlreadyExistsError,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.format.nodes import Node, Nodes
from frazil.ids import NodeId
from frazil.lazy import lazy_module
from frazil.paths import NodePath

if TYPE_CHECKING:
    from frazil.engine.changes import pending as edits
    from frazil.engine.changes.attached_manifests import Attached, LogWriter
    from frazil.format import transaction_log
else:
    transaction_log = lazy_module("frazil.format.transaction_log")
    edits = lazy_module("frazil.engine.changes.pending")


class ChangeSet:
    """Not thread-safe: the session that owns it serialises access."""

    def __init__(self, base: Nodes) -> None:
        self.base = base
        self.edited: dict[str, Node | None] = {}  # by path; None: deleted
        self.created: set[NodeId] = set()
        self.updated: set[NodeId] = set()
        self.deleted: dict[NodeId, Node] = {}
        self.moved: dict[NodeId, transaction_log.Move] = {}  # from where each was in the base
        self.chunks: dict[NodeId, edits.PendingChunks] = {}
        self.attached: dict[NodeId, tuple[Attached, ...]] = {}  # written by others
        self.log_writer: LogWriter | None = None  # for a log with the chunks of these
        self.overtaken = False  # there were changes, though others may have made them since
        self._known: dict[str, Node] = {}  # nodes of the base that were looked at

    def copy(self) -> "ChangeSet":
        """Changes that go their own way from here."""
        new = copy(self)
        new.edited, new.deleted = dict(self.edited), dict(self.deleted)
        new.created, new.updated = set(self.created), set(self.updated)
        new.moved, new.attached = dict(self.moved), dict(self.attached)
        new._known = dict(self._known)  # noqa: SLF001 -- of the same class
        new.chunks = {node_id: pending.copy() for node_id, pending in self.chunks.items()}
        return new

    @property
    def is_empty(self) -> bool:
        changed = self.created or self.updated or self.deleted or self.chunks or self.moved
        return not (changed or self.attached or self.overtaken)

    def find_node(self, path: NodePath) -> Node | None:
        if path.text in self.edited:
            return self.edited[path.text]
        return self._find_base(path)

    def nodes(self, under: NodePath) -> Iterator[Node]:
        """Yields the node at `under`, if there is one, and all below it, by path."""
        edited = sorted(
            (
                node
                for node in self.edited.values()
                if node is not None and (node.path == under or node.path.is_under(under))
            ),
            key=attrgetter("path.raw"),
        )
        base = (
            self.base.node(row)
            for row in self.base.under(under)
            if self.base.path_text(row) not in self.edited
        )
        return merge(base, edited, key=attrgetter("path.raw"))

    def child_names(self, path: NodePath) -> list[str]:
        """Names directly below `path`, also of groups that exist only as part of a path."""
        if not self.edited:
            return sorted(self.base.child_names(path))
        prefix = path.descendant_prefix
        texts = [
            text
            for row in self.base.under(path)
            if (text := self.base.path_text(row)) not in self.edited
        ]
        texts += [text for text, node in self.edited.items() if node is not None]
        start = len(prefix)
        names = {
            text[start:].partition("/")[0]
            for text in texts
            if text.startswith(prefix) and len(text) > start
        }
        return sorted(names)

    def put_node(self, node: Node) -> None:
        """A new node, or another version of the one at that path."""
        old = self.find_node(node.path)
        if old is None:
            self.created.add(node.id)
        elif node.id not in self.created:
            self.updated.add(node.id)
        self.edited[node.path.text] = node

    def delete_nodes(self, under: NodePath) -> None:
        for node in list(self.nodes(under)):
            self.delete_node(node)

    def relocate(self, nodes: Iterable[tuple[Node, NodePath]]) -> None:
        """Gives nodes other paths, all at once: they may take each other's."""
        nodes = list(nodes)
        for node, _ in nodes:
            self._vacate(node.path)
        for node, path in nodes:
            self.overtaken = True  # something was done, even if nodes end where they began
            known = self.moved.pop(node.id, None)
            origin = node.path if known is None else known.from_path
            self.edited[path.text] = replace(node, path=path)
            if origin != path:
                self.moved[node.id] = transaction_log.Move(
                    origin, path, node.id, node.array is not None
                )

    @property
    def vacated(self) -> list[NodePath]:
        """Paths of the base at which there is nothing any more."""
        return [NodePath(text) for text, node in self.edited.items() if node is None]

    def pending(self, node: Node) -> "edits.PendingChunks":
        """The array's chunk changes, which begin now if there were none."""
        ndim = 0 if node.array is None else len(node.array.shape)
        return self.chunks.setdefault(node.id, edits.PendingChunks(ndim))

    def path_of(self, node_id: NodeId) -> NodePath | None:
        """Path of a changed node, or of a deleted one before it was deleted."""
        if node_id in self.deleted:
            return self.deleted[node_id].path
        for node in self.edited.values():
            if node is not None and node.id == node_id:
                return node.path
        for node in self._known.values():
            if node.id == node_id:
                return node.path
        return None

    def has_id(self, node_id: NodeId) -> bool:
        """True if any node has this id, or had it in the base."""
        if node_id in self.created:
            return True
        wanted = np.frombuffer(node_id.raw, dtype=np.uint8)
        return bool((self.base.table.struct("id").values == wanted).all(axis=1).any())

    def known_nodes(self) -> dict[NodeId, Node]:
        """Every changed node as it is now, and every node that was looked up, by id."""
        nodes = [*self._known.values(), *self.edited.values()]
        return {node.id: node for node in nodes if node is not None}

    def _find_base(self, path: NodePath) -> Node | None:
        known = self._known.get(path.text)
        if known is None and (known := self.base.lookup(path)) is not None:
            self._known[path.text] = known
        return known

    def delete_node(self, node: Node) -> None:
        """Only this one, which must be there."""
        self.chunks.pop(node.id, None)
        self.attached.pop(node.id, None)
        self.updated.discard(node.id)
        if node.id in self.created:
            self.created.remove(node.id)
        else:
            move = self.moved.pop(node.id, None)  # it goes from where it was in the base
            self.deleted[node.id] = node if move is None else replace(node, path=move.from_path)
        self._vacate(node.path)

    def _vacate(self, path: NodePath) -> None:
        if self.base.find(path) >= 0:
            self.edited[path.text] = None
        else:
            del self.edited[path.text]


type Relocations = Sequence[tuple[Node, NodePath]]
"""Nodes as they are, and their new paths."""


def plan_move(changes: ChangeSet, source: NodePath, target: NodePath) -> Relocations:
    """The node at `source` and all below it, with `target` in the place of `source`."""
    if changes.find_node(source) is None:
        raise NodeNotFoundError(f"node not found at `{source}`")
    if target == source or target.is_under(source):
        raise SessionStateError(
            f"cannot move `{source}` into itself or its own descendant `{target}`",
            kind="move-into-self-or-descendant",
        )
    if changes.find_node(target) is not None:
        raise AlreadyExistsError(
            f"move cannot overwrite existing node at `{target}`", kind="move-wont-overwrite"
        )
    _require_group_above(changes, target)
    return [(node, rebase_path(node.path, source, target)) for node in changes.nodes(source)]


def rebase_path(path: NodePath, old: NodePath, new: NodePath) -> NodePath:
    """`path`, which is `old` or below it, with `new` in the place of `old`."""
    if path == old:
        return new
    return NodePath(new.descendant_prefix + path.text[len(old.descendant_prefix) :])


def top_moves(moved: "Iterable[transaction_log.Move]") -> "list[transaction_log.Move]":
    """Moves that do not follow from the move of the group above."""
    by_origin = {move.from_path: move for move in moved}

    def follows(move: "transaction_log.Move") -> bool:
        above = None if move.from_path.parent is None else by_origin.get(move.from_path.parent)
        return (
            above is not None
            and move.from_path.name == move.to_path.name
            and above.to_path == move.to_path.parent
        )

    return [move for move in by_origin.values() if not follows(move)]


def _require_group_above(changes: ChangeSet, target: NodePath) -> None:
    above = target.parent
    found = None if above is None else changes.find_node(above)
    if found is None:
        raise SessionStateError(
            f"cannot move to `{target}`: the destination's parent group `{above}` does not exist",
            kind="move-destination-parent-missing",
        )
    if found.array is not None:
        raise SessionStateError(
            f"cannot move to `{target}`: the destination's parent `{above}` is an array,"
            " not a group",
            kind="move-destination-parent-not-group",
        )
