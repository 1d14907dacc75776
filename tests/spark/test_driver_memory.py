"""Memory that jobs take on the driver does not grow with the chunks.

docs/benchmarks-spark.md has the figures; `python -m benchmarks.driver_memory` measures them.
"""

import tracemalloc

import pytest
from pyspark.sql import SparkSession

from benchmarks.driver_memory import measured, prepared
from frazil.spark.runtime import stored_refs

pytestmark = pytest.mark.spark

FEW, MANY = 1_000, 10_000


@pytest.mark.parametrize("job", ["write", "ingest", "rechunk", "map_blocks"])
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
