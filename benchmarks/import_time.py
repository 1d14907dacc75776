"""How long `import` takes, in a Python that has imported nothing yet."""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

from benchmarks.timing import Phase, Stopwatch


def fresh_import(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    started = time.perf_counter()
    code = (
        f"import {engine.__name__}, resource;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    peak = int(done.stdout) * 1024
    stopwatch.phases["import"] = Phase(seconds, peak, peak)


STAGES = {"import": fresh_import}
