"""Runs the workloads with both engines in turn and prints ratios.

    python benchmarks/run.py [WORKLOAD ...] [--repeat N] [--latency MS] [--json FILE] [--check]

A ratio is the reference's number divided by frazil's: above 1, frazil is better. Every stage of
every repetition is a process of its own, the engines alternate, and the best repetition counts; in
brackets, the least and the largest ratio of the repetitions. `>= n` is a target (targets.py).
With --latency, repositories are in a bucket that answers after so long: what counts then is how
many requests wait for others, and there are no targets.
With --check, exits 1 unless frazil wins where the project promises it (PROMISES).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.slow_bucket import slow_bucket
from benchmarks.storages import PORT, empty_files
from benchmarks.targets import TARGETS, Row, missed

ROOT = Path(__file__).parents[1]
ENGINES = ("icechunk", "frazil")
WORKLOADS = {
    "virtual_refs": ("write", "scan", "scan_locations"),
    "virtual_refs_distinct": ("write", "scan", "scan_locations"),
    "virtual_refs_columns": ("write", "scan"),
    "append_refs": ("build", "append"),
    "merge_forks": ("build", "merge"),
    "small_commits": ("commit", "commit_to_many", "history"),
    "commits_300": ("build", "change"),
    "commits_10000": ("build", "change"),
    "long_history": ("build", "look", "change"),
    "thousand_arrays": ("create", "fill"),
    "many_arrays": ("create", "start", "look", "change"),
    "raw_chunks": ("write", "write_durably", "read"),
    "foreign_chunks": ("write", "read"),
    "zstd_chunks": ("write", "read"),
    "large_chunks": ("write", "write_durably", "read", "copy"),
    "single_elements": ("build", "start", "cold", "warm"),
    "far_chunks": ("far",),
    "rebase": ("far", "cold"),
    "maintenance": ("build", "stats", "dry_run", "collect", "expire", "upgrade"),
    "rewriting": ("build", "rewrite", "read_small", "pack", "read_packed"),
    "verifying": ("build", "verify"),
    "import_time": ("import",),
}
FAR = (
    "virtual_refs",
    "virtual_refs_columns",
    "append_refs",
    "merge_forks",
    "commits_300",
    "commits_10000",
    "thousand_arrays",
    "raw_chunks",
    "zstd_chunks",
    "large_chunks",
    "single_elements",
    "far_chunks",
)
"""Those that make sense with --latency."""
LOCAL_STAGES = ("write_durably", "copy", "start")
PROMISES = {
    ("virtual_refs", "set + commit"),
    ("virtual_refs", "scan: array_chunk_iterator"),
    ("virtual_refs_columns", "set + commit"),
    ("virtual_refs_columns", "scan: array_chunk_iterator"),
    ("virtual_refs_distinct", "set + commit"),
    ("virtual_refs_distinct", "scan: array_chunk_iterator"),
}
MEASURES = ("seconds", "cpu_seconds", "peak_bytes", "added_bytes")
PROMISED = ("seconds", "peak_bytes", "added_bytes")
TITLES = ("time", "CPU", "peak memory", "added memory")

type Phases = dict[str, dict[str, float]]  # phase -> measure -> number
type Runs = dict[str, list[Phases]]  # engine -> repetitions


def run_once(folder: Path, workload: str, engine: str, latency_s: float = 0.0) -> Phases:
    """The phases of all stages, run one after another on one repository, a new one in `folder`."""
    phases: Phases = {}
    directory = Path(tempfile.mkdtemp(prefix=f"{workload}-{engine}-", dir=folder))
    with slow_bucket(latency_s) if latency_s else nullcontext() as port:
        environment = os.environ | ({} if port is None else {PORT: str(port)})
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
        for stage in WORKLOADS[workload]:
            if port is not None and stage in LOCAL_STAGES:
                continue
            command = ["-m", "benchmarks.worker", workload, stage, engine, f"{directory}/repo"]
            done = subprocess.run(
                [sys.executable, *command],
                check=False,
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment,
            )
            if done.returncode:
                sys.exit(
                    f"{workload} / {stage} with {engine} failed ({done.returncode}):\n{done.stderr}"
                )
            phases |= json.loads(done.stdout.splitlines()[-1])
    empty_files(directory)
    return phases


def best_of(runs: list[Phases]) -> Phases:
    return {
        phase: {measure: min(run[phase][measure] for run in runs) for measure in MEASURES}
        for phase in runs[0]
    }


def measure(folder: Path, workload: str, repeat: int, latency_s: float) -> Runs:
    runs: Runs = {engine: [] for engine in ENGINES}
    for i in range(repeat):
        for engine in ENGINES if i % 2 == 0 else ENGINES[::-1]:
            runs[engine].append(run_once(folder, workload, engine, latency_s))
    return runs


def table_of(workload: str, runs: Runs, targets: Mapping[Row, float]) -> Table:
    table = Table(title=workload, title_justify="left")
    table.add_column("phase")
    for title in TITLES:
        table.add_column(f"{title}\nicechunk / frazil", justify="right")
    results = {engine: best_of(runs[engine]) for engine in ENGINES}
    for phase in results["frazil"]:
        row = [phase]
        for measured in MEASURES:
            theirs, ours = (results[engine][phase][measured] for engine in ENGINES)
            target = targets.get((workload, phase, measured))
            row.append(
                f"{shown(measured, theirs)} / {shown(measured, ours)} = "
                f"{ratio(theirs, ours, target)}{spread(runs, phase, measured)}"
            )
        table.add_row(*row)
    return table


def spread(runs: Runs, phase: str, measured: str) -> str:
    """The least and the largest ratio, of pairs that ran one after the other."""
    pairs = zip(*(runs[engine] for engine in ENGINES), strict=True)
    found = [(theirs[phase][measured], ours[phase][measured]) for theirs, ours in pairs]
    quotients = [theirs / ours for theirs, ours in found if ours > 0]
    if len(quotients) < 2:
        return ""
    return f" [dim]({min(quotients):.2f}-{max(quotients):.2f})[/]"


def shown(measured: str, number: float) -> str:
    if measured.endswith("bytes"):
        return f"{number / 2**20:,.0f} MiB"
    return f"{number:.2f} s" if number >= 1 else f"{number * 1e3:.1f} ms"


def ratio(theirs: float, ours: float, target: float | None) -> str:
    if ours <= 0:  # no memory was added: there is nothing to divide by
        return "-"
    quotient = theirs / ours
    wanted = "" if target is None else f" >= {target:g}"
    missed_it = "" if target is None or quotient >= target else " MISSED"
    colour = "green" if quotient > (target or 1) else "red"
    return f"[{colour}]{quotient:.2f}x{wanted}{missed_it}[/]"


def ratios(results: dict[str, dict[str, Phases]]) -> dict[Row, float]:
    return {
        (workload, phase, measured): by_engine["icechunk"][phase][measured] / ours
        for workload, by_engine in results.items()
        for phase, numbers in by_engine["frazil"].items()
        for measured, ours in numbers.items()
        if ours > 0
    }


def broken_promises(results: dict[str, dict[str, Phases]]) -> list[str]:
    return [
        f"{workload} / {phase}: {measured} {ours:g} is not below the reference's {theirs:g}"
        for workload, by_engine in results.items()
        for phase in by_engine["frazil"]
        if (workload, phase) in PROMISES
        for measured in PROMISED
        if (ours := by_engine["frazil"][phase][measured])
        >= (theirs := by_engine["icechunk"][phase][measured])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the best counts")
    parser.add_argument("--latency", type=float, default=0, metavar="MS", help="of a bucket")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--check", action="store_true", help="fail if a promise is broken")
    arguments = parser.parse_args()
    if unknown := set(arguments.workloads) - WORKLOADS.keys():
        parser.error(f"unknown workloads: {', '.join(sorted(unknown))}")

    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print("ratio = icechunk / frazil; above 1, frazil is better\n")
    results = {}
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        for workload in arguments.workloads or (FAR if arguments.latency else WORKLOADS):
            runs = measure(Path(folder), workload, arguments.repeat, arguments.latency / 1e3)
            results[workload] = {engine: best_of(runs[engine]) for engine in ENGINES}
            console.print(table_of(workload, runs, {} if arguments.latency else TARGETS))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.latency:
        return
    console.print(*(missed(ratios(results)) or ["every target reached"]), sep="\n")
    broken = broken_promises(results)
    console.print(*(broken or ["every promise kept"]), sep="\n")
    if arguments.check and broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
