"""Tasks of garbage collection: the parts of it that are many, for an executor.

snapshots -> manifests     ids, sizes and numbers of references of the manifests that are listed
manifests -> chunk keys    eight bytes of the id of each chunk object
manifests -> chunk sizes   chunk objects, and how large each is at least
listing                    files of a kind that are old enough to be deleted
deleting                   counts

On a cluster chunk keys and candidates for deletion go to the workers that own their shares of ids,
and only garbage comes to the caller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from frazil.engine.files.files import Files
from frazil.format.chunk_refs import RefKind
from frazil.format.manifest import Manifest, decode_manifest
from frazil.format.snapshot import ManifestFiles
from frazil.ids import ALPHABET
from frazil.maintenance.executor import (
    SHARES,
    Block,
    Executor,
    find_cluster,
    split_rows,
    split_shares,
)
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
from frazil.objectstore.pool import Pool

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
        doing, parts, seen = f"listing {kind.value}", list[Listing](), 0
        for piece in self.inventory.pieces(kind):
            gone = (piece.created_at_us < cutoff_us) & ~keep.contains(piece.ids)
            parts.append(piece.take(gone))
            seen += len(piece)
            self.executor.report(doing, seen, 0)
        return Listing.concat(kind, parts)

    def unkept_chunks(
        self, kept: ManifestFiles, cutoff_us: int, gone: ManifestFiles | None = None
    ) -> tuple[KeySet, Listing]:
        """Chunk objects that kept manifests refer to, as far as known here, and garbage.

        Garbage is what is listed, older and not kept; with `gone`, what these manifests refer to
        in place of what is listed. Of the objects that are kept a cluster tells nothing.
        """
        cluster = find_cluster(self.executor)
        if cluster is not None and (gone is not None or self._is_stored):
            scatter = ScatterChunks(kept, gone, cutoff_us, self.budget)
            found = cluster.scatter(scatter, scatter.rows, "reading manifests, listing chunks")
            parts = cluster.gather([found], gather_garbage, "finding garbage", many=True)
            return KeySet.empty(), Listing.concat(FileKind.CHUNK, parts)
        if gone is None:
            keys = self.chunks(kept)
            return keys, self.unkept(FileKind.CHUNK, keys, cutoff_us)
        chunks = self.sized_chunks(gone)
        keys = self.chunks(kept, among=IdSet.of(chunks.ids))
        return keys, chunks.take(~keys.contains(chunks.ids))

    @property
    def _is_stored(self) -> bool:
        """True if workers can list."""
        return isinstance(self.inventory, StoredInventory)

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


@dataclass(frozen=True, slots=True, eq=False)
class ScatterChunks:
    """Keys of kept chunk objects, and candidates for deletion, by share.

    Rows are manifests that are kept, then those that are `gone`, or first letters of names.
    """

    kept: ManifestFiles
    gone: ManifestFiles | None
    cutoff_us: int
    budget: Budget

    @property
    def rows(self) -> int:
        return len(self.kept) + (len(ALPHABET) if self.gone is None else len(self.gone))

    def __call__(self, files: Files, rows: range) -> Iterator[Block]:
        count = len(self.kept)
        if rows.start < count:
            read = range(rows.start, min(rows.stop, count))
            keys = ReadChunkKeys(self.kept, None, self.budget)(files, read).keys
            edges = np.searchsorted(keys >> np.uint64(56), np.arange(SHARES + 1)).tolist()
            for share in range(SHARES):
                if edges[share] < edges[share + 1]:
                    yield share, KeySet(keys[edges[share] : edges[share + 1]])
        if rows.stop > count:
            others = range(max(rows.start - count, 0), rows.stop - count)
            for listing in self._candidates(files, others):
                shares = split_shares(listing.ids)
                yield from ((share, listing.take(some)) for share, some in shares)

    def _candidates(self, files: Files, rows: range) -> Iterator[Listing]:
        if self.gone is not None:
            yield ReadChunkSizes(self.gone, self.budget)(files, rows)
            return
        for letter in rows:
            objects = files.store.list(FileKind.CHUNK.value + ALPHABET[letter])
            for piece in iter_listings(objects, FileKind.CHUNK):
                yield piece.take(piece.created_at_us < self.cutoff_us)


def gather_garbage(files: Files, shares: Iterator[Sequence[KeySet | Listing]]) -> Iterator[Listing]:
    """Candidates that are not kept, each once, share by share."""
    del files
    for blocks in shares:
        kept = KeySet.union(block for block in blocks if isinstance(block, KeySet))
        listed = [block for block in blocks if isinstance(block, Listing)]
        every = keep_largest(Listing.concat(FileKind.CHUNK, listed))
        yield every.take(~kept.contains(every.ids))


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
