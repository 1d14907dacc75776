"""What the native table takes from Spark: filters, columns, limits, orders, samples, joins."""

import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import DataFrame, SparkSession

import frazil
from tests.spark.repositories import put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

TIMES, LATITUDES, LONGITUDES = 48, 10, 20
CHUNKS = (12, 5, 10)
CELLS = TIMES * LATITUDES * LONGITUDES


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("native") / "weather"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder)))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    values = np.arange(CELLS, dtype="f4").reshape(TIMES, LATITUDES, LONGITUDES)
    put(root, "t2m", values, "time lat lon", CHUNKS)
    put(root, "pr", -values, "time lat lon", CHUNKS)
    put(root, "time", np.arange(TIMES), "time", TIMES, units="hours since 2024-03-01")
    put(root, "lat", np.linspace(45, -45, LATITUDES), "lat", LATITUDES)
    put(root, "lon", np.arange(LONGITUDES) * 18.0, "lon", LONGITUDES)
    session.commit("two days")
    return str(folder)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, path: str) -> DataFrame:
    """All rows, without the table behind them."""
    return copied(spark.read.format("icechunk").load(path)).cache()


@pytest.fixture
def table(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.format("icechunk").load(path)
    frame.createOrReplaceTempView("native_weather")
    return frame


def scans(frame: DataFrame) -> list[str]:
    plan = frame._jdf.queryExecution().executedPlan().toString()  # only there
    return [line for line in plan.splitlines() if "BatchScan icechunk" in line]


def copied(frame: DataFrame) -> DataFrame:
    """The same rows, without the table behind them."""
    return frame.sparkSession.createDataFrame(frame.collect(), frame.schema)


def planned(frame: DataFrame) -> tuple[int, int, int]:
    """Chunks to be read, chunks there are, and rows to be read, of a plan with one scan."""
    (scan,) = set(re.findall(r"chunks: (\d+) of (\d+), rows: (\d+)", "\n".join(scans(frame))))
    read, total, rows = map(int, scan)
    return read, total, rows


@pytest.mark.parametrize(
    ("where", "chunks", "cells"),
    [
        ("time >= '2024-03-02'", 8, 24 * 200),
        ("time BETWEEN '2024-03-01 03:00:00' AND '2024-03-01 04:00:00'", 4, 400),
        ("lat = 45", 8, 48 * 20),
        ("lat IN (45, -45, 1000)", 16, 48 * 40),
        ("NOT (lat < 0)", 8, 48 * 5 * 20),
        ("lat > 40 OR lon = 0", 12, 48 * (20 + 9)),
        ("NOT (lat > 40 OR lon = 0)", 16, 48 * 9 * 19),
        ("lat IS NULL", 0, 0),
        ("hour(time) = 5 AND floor(lat / 10) = 4", 4, 40),
        ("date_trunc('day', time) = '2024-03-02'", 8, 24 * 200),
        ("cast(lon AS int) % 36 = 0 AND lon > 200", 8, 48 * 10 * 4),
        ("lat > lon", 16, CELLS),
        ("t2m > 100 AND lat = 45", 8, 48 * 20),
    ],
)
def test_conditions_prune_chunks(
    table: DataFrame, rows: DataFrame, where: str, chunks: int, cells: int
) -> None:
    filtered = table.select("time", "lat", "lon", "t2m").where(where)
    assert planned(filtered) == (chunks, 16, cells)
    kept = rows.where(where)
    assert sorted(row.t2m for row in filtered.collect()) == sorted(
        row.t2m for row in kept.collect()
    )


def test_many_points_are_bounded(table: DataFrame) -> None:
    points = {
        (hour, 45 - 10 * ((hour + k) % 5), 18 * ((3 * hour + 7 * k) % 10))
        for hour in range(12)
        for k in range(8)
    }
    where = " OR ".join(
        f"(time = '2024-03-01 {hour:02}:00' AND lat = {lat} AND lon = {lon})"
        for hour, lat, lon in points
    )
    filtered = table.select("time", "lat", "lon", "t2m").where(where)
    assert planned(filtered) == (1, 16, 12 * 5 * 10)
    assert len(filtered.collect()) == len(points) > 64


def test_exact_conditions_are_not_applied_again(table: DataFrame) -> None:
    plan = table.where("lat > 0 OR lon < 50")._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan
    plan = table.where("lat > lon")._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" in plan


def test_an_error_of_one_value_is_not_an_error_of_the_plan(table: DataFrame) -> None:
    guarded = table.where("lon > 0 AND 36 / lon = 2")
    assert {row.lon for row in guarded.select("lon").distinct().collect()} == {18.0}


def test_columns_that_are_not_needed_are_not_read(table: DataFrame) -> None:
    assert planned(table.select("t2m").where("lat > 0"))[:2] == (8, 16)
    assert planned(table.where("lat > 0"))[:2] == (16, 32)
    assert planned(table.groupBy("lon").agg({"lat": "max"}))[:2] == (0, 0)


def test_limits_read_few_chunks(table: DataFrame) -> None:
    few = table.select("time", "lat", "lon", "t2m").limit(7)
    assert planned(few)[0] == 1
    assert len(set(few.collect())) == 7
    assert table.limit(CELLS + 5).count() == CELLS
    assert table.limit(0).count() == 0


@pytest.mark.parametrize("offset", [0, 1, 19, 20, 199, 200, 201, 5000, CELLS - 1, CELLS, CELLS + 9])
def test_offsets_skip_rows(table: DataFrame, offset: int) -> None:
    rest = table.select("t2m").offset(offset)
    assert len({row.t2m for row in rest.collect()}) == max(0, CELLS - offset)
    assert len(table.select("t2m").offset(offset).limit(3).collect()) == min(
        3, max(0, CELLS - offset)
    )


@pytest.mark.parametrize(
    ("order", "chunks"),
    [("time DESC", 4), ("lat", 8), ("lat DESC, lon DESC", 8), ("lon, time DESC NULLS FIRST", 8)],
)
def test_the_first_rows_by_a_dimension(
    table: DataFrame, rows: DataFrame, order: str, chunks: int
) -> None:
    spark = table.sparkSession
    query = f"SELECT time, lat, lon, t2m FROM {{}} ORDER BY {order}, t2m LIMIT 5"  # noqa: S608  # fixed texts
    first = spark.sql(query.format("native_weather"))
    assert planned(first)[0] == chunks
    rows.createOrReplaceTempView("copied")
    assert first.collect() == spark.sql(query.format("copied")).collect()


def test_samples_are_the_same_rows_in_every_scan(table: DataFrame) -> None:
    third = table.select("lat", "t2m").sample(fraction=0.3, seed=7)
    assert "SAMPLE" in scans(third)[0]
    values = {row.t2m for row in third.collect()}
    assert 0.27 * CELLS < len(values) < 0.33 * CELLS
    assert {row.t2m for row in third.where("lat > 0").collect()} == {
        row.t2m for row in table.where("lat > 0").collect() if row.t2m in values
    }
    assert values != {row.t2m for row in table.select("t2m").sample(fraction=0.3, seed=8).collect()}
    assert third.limit(10).count() == 10


def test_statistics_are_exact(table: DataFrame) -> None:
    def rows(frame: DataFrame) -> int:
        statistics = frame._jdf.queryExecution().optimizedPlan().stats()
        return int(statistics.sizeInBytes())

    assert rows(table.select("t2m").where("lat > 40")) * 10 == rows(table.select("t2m"))


def test_a_join_prunes_while_it_runs(table: DataFrame) -> None:
    # by a key that is no float: those Spark normalises in the join, and so does not prune by them
    spark = table.sparkSession
    hours = "timestamp'2024-03-01 05:00:00' + make_interval(0, 0, 0, 0, id) AS time"
    spark.range(4).selectExpr(hours, "id AS number").createOrReplaceTempView("wanted")
    joined = spark.sql("SELECT t2m FROM native_weather JOIN wanted USING (time) WHERE number < 2")
    values = {row.t2m for row in joined.collect()}
    assert values == {row.t2m for row in table.where("hour(time) IN (5, 6)").collect()} - {
        row.t2m for row in table.where("day(time) = 2").collect()
    }
    assert planned(joined) == (4, 16, 2 * 200)


def test_one_dataframe_used_several_times(table: DataFrame) -> None:
    north, south = table.where("lat > 0"), table.where("lat < 0")
    assert north.union(south).count() == CELLS
    assert (
        north.join(north.select("time", "lat", "lon"), ["time", "lat", "lon"]).count() == CELLS / 2
    )
    assert north.count() + south.count() == table.count() == CELLS
    assert table.select("t2m").where("lat = 45").union(table.select("pr")).count() == CELLS + 960


def test_a_dataframe_stays_at_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "moving")))
    for value in (1, 2):
        session = repo.writable_session("main")
        root = zarr.open_group(session.store, mode="a")
        array = root.require_array("x", shape=(4,), dtype="i4", dimension_names=("i",))
        array[:] = value
        session.commit(str(value))
        if value == 1:
            before = spark.read.format("icechunk").load(str(tmp_path / "moving"))
    assert {row.x for row in before.where("i > 1").collect()} == {1}
    assert {row.x for row in before.collect()} == {1}
    after = spark.read.format("icechunk").load(str(tmp_path / "moving"))
    assert {row.x for row in after.where("i > 1").collect()} == {2}


def test_coordinates_that_are_too_long_for_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    size = 2**22 + 2**20
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "genome")))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    put(root, "position", 7 * np.arange(size), "position", (2**20,))
    put(root, "depth", np.arange(size, dtype="i4"), "position", (2**20,))
    session.commit("reads")
    table = spark.read.format("icechunk").load(str(tmp_path / "genome"))

    near = table.where("position BETWEEN 7000000 AND 7000070 OR position = 21000000")
    assert planned(near) == (2, 5, 12)
    assert {row.depth for row in near.collect()} == {*range(10**6, 10**6 + 11), 3 * 10**6}
    odd = table.where("position % 7000007 = 0 AND position > 28000000")
    assert planned(odd)[:2] == (2, 5)
    assert {row.position for row in odd.collect()} == {28000028, 35000035}
