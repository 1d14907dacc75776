"""Changes from one snapshot to another, found by comparing them.

Nodes are matched by id. Neither snapshot need be an ancestor of the other: a branch that was reset
or amended gives such a pair, a merge two of them. Comparing nodes compares only the manifests of
arrays. Comparing chunks does not read manifests that both snapshots use, and compares the other
references column by column: equal bytes in two objects differ here, unless the caller knows of
chunks that were moved (`canonical`).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.changes.pending import ChunkChanges
from frazil.engine.files.files import Files
from frazil.engine.merge.chunk_overlaps import Canonical, changed_since
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ManifestRef, Node, Nodes, id_column
from frazil.format.schemas import NODE_ARRAY
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import NodeId, SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    created: dict[NodeId, Node]
    deleted: dict[NodeId, Node]
    changed: dict[NodeId, tuple[Node, Node]]  # before and after: path, metadata or manifests

    @property
    def moves(self) -> tuple[Move, ...]:
        """One for each node that has another path."""
        return tuple(
            Move(before.path, after.path, after.id, after.is_array)
            for before, after in self.changed.values()
            if before.path != after.path
        )

    def as_log(
        self,
        snapshot: SnapshotId,
        *,
        updated_chunks: Mapping[NodeId, npt.NDArray[np.uint32]],
    ) -> TransactionLog:
        """The transaction log of a commit with these changes."""
        updated = [
            after for before, after in self.changed.values() if before.user_data != after.user_data
        ]
        lists = {"new": self.created.values(), "deleted": self.deleted.values(), "updated": updated}
        return TransactionLog(
            id=snapshot,
            **{
                f"{what}_{sort}": id_column(
                    sorted(node.id.raw for node in nodes if node.is_array == (sort == "arrays")),
                    NodeId.size,
                )
                for what, nodes in lists.items()
                for sort in ("groups", "arrays")
            },
            updated_chunks=dict(updated_chunks),
            moved=self.moves,
        )


def compare(before: Nodes, after: Nodes) -> NodeChanges:
    _, old, new = np.intersect1d(_keys(before), _keys(after), return_indices=True)
    was, now = _features(before), _features(after)
    pairs = zip(old.tolist(), new.tolist(), strict=True)
    return NodeChanges(
        created=_by_id(after, _remaining_rows(len(after), new)),
        deleted=_by_id(before, _remaining_rows(len(before), old)),
        changed={
            (node := after.node(there)).id: (before.node(here), node)
            for here, there in pairs
            if was(here) != now(there)
        },
    )


def _keys(nodes: Nodes) -> npt.NDArray[np.uint64]:
    """One number for each id."""
    return np.ascontiguousarray(nodes.table.struct("id").values).view(np.uint64).reshape(-1)


def _remaining_rows(count: int, rows: npt.NDArray[np.int64]) -> list[int]:
    """The rows below `count` that are not among these."""
    chosen = np.ones(count, dtype=np.bool_)
    chosen[rows] = False
    return [int(row) for row in np.flatnonzero(chosen)]


def _by_id(nodes: Nodes, rows: list[int]) -> dict[NodeId, Node]:
    return {node.id: node for node in map(nodes.node, rows)}


def _features(nodes: Nodes) -> Callable[[int], tuple[bytes, bytes | None, bytes]]:
    """Returns a function from a row to all that can change: path, metadata, ids of manifests."""
    table = nodes.table
    paths, documents, data = nodes.paths, table.string("user_data"), table.union("node_data")
    manifests = data.variants[NODE_ARRAY].tables("manifests")
    listed = np.ascontiguousarray(manifests.rows.struct("object_id").values)
    kinds, index, splits = data.types.tolist(), data.index.tolist(), manifests.splits.tolist()

    def features(row: int) -> tuple[bytes, bytes | None, bytes]:
        used = b""
        if kinds[row] == NODE_ARRAY:
            used = listed[splits[index[row]] : splits[index[row] + 1]].tobytes()
        return paths[row], documents.item(row), used

    return features


type ReadRefs = Callable[[Node, Sequence[ManifestRef]], ChunkRefs]
"""The array's references in those manifests, as far as they are inside its grid."""


def chunks_between(
    before: Node | None, after: Node, read: ReadRefs, canonical: Canonical | None = None
) -> ChunkChanges:
    """Changes from the array as it was `before`, if it existed; none for a group."""
    new = after.array
    if new is None:
        return ChunkChanges.none(0)
    old = None if before is None else before.array
    if before is None or old is None or len(old.shape) != len(new.shape):
        refs = read(after, new.manifests)
        return ChunkChanges(refs=refs, deleted=refs.index[:0])
    # With another grid, another part of the same manifest is in force.
    both = {ref.id for ref in old.manifests} & {ref.id for ref in new.manifests}
    shared = both if old.num_chunks == new.num_chunks else set()
    was = read(before, [ref for ref in old.manifests if ref.id not in shared])
    now = read(after, [ref for ref in new.manifests if ref.id not in shared])
    none = was.index[:0]
    since = changed_since(ChunkChanges(now, none), ChunkChanges(was, none), canonical)
    return ChunkChanges(refs=since.refs, deleted=distinct(was.index[now.lookup(was.index) < 0]))


def refs_reader(files: Files) -> ReadRefs:
    def read(node: Node, manifests: Sequence[ManifestRef]) -> ChunkRefs:
        grid = () if node.array is None else node.array.num_chunks
        found = files.pool.map(lambda ref: refs_in(files, node, ref), list(manifests))
        parts = [refs for refs in found if refs is not None]
        return ChunkRefs.concat(parts).within(grid) if parts else ChunkRefs.empty(len(grid))

    return read
