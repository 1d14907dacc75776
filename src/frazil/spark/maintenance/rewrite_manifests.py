"""All manifests of a branch's tip, written anew by executors.

driver      plan: which old manifests make which new ones (frazil.maintenance)
executors   read some, write some; names, sizes and extents come back, never references
driver      one commit
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.format.chunk_index import ChunkSet
from frazil.format.snapshot import ManifestFile
from frazil.ids import ManifestId
from frazil.maintenance import rewrite_manifests as local
from frazil.maintenance.manifest_cells import RewriteJob
from frazil.maintenance.rewrite_manifests import (
    CommitMethod,
    Rewritten,
    commit_rewritten,
    plan_rewrite_manifests,
    write_jobs,
)
from frazil.maintenance.waves import waves
from frazil.paths import NodePath
from frazil.repo.attached_manifests import AttachedManifest
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
from frazil.spark.runtime.progress import (
    Counter,
    ProgressOption,
    create_counter,
    progress_callback,
    watch_progress,
)
from frazil.spark.table.opened import RepositoryLike

WRITTEN = pa.schema(
    [
        ("path", pa.string()),
        ("first", pa.int64()),
        ("manifest", pa.binary()),
        ("bytes", pa.int64()),
        ("references", pa.int64()),
        ("extents", pa.binary()),
    ]
)
_SHOWN = "path string, manifest string, references long, bytes long, extents string"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsResult:
    """The numbers are those of the local action; `written` has a row for each new manifest."""

    snapshot: str
    arrays: int
    manifests_before: int
    manifests: int
    references: int
    bytes: int
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
    """Writes all manifests of the branch's tip anew, cut as the configuration says now.

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
        ConflictError: the branch got another commit meanwhile.
    """
    repository = open_shared(repo, storage)
    plan = plan_rewrite_manifests(repository, branch, commit_method)
    note = CommitNote(operation="rewrite_manifests", application="spark")
    counter = create_counter(spark)
    rows: list[dict[str, Any]] = []
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        if plan.jobs:
            with watch_progress(counter, "Rewriting manifests", plan.bytes, tell):
                write = WriteManifests(ExecutorFiles.of(repository), plan.jobs, counter)
                partitions = parallelism(spark) * TASKS_PER_CORE
                rows = collect(
                    map_tasks(spark, len(plan.jobs), partitions, write, WRITTEN)
                ).to_pylist()
    done = commit_rewritten(repository, plan, map(_decode, rows), message, metadata)
    return RewriteManifestsResult(
        snapshot=str(done.snapshot),
        arrays=done.arrays,
        manifests_before=done.manifests_before,
        manifests=done.manifests,
        references=done.references,
        bytes=done.bytes,
        written=spark.createDataFrame([_shown(row) for row in rows], _SHOWN),
    )


@dataclass(frozen=True, slots=True)
class WriteManifests:
    files: ExecutorFiles
    jobs: tuple[RewriteJob, ...]
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files = self.files.open()
        rows: list[dict[str, Any]] = []
        jobs = self.jobs[tasks.start : tasks.stop]
        for wave in waves([job.refs for job in jobs], local.REFS_AT_ONCE):
            for done in write_jobs(files, jobs[wave]):
                rows += [_encode(done, each) for each in done.manifests]
        files.store.sync()
        self.counter.add(sum(row["bytes"] for row in rows))
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN)


def _encode(done: Rewritten, manifest: AttachedManifest) -> dict[str, Any]:
    return {
        "path": done.path.text,
        "first": done.first,
        "manifest": manifest.file.id.raw,
        "bytes": manifest.file.size_bytes,
        "references": manifest.file.num_refs,
        "extents": np.array(manifest.extents, dtype="<u4").tobytes(),
    }


def _decode(row: Mapping[str, Any]) -> Rewritten:
    extents = np.frombuffer(row["extents"], dtype="<u4").reshape(-1, 2).tolist()
    nothing = ChunkSet.of(np.zeros((0, len(extents)), dtype=np.uint32))
    file = ManifestFile(ManifestId(row["manifest"]), row["bytes"], row["references"])
    attached = AttachedManifest(file, tuple((low, high) for low, high in extents), nothing)
    return Rewritten(NodePath(row["path"]), row["first"], (attached,))


def _shown(row: Mapping[str, Any]) -> tuple[str, str, int, int, str]:
    (manifest,) = _decode(row).manifests
    extents = ", ".join(f"{low}:{high}" for low, high in manifest.extents)
    return row["path"], str(manifest.file.id), row["references"], row["bytes"], extents
