"""Growth of frazil's costs: with references, with the length of an array, with history.

    python -m benchmarks.growth [--largest N] [--json FILE] [--plot FILE]

Every point is measured in a process of its own, in processor time, which says more than time on a
machine that others use as well. `--plot` draws the curves, `docs/growth.svg` for instance.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from zarr.core.sync import sync

import frazil
from benchmarks.made_up_history import build_history
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from frazil.virtual import CodedLocations

ROOT = Path(__file__).parents[1]
REFERENCES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
COMMITS = (10, 100, 1_000, 10_000)
COLUMNS = 1000
CHUNK_BYTES = 4_000_000
TIMES = 20

type Point = dict[str, float]


def measure_references(root: Path, count: int) -> Point:
    """Set and committed, scanned, and a thousand more appended to them."""
    stopwatch = Stopwatch()
    repo = frazil.Repository.create(storage(frazil, root))
    session = repo.writable_session("main")
    rows = count // COLUMNS
    zarr.create_array(session.store, name="v", shape=(rows, COLUMNS), chunks=(1, 1), dtype="f4")
    _set(session, 0, 1)  # so that what is loaded on first use is not measured
    with stopwatch("write"):
        _set(session, 0, rows)
        session.commit("references")
    repo = frazil.Repository.open(storage(frazil, root))
    with stopwatch("scan"):
        assert _scanned(repo.readonly_session("main")) == count
    repo = frazil.Repository.open(storage(frazil, root))
    with stopwatch("append"):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="v").resize((rows + 1, COLUMNS))
        _set(session, rows, 1)
        session.commit("a row")
    phases = stopwatch.phases
    return {
        "write_us": phases["write"].cpu_seconds / count * 1e6,
        "write_bytes": phases["write"].added_bytes / count,
        "scan_us": phases["scan"].cpu_seconds / count * 1e6,
        "append_ms": phases["append"].cpu_seconds * 1e3,
    }


def _set(session: frazil.Session, first: int, rows: int) -> None:
    count = rows * COLUMNS
    files = [f"s3://climate-archive/era5/part-{first + i:07}.nc" for i in range(rows)]
    codes = np.repeat(np.arange(rows, dtype=np.int64), COLUMNS)
    offsets = np.tile(np.arange(COLUMNS, dtype=np.uint64) * CHUNK_BYTES, rows)
    session.store.set_virtual_refs_arr(
        "v",
        (rows, COLUMNS),
        CodedLocations(codes, files),
        offsets,
        np.full(count, CHUNK_BYTES, dtype=np.uint64),
        validate_containers=False,
        arr_offset=(first, 0),
    )


def _scanned(session: frazil.Session) -> int:
    async def total() -> int:
        rows = 0
        async for _, _, paths, _, _, _ in session.store.array_chunk_iterator("/v"):
            rows += len(paths)
        return rows

    return sync(total())


def measure_history(root: Path, commits: int) -> Point:
    """Chunks read, sessions opened and commits made in a repository of so many commits."""
    build_history(root, commits, chunks=100)
    repo = frazil.Repository.open(storage(frazil, root))
    for i in range(4):
        _commit(repo, i)
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert array[0] == 1
    numbers = iter(range(4, 100))
    deeds: dict[str, Callable[[], object]] = {
        "read": lambda: array[2],
        "session": lambda: repo.readonly_session("main"),
        "commit": lambda: _commit(repo, next(numbers)),
        "open": lambda: frazil.Repository.open(storage(frazil, root)),
    }
    return {f"{name}_ms": _least_ms(deed) for name, deed in deeds.items()}


def _least_ms(deed: Callable[[], object]) -> float:
    """Best of several times, which leaves out the effect of other processes on caches."""
    found = []
    for _ in range(TIMES):
        started = time.process_time()
        deed()
        found.append(time.process_time() - started)
    return min(found) * 1e3


def _commit(repo: frazil.Repository, i: int) -> None:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[i] = i + 1
    session.commit(f"{i}")


MEASURES = {"references": measure_references, "history": measure_history}


def measured(kind: str, size: int) -> Point:
    """Measures in another process."""
    with tempfile.TemporaryDirectory(prefix="frazil-growth-") as directory:
        command = ["-m", "benchmarks.growth", "--one", kind, str(size), f"{directory}/repo"]
        done = subprocess.run(
            [sys.executable, *command], check=True, capture_output=True, text=True, cwd=ROOT
        )
    point: Point = json.loads(done.stdout.splitlines()[-1])
    print(f"{kind:>10} {size:>10,}  " + "  ".join(f"{k} {v:.3g}" for k, v in point.items()))
    return point


CURVES = (
    ("references", "processor time per reference, us", ("write_us", "scan_us")),
    ("references", "memory added per reference, bytes", ("write_bytes",)),
    ("references", "append of 1,000, ms", ("append_ms",)),
    ("history", "processor time, ms", ("read_ms", "session_ms", "commit_ms", "open_ms")),
)
NAMES = {
    "write_us": "set and committed",
    "scan_us": "scanned",
    "write_bytes": "set and committed",
    "append_ms": "set and committed",
    "read_ms": "a chunk read",
    "session_ms": "a session opened",
    "commit_ms": "a commit",
    "open_ms": "the repository opened",
}


def plot(points: dict[str, dict[int, Point]], place: Path) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 -- in the extra `demo`, needed here only

    plt.rcParams["svg.hashsalt"] = "frazil"  # the same numbers give the same file
    figure, panels = plt.subplots(1, len(CURVES), figsize=(15, 3.4), layout="constrained")
    for panel, (kind, label, names) in zip(panels, CURVES, strict=True):
        sizes = list(points[kind])
        for name in names:
            values = [points[kind][size][name] for size in sizes]
            panel.plot(sizes, values, marker="o", label=NAMES[name])
        panel.set(xscale="log", ylim=(0, None), ylabel=label)
        panel.set_xlabel("references in the array" if kind == "references" else "commits")
        panel.legend(frameon=False, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(place, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--largest", type=int, default=REFERENCES[-1], help="references at most")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, size, place = arguments.one
        print(json.dumps(MEASURES[kind](Path(place), int(size))))
        return
    points = {
        "references": {n: measured("references", n) for n in REFERENCES if n <= arguments.largest},
        "history": {n: measured("history", n) for n in COMMITS},
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(points, indent=2) + "\n")
    if arguments.plot:
        plot(points, arguments.plot)


if __name__ == "__main__":
    main()
