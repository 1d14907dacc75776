"""Joins along all dimensions of tables that are chunked alike: task by task, without a shuffle."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.sql import DataFrame, Row, SparkSession

import frazil
from tests.spark.repositories import put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

SHAPE = (40, 30)
CHUNKS = (10, 15)
SMALL = "WITH (partitionBytes = 1200)"  # a task for each chunk


def make(path: Path, name: str, stations: npt.NDArray[np.int64], seed: int) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    put(root, "time", np.arange(SHAPE[0]), "time", SHAPE[0], units="hours since 2024-03-01")
    put(root, "station", stations, "station", len(stations))
    values = np.random.default_rng(seed).integers(0, 100, SHAPE)
    put(root, name, values.astype("f4" if seed % 2 else "f8"), "time station", CHUNKS)
    session.commit("values")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joins")
    up = 10 * np.arange(SHAPE[1])
    make(folder / "wind", "speed", up, 1)
    make(folder / "rain", "amount", up, 2)
    make(folder / "snow", "depth", up[::-1].copy(), 3)
    make(folder / "twice", "number", up // 20, 4)
    return folder


@pytest.fixture
def joined(spark: SparkSession, folder: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.catalog.joins": "frazil.spark.Catalog",
        "spark.sql.catalog.joins.warehouse": str(folder),
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key in settings:
        spark.conf.unset(key)


def shuffles(frame: DataFrame) -> int:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return plan.partition("== Initial Plan ==")[0].count("Exchange hashpartitioning")


def query(left: str, right: str, where: str = "true") -> str:
    return f"""
        SELECT * FROM joins.{left} {SMALL} JOIN joins.{right} {SMALL} USING (time, station)
        WHERE {where}
    """  # noqa: S608  # fixed texts


def expected(spark: SparkSession, left: str, right: str, where: str = "true") -> list[Row]:
    for name in (left, right):
        frame = spark.table(f"joins.{name}")
        rows = spark.createDataFrame(frame.collect(), frame.schema)
        rows.createOrReplaceTempView(f"copied_{name}")
    text = query(left, right, where).replace("joins.", "copied_").replace(SMALL, "")
    return sorted(spark.sql(text).collect())


@pytest.mark.parametrize(
    "where",
    [
        "true",
        "time > '2024-03-01 15:00:00' AND station <> 50",
        "station IN (0, 290)",
        "speed > 50 AND amount < 50",
        "time < '1999-01-01'",
    ],
)
def test_tables_that_are_cut_alike_are_not_shuffled(joined: SparkSession, where: str) -> None:
    frame = joined.sql(query("wind", "rain", where))
    rows = sorted(frame.collect())
    assert shuffles(frame) == 0
    assert rows == expected(joined, "wind", "rain", where)


@pytest.mark.parametrize("other", ["snow", "twice"])
def test_tables_that_are_cut_differently_are_shuffled(joined: SparkSession, other: str) -> None:
    frame = joined.sql(query("wind", other))
    rows = sorted(frame.collect())
    assert shuffles(frame) > 0
    assert rows == expected(joined, "wind", other)


def test_groups_of_all_dimensions_are_not_shuffled(joined: SparkSession) -> None:
    counted = joined.sql(
        f"SELECT time, station, collect_list(speed) FROM joins.wind {SMALL} GROUP BY ALL"  # noqa: S608
    )
    assert counted.count() == np.prod(SHAPE)
    assert shuffles(counted) == 0
