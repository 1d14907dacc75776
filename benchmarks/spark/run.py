"""Runs the workloads, one side after the other, and prints what each took and how they compare.

    python -m benchmarks.spark [WORKLOAD ...] [--repeat N] [--many] [--quick] [--json FILE]

Every side is a process of its own with two cores for its tasks; Spark's is warm when the clock
starts. A ratio is a side's time divided by that of the first side, which is frazil's: above 1,
frazil is faster.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.spark.sample import QUICK
from benchmarks.spark.worker import PREPARE

ROOT = Path(__file__).parents[2]
WORKLOADS = ("read", "write", "ingest", "virtual_ingest")

type Phases = dict[str, dict[str, float]]  # phase -> measure -> number


def run_worker(workload: str, side: str, folder: str, repeat: int, *, many: bool) -> Phases:
    arguments = [workload, side, folder, str(repeat), "many" if many else "few"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark.worker", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        sys.exit(f"{workload} / {side} failed ({done.returncode}):\n{done.stderr}")
    phases: Phases = {} if side == PREPARE else json.loads(done.stdout.splitlines()[-1])
    return phases


def measure(workload: str, repeat: int, *, many: bool) -> dict[str, Phases]:
    sides = importlib.import_module(f"benchmarks.spark.{workload}").SIDES
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        run_worker(workload, PREPARE, folder, repeat, many=many)
        return {side: run_worker(workload, side, folder, repeat, many=many) for side in sides}


def table_of(workload: str, results: dict[str, Phases]) -> Table:
    table = Table(title=workload, title_justify="left")
    columns = (
        "time",
        "CPU",
        "krows/s",
        "MB/s",
        "driver memory, added",
        "time / first",
        "CPU / first",
    )
    for name in ("what", "by"):
        table.add_column(name)
    for name in columns:
        table.add_column(name, justify="right")
    first = next(iter(results.values()))
    for phase in first:
        for side, phases in results.items():
            if phase in phases:
                table.add_row(phase, side, *_cells(phases[phase], first[phase]))
    return table


def _cells(measured: dict[str, float], first: dict[str, float]) -> list[str]:
    seconds = measured["seconds"]
    return [
        f"{seconds:.2f} s",
        f"{measured['cpu_seconds']:.2f} s",
        f"{measured['rows'] / seconds / 1e3:,.0f}",
        f"{measured['size_bytes'] / seconds / 1e6:.1f}",
        f"{measured['driver_added_bytes'] / 2**20:,.0f} MiB",
        f"{seconds / first['seconds']:.2f}x",
        f"{measured['cpu_seconds'] / max(first['cpu_seconds'], 1e-9):.2f}x",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=2, help="repetitions; the best counts")
    parser.add_argument("--many", action="store_true", help="ten million references, too")
    parser.add_argument("--quick", action="store_true", help="little data: does it run at all?")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    if unknown := set(arguments.workloads) - set(WORKLOADS):
        parser.error(f"unknown workloads: {', '.join(sorted(unknown))}")

    if arguments.quick:
        os.environ[QUICK] = "1"  # for the processes that measure
    console = Console(width=None if sys.stdout.isatty() else 150)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    console.print(f"{os.cpu_count()} cores, load {load}; a ratio above 1: frazil is faster\n")
    results = {}
    for workload in arguments.workloads or WORKLOADS:
        results[workload] = measure(workload, arguments.repeat, many=arguments.many)
        console.print(table_of(workload, results[workload]))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
