"""Fifty commits, each of one small chunk, to one array and to one of many: what the transaction
itself costs.
"""

from pathlib import Path
from types import ModuleType

import zarr

from benchmarks.new_process import run_in_new_process
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

COMMITS = 50
ARRAYS = 100


def commit_often(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _commit_often(engine, storage(engine, root), stopwatch, f"{COMMITS} commits")
    synced = storage(engine, root.with_name("synced"), durable=True)
    _commit_often(engine, synced, stopwatch, f"{COMMITS} commits, frazil's synced to disk")


def _commit_often(engine: ModuleType, place: object, stopwatch: Stopwatch, name: str) -> None:
    repo = engine.Repository.create(place)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(COMMITS,), chunks=(1,), dtype="i4")
    session.commit("array")
    with stopwatch(name):
        for i in range(COMMITS):
            session = repo.writable_session("main")
            zarr.open_array(session.store, path="a")[i] = i + 1
            session.commit(f"{i}")


def commit_to_many(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.create(storage(engine, root.with_name("many")))
    session = repo.writable_session("main")
    for i in range(ARRAYS):
        zarr.create_array(session.store, name=f"a{i}", shape=(9,), chunks=(1,), dtype="i4")[:] = i
    session.commit("arrays")
    with stopwatch(f"{COMMITS} commits, each to one of {ARRAYS} arrays"):
        for i in range(COMMITS):
            session = repo.writable_session("main")
            zarr.open_array(session.store, path=f"a{i}")[3] = i + 1
            session.commit(f"{i}")


def read_history(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    place = str(root)
    code = f"""
import {engine.__name__} as engine
repo = engine.Repository.open(engine.local_filesystem_storage({place!r}))
assert len(list(repo.ancestry(branch="main"))) == len(list(repo.ops_log())) == {COMMITS + 2}
"""
    stopwatch.phases["new process: import, open, ancestry, ops log"] = run_in_new_process(code)
    _look(engine, place)  # so that what is loaded on first use is not measured
    with stopwatch("20 times: open, ancestry, ops log"):
        for _ in range(20):
            _look(engine, place)


def _look(engine: ModuleType, place: str) -> None:
    repo = engine.Repository.open(engine.local_filesystem_storage(place))
    assert len(list(repo.ancestry(branch="main"))) == COMMITS + 2
    assert len(list(repo.ops_log())) == COMMITS + 2


STAGES = {"commit": commit_often, "commit_to_many": commit_to_many, "history": read_history}
