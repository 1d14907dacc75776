"""Solves conflicts by a policy, and applies our changes to their state.

Nodes are followed by id. An updated node keeps the metadata that it was given; its manifests are
those of their state, so that chunks which others committed stay.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import ChunkChanges, PendingChunks
from frazil.engine.merge.conflicts import NodeConflict, Theirs, rows_by_id
from frazil.engine.merge.placement import NOTHING_PLACED, Placement
from frazil.errors import ConflictType
from frazil.format.chunk_index import SortedKeys
from frazil.format.config import NamedIntEnum
from frazil.format.nodes import ArrayData, Node
from frazil.ids import NodeId


class VersionSelection(NamedIntEnum):
    """The version of a chunk to keep when both sides changed it."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The conflicts to solve; none by default."""

    on_chunk_conflict: VersionSelection = VersionSelection.Fail
    delete_updated_arrays: bool = False
    delete_updated_groups: bool = False
    merge_appends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolution:
    """Alterations of our changes that solve the conflicts."""

    give_up_chunks: Mapping[NodeId, npt.NDArray[np.uint32]] = field(default_factory=dict)
    also_delete: Sequence[Node] = ()  # what they added to groups that we delete
    merged: Mapping[NodeId, Node] = field(default_factory=dict)  # arrays that both extended


