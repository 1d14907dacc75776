"""Rewrites manifests by Spark's executors: see frazil.maintenance.rewrite_manifests."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.maintenance import rewrite_manifests as engine
from frazil.maintenance.rewrite_manifests import CommitMethod
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike

_SHOWN = "path string, manifest string, references long, bytes long, extents string"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsResult(engine.RewriteManifestsResult):
    """The numbers are those of the local action; `written` has a row for each new manifest."""

    written: DataFrame = field(repr=False)


def rewrite_manifests(
    spark: SparkSession,
    repo: RepositoryLike,
    message: str = "Rewrite manifests",
    *,
    branch: str = "main",
    metadata: Mapping[str, Any] | None = None,
    commit_method: CommitMethod = "new_commit",
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> RewriteManifestsResult:
    """Rewrites all manifests of the branch's tip, split as the configuration says now.

    Args:
        spark: the session whose executors read and write manifests.
        repo: the repository, or where it is.
        message: of the commit.
        branch: whose tip it is.
        metadata: of the commit; that manifests are split, and how, is added.
        commit_method: "new_commit", or "amend" for a snapshot in the place of the tip.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        ConflictError: the branch got another commit in between.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, progress) as executor:
        plan = engine.plan_rewrite_manifests(repository, branch, commit_method)
        jobs = engine.write_manifests(plan, executor)
        done = engine.commit_rewritten(repository, plan, jobs, message, metadata)
    written = spark.createDataFrame(list(_rows(jobs)), _SHOWN)
    return RewriteManifestsResult(**asdict(done), written=written)


def _rows(jobs: Iterable[engine.Rewritten]) -> Iterator[tuple[str, str, int, int, str]]:
    for job in jobs:
        for manifest in job.manifests:
            file = manifest.file
            extents = ", ".join(f"{low}:{high}" for low, high in manifest.extents)
            yield job.path.text, str(file.id), file.num_refs, file.size_bytes, extents
