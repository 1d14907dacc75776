"""16 uncompressed chunks of 16 MB: written, and read back, beside a plain copy of as many bytes."""

import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

CHUNKS = 16
ELEMENTS = 4 << 20  # of 4 bytes


def some_values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).random((CHUNKS, ELEMENTS), dtype=np.float32)


def written(
    engine: ModuleType, root: Path, stopwatch: Stopwatch, phase: str, *, durable: bool
) -> None:
    values = some_values()
    repo = engine.Repository.create(storage(engine, root, durable=durable))
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=values.shape,
        chunks=(1, ELEMENTS),
        dtype="f4",
        compressors=None,
    )
    with stopwatch(phase):
        array[...] = values
        session.commit("chunks")


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    written(engine, root, stopwatch, "write + commit", durable=False)


def write_durably(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    durable = root.with_name("durable")
    phase = "write + commit, frazil's synced to disk"
    written(engine, durable, stopwatch, phase, durable=True)
    shutil.rmtree(durable)


def read(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("open + read"):
        repo = engine.Repository.open(storage(engine, root))
        array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
        values = np.asarray(array[...])
    assert np.array_equal(values, some_values())


def copy(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Limit of the machine, the same for both."""
    del engine
    values = some_values()
    plain, copied = root.with_name("plain"), root.with_name("copied")
    with stopwatch("plain file written"), plain.open("wb", buffering=0) as file:
        for row in values:
            file.write(row)
    again = np.empty_like(values)
    with stopwatch("plain file read"), plain.open("rb", buffering=0) as file:
        for row in again:
            file.readinto(row)
    with stopwatch("plain file copied"):
        shutil.copyfile(plain, copied)
    plain.unlink()
    copied.unlink()


STAGES = {"write": write, "write_durably": write_durably, "read": read, "copy": copy}
