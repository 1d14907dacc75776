"""Small commits, tags and the ancestry in a repository of 300 commits."""

from pathlib import Path
from types import ModuleType

import zarr

from benchmarks.made_up_history import build_history
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

TIMES = 20


def build_of(root: Path, commits: int) -> None:
    build_history(root, commits, chunks=4 * TIMES)


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    build_of(root, 300)


def change(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _commits(engine, storage(engine, root), stopwatch, f"{TIMES} commits", 0)
    repo = engine.Repository.open(storage(engine, root))
    with stopwatch("ancestry"):
        newest = next(iter([snapshot.id for snapshot in repo.ancestry(branch="main")]))
    with stopwatch(f"{TIMES} tags"):
        for i in range(TIMES):
            repo.create_tag(f"v{i}", newest)
    synced = storage(engine, root, durable=True)
    _commits(engine, synced, stopwatch, f"{TIMES} commits, frazil's synced to disk", 2 * TIMES)


def _commits(engine: ModuleType, place: object, stopwatch: Stopwatch, name: str, at: int) -> None:
    repo = engine.Repository.open(place)
    for i in range(5):  # so that what is loaded on first use is not measured
        _commit(repo, at + i)
    with stopwatch(name):
        for i in range(at + 5, at + 5 + TIMES):
            _commit(repo, i)


def _commit(repo: object, i: int) -> None:
    session = repo.writable_session("main")  # type: ignore[attr-defined]  # of either engine
    zarr.open_array(session.store, path="a")[i] = i + 1
    session.commit(f"{i}")


STAGES = {"build": build, "change": change}
