"""The executor protocol: tasks over numbered rows, run by threads of this process or by Spark.

A task is called with the files of a repository and a range of rows. The rules:

- a task is a picklable value, and so is its result: many of a thing are columns (numpy arrays in a
  small dataclass), not objects
- its result does not depend on the worker that runs it, nor on how rows are divided into ranges
- it may run twice
- it may hold caches and pools of threads, which begin empty on each worker

A cluster can also sort by ids what tasks find (`Cluster`): blocks of columns go from the workers
that made them to the workers that own the shares of their ids, and never to the caller, whose
memory does not grow with them. Threads of one process have one memory, and nothing to exchange.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
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


# Exchanges between workers, by the first byte of ids.

SHARES = 256
HERE = -1  # in place of the number of a share: for the caller

type Block = tuple[int, Any]
"""The number of a share, and something picklable."""


class Scattered(Protocol):
    """Blocks that tasks have made, and that wait where workers find them."""

    @property
    def results(self) -> Sequence[Any]:
        """Blocks for the caller, in any order."""
        ...


class Cluster(Executor, Protocol):
    def scatter(
        self,
        task: Task[Iterable[Block]],
        count: int,
        doing: str,
        *,
        sizes: Sizes | None = None,
    ) -> Scattered:
        """Runs a task as `run` does, and keeps the blocks that it makes for shares."""
        ...

    def gather[T](
        self,
        scattered: Sequence[Scattered],
        task: Callable[[Files, Iterator[Sequence[Any]]], Iterable[T]],
        doing: str,
        *,
        many: bool = False,
    ) -> Iterator[T]:
        """Results of a task that is called with the blocks of one share after the other.

        Each share that has blocks is in one call, which gets those of some shares. If results are
        `many`, a part of them is in the caller's memory at a time.
        """
        ...


def find_cluster(executor: Executor) -> Cluster | None:
    """None for threads of this process."""
    return cast("Cluster", executor) if executor.is_remote else None


def split_shares(ids: npt.NDArray[np.uint8]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Numbers of shares, and the rows of the ids, (n, 12), in each; none that is empty."""
    order = np.argsort(ids[:, 0], kind="stable").astype(np.int64, copy=False)
    edges = np.searchsorted(ids[:, 0][order], np.arange(SHARES + 1)).tolist()
    for share in range(SHARES):
        if edges[share] < edges[share + 1]:
            yield share, order[edges[share] : edges[share + 1]]


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
