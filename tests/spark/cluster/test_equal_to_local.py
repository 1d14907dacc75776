"""Reading, writing and ingesting give on a cluster what they give in one process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster import work
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create

pytestmark = pytest.mark.spark


def test_rows_that_a_cluster_wrote_are_read_there_and_here(
    driver: Driver, spark: SparkSession, tmp_path: Path
) -> None:
    repo = create(tmp_path / "repo")
    driver.run(work.write_rows, repo)
    assert_written(repo)
    read_there = driver.run(work.read_rows, repo)
    assert read_there.num_rows == work.CELLS
    assert read_there.equals(work.read_rows(spark, repo))


def test_rows_shuffled_by_chunk_are_the_same(driver: Driver, tmp_path: Path) -> None:
    repo = create(tmp_path / "repo")
    assert driver.run(work.write_shuffled, repo).committed
    assert not driver.run(work.write_shuffled, repo).committed  # the same transaction
    assert_written(repo)


def test_files_are_ingested_by_several_workers(driver: Driver, files: str, tmp_path: Path) -> None:
    repo = create(tmp_path / "repo")
    assert driver.run(work.ingest_files, files, repo).committed
    assert not driver.run(work.ingest_files, files, repo).committed  # the same key
    assert_ingested(repo)


def test_both_workers_take_part(driver: Driver) -> None:
    assert len(driver.run(work.executors_that_work)) == 2
