"""The parts of a collection of garbage that are many, done by the threads of this process."""

from dataclasses import dataclass, field

import numpy as np

from frazil.assets.files import Files
from frazil.format.chunk_refs import RefKind
from frazil.format.manifest import Manifest, decode_manifest
from frazil.format.projections import ManifestFiles
from frazil.maintenance.deleting import Deleted, DeleteLimits, delete_files
from frazil.maintenance.id_sets import Ids, IdSet, halves
from frazil.maintenance.inventory import FileKind, Inventory, Listing
from frazil.maintenance.key_sets import GrowingKeySet, KeySet
from frazil.maintenance.progress import Progress
from frazil.maintenance.reachable import (
    Budget,
    manifests_of,
    read_chunk_ids,
    read_manifests,
)


@dataclass(frozen=True, slots=True)
class LocalWork:
    files: Files
    inventory: Inventory
    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None

    def manifests(self, snapshots: Ids) -> ManifestFiles:
        return manifests_of(self.files, snapshots, budget=self.budget, progress=self.progress)

    def chunks(self, manifests: ManifestFiles, among: IdSet | None = None) -> KeySet:
        found = GrowingKeySet()
        for _, ids in read_chunk_ids(
            self.files, manifests, budget=self.budget, progress=self.progress
        ):
            found.add_ids(ids if among is None else ids[among.contains(ids)])
        return found.done()

    def sized_chunks(self, manifests: ManifestFiles) -> Listing:
        parts = [Listing.none(FileKind.CHUNK)]
        for _, manifest in read_manifests(
            self.files, manifests, decode_manifest, budget=self.budget, progress=self.progress
        ):
            parts.append(largest(Listing.concat(FileKind.CHUNK, [parts.pop(), _ends(manifest)])))
        return parts[0]

    def unkept(self, kind: FileKind, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
        parts, seen = [], 0
        for piece in self.inventory.pieces(kind):
            gone = (piece.created_at_us < cutoff_us) & ~keep.contains(piece.ids)
            parts.append(piece.take(gone))
            seen += len(piece)
            if self.progress is not None:
                self.progress(f"listing {kind.value}", seen, 0)
        return Listing.concat(kind, parts)

    def delete(self, listing: Listing, limits: DeleteLimits) -> Deleted:
        return delete_files(self.files.store, listing, limits)


def largest(listing: Listing) -> Listing:
    """Each object once, with the greatest of the sizes that it is said to have."""
    high, low = halves(listing.ids)
    by_size = np.argsort(listing.size_bytes, kind="stable")[::-1]
    order = by_size[np.lexsort((low[by_size], high[by_size]))]  # stable: the largest first
    high, low = high[order], low[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return listing.take(order[first])


def _ends(manifest: Manifest) -> Listing:
    """Chunk objects, and as many bytes of each as references reach."""
    parts = []
    for refs in manifest.arrays.values():
        rows = refs.kind == RefKind.NATIVE
        ids, ends = refs.chunk_id[rows], (refs.offset + refs.length)[rows]
        parts.append(Listing(FileKind.CHUNK, ids, ends, np.zeros(len(ids), np.int64)))
    return Listing.concat(FileKind.CHUNK, parts)
