"""Moves of nodes in the hierarchy, with everything below them.

A transaction log lists only net moves, one for each node; a "top" move is one that does not merely
follow from the move of the group above it.
"""

from collections.abc import Iterable, Sequence

from frazil.errors import (
    AlreadyExistsError,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.format.snapshot import Node
from frazil.format.txlog import Move
from frazil.paths import NodePath
from frazil.repo.changes import ChangeSet

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
    return [(node, rebased_path(node.path, source, target)) for node in changes.nodes(source)]


def rebased_path(path: NodePath, old: NodePath, new: NodePath) -> NodePath:
    """`path`, which is `old` or below it, with `new` in the place of `old`."""
    if path == old:
        return new
    return NodePath(new.descendant_prefix + path.text[len(old.descendant_prefix) :])


def top_moves(moved: Iterable[Move]) -> list[Move]:
    """Those that do not follow from the move of the group above."""
    by_origin = {move.from_path: move for move in moved}

    def follows(move: Move) -> bool:
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
