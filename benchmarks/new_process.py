"""Cost of a program before anything is loaded: Python code in a process of its own."""

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
    """Start of the interpreter included."""
    started = time.perf_counter()
    command = [sys.executable, "-c", f"{code}\n{_TELL}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    peak_kib, cpu_seconds = done.stdout.splitlines()[-1].split()
    peak_bytes = int(peak_kib) * 1024
    return Phase(seconds, float(cpu_seconds), peak_bytes, peak_bytes)
