"""2,000 uncompressed chunks of 4 KB: written, committed, and read back from a fresh start."""

from pathlib import Path
from types import ModuleType

import numpy as np
import zarr

from benchmarks.timing import Stopwatch

CHUNKS = 2000
ELEMENTS = 1024  # of 4 bytes


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.create(engine.local_filesystem_storage(str(root)))
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=(CHUNKS, ELEMENTS),
        chunks=(1, ELEMENTS),
        dtype="f4",
        compressors=None,
    )
    values = np.random.default_rng(0).random((CHUNKS, ELEMENTS), dtype=np.float32)
    with stopwatch("write"):
        array[...] = values
    with stopwatch("commit"):
        session.commit("chunks")


def read(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("open + read"):
        repo = engine.Repository.open(engine.local_filesystem_storage(str(root)))
        array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
        values = np.asarray(array[...])
    assert values.shape == (CHUNKS, ELEMENTS)


STAGES = {"write": write, "read": read}
