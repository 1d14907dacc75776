"""Scans the parts of chunk objects that arrays of a snapshot refer to, in the order of arrays.

Within an array the order is that of its manifests, and in these that of the chunks' indices:
neighbours in the grid are neighbours in the scan.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.snapshot import Snapshot
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.chunk_parts import Parts
from frazil.maintenance.executor import Executor
from frazil.maintenance.relocate import REFS_AT_ONCE, chosen_arrays
from frazil.maintenance.waves import wave_spans, waves
from frazil.paths import NodePath

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PartScan:
    """One row for each native reference."""

    parts: Parts
    array: Ints  # its number in the scan
    manifest: Ints  # row of `manifests`
    manifests: tuple[ManifestId, ...]  # that were read, each once

    def take(self, rows: Ints) -> "PartScan":
        return PartScan(
            self.parts.take(rows), self.array[rows], self.manifest[rows], self.manifests
        )

    def manifests_with(self, rows: npt.NDArray[np.bool_]) -> set[ManifestId]:
        """Manifests that have one of the rows."""
        return {self.manifests[at] for at in np.unique(self.manifest[rows]).tolist()}


def scan_parts(
    executor: Executor,
    snapshot: Snapshot,
    paths: Sequence[NodePath],
    *,
    longest: int | None = None,
) -> PartScan:
    """Reads manifests. With `longest`, whole objects that are longer are left out."""
    refs: list[ArrayManifest] = [
        (number, node.id, ref.id)
        for number, (node, array) in enumerate(chosen_arrays(snapshot, paths))
        for ref in array.manifests
    ]
    manifests = tuple(dict.fromkeys(manifest for _, _, manifest in refs))
    row_of = {manifest: row for row, manifest in enumerate(manifests)}
    num_refs = {file.id: file.num_refs for file in snapshot.manifest_files}
    counts = np.array([num_refs.get(each, 0) for _, _, each in refs], dtype=np.int64)
    scan, spans = ScanManifests(tuple(refs), counts, longest), wave_spans(counts, REFS_AT_ONCE)
    results = list(executor.run(scan, len(refs), "reading manifests", spans=spans))
    place = np.concatenate([np.zeros(0, dtype=np.int64), *(each.place for each in results)])
    array = np.array([number for number, _, _ in refs], dtype=np.int64)
    manifest = np.array([row_of[each] for _, _, each in refs], dtype=np.int64)
    parts = Parts.concat([each.parts for each in results])
    return PartScan(parts, array[place], manifest[place], manifests)


type ArrayManifest = tuple[int, NodeId, ManifestId]
"""A manifest of an array, with the number of the array in the scan."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedParts:
    parts: Parts
    place: Ints  # row of the manifest that refers to each


@dataclass(frozen=True, slots=True, eq=False)
class ScanManifests:
    """Parts that manifests of arrays refer to; as many are in memory as may be."""

    refs: tuple[ArrayManifest, ...]
    num_refs: Ints
    longest: int | None

    def __call__(self, files: Files, rows: range) -> ScannedParts:
        parts, places = list[Parts](), [np.zeros(0, dtype=np.int64)]
        for wave in waves(self.num_refs[rows.start : rows.stop], REFS_AT_ONCE):
            chosen = self.refs[rows.start + wave.start : rows.start + wave.stop]
            some = list(dict.fromkeys(manifest for _, _, manifest in chosen))
            loaded = dict(zip(some, files.pool.map(files.fetch_manifest, some), strict=True))
            for at, (_, node_id, manifest) in enumerate(chosen, rows.start + wave.start):
                refs = loaded[manifest].arrays.get(node_id)
                if refs is not None:
                    parts.append(self._select(Parts.native(refs)))
                    places.append(np.full(len(parts[-1]), at, dtype=np.int64))
        return ScannedParts(Parts.concat(parts), np.concatenate(places))

    def _select(self, parts: Parts) -> Parts:
        if self.longest is None:
            return parts
        return parts.take(np.flatnonzero((parts.length <= self.longest) | (parts.offset > 0)))
