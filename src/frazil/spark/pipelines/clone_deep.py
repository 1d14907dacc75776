"""Every object of a repository that some refs lead to, copied by executors.

    driver      refs -> snapshots (clone_origin.py)
    executors   snapshots -> manifests -> chunks, each named once; missing ones are copied
    driver      the entry point, last: before it there is no repository at the target

Objects never change under their name, so what is at the target in full size is not copied again.
If nothing there refers to it yet it is refreshed: see frazil.assets.reuse.
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
from frazil.assets.pool import Pool
from frazil.assets.reuse import ReusedObject, refresh_objects
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import RefKind
from frazil.format.manifest import decode_manifest
from frazil.format.nodes import id_column
from frazil.format.snapshot import decode_snapshot
from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.id_sets import IdSet
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.pipelines.clone_origin import Origin
from frazil.spark.runtime.jobs import TASKS_PER_CORE, map_arrow, map_tasks, parallelism
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.workers import carrying_errors, limit_gc

KEYS = pa.schema([("key", pa.string()), ("settled", pa.bool_())])  # settled: referred to there
COUNTS = pa.schema(
    [("objects", pa.int64()), ("copied", pa.int64()), ("bytes", pa.int64()), ("reused", pa.int64())]
)
_BATCH = 4096  # keys


@dataclass(frozen=True, slots=True)
class ListManifests:
    """Keys of the manifests of snapshots."""

    store: ObjectStore
    snapshots: tuple[str, ...]
    settled: tuple[bool, ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        found: dict[str, bool] = {}
        for task in tasks:
            key = snapshot_key(SnapshotId.parse(self.snapshots[task]))
            snapshot = decode_snapshot(self.store.get(key).data)
            for file in snapshot.manifest_files:
                name = manifest_key(file.id)
                found[name] = found.get(name, False) or self.settled[task]
        yield from _batches(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Keys of the chunks that manifests refer to, from rows with keys of manifests."""

    store: ObjectStore

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            for batch in batches:
                for key, settled in _rows(batch):
                    manifest = decode_manifest(self.store.get(key).data)
                    for refs in manifest.arrays.values():
                        native = refs.chunk_id[refs.kind == RefKind.NATIVE]
                        ids = np.unique(np.ascontiguousarray(native), axis=0)
                        yield from _batches([(CHUNKS + name, settled) for name in format_ids(ids)])


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Copies what rows name, unless it is there."""

    source: ObjectStore
    target: ObjectStore
    counter: Counter
    refresh: bool = True  # what is there and not settled

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        objects, copied, size_bytes, reused = 0, 0, 0, 0
        with carrying_errors():
            for batch in batches:
                for key, settled in _rows(batch):
                    renew = self.refresh and not settled
                    size = copy_object(self.source, self.target, key, renew=renew)
                    objects += 1
                    copied += size is not None
                    reused += size is None and not settled
                    size_bytes += size or 0
                    self.counter.add(size or 0)
            self.target.sync()
        counts = {"objects": objects, "copied": copied, "bytes": size_bytes, "reused": reused}
        yield pa.RecordBatch.from_pylist([counts], COUNTS)


def copy_object(
    source: ObjectStore, target: ObjectStore, key: str, *, renew: bool = False
) -> int | None:
    """Bytes copied; None if the object is there already. Checks what arrived."""
    expected = source.head(key).size_bytes
    if _size(target, key) == expected and (
        not renew or not refresh_objects(target, [ReusedObject(key, expected)], Pool(1))
    ):
        return None
    data = source.get(key).data
    target.put(key, data)
    arrived = _size(target, key)
    if not len(data) == expected == arrived:
        raise StorageError(f"{key!r} has {expected} bytes, {arrived} arrived at the target")
    return expected


def object_keys(
    spark: SparkSession, store: ObjectStore, origin: Origin, settled: IdSet | None
) -> DataFrame:
    """All keys but those of the entry point, each once.

    `settled` are snapshots that refs at the target lead to; None if there is no repository, so that
    nothing there can be taken for garbage.
    """
    raw = id_column([one.raw for one in origin.snapshots], SnapshotId.size)
    is_settled = [True] * len(raw) if settled is None else settled.contains(raw).tolist()
    ids = tuple(map(str, origin.snapshots))
    partitions = parallelism(spark) * TASKS_PER_CORE
    look = ListManifests(store, ids, tuple(is_settled))
    manifests = _distinct(map_tasks(spark, len(ids), partitions, look, KEYS))
    chunks = _distinct(map_arrow(manifests, ListChunks(store), KEYS))
    known = [*zip(map(snapshot_key, origin.snapshots), is_settled, strict=True)]
    by_id = dict(zip(origin.snapshots, is_settled, strict=True))
    known += [(key, by_id[owner]) for key, owner in origin.logs.items()]
    if settled is None:  # else the ops log that is there goes on
        known += [(key, True) for key in origin.kept]
    listed = map_tasks(spark, len(known), partitions, _Listed(tuple(known)), KEYS)
    return listed.union(manifests).union(chunks).repartition(partitions)


def _distinct(keys: DataFrame) -> DataFrame:
    """Each key once; settled if one of its rows is."""
    return keys.groupBy("key").agg({"settled": "max"}).withColumnRenamed("max(settled)", "settled")


def copied(keys: DataFrame, copy: CopyObjects) -> DataFrame:
    return map_arrow(keys, copy, COUNTS)


@dataclass(frozen=True, slots=True)
class _Listed:
    rows: tuple[tuple[str, bool], ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        return _batches([self.rows[task] for task in tasks])


def _size(store: ObjectStore, key: str) -> int | None:
    try:
        return store.head(key).size_bytes
    except ObjectNotFoundError:
        return None


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, bool]]:
    columns = (batch.column(name).to_pylist() for name in KEYS.names)
    return zip(*columns, strict=True)


def _batches(rows: Sequence[tuple[str, bool]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), _BATCH):
        keys, settled = zip(*rows[start : start + _BATCH], strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(settled)], schema=KEYS)
