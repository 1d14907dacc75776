"""Chunks taken out of packs by executors, each into an object of its own.

driver      plan: which chunks are in packs, and names for the new objects (frazil.maintenance)
executors   read packs, write chunks; then write manifests that refer to them
driver      one commit, on top of whatever others committed meanwhile
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.ids import format_ids
from frazil.maintenance.chunk_parts import Ids, Parts, random_ids
from frazil.maintenance.relocate import NewManifests
from frazil.maintenance.unpack import alone, commit_unpacked, plan_unpack, write_chunks
from frazil.maintenance.waves import waves
from frazil.paths import ROOT, NodePath
from frazil.repo.repository import Repository
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.maintenance.moved_manifests import write_moved
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

CHUNKS = pa.schema([("chunks", pa.int64())])
BYTES_AT_ONCE = 32 << 20  # of chunks, in the memory of a task
_OBJECTS = "pack string, object string, bytes long"
_SHOWN = 100_000  # rows: the driver has them in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """The numbers are those of the local action; `written` has a row for each new object.

    Up to 100,000 of them. `snapshot` is None if there was nothing to do.
    """

    snapshot: str | None
    chunks: int
    packs: int
    bytes: int
    references: int
    manifests: int
    written: DataFrame = field(repr=False)


def unpack(
    spark: SparkSession,
    repo: RepositoryLike,
    message: str | None = None,
    *,
    branch: str = "main",
    paths: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> UnpackResult:
    """Gives every chunk of the branch's tip that is in a pack an object of its own, by one commit.

    Args:
        spark: the session whose executors read packs and write chunks.
        repo: the repository, or where it is.
        message: of the commit; by default it tells how many chunks were unpacked.
        branch: whose tip it is.
        paths: arrays, or groups above them; by default all.
        metadata: of the commit.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is nothing at or below one of the paths.
    """
    repository = open_shared(repo, storage)
    plan = plan_unpack(repository, branch, tuple(map(NodePath, paths)) or (ROOT,))
    names = random_ids(len(plan.chunks))
    written: NewManifests = {}
    note = CommitNote(operation="unpack", application="spark")
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, note.job):
        counter = create_counter(spark)
        if len(plan.chunks):
            with watch_progress(counter, "Unpacking chunks", plan.bytes, tell):
                _write_chunks(spark, repository, plan.chunks, names, counter)
                written = write_moved(spark, repository, plan.manifests, alone(plan, names))
    done = commit_unpacked(repository, plan, names, message, metadata, written=written)
    return UnpackResult(
        snapshot=None if done.snapshot is None else str(done.snapshot),
        chunks=done.chunks,
        packs=done.packs,
        bytes=done.bytes,
        references=done.references,
        manifests=done.manifests,
        written=spark.createDataFrame(_shown(plan.chunks, names), _OBJECTS),
    )


@dataclass(frozen=True, slots=True, eq=False)
class WriteChunks:
    """A task is a wave of chunks; names were drawn before, so that it may run twice."""

    files: ExecutorFiles
    chunks: Parts
    names: Ids
    waves: tuple[slice, ...]
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files, count = self.files.open(), 0
        for rows in self.waves[tasks.start : tasks.stop]:
            some = self.chunks.take(rows)
            write_chunks(files, some, self.names[rows])
            self.counter.add(some.bytes)
            count += len(some)
        files.store.sync()
        yield pa.RecordBatch.from_pylist([{"chunks": count}], schema=CHUNKS)


def _write_chunks(
    spark: SparkSession, repository: Repository, chunks: Parts, names: Ids, counter: Counter
) -> None:
    partitions = parallelism(spark) * TASKS_PER_CORE
    most = min(BYTES_AT_ONCE, -(-chunks.bytes // partitions))  # something to do for everybody
    cut = tuple(waves(chunks.length, most))
    write = WriteChunks(ExecutorFiles.of(repository), chunks, names, cut, counter)
    collect(map_tasks(spark, len(cut), partitions, write, CHUNKS))


def _shown(chunks: Parts, names: Ids) -> list[tuple[str, str, int]]:
    some = chunks.take(slice(0, _SHOWN))
    packs, objects = format_ids(some.chunk_id), format_ids(names[:_SHOWN])
    return list(zip(packs, objects, some.length.tolist(), strict=True))
