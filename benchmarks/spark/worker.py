"""One side of a workload, in a process of its own: `-m benchmarks.spark.worker`.

Prints what was measured as JSON on the last line of its output.
"""

import dataclasses
import importlib
import json
import os
import sys
import warnings
from pathlib import Path

from benchmarks.spark.meter import Meter
from benchmarks.spark.virtual_ingest import COUNTS, MANY

PREPARE = "prepare"


def main(workload: str, side: str, folder: str, repeat: str, many: str) -> None:
    os.environ.setdefault("ICECHUNK_NO_LOGS", "1")
    warnings.simplefilter("ignore")  # of libraries that are only measured
    module = importlib.import_module(f"benchmarks.spark.{workload}")
    counts = {"counts": (*COUNTS, MANY)} if workload == "virtual_ingest" and many == "many" else {}
    if side == PREPARE:
        module.prepare(Path(folder), **counts)
        return
    meter = Meter(int(repeat))
    module.SIDES[side](Path(folder), meter, **counts)
    phases = {name: dataclasses.asdict(phase) for name, phase in meter.phases.items()}
    print(json.dumps(phases), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
