"""10,000 uncompressed chunks of 4 KB: written, committed, and read back from a fresh start."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

CHUNKS = 10_000
ELEMENTS = 1024  # of 4 bytes


def some_values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((CHUNKS, ELEMENTS), dtype=np.float32)


def new_array(engine: ModuleType, root: Path, *, durable: bool = False) -> tuple[Any, Any]:
    repo = engine.Repository.create(storage(engine, root, durable=durable))
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=(CHUNKS, ELEMENTS),
        chunks=(1, ELEMENTS),
        dtype="f4",
        compressors=None,
    )
    return session, array


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    values = some_values()
    session, array = new_array(engine, root)
    with stopwatch("write"):
        array[...] = values
    with stopwatch("commit"):
        session.commit("chunks")


def write_durably(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    values = some_values()
    session, array = new_array(engine, root.with_name("durable"), durable=True)
    with stopwatch("write + commit, frazil's synced to disk"):
        array[...] = values
        session.commit("chunks")


def read(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("open + read"):
        repo = engine.Repository.open(storage(engine, root))
        array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
        values = np.asarray(array[...])
    assert np.array_equal(values, some_values())
    with stopwatch("read again"):
        np.asarray(array[...])


STAGES = {"write": write, "write_durably": write_durably, "read": read}
