"""Every object of a repository that some refs lead to, copied by executors.

    driver      refs -> snapshots (clone_origin.py)
    executors   snapshots -> manifests -> chunks, each named once; missing ones are copied
    driver      the entry point, last: before it there is no repository at the target

Objects never change under their name, so what is at the target in full size is not copied again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.assets.layout import (
    CHUNKS,
    manifest_key,
    snapshot_key,
)
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.manifest import decode_manifest
from frazil.format.payloads import RefKind
from frazil.format.snapshot import decode_snapshot
from frazil.ids import SnapshotId, format_ids
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.ingestion.jobs import parallelism
from frazil.spark.pipelines.boxes import TASKS_PER_CORE
from frazil.spark.pipelines.clone_origin import Origin
from frazil.spark.pipelines.running import map_arrow, map_tasks
from frazil.spark.progress import Counter
from frazil.spark.workers import tame_gc

KEYS = pa.schema([("key", pa.string())])
COUNTS = pa.schema([("objects", pa.int64()), ("copied", pa.int64()), ("bytes", pa.int64())])
_BATCH = 4096  # keys


@dataclass(frozen=True, slots=True)
class ListManifests:
    """Keys of the manifests of snapshots."""

    store: ObjectStore
    snapshots: tuple[str, ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        found = set[str]()
        for task in tasks:
            key = snapshot_key(SnapshotId.parse(self.snapshots[task]))
            snapshot = decode_snapshot(self.store.get(key).data)
            found.update(manifest_key(file.id) for file in snapshot.manifest_files)
        yield from _batches(sorted(found))


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Keys of the chunks that manifests refer to, from rows with keys of manifests."""

    store: ObjectStore

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tame_gc()
        with carrying_errors():
            for batch in batches:
                for key in batch.column("key").to_pylist():
                    manifest = decode_manifest(self.store.get(key).data)
                    for refs in manifest.arrays.values():
                        native = refs.chunk_id[refs.kind == RefKind.NATIVE]
                        ids = np.unique(np.ascontiguousarray(native), axis=0)
                        yield from _batches([CHUNKS + name for name in format_ids(ids)])


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Copies what rows name, unless it is there."""

    source: ObjectStore
    target: ObjectStore
    counter: Counter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tame_gc()
        objects, copied, size_bytes = 0, 0, 0
        with carrying_errors():
            for batch in batches:
                for key in batch.column("key").to_pylist():
                    size = copy_object(self.source, self.target, key)
                    objects += 1
                    copied += size is not None
                    size_bytes += size or 0
                    self.counter.add(size or 0)
            self.target.sync()
        counts = {"objects": objects, "copied": copied, "bytes": size_bytes}
        yield pa.RecordBatch.from_pylist([counts], COUNTS)


def copy_object(source: ObjectStore, target: ObjectStore, key: str) -> int | None:
    """Bytes copied; None if the object is there already. Checks what arrived."""
    expected = source.head(key).size_bytes
    if _size(target, key) == expected:
        return None
    data = source.get(key).data
    target.put(key, data)
    arrived = _size(target, key)
    if not len(data) == expected == arrived:
        raise StorageError(f"{key!r} has {expected} bytes, {arrived} arrived at the target")
    return expected


def object_keys(spark: SparkSession, store: ObjectStore, origin: Origin) -> DataFrame:
    """All keys but those of the entry point, each once."""
    ids = tuple(map(str, origin.snapshots))
    partitions = parallelism(spark) * TASKS_PER_CORE
    manifests = map_tasks(spark, len(ids), partitions, ListManifests(store, ids), KEYS)
    manifests = manifests.distinct()
    chunks = map_arrow(manifests, ListChunks(store), KEYS).distinct()
    known = (*map(snapshot_key, origin.snapshots), *origin.keys)
    listed = map_tasks(spark, len(known), partitions, _Listed(known), KEYS)
    return listed.union(manifests).union(chunks).repartition(partitions)


def copied(keys: DataFrame, copy: CopyObjects) -> DataFrame:
    return map_arrow(keys, copy, COUNTS)


@dataclass(frozen=True, slots=True)
class _Listed:
    keys: tuple[str, ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        return _batches([self.keys[task] for task in tasks])


def _size(store: ObjectStore, key: str) -> int | None:
    try:
        return store.head(key).size_bytes
    except ObjectNotFoundError:
        return None


def _batches(keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(keys), _BATCH):
        yield pa.RecordBatch.from_arrays([pa.array(keys[start : start + _BATCH])], schema=KEYS)
