"""The executor protocol (frazil.maintenance.executor) on Spark."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.maintenance.executor import Work
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.runtime.jobs import TASKS_PER_CORE, collect, map_tasks, parallelism
from frazil.spark.runtime.progress import Counter, ProgressCallback, create_counter, watch_progress

# What was made of some rows. Pickled: only the driver reads it.
FOUND = pa.schema([("first", pa.int64()), ("found", pa.binary())])


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on Spark's executors; their results are gathered on the driver.

    Progress counts rows.
    """

    spark: SparkSession
    files: ExecutorFiles
    tell: ProgressCallback

    def run[T](self, work: Work[T], count: int, doing: str) -> Iterator[T]:
        if not count:
            return
        counter = create_counter(self.spark)
        partitions = parallelism(self.spark) * TASKS_PER_CORE
        task = RunWork(self.files, work, counter)
        with watch_progress(counter, doing.capitalize(), count, self.tell):
            table = collect(map_tasks(self.spark, count, partitions, task, FOUND)).to_pylist()
        for row in sorted(table, key=lambda row: row["first"]):
            yield pickle.loads(row["found"])  # noqa: S301 -- written by our executors


@dataclass(frozen=True, slots=True)
class RunWork:
    files: ExecutorFiles
    work: Work[Any]
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        found = self.work(self.files.open(), tasks)
        self.counter.add(len(tasks))
        row = {"first": tasks.start, "found": pickle.dumps(found)}
        yield pa.RecordBatch.from_pylist([row], schema=FOUND)
