"""The executor protocol (frazil.maintenance.executor) on Spark, and its jobs in this process.

A job of an ingest or an export also maps tasks to rows of Arrow tables and gathers these. Both
executors do that, with the same plans and the same tasks: LocalExecutor is for work that is done
before a JVM would have started.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Protocol, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from frazil.engine.files.files import Files
from frazil.engine.files.settings import Settings
from frazil.engine.files.virtual_access import VirtualAccess
from frazil.engine.refs.entries import files_of
from frazil.engine.repository import Repository
from frazil.maintenance.executor import (
    HERE,
    SHARES,
    Block,
    Scattered,
    Sizes,
    Task,
    disable_caches,
)
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.runtime.jobs import (
    TASKS_PER_CORE,
    cancelled_on_interrupt,
    collect,
    collect_rows,
    map_arrow,
    map_tasks,
    parallelism,
)
from frazil.spark.runtime.progress import (
    Counter,
    JobProgress,
    ProgressCallback,
    ProgressOption,
    create_counter,
    progress_callback,
    watch_progress,
)
from frazil.spark.runtime.workers import carrying_errors, limit_gc

# The files of a repository on an executor.


@dataclass(frozen=True, slots=True)
class ExecutorFiles:
    """Opens the files on an executor; picklable. Virtual chunks cannot be read with it."""

    store: ObjectStore
    settings: Settings

    @classmethod
    def of(cls, repository: Repository) -> "ExecutorFiles":
        # Credentials for virtual chunks stay on the driver.
        settings = replace(repository.files.settings, virtual=VirtualAccess())
        return cls(repository.raw_store, settings)

    def open(self) -> Files:
        return disable_caches(files_of(self.store, self.settings))


# The result for one range of rows. Pickled: only the driver reads it.
RESULTS = pa.schema([("first", pa.int64()), ("result", pa.binary())])
BLOCKS = pa.schema([("share", pa.int64()), ("block", pa.binary())])


type MapRange = Callable[[range], Iterable[pa.RecordBatch]]
type MapRows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class FilesOpener(Protocol):
    """Opens the files of a repository on an executor; picklable."""

    def open(self) -> Files: ...


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on Spark's executors; their results are collected on the driver.

    Progress counts rows, or bytes where the sizes of rows are given. Blocks that tasks scatter are
    on the disks of executors until `cleanup` is closed.
    """

    spark: SparkSession
    files: FilesOpener
    tell: ProgressCallback
    cleanup: ExitStack = field(default_factory=ExitStack)

    @property
    def is_remote(self) -> bool:
        return True

    def run[T](
        self,
        task: Task[T],
        count: int,
        doing: str,
        *,
        spans: Sequence[range] | None = None,
        prefetch: bool = False,
        sizes: Sizes | None = None,
        partitions: int | None = None,
    ) -> Iterator[T]:
        del spans, prefetch  # Spark divides the rows, and runs all of them before the first result
        if not count:
            return
        amounts = Amounts(count, count if sizes is None else sizes)
        with self.counter(doing, amounts.total) as counter:
            run = _RunTask(self.files, task, counter, amounts)
            parts = partitions or parallelism(self.spark) * TASKS_PER_CORE
            results = unpickle_results(collect(map_tasks(self.spark, count, parts, run, RESULTS)))
        yield from results

    def scatter(
        self,
        task: Task[Iterable[Block]],
        count: int,
        doing: str,
        *,
        sizes: Sizes | None = None,
    ) -> "ScatteredFrame":
        amounts = Amounts(count, count if sizes is None else sizes)
        with self.counter(doing, amounts.total) as counter:
            run = _ScatterTask(self.files, task, counter, amounts)
            parts = parallelism(self.spark) * TASKS_PER_CORE
            frame = map_tasks(self.spark, count, parts, run, BLOCKS)
            frame = frame.persist(StorageLevel.DISK_ONLY)
            self.cleanup.callback(frame.unpersist)
            table = collect(frame.where(f"share = {HERE}"))
        return ScatteredFrame(frame, tuple(map(_load_scalar, table.column("block"))))

    def gather[T](
        self,
        scattered: Sequence[Scattered],
        task: Callable[[Files, Iterator[Sequence[Any]]], Iterable[T]],
        doing: str,
        *,
        many: bool = False,
    ) -> Iterator[T]:
        frames = [cast("ScatteredFrame", each).frame for each in scattered]
        rows = reduce(lambda one, other: one.union(other), frames).where(f"share <> {HERE}")
        parts = min(SHARES, parallelism(self.spark) * TASKS_PER_CORE)
        ordered = rows.repartition(parts, "share").sortWithinPartitions("share")
        with self.counter(doing, SHARES) as counter:
            run = _GatherTask(self.files, task, counter)
            results = map_arrow(ordered, run, RESULTS)
            if many:
                yield from (_loads(row["result"]) for row in collect_rows(results))
            else:
                yield from unpickle_results(collect(results))

    @property
    def parallelism(self) -> int:
        """Tasks that run at once."""
        return parallelism(self.spark)

    def map_rows(
        self, count: int, partitions: int, function: MapRange, schema: pa.Schema
    ) -> DataFrame:
        """The rows that `function` makes of ranges of the tasks 0 to `count`."""
        return map_tasks(self.spark, count, partitions, function, schema)

    def gather_rows(
        self, rows: DataFrame, more: pa.Table, by: Sequence[str], function: MapRows,
        schema: pa.Schema, *, groups: int,
    ) -> DataFrame:  # fmt: skip
        """The rows that `function` makes of those with the same values of `by`, which are ordered.

        `more` are rows of this process; there are at most so many `groups`.
        """
        if more.num_rows:
            rows = rows.union(self.spark.createDataFrame(more))
        parts = max(1, min(groups, 4 * self.parallelism))
        ordered = rows.repartition(parts, *by).sortWithinPartitions(*by)
        return map_arrow(ordered, function, schema)

    def collect(self, rows: DataFrame) -> pa.Table:
        return collect(rows)

    @contextmanager
    def counter(self, doing: str, total: int) -> Iterator[Counter]:
        """A counter for tasks; while inside, what they count is reported as progress."""
        counter = create_counter(self.spark)
        with watch_progress(counter, _capitalize(doing), total, self.tell):
            yield counter

    def report(self, doing: str, done: int, total: int) -> None:
        self.tell(JobProgress(_capitalize(doing), done, total))


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs the tasks of a job in this process, one after the other, on the calling thread.

    Not on several: libraries that read sources (eccodes, HDF5) are not all safe for threads.
    """

    files: FilesOpener
    tell: ProgressCallback
    parallelism: int = 1

    @property
    def is_remote(self) -> bool:
        return False

    def run[T](
        self,
        task: Task[T],
        count: int,
        doing: str,
        *,
        spans: Sequence[range] | None = None,
        prefetch: bool = False,
        sizes: Sizes | None = None,
        partitions: int | None = None,
    ) -> Iterator[T]:
        del prefetch  # one result is in memory
        amounts = Amounts(count, count if sizes is None else sizes)
        files = self.files.open()
        with self.counter(doing, amounts.total if count else 0) as counter:
            for rows in spans or divide_rows(count, partitions or count):
                yield task(files, rows)
                counter.add(amounts.of(rows))

    def map_rows(
        self, count: int, partitions: int, function: MapRange, schema: pa.Schema
    ) -> pa.Table:
        batches = (batch for rows in divide_rows(count, partitions) for batch in function(rows))
        return pa.Table.from_batches(batches, schema)

    def gather_rows(
        self, rows: pa.Table, more: pa.Table, by: Sequence[str], function: MapRows,
        schema: pa.Schema, *, groups: int,
    ) -> pa.Table:  # fmt: skip
        del groups
        ordered = pa.concat_tables([rows, more]).sort_by([(name, "ascending") for name in by])
        return pa.Table.from_batches(function(iter(ordered.to_batches())), schema)

    def collect(self, rows: pa.Table) -> pa.Table:
        return rows

    @contextmanager
    def counter(self, doing: str, total: int) -> Iterator[Counter]:
        counter = LocalCounter(_capitalize(doing), total, self.tell)
        counter.add(0)
        yield counter
        self.tell(JobProgress(counter.doing, total or counter.done, total))

    def report(self, doing: str, done: int, total: int) -> None:
        self.tell(JobProgress(_capitalize(doing), done, total))


type JobExecutor = SparkExecutor | LocalExecutor


def divide_rows(count: int, partitions: int) -> list[range]:
    """The rows 0 to `count` in so many ranges, none of them empty, as Spark's tasks have them."""
    parts = max(1, min(count, partitions))
    edges = [count * k // parts for k in range(parts + 1)]
    return [range(start, stop) for start, stop in pairwise(edges) if start < stop]


@dataclass(slots=True)
class LocalCounter:
    """Reports what tasks of this process count, as they do."""

    doing: str
    total: int
    tell: ProgressCallback
    done: int = 0

    def add(self, amount: int) -> None:
        self.done += amount
        done = min(self.done, self.total or self.done)
        self.tell(JobProgress(self.doing, done, self.total))


@contextmanager
def job_executor(
    spark: SparkSession | None,
    repository: Repository,
    progress: ProgressOption = None,
    *,
    job: str | None = None,
) -> Iterator[JobExecutor]:
    """Spark's executors, or this process if there is no session."""
    if spark is not None:
        with spark_executor(spark, repository, progress, job=job) as executor:
            yield executor
        return
    with progress_callback(progress) as tell:
        yield LocalExecutor(ExecutorFiles.of(repository), tell)


@contextmanager
def spark_executor(
    spark: SparkSession,
    repository: Repository | FilesOpener,
    progress: ProgressOption = None,
    *,
    job: str | None = None,
) -> Iterator[SparkExecutor]:
    """A SparkExecutor with progress reports, whose jobs end when the user presses control-C.

    `job` tags them in Spark: the id that is in the note of the commit, if there will be one.
    """
    files = ExecutorFiles.of(repository) if isinstance(repository, Repository) else repository
    with progress_callback(progress) as tell, cancelled_on_interrupt(spark, job or uuid4().hex):
        executor = SparkExecutor(spark, files, tell)
        with executor.cleanup:
            yield executor


@dataclass(frozen=True, slots=True)
class Amounts:
    """Progress that ranges of rows count as."""

    count: int
    sizes: Sizes  # of each row, or of all of them

    @property
    def total(self) -> int:
        return int(np.sum(self.sizes))

    def of(self, rows: range) -> int:
        if isinstance(self.sizes, int):
            return self.sizes * rows.stop // self.count - self.sizes * rows.start // self.count
        return int(np.sum(self.sizes[rows.start : rows.stop]))


@dataclass(frozen=True, slots=True)
class _RunTask:
    files: FilesOpener
    task: Task[Any]
    counter: Counter
    amounts: Amounts

    def __call__(self, rows: range) -> Iterator[pa.RecordBatch]:
        result = self.task(self.files.open(), rows)
        self.counter.add(self.amounts.of(rows))
        yield pickle_result(rows.start, result)


@dataclass(frozen=True, slots=True)
class ScatteredFrame:
    """Rows of BLOCKS, and the blocks for the caller."""

    frame: DataFrame
    results: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _ScatterTask:
    """Gives blocks to shares. Its `name` is unique: for an equal task, Spark Connect would give
    the blocks that are cached from the first.
    """

    files: FilesOpener
    task: Task[Iterable[Block]]
    counter: Counter
    amounts: Amounts
    name: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, rows: range) -> Iterator[pa.RecordBatch]:
        for share, block in self.task(self.files.open(), rows):
            row = {"share": share, "block": pickle.dumps(block)}
            yield pa.RecordBatch.from_pylist([row], schema=BLOCKS)
        self.counter.add(self.amounts.of(rows) if rows else 0)


