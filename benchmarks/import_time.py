"""How long `import` takes, in a Python that has imported nothing yet."""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

from benchmarks.timing import Phase, Stopwatch


def fresh_import(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    # Loading is lazy in some packages, so a name is asked for as well.
    code = (
        "import resource;"
        f"import {engine.__name__} as engine; engine.Repository;"
        "usage = resource.getrusage(resource.RUSAGE_SELF);"
        "print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    peak_kib, cpu_seconds = done.stdout.split()
    peak_bytes = int(peak_kib) * 1024
    stopwatch.phases["import"] = Phase(seconds, float(cpu_seconds), peak_bytes, peak_bytes)


STAGES = {"import": fresh_import}
