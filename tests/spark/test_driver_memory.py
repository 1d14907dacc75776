"""Memory that jobs take on the driver does not grow with the chunks.

docs/benchmarks-spark.md has the figures; `python -m benchmarks.driver_memory` measures them.
"""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import frazil
from benchmarks import driver_memory
from benchmarks.driver_memory import make_array, measured, prepared
from frazil.maintenance import gc
from frazil.spark.runtime import stored_refs

pytestmark = pytest.mark.spark

FEW, MANY = 1_000, 10_000


def also_long(*jobs: str) -> list[Any]:
    return [pytest.param(job, marks=pytest.mark.long) for job in jobs]


@pytest.mark.parametrize("job", ["write", *also_long("ingest", "rechunk", "map_blocks")])
def test_a_chunk_takes_next_to_nothing_on_the_driver_if_executors_write_manifests(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setattr(stored_refs, "MOST_COLLECTED", 0)
    monkeypatch.setattr(stored_refs, "CHUNKS_LOGGED_HERE", 0)
    collected, taken = [], []
    for count in (FEW, FEW, MANY):  # the first warms up
        with prepared(spark, job, count) as run, measured(spark) as memory:
            tracemalloc.start()
            run()
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        collected.append(memory.collected_bytes)
    assert collected[2] - collected[1] < (MANY - FEW) // 4  # a bit each, and coordinates
    assert (taken[2] - taken[1]) / (MANY - FEW) < 20  # of which a reference would take twice that


def create_here(folder: Path, count: int, *, objects: bool | None = None) -> frazil.Repository:
    """What `create_array` does in a process of its own."""
    make_array(folder, count, objects, 0)
    return frazil.Repository.open(frazil.local_filesystem_storage(str(folder)))


# Bytes for each chunk object, that Spark may send to the driver, and that the driver may hold
OBJECTS = {"clone": (0, 10), "pack": (0, 10), "verify": (0, 10), "garbage_collect": (15, 40)}


@pytest.mark.long
@pytest.mark.parametrize("job", OBJECTS)
def test_a_chunk_object_takes_next_to_nothing_on_the_driver_unless_it_is_garbage(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """Half of what is collected is garbage, of which the driver has twenty-eight bytes each."""
    monkeypatch.setattr(driver_memory, "create_array", create_here)
    monkeypatch.setattr(gc, "_DELETED_AT_ONCE", 500)  # they are in memory, and no more
    sent, held = OBJECTS[job]
    collected, taken = [], []
    for count in (FEW, FEW, MANY):  # the first warms up
        with prepared(spark, job, count) as run, measured(spark) as memory:
            tracemalloc.start()
            run()
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        collected.append(memory.collected_bytes)
    assert (collected[2] - collected[1]) / (MANY - FEW) <= sent + 0.5
    assert (taken[2] - taken[1]) / (MANY - FEW) < held


def test_a_reference_takes_a_few_hundred_bytes_on_the_driver_if_it_goes_there(
    spark: SparkSession,
) -> None:
    taken = []
    for count in (FEW, FEW, MANY):
        with prepared(spark, "rechunk", count) as run:
            tracemalloc.start()
            run()
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert 20 < (taken[2] - taken[1]) / (MANY - FEW) < 1000
