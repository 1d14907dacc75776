"""The executor protocol: tasks over numbered rows, run by threads of this process or by Spark.

A task is called with the files of a repository and a range of rows. The rules:

- a task is a picklable value, and so is its result: many of a thing are columns (numpy arrays in a
  small dataclass), not objects
- its result does not depend on the worker that runs it, nor on how rows are divided into ranges
- it may run twice
- it may hold caches and pools of threads, which begin empty on each worker
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import FormatError
from frazil.format.generation import CURRENT

# Progress callbacks of long-running work.

type Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is; 0 if unknown."""


type Task[T] = Callable[[Files, range], T]
type Sizes = int | Sequence[int] | npt.NDArray[np.unsignedinteger[Any] | np.signedinteger[Any]]

_ROWS_PER_SPAN = 64


class Executor(Protocol):
    @property
    def is_remote(self) -> bool:
        """True if tasks run in other processes, so that tasks and results are sent."""
        ...

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
        """Results of the task for consecutive ranges of the rows 0 to `count`, in order.

        Args:
            task: called once for each range.
            count: the number of rows.
            doing: names the work in progress reports.
            spans: the ranges for threads of this process; a cluster divides the rows itself.
            prefetch: lets a thread run the task for the next range while the caller uses a result,
                so that two are in memory.
            sizes: bytes of each row, or of all rows, for progress reports in bytes where the
                executor makes them; 0 if unknown.
            partitions: the number of ranges on a cluster; by default a few for each core.
        """
        ...

    def report(self, doing: str, done: int, total: int) -> None:
        """Reports progress of work that the caller does itself; a total of 0 is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs tasks in this process; `files` has a thread pool of its own."""

    files: Files
    progress: Progress | None = None

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
        del sizes, partitions  # progress counts rows
        ranges = split_rows(count, _ROWS_PER_SPAN) if spans is None else spans
        work = partial(task, self.files)
        results = (
            prefetch_results(work, ranges) if prefetch and len(ranges) > 1 else map(work, ranges)
        )
        for rows, result in zip(ranges, results, strict=True):
            yield result
            self.report(doing, rows.stop, count)

    def report(self, doing: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(doing, done, total)


def split_rows(count: int, at_once: int) -> list[range]:
    """The rows 0 to `count` in ranges of `at_once`."""
    return [range(start, min(start + at_once, count)) for start in range(0, count, at_once)]


def prefetch_results[T, R](work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Results of `work` for each item, in order; the next one is begun before one is yielded.

    On a thread of its own, so that the work may use a pool: a thread of the pool must not wait for
    another. Two results are in memory at a time.
    """
    coming: Future[R] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="frazil-prefetch") as thread:
        for item in items:
            ready, coming = coming, thread.submit(work, item)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()


# Divides rows into ranges that fit into memory.


def waves(sizes: Sequence[int] | npt.NDArray[Any], most: int) -> Iterator[slice]:
    """Consecutive slices of rows: as many as have `most` together, and at least one."""
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def wave_spans(sizes: Sequence[int] | npt.NDArray[Any], most: int) -> list[range]:
    """The same as ranges, for `Executor.run`."""
    return [range(rows.start, rows.stop) for rows in waves(sizes, most)]


# The files of a repository for work that goes through all of them once: nothing is remembered.


def quiet_files(repository: Repository) -> Files:
    """Manifests and chunks are forgotten at once, so that memory is what the work holds."""
    return disable_caches(repository.files)


def disable_caches(files: Files) -> Files:
    settings = replace(files.settings, cached_refs=0, cached_chunk_bytes=0, cached_changes=0)
    return files.with_settings(settings)


def require_current(repository: Repository) -> None:
    """Raises FormatError for generations before version 1, whose files are not rewritten."""
    if repository.generation not in CURRENT:
        raise FormatError(
            "this needs a repository of version 1 or 2, and this one is of generation"
            f" {repository.generation}: migrate it first",
            kind="unsupported-spec-version",
        )


# Default options of actions. Light: signatures of the API need them.

SMALL_BYTES = 1 << 20  # chunks of at most so many are packed,
PACK_BYTES = 16 << 20  # into objects of about so many
REPLACEMENT = "(redacted)"  # for messages that are purged
