"""Expiration of snapshots from a Spark program: one write by the driver, and DataFrames."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.clock import from_datetime, to_datetime
from frazil.ids import SnapshotId
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.repo.repository import Repository
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.table.opened import RepositoryLike

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