@dataclass(frozen=True, slots=True)
class _GatherTask:
    """Gives the rows of BLOCKS, in the order of shares, to a task."""

    files: FilesOpener
    task: Callable[[Files, Iterator[Sequence[Any]]], Iterable[Any]]
    counter: Counter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            for result in self.task(self.files.open(), self._shares(batches)):
                yield pickle_result(0, result)

    def _shares(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Any]]:
        rows = (
            (share, column[row])
            for batch in batches
            for column in [batch.column("block")]
            for row, share in enumerate(batch.column("share").to_pylist())
        )
        for _, some in groupby(rows, key=itemgetter(0)):
            yield [_load_scalar(block) for _, block in some]
            self.counter.add(1)


def pickle_result(first: int, result: object) -> pa.RecordBatch:
    row = {"first": first, "result": pickle.dumps(result)}
    return pa.RecordBatch.from_pylist([row], schema=RESULTS)


def unpickle_results(table: pa.Table) -> Iterator[Any]:
    """Results in the order of rows; the memory of a batch is free once its results are used."""
    pending = [
        (first, row, batch.column("result"))
        for batch in table.to_batches()
        for row, first in enumerate(batch.column("first").to_pylist())
    ]
    del table
    pending.sort(key=lambda each: each[0], reverse=True)
    while pending:
        yield _load(*pending.pop()[1:])


def _load(row: int, column: pa.BinaryArray) -> Any:
    return _load_scalar(column[row])


def _load_scalar(value: pa.BinaryScalar) -> Any:
    return _loads(value.as_buffer())


def _loads(data: bytes | pa.Buffer) -> Any:
    return pickle.loads(data)  # noqa: S301 -- written by our executors


def _capitalize(doing: str) -> str:
    return doing[:1].upper() + doing[1:]  # names in it stay as they are
