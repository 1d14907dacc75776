"""What to do about conflicts: a policy, and what it makes of those that were found."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import ConflictType
from frazil.format.config import NamedIntEnum
from frazil.format.nodes import ArrayData, Node
from frazil.ids import NodeId
from frazil.repo.changes import ChangeSet
from frazil.repo.conflicts import Clash, Theirs, added_below, rows_by_id


class VersionSelection(NamedIntEnum):
    """Which of two versions of a chunk to keep."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which conflicts are solved; by default none is."""

    on_chunk_conflict: VersionSelection = VersionSelection.Fail
    delete_updated_arrays: bool = False
    delete_updated_groups: bool = False
    merge_appends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolution:
    """What becomes of our changes, apart from being carried over."""

    give_up_chunks: Mapping[NodeId, npt.NDArray[np.uint32]] = field(default_factory=dict)
    also_delete: Sequence[Node] = ()  # what they added to groups that we delete
    merged: Mapping[NodeId, Node] = field(default_factory=dict)  # arrays that both extended


def resolve(
    clashes: Sequence[Clash], policy: Policy, ours: ChangeSet, theirs: Theirs
) -> Resolution | None:
    """None if one of the clashes, or more, is not to be solved."""
    merged = _merged_appends(clashes, ours, theirs) if policy.merge_appends else {}
    if not all(_is_solved(clash, policy, merged) for clash in clashes):
        return None
    give_up = policy.on_chunk_conflict is VersionSelection.UseTheirs
    added = [row for rows in added_below(ours, theirs).values() for row in rows]
    return Resolution(
        give_up_chunks={
            clash.node_id: clash.chunks for clash in clashes if give_up and clash.chunks is not None
        },
        also_delete=[theirs.after.node(row) for row in added],
        merged=merged,
    )


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


def _is_solved(clash: Clash, policy: Policy, merged: Mapping[NodeId, Node]) -> bool:
    match clash.kind:
        case ConflictType.ChunkDoubleUpdate:
            # Both appended the same chunks: taking either side would lose the other's data.
            chosen = policy.on_chunk_conflict is not VersionSelection.Fail
            return chosen and clash.node_id not in merged
        case ConflictType.DeleteOfUpdatedArray:
            return policy.delete_updated_arrays
        case ConflictType.DeleteOfUpdatedGroup:
            return policy.delete_updated_groups
        case ConflictType.ZarrMetadataDoubleUpdate | ConflictType.ChunksUpdatedInUpdatedArray:
            return clash.node_id in merged
        case _:
            return False


def _merged_appends(
    clashes: Sequence[Clash], ours: ChangeSet, theirs: Theirs
) -> dict[NodeId, Node]:
    wanted = {
        clash.node_id
        for clash in clashes
        if clash.kind
        in (ConflictType.ZarrMetadataDoubleUpdate, ConflictType.ChunksUpdatedInUpdatedArray)
    }
    before, after = rows_by_id(theirs.before, wanted), rows_by_id(theirs.after, wanted)
    nodes = ours.known_nodes()
    found = {
        node_id: merge_append(
            theirs.before.node(before[node_id]), nodes[node_id], theirs.after.node(after[node_id])
        )
        for node_id in wanted & before.keys() & after.keys()
    }
    return {node_id: node for node_id, node in found.items() if node is not None}


def _without_shape(node: Node) -> dict[str, Any]:
    document = json.loads(node.user_data)
    return {key: value for key, value in document.items() if key != "shape"}


def _covers(large: ArrayData, small: ArrayData) -> bool:
    return len(large.shape) == len(small.shape) and all(
        more >= less for more, less in zip(large.shape, small.shape, strict=True)
    )
