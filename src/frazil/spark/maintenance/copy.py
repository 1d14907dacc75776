"""Objects copied and manifests written by executors, for copies that the driver has planned.

driver      plan (frazil.maintenance.copying): which objects are missing, which manifests are to do
executors   copy some, write some; counts, names and extents come back
driver      snapshots and logs, the entry point last
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.format.snapshot import ManifestFile
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.copying.clone import (
    ClonePlan,
    CloneResult,
    publish,
    require_arrived,
    result_of,
    take_up,
)
from frazil.maintenance.copying.derived import DerivedPlan, target_files, write_history
from frazil.maintenance.copying.rewriting import NewManifest, Rules, Survey, rewrite_manifest
from frazil.maintenance.copying.transfer import Transferred, copy_object, refresh_listed
from frazil.maintenance.inventory import Listing, keys_of
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.entries import files_of
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.runtime.jobs import TASKS_PER_CORE, collect, map_tasks, parallelism
from frazil.spark.runtime.progress import Counter

COPIED = pa.schema([("objects", pa.int64()), ("bytes", pa.int64())])
WRITTEN = pa.schema(
    [
        ("old", pa.binary()),
        ("new", pa.binary()),
        ("bytes", pa.int64()),
        ("references", pa.int64()),
        ("nodes", pa.binary()),
        ("extents", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class CopyListed:
    """Copies rows of a listing, by number."""

    source: ObjectStore
    target: ObjectStore
    listing: Listing
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        rows = self.listing.take(slice(tasks.start, tasks.stop))
        sizes = rows.size_bytes.tolist()
        for key, size in zip(keys_of(rows.kind, rows.ids), sizes, strict=True):
            copy_object(self.source, self.target, key, size)
        self.target.sync()
        self.counter.add(sum(sizes))
        counts = {"objects": len(sizes), "bytes": sum(sizes)}
        yield pa.RecordBatch.from_pylist([counts], schema=COPIED)


@dataclass(frozen=True, slots=True)
class RewriteListed:
    """Writes manifests anew, by number."""

    source: ExecutorFiles
    target: ExecutorFiles
    manifests: tuple[ManifestId, ...]
    survey: Survey
    rules: Rules

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        source = files_of(self.source.store, self.source.settings)
        ndims = {node: len(grid) for node, grid in self.survey.grids.items()}
        target = self.target.open()
        rows = []
        for task in tasks:
            old = self.manifests[task]
            source.note_ndims(old, ndims)
            rows.append(
                _encode(old, rewrite_manifest(source, target, old, self.survey, self.rules))
            )
        target.store.sync()
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN)


def transfer_on_spark(
    spark: SparkSession,
    source: ObjectStore,
    target: ObjectStore,
    listings: Sequence[Listing],
    counter: Counter,
) -> Transferred:
    """In this order, as `frazil.maintenance.copying.transfer` does."""
    done = Transferred()
    for listing in listings:
        if not len(listing):
            continue
        copy = CopyListed(source, target, listing, counter)
        table = collect(map_tasks(spark, len(listing), _partitions(spark), copy, COPIED))
        for row in table.to_pylist():
            done += Transferred(row["objects"], row["bytes"])
    return done


def clone_on_spark(spark: SparkSession, plan: ClonePlan, counter: Counter) -> CloneResult:
    """As `frazil.maintenance.copying.clone.clone`, with the same numbers."""
    source = plan.repository.store
    done = transfer_on_spark(spark, source, plan.target, plan.missing, counter)
    for one in plan.others:
        done += Transferred(1, copy_object(source, plan.target, one.key, one.size_bytes))
    take_up(plan)
    require_arrived(plan)
    return result_of(plan, done, updated=publish(plan))


def rewrite_on_spark(spark: SparkSession, plan: DerivedPlan, counter: Counter) -> Transferred:
    """All of a derived copy but its entry point."""
    source = plan.repository.store
    done = transfer_on_spark(spark, source, plan.target, [plan.chunks], counter)
    refresh_listed(plan.target, [plan.reused], pool=plan.repository.files.pool)
    made = _manifests_on_spark(spark, plan)
    write_history(plan.repository.files, target_files(plan), plan, made)
    plan.target.sync()
    return done


def _manifests_on_spark(spark: SparkSession, plan: DerivedPlan) -> dict[ManifestId, NewManifest]:
    manifests = tuple(plan.survey.manifests)
    if not manifests:
        return {}
    target = ExecutorFiles(plan.target, target_files(plan).settings)
    rewrite = RewriteListed(
        ExecutorFiles.of(plan.repository), target, manifests, plan.survey, plan.rules
    )
    table = collect(map_tasks(spark, len(manifests), _partitions(spark), rewrite, WRITTEN))
    return dict(map(_decode, table.to_pylist()))


def _partitions(spark: SparkSession) -> int:
    return parallelism(spark) * TASKS_PER_CORE


def _encode(old: ManifestId, new: NewManifest) -> dict[str, Any]:
    """Extents of all nodes one after the other, each with its number of axes before it."""
    numbers: list[int] = []
    for extents in new.extents.values():
        numbers += [len(extents), *(bound for pair in extents for bound in pair)]
    file = new.file
    return {
        "old": old.raw,
        "new": None if file is None else file.id.raw,
        "bytes": 0 if file is None else file.size_bytes,
        "references": 0 if file is None else file.num_refs,
        "nodes": b"".join(node.raw for node in new.extents),
        "extents": np.array(numbers, dtype="<u4").tobytes(),
    }


def _decode(row: dict[str, Any]) -> tuple[ManifestId, NewManifest]:
    numbers = iter(np.frombuffer(row["extents"], dtype="<u4").tolist())
    nodes: Iterable[bytes] = (
        row["nodes"][at : at + NodeId.size] for at in range(0, len(row["nodes"]), NodeId.size)
    )
    extents = {
        NodeId(raw): tuple((next(numbers), next(numbers)) for _ in range(next(numbers)))
        for raw in nodes
    }
    file = None
    if row["new"] is not None:
        file = ManifestFile(ManifestId(row["new"]), row["bytes"], row["references"])
    return ManifestId(row["old"]), NewManifest(file, extents)
