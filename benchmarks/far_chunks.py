"""Chunks in a bucket that answers after 20 ms: what counts is how many requests wait for others."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

from benchmarks.slow_bucket import bucket_storage, slow_bucket
from benchmarks.timing import Stopwatch

CHUNKS = 1000
ELEMENTS = 1024  # of 4 bytes


def far(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    values = np.random.default_rng(0).random((CHUNKS, ELEMENTS), dtype=np.float32)
    with slow_bucket() as port:
        session = engine.Repository.create(bucket_storage(engine, port)).writable_session("main")
        arrays = {name: new_array(session, name) for name in ("raw", "zstd", "sharded")}
        for name, array in arrays.items():
            with stopwatch(f"{CHUNKS} chunks, {name}: write"):
                array[...] = values
        with stopwatch("commit"):
            session.commit("chunks")
        with stopwatch("open + one element"):
            opened(engine, port, "raw")[7, 7]
        for name in arrays:
            with stopwatch(f"{CHUNKS} chunks, {name}: open + read"):
                found = np.asarray(opened(engine, port, name)[...])
            assert np.array_equal(found, values)
        array = opened(engine, port, "sharded")
        with stopwatch("a value of each of 10 shards"):
            found = np.asarray(array[:: CHUNKS // 10, 5])
        assert np.array_equal(found, values[:: CHUNKS // 10, 5])


def new_array(session: Any, name: str) -> "zarr.Array[Any]":
    return zarr.create_array(
        session.store,
        name=name,
        shape=(CHUNKS, ELEMENTS),
        chunks=(1, ELEMENTS),
        shards=(CHUNKS // 10, ELEMENTS) if name == "sharded" else None,
        dtype="f4",
        compressors=ZstdCodec(level=1) if name == "zstd" else None,
    )


def opened(engine: ModuleType, port: int, name: str) -> "zarr.Array[Any]":
    repo = engine.Repository.open(bucket_storage(engine, port))
    return zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")


STAGES = {"far": far}
