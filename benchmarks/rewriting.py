"""Rewriting: 2,000,000 references at the tip split and joined again; small chunks packed.

The reference has no packs. What its users can do about small chunks is to copy an array into one
of larger chunks, which is measured beside frazil's `pack`. Both then read what frazil packed.
"""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import zarr

import frazil
from benchmarks.maintained_repository import ARRAYS, make
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

REFERENCES = int(os.environ.get("BENCH_REFERENCES", "2000000"))  # at the tip
PER_MANIFEST = 5_000
SMALL = int(os.environ.get("BENCH_SMALL_CHUNKS", "20000"))
CHUNK = 256  # numbers of four bytes


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    commits = ARRAYS + 2
    make(root, snapshots=commits, references=REFERENCES // ARRAYS * commits)
    repo = frazil.Repository.create(storage(frazil, _small(root)))
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="small", shape=(SMALL * CHUNK,), chunks=(CHUNK,),
                              dtype="i4", compressors=None, filters=None)  # fmt: skip
    array[:] = np.arange(SMALL * CHUNK, dtype="i4")
    session.commit("small chunks")
    repo.unpack(branch="main")  # what is written at once may be in packs


def rewrite(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    for name, size in (("cut", PER_MANIFEST), ("joined again", 2**32 - 1)):
        repo = engine.Repository.open(storage(engine, root), config=_split(engine, size))
        with stopwatch(f"rewrite_manifests, {name}"):
            repo.rewrite_manifests(name, branch="main")


def read_small(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _read(engine, root, stopwatch, "small chunks read")


def pack(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, _small(root)))
    if engine.__name__ == "frazil":
        with stopwatch("pack, or copy to larger chunks"):
            assert repo.pack(branch="main").chunks == SMALL
        return
    with stopwatch("pack, or copy to larger chunks"):
        session = repo.writable_session("main")
        small = zarr.open_array(session.store, path="small")
        large = zarr.create_array(session.store, name="large", shape=small.shape,
                                  chunks=(CHUNK << 14,), dtype="i4", compressors=None,
                                  filters=None)  # fmt: skip
        large[:] = small[:]
        session.commit("larger chunks")
    frazil.Repository.open(storage(frazil, _small(root))).pack(branch="main")


def read_packed(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    _read(engine, root, stopwatch, "packed chunks read")


def _read(engine: ModuleType, root: Path, stopwatch: Stopwatch, name: str) -> None:
    repo = engine.Repository.open(storage(engine, _small(root)))
    with stopwatch(name):
        array = zarr.open_array(repo.readonly_session("main").store, path="small", mode="r")
        values = np.asarray(array[:])
    assert (values == np.arange(SMALL * CHUNK, dtype="i4")).all()


def _small(root: Path) -> Path:
    return root.with_name("small")


def _split(engine: ModuleType, size: int) -> Any:
    config = engine.RepositoryConfig.default()
    rule = {engine.ManifestSplitDimCondition.Any(): size}
    config.manifest = engine.ManifestConfig(
        splitting=engine.ManifestSplittingConfig.from_dict(
            {engine.ManifestSplitCondition.AnyArray(): rule}
        )
    )
    return config


STAGES = {
    "build": build,
    "rewrite": rewrite,
    "read_small": read_small,
    "pack": pack,
    "read_packed": read_packed,
}
