"""Manifests that others wrote for a session, such as executors with millions of references.

The session is given the name and the extents of each file, never the references. The writer does
as a commit would: one manifest for each cell of the splitting (`plan_manifests`, `split`), together
with what is kept of the manifests it replaces.

    attach    node.array.manifests changes, so that reading finds the chunks at once
    commit    the snapshot lists the files, the transaction log the chunks that changed
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.files import Files
from frazil.errors import InvalidInputError
from frazil.format.chunk_index import ChunkSet
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.snapshot import ManifestFile
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, NodeId
from frazil.paths import NodePath


@dataclass(frozen=True, slots=True)
class AttachedManifest:
    """A manifest that is stored; `changed` are the chunks that were not so before."""

    file: ManifestFile
    extents: tuple[tuple[int, int], ...]
    changed: ChunkSet


@dataclass(frozen=True, slots=True)
class EmptiedCell:
    """A cell of which no chunk is left, so that there is no manifest; `changed` were there."""

    changed: ChunkSet


type Attached = AttachedManifest | EmptiedCell


def attach_to_node(
    node: Node,
    array: ArrayData,
    attached: Sequence[Attached],
    replaced: Sequence[ManifestId],
    *,
    cell: tuple[int, ...],
) -> Node:
    """The node with these manifests too, and without those that they replace.

    Raises InvalidInputError if they reach out of the grid, are not split as the repository says,
    or hold chunks of a cell that another manifest holds chunks of.
    """
    known = {ref.id for ref in array.manifests}
    unknown = [manifest for manifest in replaced if manifest not in known]
    if unknown:
        raise InvalidInputError(f"the array at `{node.path}` has no manifest {unknown[0]}")
    kept = [ref for ref in array.manifests if ref.id not in set(replaced)]
    new = [
        ManifestRef(id=each.file.id, extents=each.extents)
        for each in attached
        if isinstance(each, AttachedManifest)
    ]
    _require_places(node.path, array.num_chunks, kept, new, cell)
    return replace(node, array=replace(array, manifests=(*kept, *new)))


def file_of(attached: Attached) -> ManifestId | None:
    """Name of its manifest, if there is one."""
    return attached.file.id if isinstance(attached, AttachedManifest) else None


def updated_chunks(
    attached: Mapping[NodeId, Sequence[Attached]],
) -> dict[NodeId, list[ChunkSet]]:
    """Changed chunks by array."""
    found = {
        node_id: [each.changed for each in manifests if each.changed.count]
        for node_id, manifests in attached.items()
    }
    return {node_id: sets for node_id, sets in found.items() if sets}


def expand_chunk_sets(
    sets: Mapping[NodeId, Sequence[ChunkSet]],
) -> dict[NodeId, npt.NDArray[np.uint32]]:
    """All chunks, for those who need to see each of them."""
    return {node: np.concatenate([each.index() for each in some]) for node, some in sets.items()}


type LogWriter = Callable[[TransactionLog, Mapping[NodeId, Sequence[ChunkSet]]], None]
"""Stores a log that lists these chunks too, perhaps on another host: `Files.put_log_stream`."""


def put_log_with(
    files: Files,
    log: TransactionLog,
    attached: Mapping[NodeId, Sequence[Attached]],
    writer: LogWriter | None,
) -> None:
    """Stores a log to which the chunks of attached manifests are added as it is written."""
    sets = updated_chunks(attached)
    both = {node_id: sets.pop(node_id) for node_id in log.updated_chunks.keys() & sets.keys()}
    more = {
        node_id: np.concatenate([log.updated_chunks[node_id], index])
        for node_id, index in expand_chunk_sets(both).items()
    }
    log = replace(log, updated_chunks={**log.updated_chunks, **more})
    if sets:
        (writer or files.put_log_stream)(log, sets)
    else:
        files.put_log(log)


def _require_places(
    path: NodePath,
    grid: tuple[int, ...],
    kept: Sequence[ManifestRef],
    new: Sequence[ManifestRef],
    cell: tuple[int, ...],
) -> None:
    size, whole = np.array(cell, dtype=np.int64), np.array(grid, dtype=np.int64)
    bounds = _bounds([ref.extents for ref in new], len(grid))
    first, last = bounds[:, :, 0] // size, (bounds[:, :, 1] - 1) // size
    if (bounds[:, :, 1] > whole).any() or (bounds[:, :, 0] >= bounds[:, :, 1]).any():
        raise InvalidInputError(
            f"a manifest reaches out of the grid of the array at `{path}`, which is"
            f" {list(grid)} chunks",
            kind="invalid-chunk-index",
        )
    if (first != last).any():
        raise InvalidInputError(
            f"a manifest for the array at `{path}` holds chunks of more than one cell of"
            f" {list(cell)} chunks, by which manifests are split"
        )
    old = _bounds([ref.extents or [(0, count) for count in grid] for ref in kept], len(grid))
    cells = {tuple(row) for row in first.tolist()}
    low, high = old[:, :, 0] // size, (np.maximum(old[:, :, 1], 1) - 1) // size
    overlaps = any(
        ((low <= np.array(each)) & (high >= np.array(each))).all(axis=1).any() for each in cells
    )
    if len(cells) != len(new) or (len(kept) > 0 and overlaps):
        raise InvalidInputError(
            f"two manifests for one cell of the array at `{path}`: merge them into one"
        )


def _bounds(extents: Sequence[Sequence[tuple[int, int]]], ndim: int) -> npt.NDArray[np.int64]:
    """(n, ndim, 2)"""
    return np.array([list(each) for each in extents], dtype=np.int64).reshape(len(extents), ndim, 2)
