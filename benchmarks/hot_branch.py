"""Several processes that commit to one branch as fast as they can, each to chunks of its own.

    python -m benchmarks.hot_branch [--engine NAME] [--writers N ...] [--seconds S] [--latency S]

Every commit is rebased if the branch has moved. Prints commits per second that the history has at
the end, those that were reported as made and are not there, waiting times, and how evenly commits
are shared: Jain's index, which is 1 if all writers made as many and 1/n if one made all.

Each writer makes one commit before anything is counted, so that everything is imported.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from benchmarks.slow_bucket import slow_bucket
from benchmarks.storages import PORT, storage
from frazil.engine.refs.repo_settings import GROUP_COMMIT

PRELOADED = (
    "zarr",
    "benchmarks.storages",
    "frazil.engine.commit.commit",
    "frazil.engine.group.group_commit",
)
PATIENCE_S = 600.0
CHUNKS = 1000  # of each writer, which it writes in turn


@dataclass(frozen=True, slots=True)
class Race:
    """The outcome of some writers in one branch."""

    writers: int
    seconds: float
    made: int  # commits that writers were told they made
    lost: int  # of these, not in the history
    failed: int  # commits that raised
    per_second: float  # commits in the history that were reported before the time was over
    median_s: float
    p99_s: float
    longest_s: float
    jain: float
    least_share: float  # of the writer with the fewest commits, relative to an even share
    tries: float  # rebases per commit that was made
    wasted: float  # share of the snapshots that were written and are in no history


def jain(counts: list[int]) -> float:
    """Jain's index of fairness."""
    total = sum(counts)
    return total**2 / (len(counts) * sum(n * n for n in counts)) if total else 0.0


def create(engine: Any, place: Path, writers: int, *, grouped: bool) -> None:
    repo = engine.Repository.create(storage(engine, place))
    if grouped:
        repo.update_metadata({GROUP_COMMIT: True})
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(writers, CHUNKS), chunks=(1, 1), dtype="i4")
    session.commit("array")


def write(
    engine: Any, place: Path, writer: int, seconds: float, ready: Callable[[], object]
) -> dict[str, Any]:
    """Commits one chunk at a time once all are ready; the ids, and how long each commit took."""
    repo = engine.Repository.open(storage(engine, place))
    data = default_buffer_prototype().buffer.from_bytes(writer.to_bytes(4, "little"))

    def edit(number: int) -> Any:
        session = repo.writable_session("main")
        sync(session.store.set(f"a/c/{writer}/{number % CHUNKS}", data))
        return session

    solver = engine.ConflictDetector()
    edit(0).commit("warm", rebase_with=solver, rebase_tries=1000)
    ready()
    ids, waits, failed, number = [], [], 0, 1
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        session = edit(number)
        began = time.perf_counter()
        try:
            ids.append(session.commit(f"{writer}", rebase_with=solver, rebase_tries=1000))
        except Exception:  # noqa: BLE001 -- any error of the engine: the commit was not made
            failed += 1
        waits.append(time.perf_counter() - began)
        number += 1
    return {"ids": ids, "waits": waits, "failed": failed, "late": ids[-1:]}


def race(name: str, place: Path, writers: int, seconds: float, *, grouped: bool) -> Race:
    engine = import_module(name)
    create(engine, place, writers, grouped=grouped)
    context: Any = multiprocessing.get_context("forkserver" if name == "frazil" else "spawn")
    context.set_forkserver_preload([name, *PRELOADED])  # the reference may hang after a fork
    ready, queue = context.Barrier(writers), context.Queue()
    fixed = name, place, seconds, os.environ.get(PORT), ready, queue
    processes = [context.Process(target=_write, args=(each, *fixed)) for each in range(writers)]
    for process in processes:
        process.start()
    found = dict(queue.get(timeout=PATIENCE_S) for _ in processes)
    done = [found[writer] for writer in range(writers)]
    repo = engine.Repository.open(storage(engine, place))
    kept = {each.id: each for each in repo.ancestry(branch="main")}
    files = storage(import_module("frazil"), place).store.list("snapshots/")
    return summarise(done, kept, seconds, written=sum(1 for _ in files))


def _write(  # noqa: PLR0917 -- of a process
    writer: int,
    name: str,
    place: Path,
    seconds: float,
    port: str | None,
    ready: Barrier,
    queue: "Queue[tuple[int, dict[str, Any]]]",
) -> None:
    """A process of its own, which has everything imported."""
    os.environ["ICECHUNK_NO_LOGS"] = "1"  # the reference warns about local disks
    if port is not None:
        os.environ[PORT] = port
    queue.put((writer, write(import_module(name), place, writer, seconds, ready.wait)))


def summarise(
    done: list[dict[str, Any]], kept: dict[str, Any], seconds: float, *, written: int
) -> Race:
    made = [(writer, each) for writer, one in enumerate(done) for each in one["ids"]]
    counts = Counter(writer for writer, each in made if each in kept)
    shares = [counts[writer] for writer in range(len(done))]
    waits = np.array([wait for one in done for wait in one["waits"]] or [0.0])
    notes = [kept[each].metadata.get("__icechunk", {}) for _, each in made if each in kept]
    return Race(
        writers=len(done),
        seconds=seconds,
        made=len(made),
        lost=len(made) - sum(shares),
        failed=sum(one["failed"] for one in done),
        per_second=(sum(shares) - sum(len(one["late"]) for one in done)) / seconds,
        median_s=float(np.median(waits)),
        p99_s=float(np.percentile(waits, 99)),
        longest_s=float(waits.max()),
        jain=jain(shares),
        least_share=min(shares) * len(shares) / max(1, sum(shares)),
        tries=sum(note.get("rebase_attempts", 0) for note in notes) / max(1, len(notes)),
        wasted=1 - len(kept) / max(1, written),
    )


def measure(
    name: str, writers: int, seconds: float, latency_s: float, *, grouped: bool = False
) -> Race:
    """`latency_s` 0: on the local disk."""
    with (
        tempfile.TemporaryDirectory(prefix="frazil-race-") as folder,
        slow_bucket(latency_s) if latency_s else nullcontext() as port,
    ):
        if port is not None:
            os.environ[PORT] = str(port)
        try:
            return race(name, Path(folder) / "repo", writers, seconds, grouped=grouped)
        finally:
            os.environ.pop(PORT, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--engine", default="frazil")
    parser.add_argument("--writers", type=int, nargs="+", default=[4, 16, 48])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--latency", type=float, default=0, help="of a bucket; 0: local disk")
    parser.add_argument("--group", action="store_true", help="with group commit; frazil, buckets")
    arguments = parser.parse_args()
    for writers in arguments.writers:
        done = measure(
            arguments.engine,
            writers,
            arguments.seconds,
            arguments.latency,
            grouped=arguments.group,
        )
        print({k: round(v, 3) for k, v in asdict(done).items()}, flush=True)


if __name__ == "__main__":
    main()
