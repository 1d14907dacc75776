"""A repository in a newer version of the format, with executors for what is much.

driver      plan, as `Repository.migrate` makes it; snapshots, logs and the entry point
executors   manifests written anew, chunks and other objects copied
"""

from dataclasses import dataclass, field
from os import PathLike
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from frazil.maintenance.copying.clone import ClonePlan
from frazil.maintenance.copying.derived import DerivedPlan, publish_derived
from frazil.maintenance.migrate.check import require_same
from frazil.maintenance.migrate.migration import (
    MigrationPlan,
    keep_journal,
    plan_migration,
)
from frazil.maintenance.migrate.upgrade import UpgradePlan, upgrade
from frazil.spark.maintenance.copy import clone_on_spark, rewrite_on_spark
from frazil.spark.pipelines.opening import StorageOptions, open_shared, open_target
from frazil.spark.runtime.commits import CommitNote
from frazil.spark.runtime.jobs import cancelled_on_interrupt
from frazil.spark.runtime.progress import (
    Counter,
    ProgressOption,
    create_counter,
    progress_callback,
    watch_progress,
)
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
    plan = plan_migration(repository, to=to, target=store)
    note = CommitNote(operation="migrate", application="spark")
    counter = create_counter(spark)
    with (
        progress_callback(progress) as tell,
        cancelled_on_interrupt(spark, note.job),
        watch_progress(counter, "Migrating", plan.bytes, tell),
    ):
        _execute(spark, plan, counter)
    ids = list(plan.snapshot_ids().items())
    return MigrateResult(
        generation=str(plan.generation),
        spec_version=plan.to,
        in_place=plan.in_place,
        snapshots=plan.snapshots,
        manifests=plan.manifests,
        copied=plan.copied,
        bytes=plan.bytes,
        seconds=perf_counter() - started,
        snapshot_ids=spark.createDataFrame(ids, "old string, new string"),
    )


def _execute(spark: SparkSession, plan: MigrationPlan, counter: Counter) -> None:
    match plan.steps:
        case UpgradePlan() as steps:
            upgrade(steps)
        case ClonePlan() as steps:
            clone_on_spark(spark, steps, counter)
        case DerivedPlan() as steps:
            keep_journal(plan)
            rewrite_on_spark(spark, steps, counter)
            require_same(steps)
            publish_derived(steps)
