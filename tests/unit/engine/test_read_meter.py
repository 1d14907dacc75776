"""Reads of chunks are counted: chunks, bytes, the time of waiting."""

import os
from collections.abc import Callable
from dataclasses import astuple
from threading import Barrier, Thread
from time import sleep
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.api import Repository, RepositoryConfig, in_memory_storage
from frazil.config import CachingConfig
from frazil.engine.files.read_meter import ReadCounts, ReadMeter, read_meter

VALUES = np.random.default_rng(3).normal(size=(60, 40))
CHUNKS = (16, 16)  # 4 x 3, those at the ends are whole


def counted(read: Callable[[], object]) -> ReadCounts:
    before = read_meter.counts()
    read()
    return read_meter.counts().since(before)


def array_of(config: RepositoryConfig | None = None, **options: Any) -> "zarr.Array[Any]":
    repository = Repository.create(in_memory_storage(), config=config)
    with repository.transaction("main", message="values") as store:
        zarr.create_array(store, name="v", data=VALUES, chunks=CHUNKS, **options)
    opened = zarr.open_array(repository.readonly_session("main").store, path="v", mode="r")
    assert isinstance(opened, zarr.Array)
    return opened


def stored_bytes(array: "zarr.Array[Any]") -> int:
    return int(array.nbytes_stored())


@pytest.mark.parametrize("compressors", ["auto", None])
def test_a_whole_array(compressors: Any) -> None:
    array = array_of(compressors=compressors)
    found = counted(lambda: array[:])
    assert (found.chunks, found.cached, found.decoded_bytes) == (12, 0, 12 * 16 * 16 * 8)
    store: Any = array.store_path.store
    metadata = len(store.get_sync("v/zarr.json"))
    assert found.fetched_bytes == stored_bytes(array) - metadata
    assert found.waiting_us > 0


def test_a_part_of_an_array() -> None:
    array = array_of()
    found = counted(lambda: array[:16, 20:])
    assert (found.chunks, found.decoded_bytes) == (2, 2 * 16 * 16 * 8)


def test_chunks_that_were_never_written_are_not_read() -> None:
    repository = Repository.create(in_memory_storage())
    with repository.transaction("main", message="few") as store:
        array = zarr.create_array(store, name="v", shape=(60, 40), chunks=CHUNKS, dtype="f8")
        array[:16, :16] = 1
    opened: Any = zarr.open_array(repository.readonly_session("main").store, path="v", mode="r")
    found = counted(lambda: opened[:])
    assert (found.chunks, found.decoded_bytes) == (1, 16 * 16 * 8)


def test_chunks_in_the_cache_are_read_but_not_fetched() -> None:
    array = array_of(RepositoryConfig(caching=CachingConfig(num_bytes_chunks=10_000_000)))
    first = counted(lambda: array[:])
    second = counted(lambda: array[:])
    assert (first.chunks, first.cached) == (12, 0)
    assert astuple(second) == (12, 12, 0, first.decoded_bytes, 0)


def test_inline_chunks_are_not_fetched() -> None:
    array = array_of(RepositoryConfig(inline_chunk_threshold_bytes=60_000))
    found = counted(lambda: array[:])
    assert (found.chunks, found.fetched_bytes) == (12, 0)


def test_a_shard_is_one_chunk_of_which_a_part_is_decoded() -> None:
    values = np.random.default_rng(4).normal(size=(64, 64))
    repository = Repository.create(in_memory_storage())
    with repository.transaction("main", message="shards") as store:
        zarr.create_array(store, name="v", data=values, shards=(32, 32), chunks=(8, 8))
    array: Any = zarr.open_array(repository.readonly_session("main").store, path="v", mode="r")

    def read(part: Any) -> tuple[int, int]:
        found = counted(lambda: array[part])
        return found.chunks, found.decoded_bytes

    assert read(np.s_[:8, :40]) == (2, 5 * 8 * 8 * 8)
    assert read(np.s_[:, :]) == (4, values.nbytes)


# The meter itself


def test_time_in_which_several_threads_wait_counts_once() -> None:
    meter, both = ReadMeter(), Barrier(3)

    def wait() -> None:
        with meter.waiting():
            both.wait(60)
            sleep(0.2)

    threads = [Thread(target=wait) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert meter.counts().waiting_us >= 200_000
    before = meter.counts()
    sleep(0.05)
    assert meter.counts() == before


def test_a_failed_request_ends_the_waiting() -> None:
    meter = ReadMeter()
    with pytest.raises(OSError, match="gone"), meter.waiting():
        raise OSError("gone")
    before = meter.counts()
    sleep(0.01)
    assert meter.counts() == before


def test_threads_lose_no_count() -> None:
    meter = ReadMeter()

    def add() -> None:
        for _ in range(2_000):
            meter.add(chunks=1, fetched=3)

    threads = [Thread(target=add) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert meter.counts() == ReadCounts(chunks=16_000, fetched_bytes=48_000)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_can_count_though_a_thread_held_the_lock() -> None:
    with read_meter._lock:  # as a thread of the parent may, at the moment of a fork
        child = os.fork()
        if child == 0:
            read_meter.add(chunks=1)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
