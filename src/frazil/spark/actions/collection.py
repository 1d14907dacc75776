"""Garbage collection on Spark (frazil.maintenance.gc).

driver      repo info, which snapshots stay; the repo info without those that are dropped
executors   read snapshots and manifests, list chunks, delete
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.clock import from_datetime, to_datetime
from frazil.engine.repository import Repository
from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.maintenance.inventory import DeleteLimits, GivenInventory, Listing, inventory_of
from frazil.maintenance.stats import plan_stats, storage_stats
from frazil.maintenance.summaries import GCSummary, OwnerStats, StorageStats
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.table.opened import RepositoryLike

_FILES = pa.schema([("kind", pa.string()), ("id", pa.string()), ("size_bytes", pa.int64())])
_SHOWN = 100_000  # of the files that were deleted: the driver has them in memory
_SHOWN_TOGETHER = 5_000
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageResult:
    """`summary` is that of the local action; `deleted` has a row for each file, up to 100,000.

    In a dry run, for each file that would be deleted.
    """

    summary: GCSummary
    deleted: DataFrame = field(repr=False)


def garbage_collect(
    spark: SparkSession,
    repo: RepositoryLike,
    delete_object_older_than: datetime,
    *,
    dry_run: bool = False,
    incremental: bool = False,
    inventory: GivenInventory | None = None,
    safety_age: timedelta = _DAY,
    max_concurrent_deletes: int = 10,
    backups_older_than: datetime | None = None,
    leftovers: bool = False,
    storage: StorageOptions | None = None,
) -> GarbageResult:
    """Deletes files that are reachable from no branch or tag and older than a time.

    Args:
        spark: the session whose executors read, list and delete.
        repo: the repository, or where it is.
        delete_object_older_than: younger files stay.
        dry_run: only reports what would be deleted.
        incremental: looks only at files of snapshots that are deleted, without listing chunks.
        inventory: a listing in files (CSV, Parquet) in place of asking the storage.
        safety_age: times that are less far back are refused: a session that has been open for so
            long may have written what would go. `timedelta(0)` for no such limit.
        max_concurrent_deletes: requests of one task at a time.
        backups_older_than: also deletes copies of the entry point that are older, but for those
            in which the ops log goes on.
        leftovers: also deletes what killed jobs left: staging branches, and temporary files.
        storage: how the location of a bucket is reached.
    """
    repository = open_shared(repo, storage)
    request = GCRequest(
        cutoff_us=from_datetime(delete_object_older_than),
        incremental=incremental,
        safety_age_us=safety_age // timedelta(microseconds=1),
        backups_us=None if backups_older_than is None else from_datetime(backups_older_than),
        leftovers=leftovers,
    )
    listed, shown = inventory_of(repository, inventory), Shown()
    with spark_executor(spark, repository, progress=False) as executor:
        plan = plan_gc(repository, request, executor, inventory=listed)
        if dry_run:
            summary = plan.summary()
            for listing in plan.garbage.values():
                shown.add(listing)
        else:
            limits = DeleteLimits(concurrent=max_concurrent_deletes)
            summary = collect_garbage(repository, plan, executor, limits=limits, show=shown.add)
    return GarbageResult(summary=summary, deleted=spark.createDataFrame(shown.table()))


@dataclass(slots=True)
class Shown:
    """The first files, as columns: rows would take a kilobyte each in the driver's Python."""

    parts: list[pa.Table] = field(default_factory=lambda: [_FILES.empty_table()])
    left: int = _SHOWN

    def add(self, listing: Listing) -> None:
        some = listing.take(slice(0, self.left))
        self.left -= len(some)
        for start in range(0, len(some), _SHOWN_TOGETHER):
            self.parts.append(_file_rows(some.take(slice(start, start + _SHOWN_TOGETHER))))

    def table(self) -> pa.Table:
        return pa.concat_tables(self.parts)


def _file_rows(listing: Listing) -> pa.Table:
    kinds = [listing.kind.value.rstrip("/")] * len(listing)
    columns = [kinds, format_ids(listing.ids), listing.size_bytes.astype(np.int64)]
    return pa.table(dict(zip(_FILES.names, columns, strict=True)), schema=_FILES)


# Expiration of snapshots from a Spark program: one write by the driver, and DataFrames.

_SNAPSHOTS = "snapshot string, written_at timestamp, message string"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult:
    """Ids of the snapshots; `expired` has a row for each."""

    snapshots: set[str]
    expired: DataFrame = field(repr=False)


def expire_snapshots(
    spark: SparkSession,
    repo: RepositoryLike,
    older_than: datetime | None,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    snapshot_ids: Iterable[str] | None = None,
    retain_last: int = 0,
    protect_branches: Iterable[str] = (),
    protect_tags: Iterable[str] = (),
    dry_run: bool = False,
    storage: StorageOptions | None = None,
) -> ExpireResult:
    """Expires snapshots like `Repository.expire_snapshots`, on the driver: it reads little."""
    repository = open_shared(repo, storage)
    request = ExpireRequest(
        older_than_us=None if older_than is None else from_datetime(older_than),
        delete_branches=delete_expired_branches,
        delete_tags=delete_expired_tags,
        snapshots=None if snapshot_ids is None else frozenset(map(SnapshotId.parse, snapshot_ids)),
        retain_last=retain_last,
        protected_branches=tuple(protect_branches),
        protected_tags=tuple(protect_tags),
    )
    plan = plan_expire(repository, request)
    rows = _rows(repository, plan.snapshots)
    expired = set((plan if dry_run else expire(repository, plan)).snapshots)
    return ExpireResult(
        snapshots=expired,
        expired=spark.createDataFrame([row for row in rows if row[0] in expired], _SNAPSHOTS),
    )


def _rows(repository: Repository, snapshots: list[str]) -> list[tuple[str, datetime, str]]:
    records = [repository.lookup_snapshot(SnapshotId.parse(each)) for each in snapshots]
    return [(str(each.id), to_datetime(each.flushed_at_us), each.message) for each in records]


# Storage statistics on Spark (frazil.maintenance.stats): executors read the files.

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
        spark: the session whose executors read snapshots and manifests.
        repo: the repository, or where it is.
        storage: how the location of a bucket is reached.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, progress=False) as executor:
        found = storage_stats(repository, plan_stats(repository, executor), executor)
    rows = [_row(each) for each in [*found.refs, *found.arrays]]
    return StatsResult(stats=found, owners=spark.createDataFrame(rows, _OWNERS))


def _row(owner: OwnerStats) -> tuple[object, ...]:
    total, own = owner.total, owner.exclusive
    return (
        owner.kind,
        owner.name,
        total.native_bytes,
        total.virtual_bytes,
        total.inlined_bytes,
        own.native_bytes,
        own.virtual_bytes,
        own.inlined_bytes,
    )
