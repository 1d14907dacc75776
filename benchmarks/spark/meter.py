"""Time, processor time and memory of work that Spark may do in other processes."""

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from benchmarks.timing import CLEAR_REFS, RESET_PEAK, status_bytes


@dataclass(frozen=True, slots=True)
class Measured:
    """The fastest of the repetitions. Memory is that of this process, the driver, alone."""

    seconds: float
    cpu_seconds: float  # of all processes; steadier than `seconds` on a busy machine
    driver_peak_bytes: int
    driver_added_bytes: int
    rows: int
    size_bytes: int  # of the values, decoded


@dataclass(slots=True)
class Meter:
    repeat: int
    phases: dict[str, Measured] = field(default_factory=dict)

    def __call__(
        self, phase: str, work: Callable[[int], object], *, rows: int, size_bytes: int
    ) -> None:
        """Calls `work` with 0, which warms up, then `repeat` times with 1, 2, ..."""
        work(0)
        self.warm(phase, work, rows=rows, size_bytes=size_bytes)

    def warm(
        self, phase: str, work: Callable[[int], object], *, rows: int, size_bytes: int
    ) -> None:
        """The same, where earlier work has warmed up."""
        runs = [self._once(work, number + 1, rows, size_bytes) for number in range(self.repeat)]
        self.phases[phase] = min(runs, key=lambda run: run.seconds)

    def _once(
        self, work: Callable[[int], object], number: int, rows: int, size_bytes: int
    ) -> Measured:
        gc.collect()
        CLEAR_REFS.write_text(RESET_PEAK)
        before = status_bytes("VmRSS")
        started, cpu_started = time.perf_counter(), tree_cpu_s()
        work(number)
        seconds, cpu_seconds = time.perf_counter() - started, tree_cpu_s() - cpu_started
        peak = status_bytes("VmHWM")
        return Measured(seconds, cpu_seconds, peak, peak - before, rows, size_bytes)


def tree_cpu_s() -> float:
    """Processor time of this process and its descendants, including ended ones."""
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
