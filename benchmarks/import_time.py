"""Time that `import` takes, in a Python that has imported nothing yet.

Frazil loads its classes when they are first asked for, the reference loads everything at once. So
the second row asks for the class that every program begins with.
"""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

from benchmarks.timing import Phase, Stopwatch

MEASURE = (
    "import resource;"
    "usage = resource.getrusage(resource.RUSAGE_SELF);"
    "print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)"
)


def fresh_import(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    name = engine.__name__
    stopwatch.phases["import"] = _measured(f"import {name}")
    stopwatch.phases["import, Repository"] = _measured(f"import {name}; {name}.Repository")


def _measured(code: str) -> Phase:
    """Time of a whole process, Python itself included."""
    command = [sys.executable, "-c", f"{code};{MEASURE}"]
    started = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    peak_kib, cpu_seconds = done.stdout.split()
    peak_bytes = int(peak_kib) * 1024
    return Phase(seconds, float(cpu_seconds), peak_bytes, peak_bytes)


STAGES = {"import": fresh_import}
