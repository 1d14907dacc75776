"""Nodes put elsewhere in the hierarchy, with all that is below them.

Pure: what a move amounts to, whether moves can be carried over somebody else's commit, and where
they lead then. A transaction log knows only net moves, one for each node; a "top" is one that
does not merely follow from the move of the group above it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from frazil.errors import (
    AlreadyExistsError,
    ConflictType,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.format.nodes import Nodes
from frazil.format.schemas import NODE_ARRAY
from frazil.format.snapshot import Node
from frazil.format.txlog import Move
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.repo.changes import ChangeSet

type Relocations = Sequence[tuple[Node, NodePath]]
"""Nodes as they are, and the paths that they are to have."""


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


def carried_moves(moved: Mapping[NodeId, Move], after: Nodes) -> Relocations:
    """The same moves in other nodes: what was added to a moved group goes along."""
    targets = _targets(moved, after)
    return [(after.node(row), target) for row, target in targets.items()]


def find_obstacles(
    moved: Mapping[NodeId, Move], others: Iterable[Move], after: Nodes
) -> Iterator[tuple[ConflictType, NodePath, NodeId]]:
    """Why the moves cannot be carried over a commit that left the nodes `after`."""
    ends = {path for move in others for path in (move.from_path, move.to_path)}
    for move in top_moves(moved.values()):
        if not _is_there(move, after) or any(_is_related(move, end) for end in ends):
            yield ConflictType.MoveOperationCannotBeRebased, move.from_path, move.node_id
    targets = _targets(moved, after)
    types = after.table.union("node_data").types
    taken: dict[NodePath, int] = {}
    for row, target in targets.items():
        occupant = after.find(target)
        if target in taken or (occupant >= 0 and occupant not in targets):
            yield ConflictType.NewNodeConflictsWithExistingNode, target, after.node(row).id
        taken[target] = row
    for row, target in targets.items():
        above = target.parent
        if above is None:
            continue
        group = taken.get(above, -1)
        if group < 0 and (group := after.find(above)) in targets:
            group = -1  # it is moved away
        if group < 0 or types[group] == NODE_ARRAY:
            yield ConflictType.NewNodeInInvalidGroup, above, after.node(row).id


def _targets(moved: Mapping[NodeId, Move], after: Nodes) -> dict[int, NodePath]:
    """By row, the new path of each node that moves."""
    by_origin = {move.from_path: move.to_path for move in moved.values() if _is_there(move, after)}
    targets: dict[int, NodePath] = {}
    for origin in by_origin:
        for row in after.under(origin):
            if row in targets:
                continue
            path = NodePath(after.path_text(row))
            nearest = next(p for p in (path, *path.ancestors) if p in by_origin)
            targets[row] = rebased_path(path, nearest, by_origin[nearest])
    return targets


def _is_there(move: Move, nodes: Nodes) -> bool:
    row = nodes.find(move.from_path)
    return row >= 0 and nodes.table.struct("id").values[row].tobytes() == move.node_id.raw


def _is_related(move: Move, end: NodePath) -> bool:
    return any(
        path == end or path.is_under(end) or end.is_under(path)
        for path in (move.from_path, move.to_path)
    )


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