NOTHING_TO_SOLVE = Resolution()


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The result of a merge: all conflicts, and our changes relative to their state."""

    conflicts: list[NodeConflict]
    changes: ChangeSet | None  # None if a conflict is not solved


def merge_changes(
    ours: ChangeSet,
    theirs: Theirs,
    policy: Policy,
    *,
    conflicts: Sequence[NodeConflict],
    placement: Placement,
) -> Merged:
    """Solves the conflicts, and those of the placement, and applies our changes to their state."""
    found = [*placement.conflicts, *conflicts]
    resolution = resolve(found, policy, ours, theirs)
    if resolution is None:
        return Merged(found, None)
    return Merged(found, apply_changes(ours, theirs, resolution, placement))


def resolve(
    conflicts: Sequence[NodeConflict], policy: Policy, ours: ChangeSet, theirs: Theirs
) -> Resolution | None:
    """None if the policy leaves a conflict unsolved."""
    merged = _merge_appends(conflicts, ours, theirs) if policy.merge_appends else {}
    if not all(_is_solved(conflict, policy, merged) for conflict in conflicts):
        return None
    give_up = policy.on_chunk_conflict is VersionSelection.UseTheirs
    return Resolution(
        give_up_chunks={
            each.node_id: each.chunks for each in conflicts if give_up and each.chunks is not None
        },
        also_delete=[node for nodes in theirs.added.values() for node in nodes],
        merged=merged,
    )


def apply_changes(
    ours: ChangeSet, theirs: Theirs, resolution: Resolution, placement: Placement
) -> ChangeSet:
    """Adds our changes to their state, and returns it."""
    result = apply_nodes(ours, theirs, resolution, placement)
    for node_id, pending in ours.chunks.items():
        given_up = resolution.give_up_chunks.get(node_id)
        result.chunks[node_id] = pending if given_up is None else _drop_chunks(pending, given_up)
    return result


def apply_nodes(
    ours: ChangeSet,
    theirs: Theirs,
    resolution: Resolution = NOTHING_TO_SOLVE,
    placement: Placement = NOTHING_PLACED,
) -> ChangeSet:
    """Like `apply_changes`, without chunks."""
    result, remaining = theirs.state, theirs.remaining
    deleted = [remaining[node_id] for node_id in ours.deleted if node_id in remaining]
    for node in [*deleted, *resolution.also_delete]:
        result.delete_node(node)
    edited = [node for node in ours.edited.values() if node is not None]
    for node in (node for node in edited if node.id in ours.updated):
        other = remaining[node.id]
        new = _merge_node(resolution.merged.get(node.id, node), other)
        if new != other or node.id not in resolution.merged:
            result.put_node(new)
    for node_id in ours.chunks.keys() & remaining.keys():
        result.find_node(remaining[node_id].path)  # so that it can be found by its id too
    # Updated nodes move too; new ones may then take the places that became free.
    result.relocate(
        (result.edited.get(node.path.text) or node, path)
        for node, path in placement.relocations
        if node.id not in result.deleted
    )
    for node in (node for node in edited if node.id in ours.created):
        path = placement.paths.get(node.id, node.path)
        result.created.add(node.id)
        result.edited[path.text] = replace(node, path=path)
    # Those attached to other arrays would hide what the branch has got since: see expand_attached.
    result.log_writer = ours.log_writer or result.log_writer
    result.attached |= {i: files for i, files in ours.attached.items() if i in ours.created}
    return result


def merge_append(before: Node, ours: Node, theirs: Node) -> Node | None:
    """The array with the larger of both shapes, if neither side did more than extend it."""
    old, mine, other = before.array, ours.array, theirs.array
    if old is None or mine is None or other is None:
        return None
    documents = [_without_shape(node) for node in (before, ours, theirs)]
    if documents[1:] != documents[:1] * 2 or not (_covers(mine, old) and _covers(other, old)):
        return None
    if _covers(other, mine):
        return theirs
    shape = tuple(map(max, mine.shape, other.shape))
    if shape == mine.shape:
        return replace(ours, array=replace(mine, manifests=other.manifests))
    num_chunks = tuple(map(max, mine.num_chunks, other.num_chunks))
    return replace(
        theirs,
        user_data=json.dumps({**json.loads(ours.user_data), "shape": list(shape)}).encode(),
        array=replace(other, shape=shape, num_chunks=num_chunks),
    )


def _is_solved(conflict: NodeConflict, policy: Policy, merged: Mapping[NodeId, Node]) -> bool:
    match conflict.kind:
        case ConflictType.ChunkDoubleUpdate:
            # Both appended the same chunks: taking either side would lose the other's data.
            chosen = policy.on_chunk_conflict is not VersionSelection.Fail
            return chosen and conflict.node_id not in merged
        case ConflictType.DeleteOfUpdatedArray:
            return policy.delete_updated_arrays
        case ConflictType.DeleteOfUpdatedGroup:
            return policy.delete_updated_groups
        case ConflictType.ZarrMetadataDoubleUpdate | ConflictType.ChunksUpdatedInUpdatedArray:
            return conflict.node_id in merged
        case _:
            return False


def _merge_appends(
    conflicts: Sequence[NodeConflict], ours: ChangeSet, theirs: Theirs
) -> dict[NodeId, Node]:
    """Arrays that both sides extended, with the larger of both shapes."""
    wanted = {
        conflict.node_id
        for conflict in conflicts
        if conflict.kind
        in (ConflictType.ZarrMetadataDoubleUpdate, ConflictType.ChunksUpdatedInUpdatedArray)
    }
    rows, nodes = rows_by_id(theirs.base, wanted), ours.known_nodes()
    merged = {
        node_id: merge_append(
            theirs.base.node(rows[node_id]), nodes[node_id], theirs.remaining[node_id]
        )
        for node_id in wanted & rows.keys() & theirs.remaining.keys()
    }
    return {node_id: node for node_id, node in merged.items() if node is not None}


def _without_shape(node: Node) -> dict[str, Any]:
    document = json.loads(node.user_data)
    return {key: value for key, value in document.items() if key != "shape"}


def _covers(large: ArrayData, small: ArrayData) -> bool:
    return len(large.shape) == len(small.shape) and all(
        more >= less for more, less in zip(large.shape, small.shape, strict=True)
    )


def _merge_node(ours: Node, theirs: Node) -> Node:
    """Our metadata, their path and chunks."""
    if ours.array is None or theirs.array is None:
        return replace(ours, path=theirs.path)
    array = replace(ours.array, manifests=theirs.array.manifests)
    return replace(ours, path=theirs.path, array=array)


def _drop_chunks(pending: PendingChunks, given_up: npt.NDArray[np.uint32]) -> PendingChunks:
    changes, keys = pending.changes(), SortedKeys.of(given_up)
    rows = np.flatnonzero(keys.lookup(changes.refs.index) < 0)
    deleted = changes.deleted[keys.lookup(changes.deleted) < 0]
    return PendingChunks.of(ChunkChanges(refs=changes.refs.take(rows), deleted=deleted))
