"""Snapshots, manifests and logs rewritten, with other nodes, references or bytes.

    survey      snapshots -> which arrays there are, how large, and in which manifests
    manifests   each once; says where its references are in the grid of each array
    snapshots   with the nodes that are wanted, and the new manifests
    logs        of these nodes; of some paths only: partial_logs.py

History, messages, times and metadata stay; chunk objects are not touched.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.transaction_log import NODE_LISTS, TransactionLog
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.copying.names import Names
from frazil.paths import NodePath

type Extents = tuple[tuple[int, int], ...]
type Grid = tuple[int, ...]
type Wants = Callable[[NodePath], bool]


@dataclass(frozen=True, slots=True)
class Rules:
    """How the parts of a repository change."""

    names: Names
    wants: Wants | None = None  # None: all paths
    refs: Callable[[ChunkRefs], ChunkRefs] = lambda refs: refs


@dataclass(frozen=True, slots=True)
class Survey:
    """Nodes that are wanted, with the largest grid each array ever had, and what they are in."""

    grids: dict[NodeId, Grid] = field(default_factory=dict)
    groups: set[NodeId] = field(default_factory=set)
    manifests: dict[ManifestId, None] = field(default_factory=dict)  # in order of appearance

    def add(self, snapshot: Snapshot, rules: Rules) -> None:
        for node in wanted_nodes(snapshot.nodes, rules):
            if node.array is None:
                self.groups.add(node.id)
                continue
            known = self.grids.get(node.id, ())
            grid = node.array.num_chunks
            if len(known) == len(grid):
                grid = tuple(map(max, known, grid))
            self.grids[node.id] = grid
            self.manifests.update((ref.id, None) for ref in node.array.manifests)

    @property
    def node_ids(self) -> set[bytes]:
        return {node.raw for node in (*self.grids, *self.groups)}


@dataclass(frozen=True, slots=True)
class NewManifest:
    """None of `file` if there is nothing in it."""

    file: ManifestFile | None
    extents: dict[NodeId, Extents]


def rewrite_manifest(
    source: Files, target: Files, manifest: ManifestId, survey: Survey, rules: Rules
) -> NewManifest:
    """Chunks outside of the grid are left out: early writers mixed up those of several arrays."""
    found = source.fetch_manifest(manifest)
    arrays: dict[NodeId, ChunkRefs] = {}
    for node, refs in found.arrays.items():
        grid = survey.grids.get(node)
        if grid is None or refs.ndim != len(grid):
            continue
        inside = refs.within(grid)
        if len(inside):
            arrays[node] = rules.refs(inside)
    if not arrays:
        return NewManifest(None, {})
    new = Manifest(rules.names.manifest(manifest, arrays), arrays)
    file = target.put_manifest(new)
    return NewManifest(file, {node: refs.bounding_box() for node, refs in arrays.items()})


def rewrite_snapshot(
    snapshot: Snapshot, manifests: dict[ManifestId, NewManifest], rules: Rules
) -> Snapshot:
    nodes = [_rewritten(node, manifests) for node in wanted_nodes(snapshot.nodes, rules)]
    used = {ref.id for node in nodes if node.array for ref in node.array.manifests}
    files = {
        new.file.id: new.file for new in manifests.values() if new.file and new.file.id in used
    }
    parent = snapshot.parent_id
    return replace(
        snapshot,
        id=rules.names.snapshot(snapshot.id),
        parent_id=None if parent is None else rules.names.snapshot(parent),
        manifest_files=tuple(files[one] for one in sorted(files)),
        nodes=Nodes.from_nodes(nodes),
    )


def rewrite_log(log: TransactionLog, new: SnapshotId, survey: Survey) -> TransactionLog:
    """Only what it says of the nodes that are wanted."""
    wanted = survey.node_ids
    return TransactionLog(
        id=new,
        **{name: _only(getattr(log, name), wanted) for name in NODE_LISTS},
        updated_chunks={
            node: index for node, index in log.updated_chunks.items() if node.raw in wanted
        },
        moved=tuple(move for move in log.moved if move.node_id.raw in wanted),
    )


def wanted_nodes(nodes: Nodes, rules: Rules) -> Iterable[Node]:
    wants = rules.wants
    return nodes if wants is None else [node for node in nodes if wants(node.path)]


def below(paths: Sequence[NodePath]) -> Wants:
    """True for a node at one of the paths, under it, or a group on the way to it."""
    exact = {path.text for path in paths}
    inside = tuple(path.descendant_prefix for path in paths)
    above = {parent.text for path in paths for parent in path.ancestors}
    return lambda path: path.text in exact or path.text in above or path.text.startswith(inside)


def _rewritten(node: Node, manifests: dict[ManifestId, NewManifest]) -> Node:
    if node.array is None:
        return node
    refs = []
    for ref in node.array.manifests:
        new = manifests[ref.id]
        if new.file is not None and node.id in new.extents:
            refs.append(ManifestRef(new.file.id, new.extents[node.id]))
    array = node.array
    return replace(
        node, array=ArrayData(array.shape, array.num_chunks, array.dimension_names, tuple(refs))
    )


def _only(ids: npt.NDArray[np.uint8], wanted: set[bytes]) -> npt.NDArray[np.uint8]:
    rows = [row for row, raw in enumerate(ids) if raw.tobytes() in wanted]
    return ids[rows] if len(rows) < len(ids) else ids
