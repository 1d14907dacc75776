"""A session's changes, expressed relative to other nodes than those it began with.

Nodes are followed by id. What an updated node keeps of the old base is the metadata it was given;
its manifests are those of the new base, so that chunks which others committed stay.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_index import SortedKeys
from frazil.format.nodes import Node, Nodes
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.repo.changes import ChangeSet
from frazil.repo.conflicts import rows_by_id
from frazil.repo.moves import Relocations, carried_moves
from frazil.repo.pending import ChunkChanges, PendingChunks
from frazil.repo.solver import Resolution


def rebased(changes: ChangeSet, after: Nodes, resolution: Resolution) -> ChangeSet:
    """The same changes, relative to other nodes."""
    return transplanted(
        changes, after, resolution, relocations=carried_moves(changes.moved, after), paths={}
    )


def transplanted(
    changes: ChangeSet,
    after: Nodes,
    resolution: Resolution,
    *,
    relocations: Relocations,
    paths: Mapping[NodeId, NodePath],
) -> ChangeSet:
    """The same changes, relative to other nodes, which get other places.

    New nodes go where `paths` says, or else where they are. Nodes of the changes are known by id.
    """
    new = ChangeSet(after)
    new.overtaken = not changes.is_empty
    touched = changes.updated | changes.deleted.keys() | changes.chunks.keys()
    rows = rows_by_id(after, touched)
    gone = [after.node(rows[node_id]) for node_id in changes.deleted if node_id in rows]
    for node in [*gone, *resolution.also_delete]:
        new.deleted[node.id] = node
        new.edited[node.path.text] = None
    ours = [node for node in changes.edited.values() if node is not None]
    for old in (node for node in ours if node.id in changes.updated):
        theirs = after.node(rows[old.id])
        node = _upon(resolution.merged.get(old.id, old), theirs)
        if node != theirs or old.id not in resolution.merged:
            new.updated.add(old.id)
            new.edited[node.path.text] = node
    for node_id in changes.chunks.keys() & rows.keys():
        new.find_node(after.node(rows[node_id]).path)  # known from now on
    # Updated nodes move too; new ones may then take the places that became free.
    new.relocate(
        (new.edited.get(node.path.text) or node, path)
        for node, path in relocations
        if node.id not in new.deleted
    )
    for node in (node for node in ours if node.id in changes.created):
        path = paths.get(node.id, node.path)
        new.created.add(node.id)
        new.edited[path.text] = replace(node, path=path)
    # Those of other arrays would hide what the branch has got since: the session refuses them.
    new.log_writer = changes.log_writer
    new.attached = {i: found for i, found in changes.attached.items() if i in changes.created}
    for node_id, pending in changes.chunks.items():
        given_up = resolution.give_up_chunks.get(node_id)
        new.chunks[node_id] = pending if given_up is None else _without(pending, given_up)
    return new


def _upon(ours: Node, theirs: Node) -> Node:
    """Our metadata, their place and chunks."""
    if ours.array is None or theirs.array is None:
        return replace(ours, path=theirs.path)
    array = replace(ours.array, manifests=theirs.array.manifests)
    return replace(ours, path=theirs.path, array=array)


def _without(pending: PendingChunks, given_up: npt.NDArray[np.uint32]) -> PendingChunks:
    changes, keys = pending.changes(), SortedKeys.of(given_up)
    rows = np.flatnonzero(keys.lookup(changes.refs.index) < 0)
    deleted = changes.deleted[keys.lookup(changes.deleted) < 0]
    return PendingChunks.of(ChunkChanges(refs=changes.refs.take(rows), deleted=deleted))
