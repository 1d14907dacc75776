"""A path, or messages of commits, taken out of all history by executors: as locally.

executors   read snapshots, transaction logs, manifests, backups
driver      plan: what must go, and what still refers to it (frazil.maintenance)
executors   overwrite snapshots and logs, blank and delete chunks
driver      one commit on each branch that had the path, and its entry point
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.executor import REPLACEMENT
from frazil.maintenance.purge.purge_message import MessagePurgePlan, plan_purge_messages
from frazil.maintenance.purge.purge_message import purge_messages as execute_messages
from frazil.maintenance.purge.purge_path import PathPurgePlan, plan_purge_path
from frazil.maintenance.purge.purge_path import purge_path as execute_path
from frazil.maintenance.summaries import PurgeSummary
from frazil.paths import NodePath
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike

_FILES = "kind string, name string, action string"
_REMAINING = "kind string, place string, text string"
_SHOWN = 100_000  # files: the driver has them in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult:
    """The numbers are those of the local action.

    `files` has a row for each file that is overwritten or deleted, up to 100,000; `remaining` for
    what still refers to what was purged. `commits` are those on top of branches, none after a dry
    run.
    """

    snapshots: int
    transaction_logs: int
    manifests: int
    chunks: int
    chunk_bytes: int
    backups: int
    nodes: tuple[str, ...]
    commits: dict[str, str]
    files: DataFrame = field(repr=False)
    remaining: DataFrame = field(repr=False)


def purge_path(
    spark: SparkSession,
    repo: RepositoryLike,
    path: str,
    *,
    message: str = "Purge",
    dry_run: bool = False,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> PurgeResult:
    """Takes a node, and all below it, out of every snapshot there is. It cannot be undone.

    Args:
        spark: the session whose executors read and write.
        repo: the repository, or where it is.
        path: the node.
        message: of the commits on top of branches whose tips had the path.
        dry_run: only tells what would be done.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        ConflictError: others go on committing it.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, progress) as executor:
        plan = plan_purge_path(repository, NodePath(path), executor)
        done = plan.summary() if dry_run else execute_path(repository, plan, message, executor)
    return _result(spark, done, _files_of_path(plan))


def purge_messages(
    spark: SparkSession,
    repo: RepositoryLike,
    snapshot_ids: Sequence[str],
    *,
    replacement: str = REPLACEMENT,
    with_metadata: bool = False,
    dry_run: bool = False,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> PurgeResult:
    """Replaces the messages of commits in all files that have them. It cannot be undone.

    Args:
        spark: the session whose executors read snapshots, and write backups.
        repo: the repository, or where it is.
        snapshot_ids: the commits.
        replacement: what the message is from then on.
        with_metadata: their metadata goes as well, but for what Icechunk and frazil note.
        dry_run: only tells what would be done.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        SnapshotNotFoundError: there is no such commit.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, progress) as executor:
        plan = plan_purge_messages(
            repository,
            [SnapshotId.parse(each) for each in snapshot_ids],
            replacement=replacement,
            with_metadata=with_metadata,
            executor=executor,
        )
        done = plan.summary() if dry_run else execute_messages(repository, plan, executor)
    return _result(spark, done, _files_of_messages(plan))


def _result(
    spark: SparkSession, done: PurgeSummary, files: list[tuple[str, str, str]]
) -> PurgeResult:
    remaining = [(each.kind, each.place, each.text) for each in done.remaining]
    return PurgeResult(
        snapshots=len(done.snapshots),
        transaction_logs=done.transaction_logs,
        manifests=done.manifests,
        chunks=done.chunks,
        chunk_bytes=done.chunk_bytes,
        backups=done.backups,
        nodes=tuple(done.nodes),
        commits=done.commits,
        files=spark.createDataFrame(files, _FILES),
        remaining=spark.createDataFrame(remaining, _REMAINING),
    )


def _files_of_path(plan: PathPurgePlan) -> list[tuple[str, str, str]]:
    changed = "overwritten"
    rows = [("snapshots", str(each), changed) for each in plan.snapshots]
    rows += [("transactions", str(each), changed) for each in plan.logs]
    rows += [("manifests", str(each), "replaced") for each in plan.shared_manifests]
    rows += [("manifests", name, "deleted") for name in format_ids(plan.manifests)]
    rows += [("chunks", name, "deleted") for name in format_ids(plan.chunks[:_SHOWN])]
    blanked = dict.fromkeys(format_ids(plan.blanked.chunk_id[:_SHOWN]))
    return [*rows, *(("chunks", name, "blanked") for name in blanked)][:_SHOWN]


def _files_of_messages(plan: MessagePurgePlan) -> list[tuple[str, str, str]]:
    rows = [("snapshots", str(each), "overwritten") for each in plan.snapshots]
    return rows + [("backups", key, "overwritten") for key in plan.backups[:_SHOWN]]
