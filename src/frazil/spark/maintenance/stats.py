"""Storage statistics on Spark (frazil.maintenance.stats): executors read the files."""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from frazil.maintenance.stats import plan_stats, storage_stats
from frazil.maintenance.summaries import OwnerStats, StorageStats
from frazil.spark.maintenance.executor import spark_executor
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.table.opened import RepositoryLike

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
    with spark_executor(spark, repository, "stats", progress=False) as executor:
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
