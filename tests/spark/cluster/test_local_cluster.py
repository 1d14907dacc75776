"""Spark's own imitation of a cluster: executors are processes of the driver's machine."""

from pathlib import Path

import pytest

from tests.spark.cluster import work
from tests.spark.cluster.conftest import EXECUTORS
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.outcomes import assert_ingested, assert_written, create

pytestmark = pytest.mark.spark


def test_a_local_cluster_reads_writes_and_ingests(files: str, tmp_path: Path) -> None:
    written, ingested = create(tmp_path / "written"), create(tmp_path / "ingested")
    driver = Driver("local-cluster[2,1,1024]", tmp_path, EXECUTORS)
    try:
        driver.run(work.write_rows, written)
        assert driver.run(work.read_rows, written).num_rows == work.CELLS
        assert driver.run(work.ingest_files, files, ingested).committed
    finally:
        driver.stop()
    assert_written(written)
    assert_ingested(ingested)
