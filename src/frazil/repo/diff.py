"""What changed between two snapshots, or since a session began."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.format.index_keys import distinct
from frazil.format.snapshot import Node, Nodes
from frazil.format.txlog import Move, TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.repo.logs import ids_in


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diff:
    new_groups: frozenset[NodePath] = frozenset()
    new_arrays: frozenset[NodePath] = frozenset()
    deleted_groups: frozenset[NodePath] = frozenset()
    deleted_arrays: frozenset[NodePath] = frozenset()
    updated_groups: frozenset[NodePath] = frozenset()
    updated_arrays: frozenset[NodePath] = frozenset()
    updated_chunks: dict[NodePath, npt.NDArray[np.uint32]] = field(default_factory=dict)
    moved: tuple[Move, ...] = ()


type Paths = Callable[[NodeId], NodePath | None]


def summarise(logs: Iterable[TransactionLog], path_of: Paths) -> Diff:
    """All that `logs`, newest first, say has changed.

    Nodes are reported by path; those that `path_of` does not know, because they came and went in
    between, are left out.
    """
    logs = list(logs)

    def paths(column: str) -> frozenset[NodePath]:
        ids = ids_in(*(getattr(log, column) for log in logs))
        return frozenset(path for path in map(path_of, ids) if path is not None)

    return Diff(
        new_groups=paths("new_groups"),
        new_arrays=paths("new_arrays"),
        deleted_groups=paths("deleted_groups"),
        deleted_arrays=paths("deleted_arrays"),
        updated_groups=paths("updated_groups"),
        updated_arrays=paths("updated_arrays"),
        updated_chunks=_updated_chunks(logs, path_of),
        moved=tuple(move for log in logs for move in log.moved),
    )


def _updated_chunks(
    logs: list[TransactionLog], path_of: Paths
) -> dict[NodePath, npt.NDArray[np.uint32]]:
    parts: dict[NodePath, list[npt.NDArray[np.uint32]]] = {}
    for log in logs:
        for node_id, index in log.updated_chunks.items():
            path = path_of(node_id)
            if path is not None and len(index):
                parts.setdefault(path, []).append(index)
    # An array that was replaced by one of another dimensionality has chunks of both.
    return {
        path: distinct(np.concatenate([i for i in listed if i.shape[1] == listed[0].shape[1]]))
        for path, listed in sorted(parts.items(), key=lambda part: part[0].raw)
    }


def paths_in(*listings: Iterable[Node]) -> Paths:
    """Paths by node id; an earlier listing wins over a later one."""
    known: dict[NodeId, NodePath] = {}
    for listing in listings:
        for node in listing:
            known.setdefault(node.id, node.path)
    return known.get


def paths_of(*snapshots: Nodes) -> Paths:
    """The same, of whole snapshots: a node is looked at when somebody asks for it."""
    listings = [(nodes, nodes.find_ids()) for nodes in snapshots]

    def path_of(node_id: NodeId) -> NodePath | None:
        for nodes, rows in listings:
            row = rows.get(node_id.raw)
            if row is not None:
                return nodes.path(row)
        return None

    return path_of
