"""INSERT, UPDATE, DELETE, MERGE, append and upsert give what DuckDB has after the same."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.dml_oracle import Changes

pytestmark = [pytest.mark.spark]

LONG_TABLES = int(os.environ.get("FRAZIL_DML_TABLES", "40"))


@pytest.mark.spark_matrix
def test_random_statements_give_what_duckdb_has(spark: SparkSession, tmp_path: Path) -> None:
    Changes(spark, tmp_path, seed=2).run(15)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_many_random_statements_give_what_duckdb_has(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(100, 100 + LONG_TABLES):
        Changes(spark, tmp_path, seed).run(20)
