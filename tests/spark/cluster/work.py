"""What the tests ask a driver to do. Executors import this module, too."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil.engine.repository import Repository
from frazil.spark import ingest, read
from frazil.spark.ingestion.ingest import IngestResult
from frazil.spark.io.write import WriteResult, write
from frazil.spark.runtime import jobs
from frazil.spark.writing import layout
from tests.spark.cluster.gates import Gate

SHAPE = (24, 40, 50)  # t, y, x
CHUNKS = {"t": 2, "y": 20, "x": 25}
CELLS = int(np.prod(SHAPE))
PARTITIONS = 8
BLOCK_BYTES = 50_000  # some chunks


class Place(Protocol):
    """Where a repository is; can be sent to a driver."""

    def open(self) -> frazil.Repository | Repository: ...


@dataclass(frozen=True, slots=True)
class Folder:
    path: str

    def open(self) -> frazil.Repository:
        return frazil.Repository.open(frazil.local_filesystem_storage(self.path))


@dataclass(frozen=True, slots=True)
class Bucket:
    arguments: dict[str, Any]  # of s3_storage

    def open(self) -> frazil.Repository:
        return frazil.Repository.open(frazil.s3_storage(**self.arguments))


def values() -> npt.NDArray[Any]:
    """What `rows` has, as an array."""
    return (np.arange(CELLS, dtype=np.float64) * 0.5 - 7).reshape(SHAPE)


def rows(spark: SparkSession, gate: Gate | None = None) -> DataFrame:
    """A row per cell, in scattered order: every partition has cells of every chunk."""

    shape, cells = SHAPE, CELLS  # so that workers which cannot import this module get them, too

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if gate is not None and context is not None and context.partitionId() == 0:
            gate.pass_through()
        for batch in batches:
            cell = batch.column(0).to_numpy() * 7919 % cells  # a prime
            t, y, x = np.unravel_index(cell, shape)
            yield pa.record_batch({"t": t * 1.0, "y": y * 10, "x": x, "value": cell * 0.5 - 7})

    numbers = spark.range(0, CELLS, 1, PARTITIONS)
    return numbers.mapInArrow(make, "t double, y long, x long, value double")


def write_rows(spark: SparkSession, repo: Folder, gate: Gate | None = None) -> None:
    options = {
        "group": "g",
        "dims": "t,y,x",
        "chunks": json.dumps(CHUNKS),
        "txnAppId": "cluster",
        "txnVersion": "1",
    }
    frame = rows(spark, gate)
    frame.write.format("icechunk").mode("append").options(**options).save(repo.path)


def write_shuffled(spark: SparkSession, repo: Place) -> WriteResult:
    options: dict[str, Any] = {"group": "g", "dims": ["t", "y", "x"], "chunks": CHUNKS}
    # so few rows would be one task
    with patch.object(layout, "BLOCK_BYTES", BLOCK_BYTES), patch.object(jobs, "MIN_TASK_BYTES", 1):
        return write(rows(spark), repo.open(), txn=("cluster", 1), **options)


def read_rows(spark: SparkSession, repo: Place) -> pa.Table:
    frame = read(spark, repo.open(), group="g", variables=["value"])
    return frame.orderBy(*frame.columns).toArrow()


def ingest_files(spark: SparkSession, files: str, repo: Place) -> IngestResult:
    return ingest(
        spark,
        [files],
        repo.open(),
        group="g",
        concat_dim="time",
        chunks={"time": 4},
        idempotency_key="all",
        progress=False,
    )


def executors_that_work(spark: SparkSession) -> set[str]:
    """Those that had a task of some that take a moment."""

    def name(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(0.2)
            yield pa.record_batch({"executor": [os.environ["SPARK_EXECUTOR_DIRS"]]})

    found = spark.range(0, 8, 1, 8).mapInArrow(name, "executor string").collect()
    return {row.executor for row in found}


def plan_texts(spark: SparkSession, path: str, options: dict[str, str]) -> list[str]:
    """Every form of the plan of a read with options; the rows are counted, too."""
    frame = spark.read.format("icechunk").options(**options).load(path)
    assert frame.count() == CELLS
    plan = frame._jdf.queryExecution()  # what the pages of Spark show
    return [plan.toString(), plan.optimizedPlan().prettyJson(), plan.logical().toJSON()]
