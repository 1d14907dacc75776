"""The native table on a cluster: executors are other processes, and get the jar from the driver."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.spark import register
from tests.spark.cluster.driver import Driver
from tests.spark.repositories import make_weather
from tests.spark.ways import look

pytestmark = pytest.mark.spark


def look_around(spark: SparkSession, path: str) -> dict[str, object]:
    """In the session as it was started, with the jar, and in one to which it is added again."""
    other = spark.newSession()
    register(other)
    spark.conf.set("spark.frazil.native", "false")
    plain = look(spark, path)
    spark.conf.unset("spark.frazil.native")
    jars = spark.conf.get("spark.jars", "")
    found = {"started": look(spark, path), "added": look(other, path), "plain": plain}
    return {**found, "has jar": "frazil-spark-" in (jars or "")}


def test_executors_read_what_the_native_table_planned(driver: Driver, tmp_path: Path) -> None:
    make_weather(tmp_path / "weather")
    found = driver.run(look_around, str(tmp_path / "weather"))
    count, mean, native = found["plain"]  # type: ignore[misc]  # what `look` returns
    assert (count, native) == (12 * 3 * 36, False)
    assert found == {
        "started": (count, mean, True),
        "added": (count, mean, True),
        "plain": (count, mean, False),
        "has jar": True,
    }
