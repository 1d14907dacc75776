"""A manifest of 1,000,000 virtual references: set, commit, then open again and scan."""

import os
from pathlib import Path
from types import ModuleType

import numpy as np
import zarr
from zarr.core.sync import sync

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

COUNT = int(os.environ.get("BENCH_REFS", "1000000"))
GRID = (COUNT // 1000, 1000)
CHUNK_BYTES = 4_000_000


def locations(per_file: int) -> list[str]:
    """Locations as a reader of many files makes them: one string object per chunk."""
    return [
        f"s3://climate-archive/era5/single-levels/{1940 + i // 20_000}/part-{i // per_file:07}.nc"
        for i in range(COUNT)
    ]


def _write(engine: ModuleType, root: Path, stopwatch: Stopwatch, per_file: int) -> None:
    session = engine.Repository.create(storage(engine, root)).writable_session("main")
    zarr.create_array(session.store, name="v", shape=GRID, chunks=(1, 1), dtype="f4")
    names = locations(per_file)
    offsets = np.arange(COUNT, dtype=np.uint64) % per_file * CHUNK_BYTES
    lengths = np.full(COUNT, CHUNK_BYTES, dtype=np.uint64)
    with stopwatch("set"):
        session.store.set_virtual_refs_arr(
            "v", GRID, names, offsets, lengths, validate_containers=False, checksum="etag"
        )
    with stopwatch("commit"):
        session.commit("virtual references")
    stopwatch.combine("set + commit", ("set", "commit"))


def write_shared(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _write(engine, root, stopwatch, per_file=1000)


def write_distinct(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _write(engine, root, stopwatch, per_file=1)


def scan(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("scan: array_chunk_iterator"):
        session = engine.Repository.open(storage(engine, root)).readonly_session("main")

        async def total() -> tuple[int, int]:
            rows = length = 0
            async for _, _, paths, _, lengths, _ in session.store.array_chunk_iterator("/v"):
                rows += len(paths)
                length += int(lengths.sum())
            return rows, length

        assert sync(total()) == (COUNT, COUNT * CHUNK_BYTES)


def scan_locations(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    with stopwatch("scan: all_virtual_chunk_locations"):
        session = engine.Repository.open(storage(engine, root)).readonly_session("main")
        assert len(session.all_virtual_chunk_locations()) == COUNT


STAGES = {
    "write": write_shared,
    "scan": scan,
    "scan_locations": scan_locations,
}
