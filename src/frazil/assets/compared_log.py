"""Transaction logs derived from the snapshots before and after a commit that wrote none."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.nodes import Node, id_column
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, NodeId, SnapshotId

type RefsOf = Callable[[Node], ChunkRefs]  # all of an array's references


@dataclass(slots=True)
class _Found:
    groups: list[bytes]
    arrays: list[bytes]

    def add(self, node: Node) -> None:
        (self.groups if node.array is None else self.arrays).append(node.id.raw)


def compared_log(
    name: SnapshotId, before: Snapshot | None, after: Snapshot, refs_of: RefsOf
) -> TransactionLog:
    """Nodes are known by id; `refs_of` is asked for arrays whose manifests are not the same."""
    old = {} if before is None else {node.id: node for node in before.nodes}
    new = {node.id: node for node in after.nodes}
    made, gone, changed = (_Found([], []) for _ in range(3))
    chunks: dict[NodeId, npt.NDArray[np.uint32]] = {}
    for node_id, node in new.items():
        earlier = old.get(node_id)
        if earlier is not None and earlier.path != node.path:  # nothing could move: a number again
            gone.add(earlier)
            earlier = None
        if earlier is None:
            made.add(node)
        elif earlier.user_data != node.user_data:
            changed.add(node)
        if node.array is not None and _manifests(earlier) != _manifests(node):
            touched = changed_rows(None if earlier is None else refs_of(earlier), refs_of(node))
            if len(touched):
                chunks[node_id] = touched
    for node_id in old.keys() - new.keys():
        gone.add(old[node_id])
    return TransactionLog(
        id=name,
        new_groups=_ids(made.groups),
        new_arrays=_ids(made.arrays),
        deleted_groups=_ids(gone.groups),
        deleted_arrays=_ids(gone.arrays),
        updated_arrays=_ids(changed.arrays),
        updated_groups=_ids(changed.groups),
        updated_chunks=chunks,
    )


def _manifests(node: Node | None) -> set[ManifestId]:
    if node is None or node.array is None:
        return set()
    return {ref.id for ref in node.array.manifests}


def changed_rows(before: ChunkRefs | None, after: ChunkRefs) -> npt.NDArray[np.uint32]:
    """Indices, (n, ndim), of chunks that only one has, or that are not the same in both."""
    if before is None or before.ndim != after.ndim:
        return after.index
    at = before.lookup(after.index)
    both = np.flatnonzero(at >= 0)
    differs = np.ones(len(after), dtype=np.bool_)
    differs[both] = ~_equal_rows(before.take(at[both]), after.take(both))
    gone = after.lookup(before.index) < 0
    return np.concatenate([after.index[differs], before.index[gone]])


def _equal_rows(one: ChunkRefs, other: ChunkRefs) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_]
    same = (one.kind == other.kind) & (one.offset == other.offset) & (one.length == other.length)
    same &= (one.chunk_id == other.chunk_id).all(axis=1)
    same &= one.last_modified == other.last_modified
    for row in np.flatnonzero(same & (one.kind != RefKind.NATIVE)).tolist():
        same[row] = one.payload(row) == other.payload(row)
    return same


def _ids(raw: list[bytes]) -> npt.NDArray[np.uint8]:
    return id_column(sorted(raw), NodeId.size)
