"""Committed chunk references: found through an array's manifests, one or a million at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Payload
from frazil.format.snapshot import ManifestRef, Node

type Index = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows of `refs` and their places in the list of indices that was asked for."""

    refs: ChunkRefs
    rows: npt.NDArray[np.int64]  # (k,)
    at: npt.NDArray[np.int64]  # (k,)


def find_committed(files: Files, node: Node, index: Index) -> Payload | None:
    for ref in _manifests(node):
        if covers(ref, index) and (refs := refs_in(files, node, ref)) is not None:
            row = refs.find(index)
            if row >= 0:
                return refs.payload(row)
    return None


def lookup_committed(files: Files, node: Node, wanted: npt.NDArray[np.uint32]) -> list[Found]:
    """The wanted references that exist, `wanted` being (m, ndim)."""
    asked = [
        (ref, places)
        for ref in _manifests(node)
        if len(places := np.flatnonzero(_covered(ref, wanted)))
    ]
    loaded = files.pool.map(lambda pair: refs_in(files, node, pair[0]), asked)
    found = []
    for (_, places), refs in zip(asked, loaded, strict=True):
        if refs is not None:
            rows = refs.lookup(wanted[places])
            hit = rows >= 0
            found.append(Found(refs=refs, rows=rows[hit], at=places[hit]))
    return found


def committed_refs(files: Files, node: Node) -> Iterator[ChunkRefs]:
    """Everything the manifests hold for this array, manifest by manifest."""
    for ref in _manifests(node):
        refs = refs_in(files, node, ref)
        if refs is not None:
            yield refs


def refs_in(files: Files, node: Node, ref: ManifestRef) -> ChunkRefs | None:
    """The array's part of one manifest; rows of another dimensionality are not this array's."""
    refs = files.fetch_manifest(ref.id).arrays.get(node.id)
    ndim = 0 if node.array is None else len(node.array.shape)
    return refs if refs is not None and refs.index.shape[1] == ndim else None


def covers(ref: ManifestRef, index: Index) -> bool:
    """Manifests that state no extents may hold any chunk."""
    return not ref.extents or all(
        start <= position < stop for position, (start, stop) in zip(index, ref.extents, strict=True)
    )


def _covered(ref: ManifestRef, wanted: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    if not ref.extents:
        return np.ones(len(wanted), dtype=np.bool_)
    bounds = np.array(ref.extents, dtype=np.int64)
    inside: npt.NDArray[np.bool_] = ((wanted >= bounds[:, 0]) & (wanted < bounds[:, 1])).all(axis=1)
    return inside


def _manifests(node: Node) -> tuple[ManifestRef, ...]:
    return () if node.array is None else node.array.manifests
