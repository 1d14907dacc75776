"""The parts of a collection of garbage that are many, done by executors.

snapshots -> manifests     each task reads some; particulars of manifests come back
manifests -> chunks        each task reads some; eight bytes of each chunk's id come back
manifests -> sizes         of chunks that may go, incrementally; each once comes back
listing                    each task lists some of the first letters of names
deleting                   each task deletes some batches
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.format.projections import ManifestFiles
from frazil.ids import ALPHABET
from frazil.maintenance.deleting import Deleted, DeleteLimits, delete_files
from frazil.maintenance.id_sets import Ids, IdSet
from frazil.maintenance.inventory import FileKind, Inventory, Listing, StoredInventory, listed
from frazil.maintenance.key_sets import KeySet
from frazil.maintenance.reachable import Budget, manifests_of, united
from frazil.maintenance.work import LocalWork, largest
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.runtime.jobs import TASKS_PER_CORE, collect, map_tasks, parallelism

LISTED = pa.schema([("ids", pa.binary()), ("sizes", pa.binary()), ("numbers", pa.binary())])
DELETED = pa.schema(
    [
        ("objects", pa.int64()),
        ("bytes", pa.int64()),
        ("failed", pa.int64()),
        ("throttled", pa.int64()),
        ("errors", pa.string()),
    ]
)
_BATCHES_PER_TASK = 10_000  # objects to delete


@dataclass(frozen=True, slots=True)
class ScatteredWork:
    """As LocalWork, with the same results."""

    spark: SparkSession
    files: ExecutorFiles
    inventory: Inventory
    budget: Budget = field(default_factory=Budget)

    def manifests(self, snapshots: Ids) -> ManifestFiles:
        read = ReadSnapshots(self.files, snapshots, self.budget)
        parts = [ManifestFiles.none()]
        for row in self._rows(len(snapshots), read, LISTED):
            ids, sizes = _ids(row["ids"]), np.frombuffer(row["sizes"], np.uint64)
            parts.append(ManifestFiles(ids, sizes, np.frombuffer(row["numbers"], np.uint32)))
        return united(parts)

    def chunks(self, manifests: ManifestFiles, among: IdSet | None = None) -> KeySet:
        read = ReadManifests(self.files, manifests, among, self.budget)
        rows = self._rows(len(manifests), read, LISTED)
        return KeySet.union(KeySet(np.frombuffer(row["numbers"], np.uint64)) for row in rows)

    def sized_chunks(self, manifests: ManifestFiles) -> Listing:
        read = ReadSizes(self.files, manifests, self.budget)
        parts = []
        for row in self._rows(len(manifests), read, LISTED):
            ids, sizes = _ids(row["ids"]), np.frombuffer(row["sizes"], np.uint64)
            parts.append(Listing(FileKind.CHUNK, ids, sizes, np.zeros(len(ids), np.int64)))
        return largest(Listing.concat(FileKind.CHUNK, parts))

    def unkept(self, kind: FileKind, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
        if not isinstance(self.inventory, StoredInventory) or kind is not FileKind.CHUNK:
            local = LocalWork(self.files.open(), self.inventory, self.budget)
            return local.unkept(kind, keep, cutoff_us)
        look = ListFiles(self.files.store, kind, cutoff_us)
        parts = []
        for row in self._rows(len(ALPHABET), look, LISTED):
            ids, sizes = _ids(row["ids"]), np.frombuffer(row["sizes"], np.uint64)
            found = Listing(kind, ids, sizes, np.frombuffer(row["numbers"], np.int64))
            parts.append(found.take(~keep.contains(ids)))
        return Listing.concat(kind, parts)

    def delete(self, listing: Listing, limits: DeleteLimits) -> Deleted:
        """In as many tasks as there is something to do for."""
        total = Deleted()
        tasks = -(-len(listing) // _BATCHES_PER_TASK)
        remove = DeleteListed(self.files.store, listing, limits)
        for row in self._rows(tasks, remove, DELETED):
            errors = row["errors"].splitlines()
            total.add(
                Deleted(row["objects"], row["bytes"], row["failed"], row["throttled"], errors)
            )
        return total

    def _rows(self, tasks: int, function: Any, schema: pa.Schema) -> list[dict[str, Any]]:
        if not tasks:
            return []
        partitions = parallelism(self.spark) * TASKS_PER_CORE
        table = collect(map_tasks(self.spark, tasks, partitions, function, schema))
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshots:
    files: ExecutorFiles
    snapshots: Ids
    budget: Budget

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        chosen = self.snapshots[tasks.start : tasks.stop]
        found = manifests_of(self.files.open(), chosen, budget=self.budget)
        yield _listed(found.ids, found.size_bytes, found.num_refs)


@dataclass(frozen=True, slots=True, eq=False)
class ReadManifests:
    files: ExecutorFiles
    manifests: ManifestFiles
    among: IdSet | None
    budget: Budget

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files = self.files.open()
        work = LocalWork(files, StoredInventory(files.store), self.budget)
        chosen = self.manifests.take(slice(tasks.start, tasks.stop))
        found = work.chunks(chosen, self.among)
        yield _listed(np.zeros(0, np.uint8), np.zeros(0, np.uint64), found.keys)


@dataclass(frozen=True, slots=True, eq=False)
class ReadSizes:
    """Chunk objects, and how large each is at least."""

    files: ExecutorFiles
    manifests: ManifestFiles
    budget: Budget

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files = self.files.open()
        work = LocalWork(files, StoredInventory(files.store), self.budget)
        found = work.sized_chunks(self.manifests.take(slice(tasks.start, tasks.stop)))
        yield _listed(found.ids, found.size_bytes, found.created_at_us)


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Of a kind, by the first letters of their names: those that are old enough to go."""

    store: ObjectStore
    kind: FileKind
    cutoff_us: int

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        for letter in tasks:
            for piece in listed(self.store.list(self.kind.value + ALPHABET[letter]), self.kind):
                old = piece.take(piece.created_at_us < self.cutoff_us)
                yield _listed(old.ids, old.size_bytes, old.created_at_us)


@dataclass(frozen=True, slots=True, eq=False)
class DeleteListed:
    store: ObjectStore
    listing: Listing
    limits: DeleteLimits

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        rows = slice(tasks.start * _BATCHES_PER_TASK, tasks.stop * _BATCHES_PER_TASK)
        done = delete_files(self.store, self.listing.take(rows), self.limits)
        row = {
            "objects": done.objects,
            "bytes": done.size_bytes,
            "failed": done.failed,
            "throttled": done.throttled,
            "errors": "\n".join(done.errors),
        }
        yield pa.RecordBatch.from_pylist([row], schema=DELETED)


def _ids(raw: bytes) -> Ids:
    return np.frombuffer(raw, np.uint8).reshape(-1, 12)


def _listed(ids: Any, sizes: Any, numbers: Any) -> pa.RecordBatch:
    row = {"ids": ids.tobytes(), "sizes": sizes.tobytes(), "numbers": numbers.tobytes()}
    return pa.RecordBatch.from_pylist([row], schema=LISTED)
