"""1,024 chunks of 64 KB, compressed with zstd: written, and read back from a fresh start."""

from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import ZstdCodec

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

SHAPE = (4096, 4096)
CHUNKS = (128, 128)  # of 4 bytes


def some_values() -> npt.NDArray[np.float32]:
    """Like a measured field: smooth, with noise, in hundredths."""
    y, x = np.ogrid[: SHAPE[0], : SHAPE[1]]
    noise = np.random.default_rng(0).normal(0, 0.1, SHAPE)
    return (280 + 20 * np.sin(y / 300) * np.cos(x / 500) + noise).round(2).astype(np.float32)


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    values = some_values()
    session = engine.Repository.create(storage(engine, root)).writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="f4",
        compressors=ZstdCodec(level=1),
    )
    with stopwatch("write + commit"):
        array[...] = values
        session.commit("chunks")


def read(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("open + read"):
        repo = engine.Repository.open(storage(engine, root))
        array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
        values = np.asarray(array[...])
    assert np.array_equal(values, some_values())


STAGES = {"write": write, "read": read}
