"""Tasks by number on executors, through mapInArrow; small rows come back.

A partition holds several neighbouring tasks. Chunk data stays on the executor; references to what
it stored are what it returns.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ChunkRefs
from frazil.repo.writer import ChunkWriter
from frazil.spark.ingestion.failures import carrying_errors, errors_carried
from frazil.spark.ingestion.jobs import parallelism
from frazil.spark.ingestion.references import COLUMNS, decode_refs, encode_refs
from frazil.spark.jobs.commits import CommitNote
from frazil.spark.pipelines.boxes import task_bytes
from frazil.spark.progress import (
    Counter,
    ProgressOption,
    create_counter,
    progress_callback,
    watched,
)
from frazil.spark.workers import tame_gc

WRITTEN = pa.schema(
    [
        ("array", pa.int32()),
        ("raw_bytes", pa.int64()),
        *((name, pa.binary()) for name in COLUMNS),
    ]
)
_SPARK_TYPES = {
    pa.int32(): "int", pa.int64(): "long", pa.binary(): "binary", pa.string(): "string",
    pa.bool_(): "boolean",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Chunks of one array that a task stored; `raw_bytes` is what it counts as progress."""

    array: int
    refs: ChunkRefs
    raw_bytes: int


class WriteJob(Protocol):
    """Picklable. Tasks write different chunks, so each may run more than once."""

    @property
    def writer(self) -> ChunkWriter: ...

    def __len__(self) -> int:
        """The number of tasks."""
        ...

    def run(self, task: int) -> Iterator[Written]: ...


@dataclass(frozen=True, slots=True)
class Work:
    """What a job is to those who watch it."""

    doing: str
    size_bytes: int
    note: CommitNote


def carry_out(
    spark: SparkSession, job: WriteJob, ndims: Sequence[int], work: Work, progress: ProgressOption
) -> list[Written]:
    """What all tasks wrote, in no order; `ndims` of each array. With progress, and control-C."""
    if len(job) == 0:
        return []
    counter = create_counter(spark)
    with (
        progress_callback(progress) as tell,
        cancelled_on_interrupt(spark, work.note.job),
        watched(counter, work.doing, work.size_bytes, tell),
    ):
        write = partial(_write, job, counter)
        count = partitions_for(spark, work.size_bytes)
        table = collect(map_tasks(spark, len(job), count, write, WRITTEN))
    return decode_written(table, ndims)


def decode_written(table: pa.Table, ndims: Sequence[int]) -> list[Written]:
    return [
        Written(row["array"], decode_refs(row, ndims[row["array"]]), row["raw_bytes"])
        for row in table.to_pylist()
    ]


def refs_of(results: Iterable[Written], array: int, ndim: int) -> ChunkRefs:
    """References to all chunks of one array; refuses two for one chunk."""
    parts = [one.refs for one in results if one.array == array]
    refs = ChunkRefs.concat([ChunkRefs.empty(ndim), *parts])
    if sum(map(len, parts)) != len(refs):
        raise InvalidInputError("two tasks wrote the same chunk; by plan each has one owner")
    return refs


def partitions_for(spark: SparkSession, size_bytes: int) -> int:
    return -(-max(1, size_bytes) // task_bytes(size_bytes, parallelism(spark)))


def written_rows(parts: Iterable[Written]) -> list[dict[str, Any]]:
    """Rows of WRITTEN."""
    return [
        {"array": one.array, "raw_bytes": one.raw_bytes, **encode_refs(one.refs)} for one in parts
    ]


def map_tasks(
    spark: SparkSession,
    tasks: int,
    partitions: int,
    function: Callable[[range], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `function` makes of each run of task numbers."""
    partitions = max(1, min(tasks, partitions))
    numbers = spark.range(0, partitions, 1, partitions)
    return map_arrow(numbers, partial(_run, function, tasks, partitions), schema)


def map_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema | StructType,
) -> DataFrame:
    with _pandas_warning_ignored():
        told = schema if isinstance(schema, StructType) else ddl(schema)
        return frame.mapInArrow(function, told)


def collect(frame: DataFrame) -> pa.Table:
    """Errors of tasks are raised as what they were."""
    with errors_carried(), _pandas_warning_ignored():
        return frame.toArrow()


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)


@contextmanager
def cancelled_on_interrupt(spark: SparkSession, job: str) -> Iterator[None]:
    """Jobs started inside end when the user presses control-C."""
    tag = f"frazil-{job}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


@contextmanager
def _pandas_warning_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        # said by PySpark 4.3 with pandas 3, which this does not even use (SPARK.md §8)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _run(
    function: Callable[[range], Iterable[pa.RecordBatch]],
    tasks: int,
    partitions: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    tame_gc()
    with carrying_errors():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                start, stop = (tasks * k // partitions for k in (number, number + 1))
                yield from function(range(start, stop))


def _write(job: WriteJob, counter: Counter, tasks: range) -> Iterator[pa.RecordBatch]:
    parts = [written for task in tasks for written in job.run(task)]
    job.writer.sync()
    counter.add(sum(one.raw_bytes for one in parts))
    yield pa.RecordBatch.from_pylist(written_rows(parts), schema=WRITTEN)
