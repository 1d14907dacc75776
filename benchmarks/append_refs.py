"""A row of 1,000 virtual references appended to an array that has 1,000,000 of them."""

from pathlib import Path
from types import ModuleType

import numpy as np
import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from benchmarks.virtual_refs import CHUNK_BYTES, GRID, write_shared

APPENDS = 5


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured here."""
    del stopwatch
    write_shared(engine, root, Stopwatch())


def append(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """The first one apart: later ones find in memory what it had to read."""
    repo = engine.Repository.open(storage(engine, root))
    with stopwatch(f"{GRID[1]} more of them set, committed"):
        _append(repo, 0)
    with stopwatch(f"{APPENDS} times more in the same process"):
        for i in range(1, 1 + APPENDS):
            _append(repo, i)


def _append(repo: object, i: int) -> None:
    rows, columns = GRID
    session = repo.writable_session("main")  # type: ignore[attr-defined]  # of either engine
    array = zarr.open_array(session.store, path="v")
    array.resize((rows + i + 1, columns))
    session.store.set_virtual_refs_arr(
        "v",
        (1, columns),
        [f"s3://climate-archive/era5/single-levels/2026/part-{rows + i:07}.nc"] * columns,
        np.arange(columns, dtype=np.uint64) * CHUNK_BYTES,
        np.full(columns, CHUNK_BYTES, dtype=np.uint64),
        validate_containers=False,
        arr_offset=(rows + i, 0),
    )
    session.commit(f"one more row, number {i}")


STAGES = {"build": build, "append": append}
