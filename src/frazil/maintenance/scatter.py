"""Work on the rows of a table, run by run: here, or on executors elsewhere.

A piece of work is a value that is called with the files of the repository and some rows. It can be
pickled, it says the same wherever it runs, and it may run twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from frazil.assets.files import Files
from frazil.maintenance.progress import Progress

type Work[T] = Callable[[Files, range], T]

_AT_ONCE = 64  # rows


class Scatter(Protocol):
    def run[T](self, work: Work[T], count: int, doing: str) -> Iterator[T]:
        """What the work makes of rows 0 to `count`, run by run, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """In this process; `files` has threads of its own."""

    files: Files
    progress: Progress | None = None

    def run[T](self, work: Work[T], count: int, doing: str) -> Iterator[T]:
        for start in range(0, count, _AT_ONCE):
            rows = range(start, min(start + _AT_ONCE, count))
            yield work(self.files, rows)
            if self.progress is not None:
                self.progress(doing, rows.stop, count)
