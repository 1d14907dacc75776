"""A repository of 5,000 arrays in 50 groups: made, listed, looked into, changed and compared."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from benchmarks.new_process import run_in_new_process
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

GROUPS, ARRAYS = 50, int(os.environ.get("BENCH_ARRAYS", "5000"))
TIMES = 20


def _name(i: int) -> str:
    return f"group{i % GROUPS:02}/array{i:04}"


def _documents() -> dict[str, bytes]:
    """Documents that zarr would store for the groups and arrays, by key."""
    store = zarr.storage.MemoryStore()
    zarr.create_group(store, attributes={"title": "a group"})
    group = sync(store.get("zarr.json", default_buffer_prototype()))
    zarr.create_array(store, name="a", shape=(100,), chunks=(10,), dtype="f4")
    array = sync(store.get("a/zarr.json", default_buffer_prototype()))
    assert group is not None
    assert array is not None
    described = json.loads(array.to_bytes())
    documents = {"zarr.json": group.to_bytes()}
    documents |= {f"group{i:02}/zarr.json": group.to_bytes() for i in range(GROUPS)}
    for i in range(ARRAYS):
        described["attributes"] = {"long_name": f"variable number {i}", "units": "m s-1"}
        documents[f"{_name(i)}/zarr.json"] = json.dumps(described).encode()
    return documents


def create(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.create(storage(engine, root))
    session = repo.writable_session("main")
    buffer = default_buffer_prototype().buffer
    documents = {key: buffer.from_bytes(data) for key, data in _documents().items()}

    async def put() -> None:
        for key, value in documents.items():
            await session.store.set(key, value)

    with stopwatch(f"{ARRAYS} arrays set"):
        sync(put())
    with stopwatch(f"{ARRAYS} arrays committed"):
        session.commit("arrays")


def look(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    place = storage(engine, root)
    with stopwatch(f"{TIMES} times: open, one array's metadata"):
        for i in range(TIMES):
            session = engine.Repository.open(place).readonly_session("main")
            zarr.open_array(session.store, path=_name(i), mode="r")
    store = session.store
    with stopwatch(f"{TIMES} groups listed: list_dir"):
        for i in range(TIMES):
            assert len(_listed(store.list_dir(f"group{i:02}"))) == ARRAYS // GROUPS + 1
    with stopwatch("all keys: list_prefix"):
        assert len(_listed(store.list_prefix(""))) == ARRAYS + GROUPS + 1
    with stopwatch("members of one group"):
        assert len(zarr.open_group(store, path="group07", mode="r").members()) == ARRAYS // GROUPS
    with stopwatch("members, all levels"):
        members = zarr.open_group(store, mode="r").members(max_depth=None)
        assert len(members) == ARRAYS + GROUPS


def _listed(found: Any) -> list[str]:
    async def collected() -> list[str]:
        return [name async for name in found]

    return sync(collected())


def start(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Waiting time of a new process: engines do more or less of it on import."""
    code = f"""
import zarr
import {engine.__name__} as engine
repo = engine.Repository.open(engine.local_filesystem_storage({str(root)!r}))
zarr.open_array(repo.readonly_session("main").store, path={_name(ARRAYS // 2)!r}, mode="r")
"""
    stopwatch.phases["new process: import, open, one array's metadata"] = run_in_new_process(code)


def change(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, root))
    start = repo.lookup_branch("main")
    _commit(repo, TIMES)  # so that what is loaded on first use is not measured
    with stopwatch(f"{TIMES} commits, each of one array"):
        for i in range(TIMES):
            _commit(repo, i)
    tip = repo.lookup_branch("main")
    with stopwatch(f"{TIMES} diffs over as many commits"):
        for _ in range(TIMES):
            repo = engine.Repository.open(storage(engine, root))
            found = repo.diff(from_snapshot_id=start, to_snapshot_id=tip)
            assert len(found.updated_arrays) == TIMES + 1
    first = [snapshot.id for snapshot in repo.ancestry(branch="main")][-1]
    with stopwatch("diff from the beginning"):
        found = repo.diff(from_snapshot_id=first, to_snapshot_id=tip)
        assert len(found.new_arrays) == ARRAYS


def _commit(repo: Any, i: int) -> None:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path=_name(i)).attrs["touched"] = i
    session.commit(f"{i}")


STAGES = {
    "create": create,
    "start": start,
    "look": look,
    "change": change,
}
