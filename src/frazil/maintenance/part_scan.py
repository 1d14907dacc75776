"""The parts of chunk objects that the arrays of a snapshot are made of, in the order of arrays.

Within an array the order is that of its manifests, and in these that of the chunks' indices: what
is near in the grid is near in the scan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.manifest import Manifest
from frazil.format.snapshot import Snapshot
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.chunk_parts import Parts
from frazil.maintenance.relocate import REFS_AT_ONCE, chosen_arrays
from frazil.maintenance.waves import waves
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
        """Those that have one of the rows."""
        return {self.manifests[at] for at in np.unique(self.manifest[rows]).tolist()}


def scan_parts(
    files: Files, snapshot: Snapshot, paths: Sequence[NodePath], *, longest: int | None = None
) -> PartScan:
    """With `longest`, without whole objects that are longer."""
    wanted: list[tuple[int, NodeId, ManifestId]] = [
        (number, node.id, ref.id)
        for number, (node, array) in enumerate(chosen_arrays(snapshot, paths))
        for ref in array.manifests
    ]
    manifests = tuple(dict.fromkeys(manifest for _, _, manifest in wanted))
    row_of = {manifest: row for row, manifest in enumerate(manifests)}
    parts, arrays, rows = list[Parts](), list[Ints](), list[Ints]()
    for (number, node_id, manifest), loaded in _load(files, snapshot, wanted):
        refs = loaded.arrays.get(node_id)
        if refs is None:
            continue
        found = Parts.native(refs)
        if longest is not None:
            found = found.take(np.flatnonzero((found.length <= longest) | (found.offset > 0)))
        parts.append(found)
        arrays.append(np.full(len(found), number, dtype=np.int64))
        rows.append(np.full(len(found), row_of[manifest], dtype=np.int64))
    none = np.zeros(0, dtype=np.int64)
    return PartScan(
        Parts.concat(parts),
        np.concatenate([none, *arrays]),
        np.concatenate([none, *rows]),
        manifests,
    )


type _Wanted = tuple[int, NodeId, ManifestId]


def _load(
    files: Files, snapshot: Snapshot, wanted: Sequence[_Wanted]
) -> Iterator[tuple[_Wanted, Manifest]]:
    """Each with its manifest; as many manifests at a time as fit into memory."""
    num_refs = {file.id: file.num_refs for file in snapshot.manifest_files}
    for rows in waves([num_refs.get(each, 0) for _, _, each in wanted], REFS_AT_ONCE):
        some = list(dict.fromkeys(manifest for _, _, manifest in wanted[rows]))
        loaded = dict(zip(some, files.pool.map(files.fetch_manifest, some), strict=True))
        for each in wanted[rows]:
            yield each, loaded[each[2]]
