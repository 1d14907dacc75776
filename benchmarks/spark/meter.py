"""Time, processor time, memory and bytes read of a tree of processes: Python, Java, workers."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.timing import RESET_PEAK


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    cpu_seconds: float  # of all processes; steadier than `seconds` on a busy machine
    driver_bytes: int  # peak of the Python process that asks
    java_bytes: int  # peak of the JVM, which is driver and executor
    worker_bytes: int  # sum of the peaks of the other processes
    read_bytes: int  # by read(2): files, and in Java what Python workers send


def measure[T](work: Callable[[], T]) -> tuple[T, Measured]:
    gc.collect()
    for process in _processes():
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text(RESET_PEAK)
    read_before, cpu_before, started = _read_bytes(), _cpu_seconds(), time.perf_counter()
    answer = work()
    seconds, cpu = time.perf_counter() - started, _cpu_seconds() - cpu_before
    peaks = {"driver": 0, "java": 0, "worker": 0}
    for kind, peak in _peaks():
        peaks[kind] += peak
    sizes = (peaks["driver"], peaks["java"], peaks["worker"])
    return answer, Measured(seconds, cpu, *sizes, _read_bytes() - read_before)


def _processes() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _cpu_seconds() -> float:
    """Processor time of this process and its descendants, including ended ones."""
    total = 0.0
    for process in _processes():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _read_bytes() -> int:
    total = 0
    for process in _processes():
        with suppress(psutil.NoSuchProcess):
            total += process.io_counters().read_chars
    return total


def _peaks() -> Iterator[tuple[str, int]]:
    for number, process in enumerate(_processes()):
        with suppress(psutil.NoSuchProcess, OSError):
            kind = "driver" if not number else "java" if process.name() == "java" else "worker"
            yield kind, _peak(process.pid)


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0  # a process that has ended
