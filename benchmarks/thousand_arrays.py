"""A thousand arrays in one group, made one by one through zarr: made, committed, listed.

Then as many that have values, so that each of them has references in a manifest.
"""

from pathlib import Path
from types import ModuleType

import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

COUNT = 1000


def create(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.create(storage(engine, root))
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    with stopwatch(f"{COUNT} arrays made with zarr"):
        for i in range(COUNT):
            group.create_array(f"a{i:04}", shape=(100,), chunks=(10,), dtype="f4")
    with stopwatch(f"{COUNT} arrays committed"):
        session.commit("arrays")
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    with stopwatch(f"members of a group of {COUNT}"):
        assert len(group.members()) == COUNT


def fill(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    for name, durable in (("", False), (", frazil's synced to disk", True)):
        place = storage(engine, root.with_name(f"filled-{durable}"), durable=durable)
        repo = engine.Repository.create(place)
        session = repo.writable_session("main")
        group = zarr.create_group(session.store)
        for i in range(COUNT):
            group.create_array(f"a{i:04}", shape=(100,), chunks=(50,), dtype="f4")[:] = i + 1
        with stopwatch(f"{COUNT} small arrays with values committed{name}"):
            session.commit("arrays")
    store = engine.Repository.open(place).readonly_session("main").store
    with stopwatch("one element of one of them"):
        assert zarr.open_array(store, path="a0500", mode="r")[3] == 501


STAGES = {"create": create, "fill": fill}
