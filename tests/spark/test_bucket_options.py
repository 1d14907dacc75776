"""A bucket by its location and options alone: in the DataFrame API, in SQL, in Python."""

from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.spark import plan_read, read_table, sql
from frazil.spark.runtime.storage_options import with_prefix
from tests.servers.s3 import S3Server
from tests.spark.repositories import SHAPE, fill_weather, put
from tests.spark.test_native_catalog import error_of, names, rows, set_catalog, values_of


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


@pytest.mark.spark
def test_a_warehouse_in_a_bucket_shows_no_secret(
    spark: SparkSession, s3_server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = s3_server.new_prefix()
    for name in ("one", "deep/odd ?name"):
        repository = frazil.Repository.create(s3_server.storage(frazil, f"{prefix}/{name}"))
        with repository.transaction("main", message=name) as store:
            put(zarr.group(store), "v", np.arange(6), "x", 2)
    set_catalog(
        spark, "far", warehouse=f"s3://{s3_server.bucket}/{prefix}", **with_prefix(reach(s3_server))
    )
    assert names(spark, "SHOW NAMESPACES IN far", "namespace") == ["deep", "one"]
    assert names(spark, "SHOW TABLES IN far", "tableName") == ["one"]
    assert names(spark, "SHOW TABLES IN far.deep", "tableName") == ["odd ?name"]
    assert values_of(spark, "far.one") == list(range(6))
    assert values_of(spark, "far.deep.`odd ?name`.v") == list(range(6))
    assert len(rows(spark, "SELECT * FROM far.one.history")) == 2
    assert len(rows(spark, "CALL far.system.ancestors_of('one')")) == 2
    shown = [
        str(rows(spark, sql))
        for sql in ("DESCRIBE TABLE EXTENDED far.one", "SHOW TBLPROPERTIES far.one",
                    "SHOW CREATE TABLE far.one", "DESCRIBE NAMESPACE EXTENDED far.one",
                    "EXPLAIN EXTENDED SELECT * FROM far.one WHERE x > 3", "SET")
    ]  # fmt: skip
    spark.table("far.one").where("x > 3").explain(extended=True)
    shown.append(capsys.readouterr().out)
    shown += [error_of(spark, f"DESCRIBE far.{name}") for name in ("nope", "`..`", "one.nope")]
    assert s3_server.secret_key not in " ".join(shown)
    assert f"s3://{s3_server.bucket}/{prefix}/one" in shown[0]
