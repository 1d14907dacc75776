"""A Spark driver in a process of its own, that can be asked to work and can be killed.

A process has one Spark context at most, and the tests' own is taken.
"""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Concatenate

from pyspark.sql import SparkSession

from frazil.spark.session import session

ROOT = Path(__file__).parents[3]
ANSWER_S = 500.0  # a busy machine has been seen to take half of it
STOP_S = 20.0


class DriverError(Exception):
    """What was raised in the driver, as text."""


class Driver:
    """Functions run in it get its session as first argument; they must be importable."""

    def __init__(self, master: str, folder: Path, config: Mapping[str, str]) -> None:
        self.folder = folder
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, master, folder, config))
        self._process.start()
        theirs.close()
        self.result()  # it is up

    @property
    def lives(self) -> bool:
        return self._process.is_alive()

    def submit[**P](
        self,
        function: Callable[Concatenate[SparkSession, P], Any],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        self._connection.send((function, args, kwargs))

    def finished(self, within_s: float) -> bool:
        return self._connection.poll(within_s)

    def result(self) -> Any:
        if not self._connection.poll(ANSWER_S):
            raise TimeoutError(f"the driver was silent for {ANSWER_S} s")
        good, value = self._connection.recv()
        if not good:
            raise DriverError(value)
        return value

    def run[**P, R](
        self, function: Callable[Concatenate[SparkSession, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        self.submit(function, *args, **kwargs)
        answer: R = self.result()
        return answer

    def kill(self) -> None:
        """SIGKILL for the Python process and its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.join(STOP_S)
        self._connection.close()

    def stop(self) -> None:
        if not self.lives:
            return
        self._connection.close()
        self._process.join(STOP_S)
        if self.lives:
            self.kill()


def _serve(connection: Connection, master: str, folder: Path, config: Mapping[str, str]) -> None:
    os.setpgid(0, 0)  # Java joins this group
    try:
        spark = session(
            app_name=folder.name,
            master=master,
            short_lived=True,
            log_path=folder / "spark.log",
            config=config,
        )
    except Exception:  # noqa: BLE001 -- whatever it is, the parent should hear of it
        connection.send((False, traceback.format_exc()))
        return
    connection.send((True, None))
    with suppress(EOFError):  # the parent is done with us, or gone
        while True:
            function, args, kwargs = connection.recv()
            try:
                connection.send((True, function(spark, *args, **kwargs)))
            except Exception:  # noqa: BLE001 -- the same
                connection.send((False, traceback.format_exc()))
    spark.stop()
