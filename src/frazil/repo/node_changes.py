"""What changed from one snapshot to another, found by comparing them and not by their logs.

Nodes are matched by id. Manifests that both snapshots use are not read: the rest of an array's
references is compared column by column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.index_keys import distinct
from frazil.format.nodes import Nodes
from frazil.format.schemas import NODE_ARRAY
from frazil.format.snapshot import ManifestRef, Node
from frazil.ids import NodeId
from frazil.repo.chunk_overlaps import changed_since
from frazil.repo.lookup import refs_in
from frazil.repo.pending import ChunkChanges

type ReadRefs = Callable[[Node, Sequence[ManifestRef]], ChunkRefs]
"""The array's references in those manifests, as far as they are inside its grid."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanges:
    created: dict[NodeId, Node]
    deleted: dict[NodeId, Node]
    changed: dict[NodeId, tuple[Node, Node]]  # before and after: path, metadata or manifests


def compare(before: Nodes, after: Nodes) -> NodeChanges:
    old, new = _features(before), _features(after)
    return NodeChanges(
        created={NodeId(raw): after.node(row) for raw, (row, _) in new.items() if raw not in old},
        deleted={NodeId(raw): before.node(row) for raw, (row, _) in old.items() if raw not in new},
        changed={
            NodeId(raw): (before.node(row), after.node(new[raw][0]))
            for raw, (row, features) in old.items()
            if raw in new and features != new[raw][1]
        },
    )


def chunk_changes(before: Node | None, after: Node, read: ReadRefs) -> ChunkChanges:
    """What to do to the chunks of an array, `before` it was there or when it was so."""
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
    since = changed_since(ChunkChanges(now, none), ChunkChanges(was, none))
    return ChunkChanges(refs=since.refs, deleted=distinct(was.index[now.lookup(was.index) < 0]))


def refs_reader(files: Files) -> ReadRefs:
    def read(node: Node, manifests: Sequence[ManifestRef]) -> ChunkRefs:
        grid = () if node.array is None else node.array.num_chunks
        found = files.pool.map(lambda ref: refs_in(files, node, ref), list(manifests))
        parts = [refs for refs in found if refs is not None]
        return ChunkRefs.concat(parts).within(grid) if parts else ChunkRefs.empty(len(grid))

    return read


def _features(nodes: Nodes) -> dict[bytes, tuple[int, tuple[bytes | None, bytes | None, bytes]]]:
    """By id, each node's row and all that can change of it: path, metadata, ids of manifests."""
    table = nodes.table
    ids = [raw.tobytes() for raw in table.struct("id").values]
    documents = table.string("user_data").to_list()
    data = table.union("node_data")
    manifests = data.variants[NODE_ARRAY].tables("manifests")
    listed = np.ascontiguousarray(manifests.rows.struct("object_id").values)
    splits = manifests.splits.tolist()
    used = [
        listed[splits[at] : splits[at + 1]].tobytes() if kind == NODE_ARRAY else b""
        for kind, at in zip(data.types.tolist(), data.index.tolist(), strict=True)
    ]
    features = zip(nodes.paths, documents, used, strict=True)
    return {raw: (row, each) for row, (raw, each) in enumerate(zip(ids, features, strict=True))}
