"""One element of an array: from a cold open, and again with everything open."""

from pathlib import Path
from types import ModuleType

import numpy as np
import zarr

from benchmarks.new_process import run_in_new_process
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

LENGTH = 4096 * 1024
CHUNK = 16 * 1024  # of 4 bytes, compressed with zstd
TIMES = 50


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    session = engine.Repository.create(storage(engine, root)).writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(LENGTH,), chunks=(CHUNK,), dtype="f4")
    with stopwatch("write + commit"):
        array[...] = np.arange(LENGTH, dtype=np.float32)
        session.commit("chunks")


def start(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Waiting time of a new process: engines do more or less of it on import."""
    code = f"""
import zarr
import {engine.__name__} as engine
repo = engine.Repository.open(engine.local_filesystem_storage({str(root)!r}))
assert zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")[17] == 17
"""
    stopwatch.phases["new process: import, open, one element"] = run_in_new_process(code)


def cold(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    element(engine, root, 17)  # so that what is loaded on first use is not measured
    with stopwatch(f"{TIMES} times: open + one element"):
        for number in range(TIMES):
            element(engine, root, number * CHUNK)


def element(engine: ModuleType, root: Path, at: int) -> None:
    repo = engine.Repository.open(storage(engine, root))
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert array[at] == at


def warm(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, root))
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert array[17] == 17
    with stopwatch(f"{4 * TIMES} elements, one by one"):
        for number in range(4 * TIMES):
            assert array[number * CHUNK + 1] == number * CHUNK + 1
    with stopwatch(f"{4 * TIMES} times the same element"):
        for _ in range(4 * TIMES):
            assert array[17] == 17


STAGES = {"build": build, "start": start, "cold": cold, "warm": warm}
