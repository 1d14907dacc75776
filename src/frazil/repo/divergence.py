"""What lies between two snapshots of which neither is an ancestor of the other.

A branch that was reset or amended leads to such a pair: a session's base and the branch's tip.
Nodes are compared as they are; of chunks it is known which ones either side changed since the
snapshot both come from, and those are taken to differ.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from frazil.errors import ConflictError
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import NODE_ARRAY
from frazil.format.txlog import Move, TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.repo import history


def logs_apart(info: RepoInfo, base: SnapshotId, branch: str) -> tuple[SnapshotId, ...]:
    """Logs of both sides since the snapshot that both come from."""
    tip, start = info.branches[branch], info.snapshots.find(base)
    ours = [] if start < 0 else list(history.ancestor_rows(info, start))
    common = next((row for row in history.ancestor_rows(info, tip) if row in ours), None)
    if common is None:
        raise ConflictError(
            f"cannot rebase: branch `{branch}` and snapshot {base} have no history in common",
            expected_parent=str(base),
            actual_parent=str(history.snapshot_id(info, tip)),
        )
    sides = [history.log_ids_between(info, common, row) for row in (start, tip) if row != common]
    return tuple(log for side in sides for log in reversed(side))


def log_between(logs: TransactionLog, before: Nodes, after: Nodes) -> TransactionLog:
    """What leads from one to the other, given all that either side changed."""
    kept = _Both.of(before, after)
    return TransactionLog(
        id=logs.id,
        new_groups=_ids(after, ~kept.in_after, arrays=False),
        new_arrays=_ids(after, ~kept.in_after, arrays=True),
        deleted_groups=_ids(before, ~kept.in_before, arrays=False),
        deleted_arrays=_ids(before, ~kept.in_before, arrays=True),
        updated_groups=_ids(before, kept.updated, arrays=False),
        updated_arrays=_ids(before, kept.updated, arrays=True),
        updated_chunks=logs.updated_chunks,
        moved=tuple(kept.moves()),
    )


class _Both:
    """Nodes that are in two listings, wherever they are in each."""

    def __init__(self, before: Nodes, after: Nodes, pairs: npt.NDArray[np.int64]) -> None:
        self.before, self.after = before, after
        self.pairs = pairs  # (n, 2) rows of the same node
        self.in_before = np.zeros(len(before), dtype=np.bool_)
        self.in_after = np.zeros(len(after), dtype=np.bool_)
        self.in_before[pairs[:, 0]] = True
        self.in_after[pairs[:, 1]] = True
        self.updated = np.zeros(len(before), dtype=np.bool_)
        data = before.table.string("user_data"), after.table.string("user_data")
        for old, new in pairs.tolist():
            self.updated[old] = data[0].item(old) != data[1].item(new)

    @classmethod
    def of(cls, before: Nodes, after: Nodes) -> "_Both":
        _, old, new = np.intersect1d(_keys(before), _keys(after), return_indices=True)
        return cls(before, after, np.stack([old, new], axis=1))

    def moves(self) -> Iterator[Move]:
        for old, new in self.pairs.tolist():
            if self.before.paths[old] != self.after.paths[new]:
                source, target = self.before.node(old), self.after.node(new)
                yield Move(source.path, target.path, source.id, source.is_array)


def _keys(nodes: Nodes) -> npt.NDArray[np.uint64]:
    """One number for each id."""
    return np.ascontiguousarray(nodes.table.struct("id").values).view(np.uint64).reshape(-1)


def _ids(nodes: Nodes, chosen: npt.NDArray[np.bool_], *, arrays: bool) -> npt.NDArray[np.uint8]:
    """(n, 8) ids of the chosen rows that are arrays, or groups."""
    is_array = nodes.table.union("node_data").types == NODE_ARRAY
    rows = np.flatnonzero(chosen & (is_array == arrays))
    return nodes.table.struct("id").values[rows].reshape(-1, NodeId.size)
