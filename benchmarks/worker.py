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
    package = importlib.import_module(engine)
    assert package.Repository  # frazil loads its classes on first use; import_time measures that
    stopwatch = Stopwatch()
    module.STAGES[stage](package, Path(directory), stopwatch)
    phases = {name: dataclasses.asdict(phase) for name, phase in stopwatch.phases.items()}
    print(json.dumps(phases), flush=True)
    # The reference's threads have been seen to crash while the interpreter shuts down.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
