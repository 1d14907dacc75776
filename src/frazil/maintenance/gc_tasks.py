"""Tasks of garbage collection: the parts of it that are many, for an executor.

snapshots -> manifests     ids, sizes and numbers of references of the manifests that are listed
manifests -> chunk keys    eight bytes of the id of each chunk object
manifests -> chunk sizes   chunk objects, and how large each is at least
listing                    files of a kind that are old enough to be deleted
deleting                   counts
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.pool import Pool
from frazil.format.chunk_refs import RefKind
from frazil.format.manifest import Manifest, decode_manifest
from frazil.format.projections import ManifestFiles
from frazil.ids import ALPHABET
from frazil.maintenance.executor import Executor, split_rows
from frazil.maintenance.id_sets import GrowingKeySet, Ids, IdSet, KeySet, id_halves
from frazil.maintenance.inventory import (
    Deleted,
    DeleteLimits,
    FileKind,
    Inventory,
    Listing,
    StoredInventory,
    delete_files,
    iter_listings,
)
from frazil.maintenance.reachable import (
    Budget,
    batches,
    decoder_pool,
    manifests_of,
    merge_manifest_files,
    prefetch_spans,
    read_chunk_ids,
    read_manifests,
)

_DELETES_PER_ROW = 10_000


@dataclass(frozen=True, slots=True)
class GCWork:
    """The tasks, run by an executor on what `inventory` lists."""

    executor: Executor
    inventory: Inventory
    budget: Budget = field(default_factory=Budget)

    def manifests(self, snapshots: Ids) -> ManifestFiles:
        """Manifests that these snapshots list."""
        task, found = ReadSnapshots(snapshots, self.budget), ManifestFiles.none()
        spans = split_rows(len(snapshots), self.budget.snapshots)
        for part in self.executor.run(task, len(snapshots), "reading snapshots", spans=spans):
            found = merge_manifest_files([found, part])
        return found

    def chunks(self, manifests: ManifestFiles, among: IdSet | None = None) -> KeySet:
        """Chunk objects that these manifests refer to; of those, only the ones in `among`."""
        task, found = ReadChunkKeys(manifests, among, self.budget), GrowingKeySet()
        spans, prefetch = prefetch_spans(manifests, self.budget)
        for part in self.executor.run(
            task, len(manifests), "reading manifests", spans=spans, prefetch=prefetch
        ):
            found.add_set(part)
        return found.done()

    def sized_chunks(self, manifests: ManifestFiles) -> Listing:
        """Chunk objects that these manifests refer to, each once, and how large it is at least."""
        task, found = ReadChunkSizes(manifests, self.budget), Listing.none(FileKind.CHUNK)
        spans = list(batches(manifests, self.budget))
        for part in self.executor.run(task, len(manifests), "reading manifests", spans=spans):
            found = keep_largest(Listing.concat(FileKind.CHUNK, [found, part]))
        return found

    def unkept(self, kind: FileKind, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
        """Files of a kind that are older and not kept."""
        parts = []
        for piece in self._list(kind, cutoff_us):
            gone = (piece.created_at_us < cutoff_us) & ~keep.contains(piece.ids)
            parts.append(piece.take(gone))
        return Listing.concat(kind, parts)

    def _list(self, kind: FileKind, cutoff_us: int) -> Iterator[Listing]:
        """All files of a kind, or only the older ones if they would have to travel."""
        doing, seen = f"listing {kind.value}", 0
        is_stored = isinstance(self.inventory, StoredInventory)
        if self.executor.is_remote and is_stored and kind is FileKind.CHUNK:
            yield from self.executor.run(ListFiles(kind, cutoff_us), len(ALPHABET), doing)
            return
        for piece in self.inventory.pieces(kind):
            yield piece
            seen += len(piece)
            self.executor.report(doing, seen, 0)

    def delete(self, listing: Listing, limits: DeleteLimits) -> Deleted:
        total, task = Deleted(), DeleteFiles(listing, limits)
        rows = -(-len(listing) // _DELETES_PER_ROW)
        for part in self.executor.run(task, rows, f"deleting {listing.kind.value}"):
            total.add(part)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshots:
    snapshots: Ids
    budget: Budget

    def __call__(self, files: Files, rows: range) -> ManifestFiles:
        chosen = self.snapshots[rows.start : rows.stop]
        return manifests_of(files, chosen, budget=self.budget)


@dataclass(frozen=True, slots=True, eq=False)
class ReadChunkKeys:
    manifests: ManifestFiles
    among: IdSet | None
    budget: Budget
    decoders: Pool = field(default_factory=decoder_pool)

    def __call__(self, files: Files, rows: range) -> KeySet:
        found, among = GrowingKeySet(), self.among
        chosen = self.manifests.take(slice(rows.start, rows.stop))
        for _, ids in read_chunk_ids(files, chosen, budget=self.budget, decoders=self.decoders):
            found.add_ids(ids if among is None else ids[among.contains(ids)])
        return found.done()


@dataclass(frozen=True, slots=True, eq=False)
class ReadChunkSizes:
    manifests: ManifestFiles
    budget: Budget

    def __call__(self, files: Files, rows: range) -> Listing:
        found = Listing.none(FileKind.CHUNK)
        chosen = self.manifests.take(slice(rows.start, rows.stop))
        for _, manifest in read_manifests(files, chosen, decode_manifest, budget=self.budget):
            found = keep_largest(Listing.concat(FileKind.CHUNK, [found, _used_sizes(manifest)]))
        return found


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Files of a kind older than a time; a row is a first letter of their names."""

    kind: FileKind
    cutoff_us: int

    def __call__(self, files: Files, rows: range) -> Listing:
        parts = []
        for letter in rows:
            objects = files.store.list(self.kind.value + ALPHABET[letter])
            pieces = iter_listings(objects, self.kind)
            parts += [piece.take(piece.created_at_us < self.cutoff_us) for piece in pieces]
        return Listing.concat(self.kind, parts)


@dataclass(frozen=True, slots=True, eq=False)
class DeleteFiles:
    """Deletes the files of a listing; a row is 10,000 of them."""

    listing: Listing
    limits: DeleteLimits

    def __call__(self, files: Files, rows: range) -> Deleted:
        chosen = slice(rows.start * _DELETES_PER_ROW, rows.stop * _DELETES_PER_ROW)
        return delete_files(files.store, self.listing.take(chosen), self.limits)


def keep_largest(listing: Listing) -> Listing:
    """Each object once, with the largest of the sizes that are listed for it."""
    high, low = id_halves(listing.ids)
    by_size = np.argsort(listing.size_bytes, kind="stable")[::-1]
    order = by_size[np.lexsort((low[by_size], high[by_size]))]  # stable: the largest first
    high, low = high[order], low[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return listing.take(order[first])


def _used_sizes(manifest: Manifest) -> Listing:
    """Chunk objects, and as many bytes of each as references reach."""
    parts = []
    for refs in manifest.arrays.values():
        rows = refs.kind == RefKind.NATIVE
        ids, ends = refs.chunk_id[rows], (refs.offset + refs.length)[rows]
        parts.append(Listing(FileKind.CHUNK, ids, ends, np.zeros(len(ids), np.int64)))
    return Listing.concat(FileKind.CHUNK, parts)
