"""1,000,000 virtual references from columns: a table of files and a code for each chunk.

This is how a Spark job or a reader of many files has them. Frazil takes them as they are; the
reference has no such call and needs a list with a string for each chunk, which counts as `set`.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from benchmarks.virtual_refs import CHUNK_BYTES, COUNT, GRID, scan
from frazil.virtual import CodedLocations

PER_FILE = 1000


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _write(engine, storage(engine, root), stopwatch)
    apart = Stopwatch()
    _write(engine, storage(engine, root.with_name("synced"), durable=True), apart)
    stopwatch.phases["set + commit, frazil's synced to disk"] = apart.phases["set + commit"]


def _write(engine: ModuleType, place: object, stopwatch: Stopwatch) -> None:
    session = engine.Repository.create(place).writable_session("main")
    zarr.create_array(session.store, name="v", shape=GRID, chunks=(1, 1), dtype="f4")
    files = [f"s3://climate-archive/era5/part-{i:07}.nc" for i in range(COUNT // PER_FILE)]
    codes = np.arange(COUNT, dtype=np.int64) // PER_FILE
    offsets = np.arange(COUNT, dtype=np.uint64) % PER_FILE * CHUNK_BYTES
    lengths = np.full(COUNT, CHUNK_BYTES, dtype=np.uint64)
    names: Any
    with stopwatch("set"):
        if engine.__name__ == "frazil":
            names = CodedLocations(codes, files)
        else:
            names = [files[code] for code in codes.tolist()]
        session.store.set_virtual_refs_arr(
            "v", GRID, names, offsets, lengths, validate_containers=False
        )
    with stopwatch("commit"):
        session.commit("virtual references")
    stopwatch.combine("set + commit", ("set", "commit"))


STAGES = {"write": write, "scan": scan}
