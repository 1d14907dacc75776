"""The native table on a cluster: executors are other processes, and get the jar from the driver."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.spark import register
from tests.spark.cluster.driver import Driver
from tests.spark.repositories import make_weather
from tests.spark.ways import look

pytestmark = pytest.mark.spark


def look_around(spark: SparkSession, path: str) -> tuple[str, list[tuple[int, float, bool]]]:
    """In the session as it was started, with the jar; with one to which it is added; without."""
    other = spark.newSession()
    register(other)
    found = [look(spark, path), look(other, path)]
    spark.conf.set("spark.frazil.native", "false")
    found.append(look(spark, path))
    spark.conf.unset("spark.frazil.native")
    return spark.conf.get("spark.jars", "") or "", found


def test_executors_read_what_the_native_table_planned(driver: Driver, tmp_path: Path) -> None:
    make_weather(tmp_path / "weather")
    jars, found = driver.run(look_around, str(tmp_path / "weather"))
    assert "frazil-spark-" in jars
    assert [native for _, _, native in found] == [True, True, False]
    assert {(count, mean) for count, mean, _ in found} == {(12 * 3 * 36, found[-1][1])}
