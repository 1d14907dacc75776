"""Spark over a repository answers as DuckDB does over the same rows."""

import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from frazil.api import Repository, local_filesystem_storage
from tests.spark.query_oracle import run
from tests.spark.repositories import LATITUDES, SHAPE, make_weather, put

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification"),
]

QUERIES = 150
LONG_QUERIES = int(os.environ.get("FRAZIL_ORACLE_QUERIES", "10000"))
LONG_SEED = int(os.environ.get("FRAZIL_ORACLE_SEED", "1000000"))


@pytest.mark.spark_matrix
def test_random_queries_have_the_answers_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, tmp_path, seed=18, queries=QUERIES) >= QUERIES


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_thousands_of_random_queries_have_the_answers_of_duckdb(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All that differ are told, not the first alone."""
    wrong: list[AssertionError] = []
    run(spark, tmp_path, seed=LONG_SEED, queries=LONG_QUERIES, failed=wrong.append)
    assert not wrong, "\n\n".join(str(each) for each in wrong)


@pytest.mark.spark_matrix
def test_a_condition_that_only_python_can_evaluate_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    make_weather(tmp_path / "r")
    frame = spark.read.format("icechunk").load(str(tmp_path / "r"))
    north = udf(lambda lat: lat > 50, "boolean")
    each = SHAPE[0] * SHAPE[2]
    assert frame.where(north("lat")).count() == each * (LATITUDES > 50).sum()
    assert frame.where(north("lat") & frame.lon.eqNullSafe(0)).count() == 4 * SHAPE[0]


def test_a_coordinate_is_brought_to_the_driver_in_parts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two million numbers without a pattern are more text than one answer holds."""
    values = np.random.default_rng(18).normal(size=2_000_000)
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="x") as store:
        put(zarr.group(store), "x", values, "x", len(values))
        put(zarr.group(store), "v", np.ones(len(values), dtype="i1"), "x", len(values))
    frame = spark.read.format("icechunk").load(str(tmp_path / "r"))
    assert sorted(row.x for row in frame.where("x > 4").collect()) == sorted(values[values > 4])


@pytest.mark.spark_matrix
def test_the_first_time_of_a_group_without_any_is_null(spark: SparkSession, tmp_path: Path) -> None:
    times = np.array([["NaT", "NaT"], ["2024-01-02", "NaT"]], dtype="M8[s]")
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="x") as store:
        put(zarr.group(store), "v", times, "x y", (1, 2))
    frame = spark.read.format("icechunk").load(str(tmp_path / "r"))
    rows = frame.groupBy("x").agg({"v": "min"}).orderBy("x").collect()
    assert [row[1] and row[1].day for row in rows] == [None, 2]
