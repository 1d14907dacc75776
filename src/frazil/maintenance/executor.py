"""The executor protocol: tasks over the rows of a table, run by threads or by Spark.

A task is a value that is called with the files of a repository and a range of rows. It can be
pickled, its result does not depend on the machine that runs it, and it may run twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from frazil.assets.files import Files
from frazil.maintenance.progress import Progress

type Work[T] = Callable[[Files, range], T]

_AT_ONCE = 64  # rows


class Executor(Protocol):
    def run[T](self, work: Work[T], count: int, doing: str) -> Iterator[T]:
        """Results of the task for consecutive ranges of the rows 0 to `count`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs tasks in this process; `files` has a thread pool of its own."""

    files: Files
    progress: Progress | None = None

    def run[T](self, work: Work[T], count: int, doing: str) -> Iterator[T]:
        for start in range(0, count, _AT_ONCE):
            rows = range(start, min(start + _AT_ONCE, count))
            yield work(self.files, rows)
            if self.progress is not None:
                self.progress(doing, rows.stop, count)
