"""Time, processor time, memory and bytes read of a tree of processes: Python, Java, workers."""

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.timing import RESET_PEAK

KINDS = ("driver", "java", "worker")  # the Python that asks, the JVM, Python that the JVM started


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    cpu_seconds: float  # of all processes; steadier than `seconds` on a busy machine
    cpu_by_kind: dict[str, float]
    peak_bytes: dict[str, int]  # by kind; of several processes the sum of their peaks
    largest_worker_bytes: int  # the peak of one
    read_bytes: int  # by read(2): files, and in Java what Python workers send


def measure[T](work: Callable[[], T]) -> tuple[T, Measured]:
    gc.collect()
    before = _usages()
    for pid in before:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK)
    started = time.perf_counter()
    answer = work()
    seconds, after = time.perf_counter() - started, _usages()
    cpu, peak, read = _cpu(before, after), dict.fromkeys(KINDS, 0), 0
    largest = max((each.peak_bytes for each in after.values() if each.kind == "worker"), default=0)
    for pid, usage in after.items():
        peak[usage.kind] += usage.peak_bytes
        read += usage.read_bytes - (before[pid].read_bytes if pid in before else 0)
    return answer, Measured(seconds, sum(cpu.values()), cpu, peak, largest, read)


@dataclass(frozen=True, slots=True)
class _Usage:
    kind: str
    cpu: float
    ended_cpu: float  # of children that ended and were waited for
    peak_bytes: int
    read_bytes: int


def _usages() -> dict[int, _Usage]:
    own = psutil.Process()
    usages = {}
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            java = process.name() == "java"
            kind = "driver" if process.pid == own.pid else "java" if java else "worker"
            times, read = process.cpu_times(), process.io_counters().read_chars
            ended = times.children_user + times.children_system
            cpu = times.user + times.system
            usages[process.pid] = _Usage(kind, cpu, ended, _peak(process.pid), read)
    return usages


def _cpu(before: dict[int, _Usage], after: dict[int, _Usage]) -> dict[str, float]:
    """Processor time by kind. Processes that ended are workers; some are not waited for."""
    cpu = dict.fromkeys(KINDS, 0.0)
    ended = -sum(old.cpu + old.ended_cpu for pid, old in before.items() if pid not in after)
    for pid, usage in after.items():
        old = before.get(pid)
        cpu[usage.kind] += usage.cpu - (old.cpu if old else 0)
        ended += usage.ended_cpu - (old.ended_cpu if old else 0)
    cpu["worker"] += max(ended, 0)
    return cpu


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0  # a process that has ended
