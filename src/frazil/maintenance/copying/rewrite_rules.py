"""Rewrites snapshots, manifests and logs, with other nodes, references or bytes.

    survey      snapshots -> arrays, their grids, and their manifests
    manifests   each once; with the extents of its references in the grid of each array
    snapshots   with the nodes that are wanted, and the new manifests
    logs        of these nodes; of some paths only: partial_logs.py

History, messages, times and metadata stay; chunk objects are not touched. The same file made in
the same way gets the same name, so that a second try replaces the files of the first.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node, Nodes
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.transaction_log import NODE_LISTS, TransactionLog
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import NodePath

type Extents = tuple[tuple[int, int], ...]
type Grid = tuple[int, ...]
type Wants = Callable[[NodePath], bool]


class Names(Protocol):
    def snapshot(self, old: SnapshotId) -> SnapshotId: ...

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        """`nodes` are the arrays whose references it has now."""
        ...


@dataclass(frozen=True, slots=True)
class SameNames:
    """Keeps names, in a place where nothing else has them."""

    def snapshot(self, old: SnapshotId) -> SnapshotId:
        return old

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        del nodes
        return old


@dataclass(frozen=True, slots=True)
class DerivedNames:
    """New names for files of other content than the old ones, or in the same place."""

    purpose: str  # text with all that the content depends on
    first: SnapshotId | None = None  # the root of history, which is called what it always is
    root: SnapshotId | None = None  # what that is

    def snapshot(self, old: SnapshotId) -> SnapshotId:
        if old == self.first and self.root is not None:
            return self.root
        return SnapshotId(self._digest(b"snapshot", old.raw))

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        return ManifestId(self._digest(b"manifest", old.raw, *sorted(node.raw for node in nodes)))

    def _digest(self, *parts: bytes) -> bytes:
        sha = hashlib.sha256(self.purpose.encode(), usedforsecurity=False)
        for part in parts:
            sha.update(len(part).to_bytes(4, "big") + part)
        return sha.digest()[: SnapshotId.size]


@dataclass(frozen=True, slots=True)
class Rules:
    """Changes to make to the files of a repository."""

    names: Names
    wants: Wants | None = None  # None: all paths
    refs: Callable[[ChunkRefs], ChunkRefs] = lambda refs: refs


@dataclass(frozen=True, slots=True)
class Survey:
    """Nodes that are wanted, with the largest grid each array ever had, and their manifests."""

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
    """A rewritten manifest; `file` is None if nothing is left in it."""

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
    nodes = [_rewrite_node(node, manifests) for node in wanted_nodes(snapshot.nodes, rules)]
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
    """Keeps the entries of nodes that are wanted."""
    wanted = survey.node_ids
    return TransactionLog(
        id=new,
        **{name: _select_ids(getattr(log, name), wanted) for name in NODE_LISTS},
        updated_chunks={
            node: index for node, index in log.updated_chunks.items() if node.raw in wanted
        },
        moved=tuple(move for move in log.moved if move.node_id.raw in wanted),
    )


def wanted_nodes(nodes: Nodes, rules: Rules) -> Iterable[Node]:
    wants = rules.wants
    return nodes if wants is None else [node for node in nodes if wants(node.path)]


def path_filter(paths: Sequence[NodePath]) -> Wants:
    """True for a node at one of the paths, under it, or a group on the way to it."""
    exact = {path.text for path in paths}
    inside = tuple(path.descendant_prefix for path in paths)
    above = {parent.text for path in paths for parent in path.ancestors}
    return lambda path: path.text in exact or path.text in above or path.text.startswith(inside)


def _rewrite_node(node: Node, manifests: dict[ManifestId, NewManifest]) -> Node:
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


def _select_ids(ids: npt.NDArray[np.uint8], wanted: set[bytes]) -> npt.NDArray[np.uint8]:
    rows = [row for row, raw in enumerate(ids) if raw.tobytes() in wanted]
    return ids[rows] if len(rows) < len(ids) else ids
