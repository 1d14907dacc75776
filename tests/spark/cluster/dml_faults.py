"""Statements of the oracle while tasks fail, straggle and lose their processes.

    in a task    the first attempt raises, ends its Python process, or sleeps until another one won
    outside      an executor or a Python worker is killed, or a worker is stopped for some seconds

Functions of this module run in a driver.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, override

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.spark.cluster.processes import kill_tree
from tests.spark.dml_oracle import Changes, Statement, Trouble, execute

IN_TASKS = ("none", "raises", "exits", "straggles")
OUTSIDE = ("none", "kills an executor", "kills a worker", "stops a worker")
_STRAGGLE_S = 10.0
_STOP_S = 4.0
_LATEST_S = 6.0  # the latest moment of a statement at which something happens outside


def go_wrong(marks: str, kind: str) -> None:
    """In a task: once per folder of marks, at the first attempt that comes here."""
    task = TaskContext.get()
    if task is None:
        return
    if task.attemptNumber() > 0:
        Path(marks, "again").touch()
        return
    try:
        os.close(os.open(Path(marks, "first"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if kind == "exits":
        os._exit(1)
    if kind == "straggles":
        time.sleep(_STRAGGLE_S)
        return
    raise RuntimeError("the first attempt fails")


class TaskTrouble(Trouble):
    """The first attempt of a task goes wrong."""

    def __init__(self, spark: SparkSession, marks: Path, kind: str, dim: str) -> None:
        marks.mkdir()
        self.marks = marks
        self.kind = kind
        self.dim = dim
        folder = str(marks)

        def trouble(_: Any) -> bool:
            go_wrong(folder, kind)
            return True

        spark.udf.register("trouble", trouble, "boolean")

    @override
    def among(self, rows: DataFrame) -> DataFrame:
        folder, kind = str(self.marks), self.kind

        def pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            go_wrong(folder, kind)
            yield from batches

        return rows.mapInArrow(pass_on, rows.schema)

    @property
    @override
    def condition(self) -> str:
        return f" AND trouble({self.dim})"

    @property
    def happened(self) -> bool:
        """A task went wrong, and another attempt was made."""
        return (self.marks / "first").exists() and (self.marks / "again").exists()


def _executors() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
    return found


class OutsideTrouble:
    """Something that happens to an executor some time after a statement began."""

    def __init__(self, kind: str, random_source: random.Random) -> None:
        self.kind = kind
        self.happened = False
        self._random = random_source
        self._timer = Timer(random_source.uniform(0.0, _LATEST_S), self._act)

    def __enter__(self) -> None:
        if self.kind != "none":
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()

    def _act(self) -> None:
        executors = _executors()
        if not executors:
            return
        victim = self._random.choice(executors)
        if self.kind == "kills an executor":
            kill_tree(victim.pid)
            self.happened = True
            return
        with suppress(psutil.Error):
            workers = [
                worker for daemon in victim.children() for worker in daemon.children()
            ] or victim.children()
            for worker in workers[:1]:
                self._end_or_stop(worker)
                self.happened = True

    def _end_or_stop(self, worker: psutil.Process) -> None:
        if self.kind == "kills a worker":
            worker.send_signal(signal.SIGKILL)
            return
        worker.send_signal(signal.SIGSTOP)
        time.sleep(_STOP_S)
        with suppress(psutil.Error):
            worker.send_signal(signal.SIGCONT)


class FaultyChanges(Changes):
    """A table, its twin, and trouble."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        super().__init__(spark, folder, seed)
        self.random = random.Random(seed)
        self.marks = folder / f"marks{seed}"
        self.marks.mkdir()
        self.counts = Counter[str]()

    @override
    def execute(self, statement: Statement) -> None:
        number = sum(1 for _ in self.marks.iterdir())
        kind = self.random.choice(IN_TASKS)
        outside = OutsideTrouble(self.random.choice(OUTSIDE), self.random)
        marks = self.marks / str(number)
        inside = TaskTrouble(self.spark, marks, kind, self.table.dims[0])
        self.told += f" (a task {kind}, outside {outside.kind})"
        self.counts["statements"] += 1
        try:
            with outside:
                trouble = inside if kind != "none" else None
                execute(self.spark, self.table, statement, trouble)
        finally:
            self.counts[f"a task {kind}"] += inside.happened
            self.counts[outside.kind] += outside.happened

    @override
    def check(self) -> None:
        """After each statement; Spark's own reading is not what is tested here."""
        self.check_reference()


def change_under_faults(spark: SparkSession, folder: Path, seed: int, count: int) -> Counter[str]:
    """How many statements there were, and how often what happened."""
    changes = FaultyChanges(spark, folder, seed)
    changes.run(count)
    Changes.check(changes)
    return changes.counts
