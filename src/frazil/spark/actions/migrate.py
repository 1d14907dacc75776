"""Migration of a repository to a newer version of the format, by Spark's executors.

See frazil.maintenance.migrate. Snapshots, logs and the entry point are written on the driver,
manifests are rewritten and objects copied by executors.
"""

from dataclasses import dataclass, field
from os import PathLike
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from frazil.maintenance.migrate import migration as engine
from frazil.spark.io.opening import StorageOptions, open_shared, open_target
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateResult:
    """The numbers are those of `Repository.migrate`; `snapshot_ids` has a row for each snapshot."""

    generation: str
    spec_version: int
    in_place: bool
    snapshots: int
    manifests: int
    copied: int
    bytes: int
    seconds: float
    snapshot_ids: DataFrame = field(repr=False)


def migrate(
    spark: SparkSession,
    repo: RepositoryLike,
    target: str | PathLike[str] | None = None,
    *,
    to: int = 2,
    storage: StorageOptions | None = None,
    target_storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> MigrateResult:
    """Brings a repository of any older generation to version 2 of the format, or to version 1.

    Args:
        spark: the session whose executors copy and write.
        repo: the repository, or where it is.
        target: another place for the new repository. In place, the old files are kept until
            `Repository.confirm_migration`.
        to: version of the format.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage`.
        target_storage: the same of the bucket that `target` names.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        InvalidInputError: it is of that version already, or cannot be migrated in place.
        ConflictError: the target has another repository.
    """
    started = perf_counter()
    repository = open_shared(repo, storage)
    store = None if target is None else open_target(target, target_storage)
    with spark_executor(spark, repository, progress) as executor:
        plan = engine.plan_migration(repository, executor, to=to, target=store)
        done = engine.migrate(plan, executor)
    ids = list(done.snapshot_ids.items())
    return MigrateResult(
        generation=done.generation,
        spec_version=done.spec_version,
        in_place=done.in_place,
        snapshots=done.snapshots,
        manifests=done.manifests,
        copied=done.copied,
        bytes=done.bytes,
        seconds=perf_counter() - started,
        snapshot_ids=spark.createDataFrame(ids, "old string, new string"),
    )
