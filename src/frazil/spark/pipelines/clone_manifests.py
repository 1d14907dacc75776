"""Manifests of a repository made anew for a clone that refers to its chunks: what executors do.

A task is a cell of an array, as the clone's manifests are cut: it reads the manifests of the source
that reach into the cell, and writes one. Cells are known from what manifests say they cover, so no
reference is looked at to find them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.manifest import Manifest
from frazil.format.nodes import ManifestRef, Node
from frazil.ids import ManifestId, NodeId, format_ids
from frazil.repo.chunk_reads import refs_in
from frazil.repo.session import Session
from frazil.repo.splitting import cell_sizes

MANIFESTS = pa.schema(
    [
        ("array", pa.int32()),
        ("id", pa.binary()),
        ("refs", pa.int64()),
        ("size", pa.int64()),
        ("extents", pa.binary()),
        ("changed", pa.int64()),
        ("box", pa.binary()),
        ("bits", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayCells:
    """An array, and the cells of its grid in which there may be chunks."""

    version: int  # which of the versions that are cloned
    source: Node
    target: NodeId
    size: tuple[int, ...]  # of a cell, in chunks
    cells: npt.NDArray[np.int64]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class WriteManifests:
    """Picklable."""

    bases: tuple[Session, ...]  # read-only, of the source
    clone: Session  # read-only; its files are where manifests go
    arrays: tuple[ArrayCells, ...]
    prefix: str  # of the locations of chunks

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        ends = list(accumulate(len(one.cells) for one in self.arrays))
        rows = []
        for task in tasks:
            number = int(np.searchsorted(ends, task, side="right"))
            one = self.arrays[number]
            refs = self._refs(one, one.cells[task - (ends[number] - len(one.cells))])
            if len(refs):
                rows.append({"array": number, **self._store(one.target, refs)})
        self.clone.files.store.sync()
        yield pa.RecordBatch.from_pylist(rows, schema=MANIFESTS)

    def _refs(self, one: ArrayCells, cell: npt.NDArray[np.int64]) -> ChunkRefs:
        """What the source has in a cell."""
        size = np.array(one.size, dtype=np.int64)
        array = one.source.array
        grid = () if array is None else array.num_chunks
        found = [ChunkRefs.empty(len(grid))]
        for ref in () if array is None else array.manifests:
            first, last = _cells_covered(ref, grid, size)
            if not ((first <= cell) & (cell <= last)).all():
                continue
            refs = refs_in(self.bases[one.version].files, one.source, ref)
            if refs is not None:
                refs = refs.within(grid)
                inside = (refs.index.astype(np.int64) // size == cell).all(axis=1)
                found.append(refs.take(np.flatnonzero(inside)))
        return seen_from_outside(ChunkRefs.concat(found), self.prefix)

    def _store(self, node: NodeId, refs: ChunkRefs) -> dict[str, Any]:
        """What is to be attached, as a row; see ingestion/virtual.py."""
        manifest = Manifest(id=ManifestId.random(), arrays={node: refs})
        file = self.clone.files.put_manifest(manifest)
        changed = ChunkSet.of(refs.index)
        return {
            "id": manifest.id.raw,
            "refs": file.num_refs,
            "size": file.size_bytes,
            "extents": np.array(refs.bounding_box(), dtype="<i8").tobytes(),
            "changed": changed.count,
            "box": np.array([changed.lo, changed.shape], dtype="<i8").tobytes(),
            "bits": changed.bits,
        }


def cells_of(version: int, base: Session, clone: Session) -> Iterator[ArrayCells]:
    """Of all arrays that have chunks; `clone` has the same nodes."""
    for node in base.nodes():
        if node.array is None or not node.array.manifests:
            continue
        target = clone.node(node.path)
        size = cell_sizes(clone.files.settings.splitting, target)
        cells = _cells(node.array.manifests, node.array.num_chunks, size)
        yield ArrayCells(version, node, target.id, size, cells)


def seen_from_outside(refs: ChunkRefs, prefix: str) -> ChunkRefs:
    """The same chunks by where they are; inline and virtual ones are as they were."""
    native = refs.kind == RefKind.NATIVE
    ids, codes = np.unique(refs.chunk_id[native], axis=0, return_inverse=True)
    names = [prefix + name for name in format_ids(np.ascontiguousarray(ids))]
    locations = [names[code] for code in codes.reshape(-1).tolist()]
    moved = ChunkRefs.virtual(
        refs.index[native], locations, refs.offset[native], refs.length[native]
    )
    return ChunkRefs.concat([refs.take(np.flatnonzero(~native)), moved])


def _cells(
    manifests: Sequence[ManifestRef], grid: tuple[int, ...], size: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Cells that manifests say they cover, each once, (n, ndim)."""
    if not grid:
        return np.zeros((1, 0), dtype=np.int64)
    found = []
    for ref in manifests:
        first, last = _cells_covered(ref, grid, np.array(size, dtype=np.int64))
        along = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        mesh = np.meshgrid(*along, indexing="ij")
        found.append(np.stack([each.ravel() for each in mesh], axis=-1).reshape(-1, len(grid)))
    return np.unique(np.concatenate(found), axis=0).astype(np.int64)


def _cells_covered(
    ref: ManifestRef, grid: tuple[int, ...], size: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First and last, both inclusive; all if it does not say."""
    stated = ref.extents if len(ref.extents) == len(grid) else tuple((0, n) for n in grid)
    bounds = np.array(stated, dtype=np.int64).reshape(len(grid), 2)
    stops = np.minimum(bounds[:, 1], np.array(grid, dtype=np.int64).reshape(len(grid)))
    return bounds[:, 0] // size, (np.maximum(stops, 1) - 1) // size
