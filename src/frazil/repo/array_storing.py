"""From changed references to manifest files: which to write anew, and what goes into each."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.assets.files import Files
from frazil.assets.outgoing import Outgoing
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.snapshot import ManifestFile
from frazil.ids import ManifestId, NodeId
from frazil.repo.bands import FEW, MOST, Stored, in_bands
from frazil.repo.lookup import refs_in
from frazil.repo.pending import ChunkChanges
from frazil.repo.split_rules import cell_sizes, is_automatic
from frazil.repo.splitting import plan_manifests, split

# Manifests encoded at a time: more would need memory and no less time.
_AT_ONCE = max(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """What is to become of an array; `parts` are manifests to be."""

    node: Node
    keep: tuple[ManifestRef, ...]
    parts: Sequence[ChunkRefs]
    unchanged: bool = False


def store_arrays(
    files: Files,
    nodes: Sequence[Node],
    changes: Mapping[NodeId, ChunkChanges],
    counts: Mapping[ManifestId, int],
    outgoing: Outgoing,
) -> tuple[list[Node], list[ManifestFile]]:
    """The nodes with manifests that reflect the changes, and those of them that are new.

    `counts` are the references of stored manifests, as far as known.
    """

    def plan(node: Node) -> _Planned:
        return _planned(files, node, changes.get(node.id), counts)

    planned = files.pool.map(plan, nodes)
    parts = [(each.node.id, part) for each in planned for part in each.parts]

    def put(pair: tuple[NodeId, ChunkRefs]) -> tuple[ManifestRef, ManifestFile]:
        node_id, part = pair
        manifest = Manifest(id=ManifestId.random(), arrays={node_id: part})
        file = files.put_manifest(manifest, outgoing)
        return ManifestRef(id=manifest.id, extents=part.bounding_box()), file

    written = files.pool.map(put, parts, at_most=_AT_ONCE)
    refs = iter([ref for ref, _ in written])
    stored = [_with_manifests(each, [next(refs) for _ in each.parts]) for each in planned]
    return stored, [file for _, file in written]


def _with_manifests(planned: _Planned, new: list[ManifestRef]) -> Node:
    node = planned.node
    if planned.unchanged or node.array is None:
        return node
    return replace(node, array=replace(node.array, manifests=(*planned.keep, *new)))


def _planned(
    files: Files, node: Node, changes: ChunkChanges | None, counts: Mapping[ManifestId, int]
) -> _Planned:
    array = node.array
    if array is None or (changes is None and not array.manifests):
        return _Planned(node, (), (), unchanged=True)
    changes = changes or ChunkChanges.none(len(array.num_chunks))
    if is_automatic(files.settings.splitting):
        return _planned_in_bands(files, node, array, changes, counts)
    return _planned_in_cells(files, node, array, changes)


def _planned_in_cells(
    files: Files, node: Node, array: ArrayData, changes: ChunkChanges
) -> _Planned:
    """By the rules of the configuration."""
    grid = array.num_chunks
    cell = cell_sizes(files.settings.splitting, node)
    plan = plan_manifests(array.manifests, changes.index, grid=grid, cell=cell)
    if not plan.rewrite and not len(changes.refs):
        return _Planned(node, (), (), unchanged=True)
    refs = _merged(files, node, plan.rewrite, changes).within(grid)
    return _Planned(node, plan.keep, split(refs, cell))


def _planned_in_bands(
    files: Files,
    node: Node,
    array: ArrayData,
    changes: ChunkChanges,
    counts: Mapping[ManifestId, int],
) -> _Planned:
    """By how many references there are."""
    grid, current = array.num_chunks, array.manifests
    touched = len(changes.refs) + len(changes.deleted)
    few = len(current) <= FEW and touched + sum(counts.get(ref.id, 0) for ref in current) <= MOST
    if few and touched and (current or len(changes.refs)):  # as in_bands finds, but sooner
        refs = _merged(files, node, current, changes).within(grid)
        return _Planned(node, (), [refs] if len(refs) else [])
    stored = Stored.of(current, [counts.get(ref.id, 0) for ref in current], grid)
    found = in_bands(
        changes.index,
        stored,
        grid=grid,
        most=MOST,
        merged=lambda rewritten: _merged(files, node, rewritten, changes).within(grid),
    )
    if found is None:
        return _Planned(node, (), (), unchanged=True)
    return _Planned(node, found.keep, found.parts)


def _merged(
    files: Files, node: Node, rewritten: Sequence[ManifestRef], changes: ChunkChanges
) -> ChunkRefs:
    """What these manifests hold of the array, changed."""
    loaded = files.pool.map(lambda ref: refs_in(files, node, ref), rewritten)
    old = [refs for refs in loaded if refs is not None]
    if not old:
        return changes.refs
    return ChunkRefs.merged(ChunkRefs.concat(old), changes.refs, changes.deleted)
