"""A repository of 10,000 commits: what each of the small operations costs there."""

import os
from itertools import islice
from pathlib import Path
from types import ModuleType

import zarr

from benchmarks.made_up_history import build_history
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

COMMITS = int(os.environ.get("BENCH_COMMITS", "10000"))
TIMES = 20
CHUNKS = 4 * TIMES


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    build_history(root, COMMITS, CHUNKS)


def look(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    place = storage(engine, root)
    with stopwatch("cold: open, tip"):
        engine.Repository.open(place).lookup_branch("main")
    with stopwatch(f"{TIMES} opens"):
        for _ in range(TIMES):
            repo = engine.Repository.open(place)
    with stopwatch(f"{TIMES} branches listed"):
        for _ in range(TIMES):
            assert repo.list_branches() == {"main"}
    with stopwatch(f"{TIMES} sessions"):
        for _ in range(TIMES):
            repo.readonly_session("main")
    with stopwatch("ancestry"):
        assert sum(1 for _ in repo.ancestry(branch="main")) == COMMITS
    with stopwatch("ancestry, everything read"):
        found = [(s.id, s.parent_id, s.message, s.metadata) for s in repo.ancestry(branch="main")]
        assert len(found) == COMMITS
    with stopwatch("20 times: 10 newest of the ancestry"):
        for _ in range(20):
            newest = [snapshot.id for snapshot in islice(repo.ancestry(branch="main"), 10)]
            assert len(newest) == 10
    with stopwatch("ops log"):
        assert sum(1 for _ in repo.ops_log()) == COMMITS
    with stopwatch("ops log, everything read"):
        read = [(entry.kind, entry.updated_at, entry.backup_path) for entry in repo.ops_log()]
        assert len(read) == COMMITS


def change(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _commits(engine, storage(engine, root), stopwatch, f"{TIMES} commits", 0)
    repo = engine.Repository.open(storage(engine, root))
    tip = repo.lookup_branch("main")
    start = [snapshot.id for snapshot in repo.ancestry(branch="main")][TIMES]
    with stopwatch(f"{TIMES} tags"):
        for i in range(TIMES):
            repo.create_tag(f"v{i}", tip)
    with stopwatch(f"{TIMES} branches"):
        for i in range(TIMES):
            repo.create_branch(f"b{i}", tip)
    with stopwatch(f"{TIMES} diffs over {TIMES} commits"):
        for _ in range(TIMES):
            repo = engine.Repository.open(storage(engine, root))
            found = repo.diff(from_snapshot_id=start, to_snapshot_id=tip)
            assert len(found.updated_chunks["/a"]) == TIMES
    synced = storage(engine, root, durable=True)
    _commits(engine, synced, stopwatch, f"{TIMES} commits, frazil's synced to disk", TIMES)


def _commits(engine: ModuleType, place: object, stopwatch: Stopwatch, name: str, at: int) -> None:
    repo = engine.Repository.open(place)
    _commit(repo, at)  # so that what is loaded on first use is not measured
    with stopwatch(name):
        for i in range(at + 1, at + 1 + TIMES):
            _commit(repo, i)


def _commit(repo: object, i: int) -> None:
    session = repo.writable_session("main")  # type: ignore[attr-defined]  # of either engine
    zarr.open_array(session.store, path="a")[i] = i + 1
    session.commit(f"{i}")


STAGES = {"build": build, "look": look, "change": change}
