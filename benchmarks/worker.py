"""One run of one stage of a workload, in a process of its own: `-m benchmarks.worker`.

Prints the phases as JSON on the last line of its output.
"""

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

from benchmarks.timing import Stopwatch


def main(workload: str, stage: str, engine: str, directory: str) -> None:
    os.environ.setdefault("ICECHUNK_NO_LOGS", "1")
    module = importlib.import_module(f"benchmarks.{workload}")
    stopwatch = Stopwatch()
    module.STAGES[stage](importlib.import_module(engine), Path(directory), stopwatch)
    phases = {name: dataclasses.asdict(phase) for name, phase in stopwatch.phases.items()}
    print(json.dumps(phases))


if __name__ == "__main__":
    main(*sys.argv[1:])
