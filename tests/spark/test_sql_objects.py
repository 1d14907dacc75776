"""What SQL alone can do: views of repositories, and table functions."""

from pathlib import Path

import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from frazil.spark import read_table
from frazil.spark.io.metadata_functions import PREFIX
from frazil.spark.table.metadata_tables import TABLES
from tests.spark.repositories import make_weather

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "weather"
    repository = make_weather(path)
    repository.create_tag("v1", repository.lookup_branch("main"))
    with repository.transaction("main", message="more") as store:
        zarr.group(store).create_group("new")
    return path


def test_views_of_rows_chunks_and_tables(spark: SparkSession, path: Path) -> None:
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW north USING icechunk OPTIONS (
            path '{path}', variables 't2m', sel '{{"lat": {{"start": 50, "stop": 90}}}}')"""
    )
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW stored USING icechunk OPTIONS (
            path '{path}', mode 'chunks', variables 't2m,lat')"""
    )
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW past USING icechunk OPTIONS (
            path '{path}', table 'history', tag 'v1')"""
    )
    query = """
        SELECT (SELECT count(*) FROM north) AS rows, (SELECT min(lat) FROM north) AS low,
               (SELECT count(*) FROM stored WHERE array = 't2m') AS chunks,
               (SELECT count(*) FROM past) AS snapshots"""
    assert tuple(spark.sql(query).collect()[0]) == (5 * 48 * 36, 50.0, 48, 2)


@pytest.mark.parametrize("table", list(TABLES))
def test_a_function_gives_what_the_table_gives(spark: SparkSession, path: Path, table: str) -> None:
    arguments = f"'{path}'" + (", from_version => 'v1'" if table == "diff" else "")
    found = spark.sql(f"SELECT * FROM {PREFIX}{table}({arguments})")  # noqa: S608 -- our own text
    expected = read_table(spark, path, table, from_version="v1" if table == "diff" else None)
    assert found.schema == expected.schema
    rows = [sorted(map(repr, frame.toArrow().to_pylist())) for frame in (found, expected)]
    assert rows[0] == rows[1] != []


def test_functions_take_versions_by_name(spark: SparkSession, path: Path) -> None:
    query = f"""
        SELECT (SELECT count(*) FROM icechunk_history('{path}')) AS now,
               (SELECT count(*) FROM icechunk_history('{path}', tag => 'v1')) AS then,
               (SELECT count(*) FROM icechunk_chunk_refs('{path}', variables => 't2m')) AS refs,
               (SELECT count(*) FROM icechunk_nodes('{path}', at_group => '/new')) AS nodes"""  # noqa: S608 -- our own text
    assert tuple(spark.sql(query).collect()[0]) == (3, 2, 48, 1)


def test_mistakes_in_arguments_are_told(spark: SparkSession, path: Path) -> None:
    for call, message in {
        f"icechunk_refs('{path}', tag => 'v1')": "means nothing to table 'refs'",
        "icechunk_refs('/nowhere/at/all')": "RepositoryNotFoundError",
        f"icechunk_refs('{path}', storage => map('region', 'x'))": "those for a folder are none",
    }.items():
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"SELECT * FROM {call}").collect()  # noqa: S608 -- our own text
