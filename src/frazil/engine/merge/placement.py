"""Paths of nodes when both sides of a merge create or move nodes. Pure.

The place of a node is its name in a group, and the group is known by id: so what is in a group
goes where the group goes, whichever side moved it. A node is placed by us if we made it, or gave it
another place; all others are where they are on the branch.

    both moved it               to where it ends up at the same path, or it is a conflict
    we moved, they deleted      a conflict, as is the other way round
    the group is gone           a conflict, unless it is ours to delete what they added to it
    two nodes at one path       a conflict, unless both made the same group there
    a group inside itself       a conflict: each side moved one of two groups into the other
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet, Relocations, rebase_path
from frazil.engine.merge.comparison import NodeChanges
from frazil.engine.merge.conflicts import NodeConflict, Theirs, id_at, rows_by_id
from frazil.errors import ConflictType
from frazil.format.nodes import Node, Nodes
from frazil.format.schemas import NODE_ARRAY
from frazil.ids import NodeId
from frazil.paths import NodePath


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    paths: Mapping[NodeId, NodePath]  # of the nodes that we make
    there: frozenset[NodeId]  # those of them that the branch has already
    relocations: Relocations  # of nodes that the branch has
    conflicts: Sequence[NodeConflict]


NOTHING_PLACED = Placement({}, frozenset(), (), ())


def place_nodes(
    *,
    base: Nodes,
    tip: Nodes,
    source: Nodes,
    ours: NodeChanges,
    theirs: NodeChanges,
    accept_replaced_groups: bool = False,
) -> Placement:
    """`accept_replaced_groups` takes a new group at the path of one that is gone for the same."""
    mine = _find_moved(ours, base, source)
    placing = _Placing.of(tip, source, ours, mine, by_path=accept_replaced_groups)
    paths = {node_id: placing.path_of(node_id) for node_id in ours.created}
    there = frozenset(
        node.id for node in ours.created.values() if placing.is_there(node, paths[node.id])
    )
    other = _find_moved(theirs, base, tip)
    conflicts = [*placing.lost_moves(other), *placing.their_moves(other), *placing.loops()]
    if not conflicts:  # otherwise there is no telling where nodes would be
        conflicts += [*placing.missing_groups(there), *placing.taken_paths(there)]
    return Placement(paths, there, [] if conflicts else placing.relocations(), conflicts)


def place_moves(ours: ChangeSet, theirs: Theirs) -> Placement:
    """Carries the moves of a rearrange session over changes that moved none of the same nodes."""
    if not ours.moved:
        return NOTHING_PLACED
    put = [node for node in ours.edited.values() if node is not None]
    source = ours.base.patched(remove=ours.vacated, put=put)
    moved = {node.id: (ours.base.node(row), node) for node, row in _rows_before(ours, put)}
    return place_nodes(
        base=ours.base,
        tip=theirs.state.base,
        source=source,
        ours=NodeChanges({}, {}, moved),
        theirs=NodeChanges({}, {}, {}),
        accept_replaced_groups=True,
    )


def _rows_before(ours: ChangeSet, nodes: Iterable[Node]) -> Iterator[tuple[Node, int]]:
    for node in nodes:
        if node.id in ours.moved:
            yield node, ours.base.find(ours.moved[node.id].from_path)


@dataclass(frozen=True, slots=True)
class _Place:
    group: NodeId | None  # None: there is no node above
    name: str  # in the group; without one, the whole path

    @classmethod
    def of(cls, nodes: Nodes, path: NodePath) -> "_Place":
        above = path.parent
        row = -1 if above is None else nodes.find(above)
        return cls(None, path.text) if row < 0 else cls(id_at(nodes, row), path.name)


type _Moved = dict[NodeId, tuple[Node, Node]]
"""Before and after; only nodes that did not merely go along with the group above."""


def _find_moved(changes: NodeChanges, before: Nodes, after: Nodes) -> _Moved:
    moved: _Moved = {}
    for node_id, (old, new) in changes.changed.items():
        was, now = _Place.of(before, old.path), _Place.of(after, new.path)
        # A group that came into being, or vanished, above a node did not move it.
        stays = old.path == new.path and None in (was.group, now.group)
        if was != now and not stays:
            moved[node_id] = (old, new)
    return moved


@dataclass(frozen=True, slots=True, eq=False)
class _Placing:
    tip: Nodes
    ours: NodeChanges
    moved: _Moved  # by us
    places: Mapping[NodeId, _Place]  # of what we place
    rows: Mapping[NodeId, int]  # in the tip: what we move, and the groups that we put nodes into
    origins: Mapping[NodePath, NodeId]  # by path in the tip, what we move
    known: dict[NodeId, NodePath] = field(default_factory=dict)
    carried: dict[NodePath, int] = field(default_factory=dict)  # by new path, rows of the tip
    open: set[NodeId] = field(default_factory=set)  # whose path is being looked for
    looping: set[NodeId] = field(default_factory=set)

    @classmethod
    def of(
        cls, tip: Nodes, source: Nodes, ours: NodeChanges, moved: _Moved, *, by_path: bool
    ) -> "_Placing":
        placed = [*ours.created.values(), *(after for _, after in moved.values())]
        places = {node.id: _Place.of(source, node.path) for node in placed}
        groups = {place.group for place in places.values() if place.group is not None}
        rows = rows_by_id(tip, groups | places.keys())
        for node in placed if by_path else ():
            group, above = places[node.id].group, tip.lookup(node.path.parent or node.path)
            if group is None or group in rows or group in places:
                continue
            if above is not None and not above.is_array:
                rows[group] = tip.find(above.path)
        origins = {NodePath(tip.path_text(rows[i])): i for i in moved if i in rows}
        placing = cls(tip, ours, moved, places, rows, origins)
        moving = {row for origin in origins for row in tip.under(origin)}
        placing.carried.update({placing.path_at(row): row for row in sorted(moving)})
        return placing

    # Paths

    def path_of(self, node_id: NodeId) -> NodePath:
        """Final path of a node that we place, or of a group that we put nodes into."""
        if node_id in self.known:
            return self.known[node_id]
        if node_id not in self.places:
            return self.path_at(self.rows[node_id])
        if node_id in self.open:
            self.looping.add(node_id)
            return self._source_path(node_id)
        self.open.add(node_id)
        place = self.places[node_id]
        if place.group is None:
            path = NodePath(place.name)
        elif place.group not in self.places and place.group not in self.rows:
            path = self._source_path(node_id)  # the group is gone, which is a conflict
        else:
            path = self.path_of(place.group).child(place.name)
        self.open.discard(node_id)
        return self.known.setdefault(node_id, path)

    def path_at(self, row: int) -> NodePath:
        """Final path of the node in this row of the tip."""
        path = NodePath(self.tip.path_text(row))
        return self._carried(path, (path, *path.ancestors))

    def _carried(self, path: NodePath, above: tuple[NodePath, ...]) -> NodePath:
        """A path of the tip, after the nearest of the nodes above that we move has been moved."""
        nearest = next((each for each in above if each in self.origins), None)
        if nearest is None:
            return path
        return rebase_path(path, nearest, self.path_of(self.origins[nearest]))

    def _source_path(self, node_id: NodeId) -> NodePath:
        found = self.ours.created.get(node_id) or self.moved[node_id][1]
        return found.path

    def relocations(self) -> Relocations:
        """All nodes of the tip that get another path, those below what we move included."""
        found = [(self.tip.node(row), path) for path, row in self.carried.items()]
        return [(node, path) for node, path in found if self._stays(node.id) and node.path != path]

    def is_there(self, node: Node, path: NodePath) -> bool:
        """True if the branch already has a node that we created, or an equal group."""
        return any(_is_alike(self.tip.node(row), node) for row in self._rows_at(path))

    def _rows_at(self, path: NodePath) -> list[int]:
        """Rows in the tip of nodes that are at `path` in the end: two if they are in conflict."""
        stays = self.tip.find(path)
        if stays >= 0 and self.path_at(stays) != path:
            stays = -1
        rows = {self.carried.get(path, -1), stays} - {-1}
        return [row for row in sorted(rows) if self._stays(id_at(self.tip, row))]

    def _stays(self, node_id: NodeId) -> bool:
        return node_id not in self.ours.deleted

    # Conflicts

    def lost_moves(self, theirs: _Moved) -> Iterator[NodeConflict]:
        """Nodes that we move, and they deleted or moved to another path."""
        for node_id, (before, _) in self.moved.items():
            row = self.rows.get(node_id, -1)
            if row >= 0 and node_id in theirs:
                path = NodePath(self.tip.path_text(row))
                if self._carried(path, tuple(path.ancestors)) == self.path_of(node_id):
                    continue
            elif row >= 0:
                continue
            yield NodeConflict(ConflictType.MoveOperationCannotBeRebased, before.path, node_id)

    def their_moves(self, theirs: _Moved) -> Iterator[NodeConflict]:
        """Nodes that they moved, if we delete them or the group that they were moved into."""
        for node_id, (before, after) in theirs.items():
            place = _Place.of(self.tip, after.path)
            into_nothing = place.group is not None and not self._stays(place.group)
            if not self._stays(node_id) or (into_nothing and node_id not in self.moved):
                yield NodeConflict(ConflictType.MoveOperationCannotBeRebased, before.path, node_id)

    def loops(self) -> Iterator[NodeConflict]:
        for node_id in self.moved:
            self.path_of(node_id)
        for node_id in sorted(self.looping & self.moved.keys()):
            path = self.moved[node_id][0].path
            yield NodeConflict(ConflictType.MoveOperationCannotBeRebased, path, node_id)

    def missing_groups(self, there: frozenset[NodeId]) -> Iterator[NodeConflict]:
        """Groups that we put something into, and that are gone, or arrays above it."""
        for node_id, place in self.places.items():
            if node_id in there:
                continue
            path = self.path_of(node_id)
            group = place.group
            if group is None:
                above = next((each for each in path.ancestors if self._is_array(each)), None)
            elif group in self.ours.created or (group in self.rows and self._stays(group)):
                continue
            else:
                above = path.parent
            if above is not None:
                yield NodeConflict(ConflictType.NewNodeInInvalidGroup, above, node_id)

    def taken_paths(self, there: frozenset[NodeId]) -> Iterator[NodeConflict]:
        """Paths that we put a node at, and that are not free."""
        mine: dict[NodePath, NodeId] = {}
        for node_id in self.places:
            path, row = self.path_of(node_id), self.rows.get(node_id, -1)
            elsewhere = row >= 0 and node_id in self.ours.created and self.path_at(row) != path
            taken = path in mine or elsewhere or self._is_taken(path, node_id)
            if taken and node_id not in there:
                yield NodeConflict(ConflictType.NewNodeConflictsWithExistingNode, path, node_id)
            mine[path] = node_id

    def _is_taken(self, path: NodePath, by: NodeId) -> bool:
        """True if the branch has another node at the path, or nodes below a new array."""
        created = self.ours.created.get(by)
        node = self.moved[by][1] if created is None else created
        others = [
            row for row in self._rows_at(path) if created is not None or id_at(self.tip, row) != by
        ]
        if others or not node.is_array:
            return bool(others)
        below = [NodePath(self.tip.path_text(row)) for row in self.tip.below(path)]
        below += [each for each in self.carried if each.is_under(path)]
        return any(self._rows_at(each) for each in below)

    def _is_array(self, path: NodePath) -> bool:
        """True if the branch has an array whose final path this is."""
        types = self.tip.table.union("node_data").types
        return any(types[row] == NODE_ARRAY for row in self._rows_at(path))


def _is_alike(found: Node, wanted: Node) -> bool:
    same = found.user_data == wanted.user_data and found.is_array == wanted.is_array
    return same and (found.id == wanted.id or not wanted.is_array)
