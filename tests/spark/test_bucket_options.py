"""A bucket by its location and options alone: in the DataFrame API, in SQL, in Python."""

from typing import Any

import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.spark import plan_read, read_table, sql
from frazil.spark.runtime.storage_options import with_prefix
from tests.servers.s3 import S3Server
from tests.spark.repositories import SHAPE, fill_weather


@pytest.fixture
def location(s3_server: S3Server) -> str:
    prefix = s3_server.new_prefix()
    repository = frazil.Repository.create(s3_server.storage(frazil, prefix))
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    return f"s3://{s3_server.bucket}/{prefix}"


def reach(server: S3Server) -> dict[str, Any]:
    given = server.arguments("")
    return {name: given[name] for name in given if name not in {"bucket", "prefix"}}


@pytest.mark.spark
def test_options_reach_a_bucket_and_nothing_shows_the_secret(
    spark: SparkSession, s3_server: S3Server, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = with_prefix(reach(s3_server))
    reader = spark.read.format("icechunk").options(variables="t2m", sel='{"lat": 90.0}', **options)
    frame = reader.load(location)
    assert frame.count() == SHAPE[0] * SHAPE[2]
    frame.explain(extended=True)
    told = ", ".join(f"`{name}` '{text}'" for name, text in options.items())
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW far USING icechunk OPTIONS (path '{location}',"
        f" table 'history', {told})"
    ).explain(extended=True)
    assert spark.sql("SELECT count(*) AS n FROM far").collect()[0].n == 2
    spark.sql("DESCRIBE EXTENDED far").show(truncate=False)
    with pytest.raises(PySparkException, match=r"unknown option 'storage\.regin'") as caught:
        reader.option("storage.regin", "x").load(location)
    shown = capsys.readouterr().out
    assert "icechunk" in shown
    assert s3_server.secret_key not in shown + str(caught.value)


def test_python_takes_the_same_by_the_names_of_s3_storage(
    s3_server: S3Server, location: str
) -> None:
    plan = plan_read(location, variables="t2m", sel={"lat": 90.0}, storage=reach(s3_server))
    assert plan.chunks_read == 12
    assert plan.options.path == location
    assert s3_server.secret_key not in repr(plan)
    with pytest.raises(ValueError, match="goes with a location"):
        plan_read(frazil.Repository.create(frazil.in_memory_storage()), storage={"region": "x"})


@pytest.mark.spark
def test_tables_and_queries_reach_it_too(
    spark: SparkSession, s3_server: S3Server, location: str
) -> None:
    given = reach(s3_server)
    refs = read_table(spark, location, "refs", storage=given).collect()
    assert [row.name for row in refs] == ["main"]
    table = {"w": {"path": location, "storage": given}}
    found = sql(spark, "SELECT count(t2m) AS n FROM w WHERE lat = 0", table).collect()
    assert found[0].n == SHAPE[0] * SHAPE[2]
