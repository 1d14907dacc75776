"""Cost of a program before anything is loaded: Python code in a process of its own."""

import os
import subprocess
import sys
import time

from benchmarks.timing import Phase

_TELL = (
    "import resource;"
    "usage = resource.getrusage(resource.RUSAGE_SELF);"
    "print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)"
)


def run_in_new_process(code: str) -> Phase:
    """Start of the interpreter included, compiling not: installed packages have their bytecode.

    A source tree has none where PYTHONDONTWRITEBYTECODE is set, so the first run makes it.
    """
    command = [sys.executable, "-c", f"{code}\n{_TELL}"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(2):
        started = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        seconds = time.perf_counter() - started
    peak_kib, cpu_seconds = done.stdout.splitlines()[-1].split()
    peak_bytes = int(peak_kib) * 1024
    return Phase(seconds, float(cpu_seconds), peak_bytes, peak_bytes)
