"""Rows, chunk rows and streams written to a repository in a bucket."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.spark.runtime.storage_options import with_prefix
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.spark

T, X = 6, 5


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.range(T * X).selectExpr(
        f"id div {X} AS t", f"10.0D * (id % {X}) AS x", "CAST(id AS FLOAT) AS v"
    )


@pytest.fixture
def prefix(s3_server: S3Server) -> str:
    prefix = s3_server.new_prefix()
    frazil.Repository.create(s3_server.storage(frazil, prefix))
    return prefix


def reach(server: S3Server) -> dict[str, Any]:
    given = server.arguments("")
    return {name: given[name] for name in given if name not in {"bucket", "prefix"}}


def opened(server: S3Server, prefix: str) -> frazil.Repository:
    return frazil.Repository.open(server.storage(frazil, prefix))


def values(server: S3Server, prefix: str, path: str = "v") -> npt.NDArray[Any]:
    store = opened(server, prefix).readonly_session("main").store
    return np.asarray(zarr.open_array(store, path=path, mode="r")[...])


def test_rows_go_to_a_bucket_by_both_ways(df: DataFrame, s3_server: S3Server, prefix: str) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    first = frazil.spark.write(
        df.where("t < 4").repartition(3), location, dims=["t", "x"], chunks={"t": 2, "x": 3},
        storage=storage,
    )  # fmt: skip
    assert (first.rows, first.chunks) == (20, 4)
    writer = df.where("t >= 4").repartition(2).write.format("icechunk").mode("append")
    writer.options(**with_prefix(storage)).save(location)
    region = df.where("t = 3").selectExpr("t", "x", "-v AS v")
    frazil.spark.write(region, opened(s3_server, prefix), mode="region")
    wanted = np.arange(T * X, dtype=np.float32).reshape(T, X)
    wanted[3] *= -1
    np.testing.assert_array_equal(values(s3_server, prefix), wanted)
    told = [record.metadata for record in opened(s3_server, prefix).ancestry(branch="main")]
    assert [note["frazil"]["mode"] for note in told[:3]] == ["region", "append", "create"]
    assert s3_server.secret_key not in f"{told} {first}"


def test_bad_rows_for_a_bucket_are_told_without_the_secret(
    df: DataFrame, s3_server: S3Server, prefix: str
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    frazil.spark.write(df, location, dims=["t", "x"], storage=storage)
    stored = {one.key for one in s3_server.store(prefix).list("chunks/")}
    writer = df.union(df).selectExpr("t + 6 AS t", "x", "v").write.format("icechunk").mode("append")
    with pytest.raises(PySparkException, match="two rows are for one cell") as caught:
        writer.options(**with_prefix(storage)).save(location)
    with pytest.raises(frazil.IcechunkError, match="outside the grid") as outside:
        frazil.spark.write(
            df.selectExpr("t", "x + 1 AS x", "v"), location, mode="region", storage=storage
        )
    assert len(list(opened(s3_server, prefix).ancestry(branch="main"))) == 2
    # rows that were put aside are taken away again
    assert {one.key for one in s3_server.store(prefix).list("chunks/")} == stored
    assert s3_server.secret_key not in f"{caught.value} {outside.value!r}"


def test_chunk_rows_go_to_a_bucket(
    spark: SparkSession, df: DataFrame, s3_server: S3Server, prefix: str
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    frazil.spark.write(
        df, location, group="a", dims=["t", "x"], chunks={"t": 2, "x": 3}, storage=storage
    )
    chunks = frazil.spark.read_chunks(spark, location, group="a", variables="v", storage=storage)
    made = {"shape": [T, X], "chunks": [2, 3], "dtype": "float32", "dims": ["t", "x"]}
    options = {"group": "b", "input": "chunks", "arrays": json.dumps({"v": made})}
    writer = chunks.write.format("icechunk").mode("append").options(**options)
    writer.options(**with_prefix(storage)).save(location)
    np.testing.assert_array_equal(values(s3_server, prefix, "b/v"), np.arange(T * X).reshape(T, X))


def test_a_stream_goes_to_a_bucket_batch_by_batch(
    spark: SparkSession, df: DataFrame, s3_server: S3Server, prefix: str, tmp_path: Path
) -> None:
    location, storage = f"s3://{s3_server.bucket}/{prefix}", reach(s3_server)
    for part in (0, 1):
        df.where(f"t div 3 = {part}").coalesce(1).write.mode("append").parquet(
            str(tmp_path / "in" / str(part))
        )
        feed = (
            spark.readStream.schema("t LONG, x DOUBLE, v FLOAT")
            .option("recursiveFileLookup", "true")
            .parquet(str(tmp_path / "in"))
        )
        writer = feed.writeStream.format("icechunk").outputMode("append").option("dims", "t,x")
        query = (
            writer.options(**with_prefix(storage))
            .option("path", location)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    np.testing.assert_array_equal(values(s3_server, prefix), np.arange(T * X).reshape(T, X))
    notes = [
        record.metadata["frazil"]
        for record in opened(s3_server, prefix).ancestry(branch="main")
        if "frazil" in record.metadata
    ]
    assert [note["batch"] for note in notes] == [1, 0]
    kept = [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*")
            if path.is_file()]  # fmt: skip
    assert kept
    assert not [text for text in kept if s3_server.secret_key in text]
