"""Progress of a job: counted by its tasks, watched by a thread of the driver."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from frazil.describe.units import format_size

if TYPE_CHECKING:
    from rich.progress import Progress

POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A step of a job and how much of it is done. A total of 0 means unknown."""

    doing: str
    done_bytes: int
    total_bytes: int

    @property
    def finished(self) -> bool:
        return 0 < self.total_bytes <= self.done_bytes


type ProgressCallback = Callable[[JobProgress], None]
type ProgressOption = bool | ProgressCallback | None


class Counter(Protocol):
    """Counts in tasks; picklable."""

    def add(self, amount: int) -> None: ...


@dataclass(frozen=True, slots=True)
class NoCounter:
    """Counts nothing: for sessions that offer no counters."""

    def add(self, amount: int) -> None: ...


@dataclass(frozen=True, slots=True)
class AccumulatorCounter:
    """Spark brings the amounts to the driver as tasks finish."""

    total: Accumulator[int]

    def add(self, amount: int) -> None:
        self.total.add(amount)


def create_counter(spark: SparkSession) -> AccumulatorCounter | NoCounter:
    try:
        return AccumulatorCounter(spark.sparkContext.accumulator(0))
    except AttributeError:  # Spark Connect has no context
        return NoCounter()


@contextmanager
def watch_progress(
    counter: AccumulatorCounter | NoCounter, doing: str, total_bytes: int, tell: ProgressCallback
) -> Iterator[None]:
    """While inside, `tell` is called as the count changes, from another thread; at the end from
    this one, unless the job failed.
    """
    tell(JobProgress(doing, 0, total_bytes))
    stop = Event()

    def counted() -> int:
        return counter.total.value if isinstance(counter, AccumulatorCounter) else 0

    def poll() -> None:
        told = 0
        while not stop.wait(POLL_INTERVAL_S):
            done = counted()
            if done > told:
                told = done
                tell(JobProgress(doing, min(done, total_bytes or done), total_bytes))

    watcher = Thread(target=poll, name="frazil-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    tell(JobProgress(doing, total_bytes or counted(), total_bytes))


@contextmanager
def progress_callback(option: ProgressOption) -> Iterator[ProgressCallback]:
    """A callback is itself; True is a bar, False is silence, None is a bar on a terminal."""
    if callable(option):
        yield option
    elif option or (option is None and sys.stderr.isatty()):
        with _bar() as bar:
            task = bar.add_task("", total=None, amount="")

            def show(progress: JobProgress) -> None:
                bar.update(
                    task,
                    description=progress.doing,
                    completed=progress.done_bytes,
                    total=progress.total_bytes or None,
                    amount=_amount(progress),
                )

            yield show
    else:
        yield lambda _: None


def _amount(progress: JobProgress) -> str:
    if not progress.total_bytes:
        return format_size(progress.done_bytes) if progress.done_bytes else ""
    return f"{format_size(progress.done_bytes)} of {format_size(progress.total_bytes)}"


def _bar() -> "Progress":
    # Workers import this module too, and draw nothing.
    from rich import progress as columns  # noqa: PLC0415 -- see above
    from rich.console import Console  # noqa: PLC0415 -- see above

    return columns.Progress(
        columns.TextColumn("{task.description}"),
        columns.BarColumn(),
        columns.TextColumn("{task.fields[amount]}"),
        columns.TimeElapsedColumn(),
        console=Console(stderr=True),
    )
