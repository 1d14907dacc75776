"""Queries that show whether PySpark's filter pushdown is correct: docs/spark-facts.md 1.

A toy source of the numbers 0 to 99, whose reader leaves out the partitions that a filter rules out
and returns every filter, to be applied again: all that pushdown asks of a source. So each query
below has one right answer, whatever is pushed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
)

CONF = "spark.sql.python.filterPushdown.enabled"


def toy_source() -> type[DataSource]:  # noqa: C901 -- two small classes
    """Made in here, so that it is pickled with its code: workers need not find this module."""

    class Reader(DataSourceReader):
        def __init__(self) -> None:
            self.low, self.stop = 0, 100

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- Spark's name
            for each in filters:
                if isinstance(each, GreaterThanOrEqual):
                    self.low = max(self.low, each.value)
                if isinstance(each, LessThan):
                    self.stop = min(self.stop, each.value)
                yield each

        def partitions(self) -> list[InputPartition]:
            starts = range(0, 100, 10)
            return [InputPartition(k) for k in starts if k + 10 > self.low and k < self.stop] or [
                InputPartition(-1)
            ]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            if partition.value >= 0:
                for i in range(partition.value, partition.value + 10):
                    yield (i,)

    class Toy(DataSource):
        @classmethod
        def name(cls) -> str:
            return "frazil_toy"

        def schema(self) -> str:
            return "i BIGINT"

        def reader(self, schema: Any) -> DataSourceReader:
            del schema
            return Reader()

    return Toy


def answers(spark: SparkSession) -> dict[str, tuple[int, int]]:
    """Of each query what came out, and what is right."""
    spark.dataSource.register(toy_source())
    before = spark.conf.get(CONF, "false")
    spark.conf.set(CONF, "true")
    try:
        return {name: (ask(spark), right) for name, (ask, right) in QUERIES.items()}
    finally:
        spark.conf.set(CONF, before or "false")


def load(spark: SparkSession) -> DataFrame:
    return spark.read.format("frazil_toy").load()


def _filtered_then_whole(spark: SparkSession) -> int:
    frame = load(spark)
    assert frame.where("i >= 50").count() == 50
    return frame.count()


def _union(spark: SparkSession) -> int:
    frame = load(spark)
    return frame.where("i >= 50").union(frame.where("i < 20")).count()


def _union_with_whole(spark: SparkSession) -> int:
    frame = load(spark)
    return frame.where("i >= 90").unionAll(frame).count()


def _planned_before(spark: SparkSession) -> int:
    frame = load(spark)
    first, second = frame.where("i >= 50"), frame.where("i < 20")
    for each in (first, second):
        each.explain()  # plans it
    return len(first.collect())


def _view(spark: SparkSession) -> int:
    load(spark).createOrReplaceTempView("frazil_toy_view")
    query = """
        SELECT (SELECT count(*) FROM frazil_toy_view WHERE i >= 50)
             + (SELECT count(*) FROM frazil_toy_view WHERE i < 20) AS n"""
    return int(spark.sql(query).collect()[0].n)


def _two_loads(spark: SparkSession) -> int:
    return load(spark).where("i >= 50").union(load(spark).where("i < 20")).count()


QUERIES: dict[str, tuple[Callable[[SparkSession], int], int]] = {
    "where, then whole": (_filtered_then_whole, 100),
    "union of two filters": (_union, 70),
    "filter and whole": (_union_with_whole, 110),
    "planned before": (_planned_before, 50),
    "two subqueries of a view": (_view, 70),
    "two loads": (_two_loads, 70),
}
