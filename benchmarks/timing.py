"""Time and memory of the phases of a workload, measured inside the process that does the work."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
RESET_PEAK = "5"  # proc(5): resets the high-water mark of the resident set


def status_bytes(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Phase:
    seconds: float
    cpu_seconds: float  # of all threads; steadier than `seconds` on a busy machine
    peak_bytes: int  # of the whole process while the phase ran
    added_bytes: int  # peak minus what was resident when the phase began


@dataclass(slots=True)
class Stopwatch:
    phases: dict[str, Phase] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        gc.collect()
        CLEAR_REFS.write_text(RESET_PEAK)
        before = status_bytes("VmRSS")
        started, cpu_started = time.perf_counter(), time.process_time()
        yield
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        peak = status_bytes("VmHWM")
        self.phases[name] = Phase(seconds, cpu_seconds, peak, peak - before)

    def combine(self, name: str, parts: tuple[str, ...]) -> None:
        """Phases that follow each other, seen as one."""
        phases = [self.phases[part] for part in parts]
        peak = max(phase.peak_bytes for phase in phases)
        resident = phases[0].peak_bytes - phases[0].added_bytes
        self.phases[name] = Phase(
            sum(phase.seconds for phase in phases),
            sum(phase.cpu_seconds for phase in phases),
            peak,
            peak - resident,
        )
