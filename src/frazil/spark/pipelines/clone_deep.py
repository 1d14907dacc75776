"""Every object of a repository that some refs lead to, copied by executors.

    driver      refs -> snapshots (the repo info lists them)
    executors   snapshots -> manifests -> chunks, each named once; missing ones are copied
    driver      the entry point, last: before it there is no repository at the target

Objects never change under their name, so what is at the target in full size is not copied again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.assets.layout import (
    OVERWRITTEN,
    chunk_key,
    manifest_key,
    snapshot_key,
    transaction_key,
)
from frazil.clock import system_clock
from frazil.errors import ObjectNotFoundError, RefNotFoundError, StorageError
from frazil.flatbuf.columns import ScalarColumn
from frazil.format.manifest import decode_manifest
from frazil.format.payloads import RefKind
from frazil.format.repo_info import RepoInfo, SnapshotInfos
from frazil.format.snapshot import decode_snapshot
from frazil.format.updates import RepoInitialized, Update
from frazil.ids import ChunkId, SnapshotId
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.ingestion.jobs import parallelism
from frazil.spark.pipelines.boxes import TASKS_PER_CORE
from frazil.spark.pipelines.running import map_arrow, map_tasks
from frazil.spark.progress import Counter
from frazil.spark.workers import tame_gc

MAIN = "main"
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
                        yield from _batches([chunk_key(ChunkId(raw.tobytes())) for raw in ids])


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


def object_keys(
    spark: SparkSession, store: ObjectStore, info: RepoInfo, *, with_log: bool
) -> DataFrame:
    """All keys but the entry point's, each once."""
    ids = [str(info.snapshots.id(row)) for row in range(len(info.snapshots))]
    partitions = parallelism(spark) * TASKS_PER_CORE
    manifests = map_tasks(spark, len(ids), partitions, ListManifests(store, tuple(ids)), KEYS)
    manifests = manifests.distinct()
    chunks = map_arrow(manifests, ListChunks(store), KEYS).distinct()
    known = [snapshot_key(SnapshotId.parse(one)) for one in ids]
    known += [transaction_key(SnapshotId.parse(one)) for one in ids]
    for row in range(len(info.snapshots)):  # logs that outlived their snapshots
        known += [transaction_key(SnapshotId(raw)) for raw in info.snapshots.pruned_logs(row)]
    if with_log:
        known += [one.key for one in store.list(OVERWRITTEN)]
    listed = map_tasks(spark, len(known), partitions, _Listed(tuple(known)), KEYS)
    return listed.union(manifests).union(chunks).repartition(partitions)


def copied(keys: DataFrame, copy: CopyObjects) -> DataFrame:
    return map_arrow(keys, copy, COUNTS)


def choose_refs(info: RepoInfo, refs: Sequence[str] | None) -> RepoInfo:
    """The repository with these branches and tags alone, and the snapshots they lead to.

    All, if nothing is said. Every repository has a branch main: if it is not among them, it is
    where the first of them is. The ops log starts anew.
    """
    if refs is None:
        return info
    unknown = [name for name in refs if name not in info.branches and name not in info.tags]
    if unknown or not refs:
        raise RefNotFoundError(f"no branch or tag {', '.join(map(repr, unknown)) or 'is named'}")
    branches = {name: row for name, row in info.branches.items() if name in refs}
    tags = {name: row for name, row in info.tags.items() if name in refs}
    first = branches.get(refs[0], tags.get(refs[0], 0))
    branches = {MAIN: first, **branches}
    tips = {*branches.values(), *tags.values()}
    rows = np.array(sorted({row for tip in tips for row in info.snapshots.ancestors(tip)}))
    new_row = np.full(len(info.snapshots) + 1, -1)
    new_row[rows] = np.arange(len(rows))
    return replace(
        info,
        branches={name: int(new_row[row]) for name, row in branches.items()},
        tags={name: int(new_row[row]) for name, row in tags.items()},
        snapshots=_only(info.snapshots, rows, new_row),
        deleted_tags=(),
        updates=(Update(kind=RepoInitialized(), updated_at_us=system_clock(), backup_path=None),),
        before_updates=None,
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    keys: tuple[str, ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        return _batches([self.keys[task] for task in tasks])


def _only(
    snapshots: SnapshotInfos, rows: npt.NDArray[np.int64], new_row: npt.NDArray[np.int64]
) -> SnapshotInfos:
    table = snapshots.table.take(rows)
    parents = new_row[table.scalar("parent_offset").values]
    return SnapshotInfos(table.replace(parent_offset=ScalarColumn.of(parents, "i4")))


def _size(store: ObjectStore, key: str) -> int | None:
    try:
        return store.head(key).size_bytes
    except ObjectNotFoundError:
        return None


def _batches(keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(keys), _BATCH):
        yield pa.RecordBatch.from_arrays([pa.array(keys[start : start + _BATCH])], schema=KEYS)
