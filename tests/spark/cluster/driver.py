"""A Spark driver in a process of its own, that can be asked to work and can be killed.

A process has one Spark context at most, and the tests' own is taken.
"""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Concatenate

from pyspark.sql import SparkSession

from frazil.spark.spark_session import session
from tests.spark.cluster.gates import POLL_S, Arrival, Gate
from tests.spark.cluster.processes import kill_tree

ANSWER_S = 500.0  # a busy machine has been seen to take half of it
STOP_S = 20.0


class DriverError(Exception):
    """What was raised in the driver, as text."""


class Driver:
    """Functions run in it get its session as first argument; they must be importable.

    Questions are numbered, and so are answers: what a test asked for and did not wait to hear is
    never taken for the answer to the next one.
    """

    def __init__(
        self, master: str, folder: Path, config: Mapping[str, str], answer_s: float = ANSWER_S
    ) -> None:
        self.folder = folder
        self._answer_s = answer_s
        self._asked = 0
        self._answered = -1
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, master, folder, config))
        self._process.start()
        theirs.close()
        self.result()  # it is up

    @property
    def lives(self) -> bool:
        return self._process.is_alive()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do, as far as we heard."""
        return self.lives and self._answered == self._asked

    def submit[**P](
        self,
        function: Callable[Concatenate[SparkSession, P], Any],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        self._asked += 1
        self._connection.send((function, args, kwargs))

    def result(self) -> Any:
        """What the last function that was submitted gave."""
        deadline = time.monotonic() + self._answer_s
        while self._answered < self._asked:
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"the driver was silent for {self._answer_s} s")
            self._answered, good, value = self._connection.recv()
        if not good:
            raise DriverError(value)
        return value

    def reach(self, gate: Gate, count: int) -> list[Arrival]:
        """Goes on until so many wait there. If the work ends before, says how."""
        deadline = time.monotonic() + ANSWER_S
        while len(held := gate.held()) < count:
            if self._connection.poll(POLL_S):
                raise AssertionError(f"never came to the gate: {self.result()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(held)} came to the gate, not {count}")
        return held

    def run[**P, R](
        self, function: Callable[Concatenate[SparkSession, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        self.submit(function, *args, **kwargs)
        answer: R = self.result()
        return answer

    def kill(self) -> None:
        """SIGKILL for the Python process, its Java, and the Python processes of that."""
        kill_tree(self._process.pid or 0)
        self._process.join(STOP_S)
        self._connection.close()

    def stop(self) -> None:
        if not self.lives:
            return
        if self.is_idle:
            self._connection.close()
            self._process.join(STOP_S)
        if self.lives:
            self.kill()


class Drivers:
    """One after the other: a driver has all cores of the cluster."""

    def __init__(self, make: Callable[[], Driver]) -> None:
        self._make = make
        self._last: Driver | None = None

    def idle(self) -> Driver:
        """The last one, unless it was killed, or some test left it with work to do."""
        if self._last is None or not self._last.is_idle:
            self.stop()
            self._last = self._make()
        return self._last

    def stop(self) -> None:
        if self._last is not None:
            self._last.stop()
        self._last = None


def _serve(connection: Connection, master: str, folder: Path, config: Mapping[str, str]) -> None:
    os.setpgid(0, 0)  # an interrupt of the tests is not for Java
    numbers = count()
    try:
        spark = session(
            app_name=folder.name,
            master=master,
            short_lived=True,
            log_path=folder / "spark.log",
            config=config,
        )
    except Exception:  # noqa: BLE001 -- whatever it is, the parent should hear of it
        connection.send((next(numbers), False, traceback.format_exc()))
        return
    connection.send((next(numbers), True, None))
    with suppress(EOFError):  # the parent is done with us, or gone
        while True:
            function, args, kwargs = connection.recv()
            try:
                good, value = True, function(spark, *args, **kwargs)
            except Exception:  # noqa: BLE001 -- the same
                good, value = False, traceback.format_exc()
            connection.send((next(numbers), good, value))
    spark.stop()
