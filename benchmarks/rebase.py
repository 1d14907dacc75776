"""A session rebased over 149 commits of others, in a repository of 300 arrays."""

from pathlib import Path
from types import ModuleType

import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

ARRAYS = 300
COMMITS = 149


def rebase_far(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.create(storage(engine, root))
    session = repo.writable_session("main")
    for i in range(ARRAYS):
        zarr.create_array(session.store, name=f"a{i}", shape=(COMMITS,), chunks=(1,), dtype="i4")
    session.commit("arrays")
    ours = repo.writable_session("main")
    zarr.open_array(ours.store, path=f"a{ARRAYS - 1}")[0] = 1
    for i in range(COMMITS):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path=f"a{i}")[i] = i + 1
        session.commit(f"{i}")
    with stopwatch(f"over {COMMITS} commits"):
        ours.rebase(engine.ConflictDetector())
    with stopwatch("commit"):
        ours.commit("ours")


def rebase_cold(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Rebases in a process that did not see the commits of others."""
    repo = engine.Repository.open(storage(engine, root))
    start = list(repo.ancestry(branch="main"))[-2].id
    repo.create_branch("old", start)
    ours = repo.writable_session("old")
    zarr.open_array(ours.store, path=f"a{ARRAYS - 1}")[1] = 1
    repo.reset_branch("old", repo.lookup_branch("main"))
    with stopwatch(f"over {COMMITS + 1} commits, cold"):
        ours.rebase(engine.ConflictDetector())


STAGES = {"far": rebase_far, "cold": rebase_cold}
