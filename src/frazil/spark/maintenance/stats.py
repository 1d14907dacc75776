"""Bytes counted by executors: the same numbers as locally.

driver      which manifests refs lead to, and which refs
executors   read manifests; keys and sizes of the pieces they lead to come back, each once a task
driver      puts them together
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.format.projections import ManifestFiles
from frazil.maintenance.reachable import Budget
from frazil.maintenance.stats import (
    KINDS,
    Counting,
    Owner,
    plan_stats,
    read_storage_refs,
    summed,
)
from frazil.maintenance.summaries import StorageStats
from frazil.maintenance.tally import Codes, OwnerSets
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.runtime.commits import CommitNote
from frazil.spark.runtime.jobs import (
    TASKS_PER_CORE,
    cancelled_on_interrupt,
    collect,
    map_tasks,
    parallelism,
)
from frazil.spark.table.opened import RepositoryLike

COUNTED = pa.schema([("counted", pa.binary())])  # pickled: only the driver reads it
_OWNERS = (
    "kind string, name string, native_bytes long, virtual_bytes long, inlined_bytes long,"
    " exclusive_native_bytes long, exclusive_virtual_bytes long, exclusive_inlined_bytes long"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsResult:
    """`stats` is that of the local action; `owners` has a row for each ref and each array."""

    stats: StorageStats
    owners: DataFrame = field(repr=False)


def stats(
    spark: SparkSession, repo: RepositoryLike, *, storage: StorageOptions | None = None
) -> StatsResult:
    """Bytes by kind, and of each branch, tag and array: what it has, and has alone.

    Args:
        spark: the session whose executors read manifests.
        repo: the repository, or where it is.
        storage: how the location of a bucket is reached.
    """
    repository = open_shared(repo, storage)
    owned = plan_stats(repository)
    counting = Counting(owned.sets)
    note = CommitNote(operation="stats", application="spark")
    count = CountManifests(
        ExecutorFiles.of(repository), owned.manifests, owned.refs, tuple(owned.sets.sets)
    )
    if len(owned.manifests):
        with cancelled_on_interrupt(spark, note.job):
            partitions = parallelism(spark) * TASKS_PER_CORE
            table = collect(map_tasks(spark, len(owned.manifests), partitions, count, COUNTED))
        for row in table.to_pylist():
            part = pickle.loads(row["counted"])  # noqa: S301 -- written by our executors
            counting.references += part.pop("references")
            counting.merge(**part)
    found = summed(repository, owned, counting)
    rows = [_row(each) for each in [*found.refs, *found.arrays]]
    return StatsResult(stats=StorageStats.of(found), owners=spark.createDataFrame(rows, _OWNERS))


@dataclass(frozen=True, slots=True, eq=False)
class CountManifests:
    files: ExecutorFiles
    manifests: ManifestFiles
    refs: Codes
    sets: tuple[frozenset[int], ...]

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        counting = Counting(OwnerSets(self.sets))
        rows = slice(tasks.start, tasks.stop)
        refs = np.asarray(self.refs[rows])
        for some, found in read_storage_refs(
            self.files.open(), self.manifests.take(rows), Budget(), None
        ):
            counting.add(found, refs[some])
        counted = {
            "pieces": [(kind, counting.tally(kind).done()) for kind in KINDS],
            "ref_sets": counting.refs.sets,
            "array_sets": counting.arrays.sets,
            "nodes": sorted(counting.nodes, key=counting.nodes.__getitem__),
            "references": counting.references,
        }
        yield pa.RecordBatch.from_pylist([{"counted": pickle.dumps(counted)}], schema=COUNTED)


def _row(owner: Owner) -> tuple[object, ...]:
    total, own = owner.total, owner.exclusive
    return (
        owner.kind,
        owner.name,
        total.native,
        total.virtual,
        total.inline,
        own.native,
        own.virtual,
        own.inline,
    )
