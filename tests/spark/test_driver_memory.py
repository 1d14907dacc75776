"""Memory that jobs take on the driver grows by a few hundred bytes for each chunk.

docs/spark-pipelines.md states the figures as a limit; `python -m benchmarks.driver_memory` measures
them for more chunks and jobs.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.driver_memory import jobs, measured

pytestmark = pytest.mark.spark

MOST_BYTES_PER_CHUNK = 1000  # a Python object for each chunk, with its index and id, takes more
FEW, MANY = 500, 2500


@pytest.mark.parametrize("job", ["write", "ingest", "rechunk"])
def test_a_chunk_takes_a_few_hundred_bytes_on_the_driver(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    taken = []
    for count in (FEW, MANY):
        folder = tmp_path / str(count)
        folder.mkdir()
        run = jobs(spark, folder, count)[job]
        with measured(spark) as memory:
            run()
        taken.append(memory.python + memory.arrow)
    assert (taken[1] - taken[0]) / (MANY - FEW) < MOST_BYTES_PER_CHUNK
