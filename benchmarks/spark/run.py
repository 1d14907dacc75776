"""Runs workloads on all engines, in turns, and prints what each took and how they compare.

    python -m benchmarks.spark [--cells 30] [--only NAME ...] [--peers NAME ...] [--repeat N]
                               [--cold] [--quick] [--folder PATH] [--json FILE] [--page FILE]

Every engine is a process of its own with two cores for its tasks. Each workload is done once by
every engine to warm up, then `--repeat` times in turns, and the fastest run counts. With `--cold`
every workload has new processes, and its first run is shown as well.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.spark.data import Sample, sample_of
from benchmarks.spark.engine import ENGINES
from benchmarks.spark.report import Row, as_json, lines_of, merge, rows_of, write_page
from benchmarks.spark.workloads import START, WORKLOADS

ROOT = Path(__file__).parents[2]
SMALL_ROUNDS = 3  # small work is repeated that many times as often
HUNDRED = 100

type Message = dict[str, Any]


@dataclass(slots=True)
class Worker:
    """The process of one engine."""

    peer: str
    process: subprocess.Popen[str]
    limit_s: float
    ready: float = 0.0

    def ask(self, line: str = "") -> Message:
        assert self.process.stdin
        assert self.process.stdout
        timer = threading.Timer(self.limit_s, self.kill)
        timer.start()
        try:
            if line:
                self.process.stdin.write(f"{line}\n")
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            return {"error": "the process ended, or took too long"}
        message: Message = json.loads(answer)
        return message

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def started(peer: str, sample: Sample, scratch: Path, limit_s: float) -> Iterator[Worker]:
    folder = scratch / peer.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.spark.worker", peer, str(sample.root)]
    with (
        (folder / "errors.txt").open("w") as errors,
        subprocess.Popen(
            [*command, str(sample.hours), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        ) as process,
    ):
        worker = Worker(peer, process, limit_s)
        message = worker.ask()
        if "error" in message:
            sys.exit(f"{peer} did not start:\n{(folder / 'errors.txt').read_text()}")
        worker.ready = message["ready"]
        yield worker  # its input ends with the block, and so does the process


@dataclass(slots=True)
class Benchmark:
    sample: Sample
    peers: list[str]
    scratch: Path
    repeat: int
    limit_s: float

    def run(self, names: list[str], *, cold: bool) -> Iterator[list[Row]]:
        warm = [] if cold else [[name for name in names if name != START]]
        alone = [[name] for name in names if cold or name == START]
        for batch in filter(None, [*warm, *alone]):
            peers = [peer for peer in self.peers if ENGINES[peer].only in ("", *batch)]
            with ExitStack() as stack:
                enter = stack.enter_context
                workers = [
                    enter(started(peer, self.sample, self.scratch, self.limit_s)) for peer in peers
                ]
                for name in batch:
                    yield self._measure(name, workers, cold=batch == [name])

    def _measure(self, name: str, workers: list[Worker], *, cold: bool) -> list[Row]:
        """Lets engines take turns: what slows the machine for a while slows all of them."""
        workers = [worker for worker in workers if ENGINES[worker.peer].only in ("", name)]
        runs: dict[str, list[Message]] = {worker.peer: [] for worker in workers}
        for number in range(1 + self._rounds(name)):
            for worker in workers:
                done = runs[worker.peer]
                if not done or "seconds" in done[-1]:
                    done.append(worker.ask(f"{name} {number}"))
        ready = {worker.peer: worker.ready for worker in workers}
        return rows_of(name, runs, ready if cold else {})

    def _rounds(self, name: str) -> int:
        if name == START:
            return HUNDRED - 1
        return self.repeat * (SMALL_ROUNDS if WORKLOADS[name].small else 1)


@dataclass(slots=True)
class Results:
    """Rows in files, written after every workload: a run may be ended at any time."""

    sample: Sample
    json: Path | None
    page: Path | None
    load: str
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.json and self.json.exists():
            self.rows = [Row(**row) for row in json.loads(self.json.read_text())]

    def add(self, rows: list[Row]) -> None:
        self.rows = merge(rows, self.rows)
        if self.json:
            self.json.write_text(json.dumps(as_json(self.rows), indent=1) + "\n")
        if self.page:
            heading = f"{self.sample.cells:,} cells, {os.cpu_count()} cores, load {self.load}."
            write_page(self.page, self.sample.root.name, self.rows, heading)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    add = parser.add_argument
    add("--cells", type=int, default=30, help="size of the table in millions: 30, 300, ...")
    add("--large", action="store_true", help="a thousand million cells")
    add("--quick", action="store_true", help="a tiny table: does it run at all?")
    add("--only", nargs="+", choices=WORKLOADS, metavar="NAME", help=", ".join(WORKLOADS))
    add("--peers", nargs="+", choices=ENGINES, metavar="NAME", help=", ".join(ENGINES))
    add("--repeat", type=int, default=3, help="repetitions; the fastest counts")
    add("--cold", action="store_true", help="new processes for every workload")
    add("--limit", type=float, default=900, help="seconds that one run may take")
    add("--folder", type=Path, default=Path(tempfile.gettempdir()) / "frazil-bench")
    add("--json", type=Path, help="also write the numbers to this file, beside those it has")
    add("--page", type=Path, help="write the tables to this page, where it says `<!-- 30m -->`")
    given = parser.parse_args(arguments)

    sample = sample_of(given.folder, None if given.quick else 1000 if given.large else given.cells)
    names = given.only or list(WORKLOADS)
    sample.make({part for name in names for part in WORKLOADS[name].needs})
    scratch = given.folder / f"scratch-{os.getpid()}"
    peers = [
        peer
        for peer, engine in ENGINES.items()
        if peer in (given.peers or ENGINES) and engine.installed
    ]
    benchmark = Benchmark(sample, peers, scratch, given.repeat, given.limit)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"{sample.cells:,} cells, {os.cpu_count()} cores, load {load}", flush=True)
    results = Results(sample, given.json, given.page, load)
    try:
        for rows in benchmark.run(names, cold=given.cold):
            print(lines_of(rows), flush=True)
            results.add(rows)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
