"""Chunk references of an array, one or a million at a time.

Committed ones are found through the array's manifests; those of a session are laid over them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs, Payload
from frazil.format.nodes import ManifestRef, Node
from frazil.repo.pending import ChunkChanges, Index

_AHEAD = 8  # manifests that are fetched while one is looked at


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


def is_at_hand(files: Files, node: Node, index: Index) -> bool:
    """Whether `find_committed` would find out without reading a file."""
    return all(
        files.find_manifest(ref.id) is not None for ref in _manifests(node) if covers(ref, index)
    )


def lookup_current(
    files: Files,
    node: Node,
    changes: ChunkChanges | None,
    wanted: npt.NDArray[np.uint32],  # (m, ndim)
) -> list[Found]:
    """The wanted references that exist, with a session's changes applied."""
    grid = np.array(_grid(node), dtype=np.uint32)
    places = np.flatnonzero((wanted < grid).all(axis=1))
    found = []
    if changes is not None:
        rows = changes.refs.lookup(wanted[places])
        is_set, is_gone = rows >= 0, changes.deletes(wanted[places])
        found.append(Found(refs=changes.refs, rows=rows[is_set], at=places[is_set]))
        places = places[~is_set & ~is_gone]
    committed = _lookup_committed(files, node, wanted[places])
    return found + [Found(refs=part.refs, rows=part.rows, at=places[part.at]) for part in committed]


def current_refs(files: Files, node: Node, changes: ChunkChanges | None) -> Iterator[ChunkRefs]:
    """Everything there is inside the grid: a session's changes first, then manifest by manifest."""
    grid = _grid(node)
    if changes is not None and len(refs := changes.refs.within(grid)):
        yield refs
    for batch in _stored_refs(files, node):
        if batch is None:
            continue
        refs = batch.within(grid)
        if changes is not None and len(refs):
            refs = ChunkRefs.merged(refs, ChunkRefs.empty(refs.ndim), changes.index)
        if len(refs):
            yield refs


def _stored_refs(files: Files, node: Node) -> Iterator[ChunkRefs | None]:
    """The array's part of each manifest. Of a far store, the next are under way meanwhile."""
    ahead = _AHEAD if files.store.far else 0
    under_way: deque[Callable[[], ChunkRefs | None]] = deque()
    for ref in _manifests(node):
        fetch = partial(refs_in, files, node, ref)
        under_way.append(files.pool.start(fetch) if ahead else fetch)
        if len(under_way) > ahead:
            yield under_way.popleft()()
    while under_way:
        yield under_way.popleft()()


def _lookup_committed(files: Files, node: Node, wanted: npt.NDArray[np.uint32]) -> list[Found]:
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


def _grid(node: Node) -> tuple[int, ...]:
    return () if node.array is None else node.array.num_chunks


def _manifests(node: Node) -> tuple[ManifestRef, ...]:
    return () if node.array is None else node.array.manifests
