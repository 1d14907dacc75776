"""Random queries on random repositories, answered by Spark and, on the same rows, by DuckDB.

A world is two repositories in several versions, each a table in both systems. A failure tells the
seed of its world and the number of the query: `World(spark, folder, seed).check(number)` asks it
again.
"""

# ruff: noqa: S608 -- no user's text is in these queries

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.spark.query_oracle_queries import Queries, Query, Table
from tests.spark.query_oracle_tables import make_repository

ZONES = ("UTC", "UTC", "UTC", "America/New_York", "Asia/Kathmandu")
_NOT_YET = "is not supported yet"  # FILTER of a window, in Spark 4.1
# A window whose FILTER Spark finds to be false for all rows (docs/spark-facts.md 14).
_NEVER_TRUE = "Unsupported window function: null"
_ZONE = "spark.sql.session.timeZone"
_SHUFFLES = "spark.sql.shuffle.partitions"
# Spark compiles a query, which takes longer than to run these, or interprets it: so most worlds do.
_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "true",
}
_ENGINES = (
    _COMPILED,
    _INTERPRETED,
    _INTERPRETED,
    {**_INTERPRETED, "spark.sql.adaptive.enabled": "false"},
)

type Row = tuple[Any, ...]


class World:
    """Some tables, known to Spark and to DuckDB by the same names."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.spark = spark
        self.seed = seed
        self.zone = ZONES[int(rng.integers(len(ZONES)))]
        self.duck = duckdb.connect()
        self.tables: list[Table] = []
        self.frames: dict[str, DataFrame] = {}
        self.told = f"seed {seed}, time zone {self.zone}"
        for r in range(2):
            made = make_repository(rng, folder / f"{seed}-{r}")
            self.told += f"\nrepository {r}\n{made.told}"
            for v, version in enumerate(made.versions):
                self._add(Table(f"t{r}_{v}", version))

    def _add(self, table: Table) -> None:
        frame = self.spark.read.format("icechunk").options(**table.version.options).load()
        frame.createOrReplaceTempView(table.name)
        self.frames[table.name] = frame
        self.duck.register(f"{table.name}_rows", table.version.rows)
        self.duck.execute(f"CREATE TABLE {table.name} AS SELECT * FROM {table.name}_rows")
        self.tables.append(table)

    def close(self) -> None:
        for name in self.frames:
            self.spark.catalog.dropTempView(name)
        self.duck.close()

    def check_rows(self) -> None:
        """Each table has its rows, to the last bit."""
        for table in self.tables:
            found = self.frames[table.name].toArrow()
            expected = table.version.rows
            assert found.column_names == expected.column_names, self.told
            if Counter(_bits(found)) != Counter(_bits(expected)):
                text = f"SELECT * FROM {table.name}"
                self._fail(Query(text, text, text), -1, _plain(found), _plain(expected))

    def query(self, number: int) -> Query:
        return Queries(np.random.default_rng([self.seed, number]), self.tables).make()

    def check(self, number: int) -> bool:
        """Asks one query; False if this Spark cannot answer such. AssertionError tells what
        differs.
        """
        query = self.query(number)
        with self._settings():
            try:
                expected = _plain(self.duck.sql(query.duck).to_arrow_table())
                found = _plain(self._ask(query))
            except Exception as error:
                plain = self._third_opinion(query, [], [])
                if (_NOT_YET in str(error) and _NOT_YET in plain) or _NEVER_TRUE in str(error):
                    return False
                told = f"{error}"[:2000] + "\nSpark on plain rows: " + plain
                raise AssertionError(self._report(query, number, told)) from error
        if not _answers(query, found, expected):
            self._fail(query, number, found, expected)
        return True

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """The time zone of this world in both systems, few tasks for few rows, and an engine."""
        wanted = {_ZONE: self.zone, _SHUFFLES: "2", **_ENGINES[self.seed % len(_ENGINES)]}
        before = {name: self.spark.conf.get(name) or "" for name in wanted}
        self.duck.execute(f"SET TimeZone = '{self.zone}'")
        try:
            for name, value in wanted.items():
                self.spark.conf.set(name, value)
            yield
        finally:
            for name, value in before.items():
                self.spark.conf.set(name, value)

    def _ask(self, query: Query) -> pa.Table:
        if isinstance(query.spark, str):
            return self.spark.sql(query.spark).toArrow()
        return query.spark(self.spark, self.frames)

    def _fail(self, query: Query, number: int, found: list[Row], expected: list[Row]) -> None:
        more, less = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
        told = [f"{len(found)} rows instead of {len(expected)}"]
        told += [f"only in Spark:  {row} x {n}" for row, n in list(more.items())[:5]]
        told += [f"only in DuckDB: {row} x {n}" for row, n in list(less.items())[:5]]
        told.append(f"Spark on plain rows: {self._third_opinion(query, found, expected)}")
        raise AssertionError(self._report(query, number, "\n".join(told)))

    def _third_opinion(self, query: Query, found: list[Row], expected: list[Row]) -> str:
        """What Spark answers without frazil: tells a difference of dialects from a wrong answer."""
        native = self.frames
        try:
            self.frames = {
                table.name: self.spark.createDataFrame(table.version.rows) for table in self.tables
            }
            for name, frame in self.frames.items():
                frame.createOrReplaceTempView(name)
            with self._settings():
                plain = _plain(self._ask(query))
        except Exception as error:  # noqa: BLE001 -- the report is about another error
            return str(error)[:500]
        finally:
            self.frames = native
            for name, frame in native.items():
                frame.createOrReplaceTempView(name)
        agrees = [
            who
            for who, rows in (("frazil", found), ("DuckDB", expected))
            if _answers(query, plain, rows)
        ]
        return f"as {' and '.join(agrees)}" if agrees else "yet another answer"

    def _report(self, query: Query, number: int, problem: str) -> str:
        plan = ""
        if isinstance(query.spark, str):
            try:
                plan = self.spark.sql(query.spark)._jdf.queryExecution().toString()
            except Exception as error:  # noqa: BLE001 -- the report is about another error
                plan = str(error)[:500]
        return (
            f"query {number} of {self.told}\n\nSpark:  {query.told}\n\nDuckDB: {query.duck}\n\n"
            f"{problem}\n\n{plan}"
        )


def run(
    spark: SparkSession,
    folder: Path,
    *,
    seed: int,
    queries: int,
    each: int = 20,
    failed: Callable[[AssertionError], None] | None = None,
) -> int:
    """Asks at least so many queries, some of each world. Returns their number."""
    asked = 0
    while asked < queries:
        world = World(spark, folder, seed)
        try:
            for number in range(-1, min(each, queries - asked)):
                asked += number >= 0
                try:
                    if number < 0:
                        world.check_rows()
                    elif not world.check(number):
                        asked -= 1
                except AssertionError as error:
                    if failed is None:
                        raise
                    failed(error)
                except Exception as error:  # no answer is a wrong answer
                    if failed is None:
                        raise
                    failed(AssertionError(f"{world.told}\nquery {number}: {error}"))
        finally:
            world.close()
            spark.catalog.clearCache()
        seed += 1
    return asked


# Comparison


def _answers(query: Query, found: list[Row], expected: list[Row]) -> bool:
    if query.limit is not None or query.is_sample:
        right = query.is_sample or len(found) == min(query.limit or 0, len(expected))
        return right and not Counter(found) - Counter(expected)
    return Counter(found) == Counter(expected) or _are_close(found, expected)


def _are_close(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Arithmetic in another order: the last digits of floats may differ."""
    if len(found) != len(expected):
        return False
    pairs = zip(sorted(found, key=_rounded), sorted(expected, key=_rounded), strict=True)
    return all(_is_close(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))


def _is_close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def _rounded(row: Row) -> tuple[Any, ...]:
    shown = (float(f"{v:.6g}") if isinstance(v, float) else v for v in row)
    return tuple((type(v).__name__ if not isinstance(v, int | float) else "", v or 0, v is None)
                 if v is None or isinstance(v, int | float) else (type(v).__name__, str(v), False)
                 for v in shown)  # fmt: skip


def _plain(table: pa.Table) -> list[Row]:
    """Rows of values that are equal if they are in SQL."""
    columns = [[_plain_value(v) for v in _without_zone(c).to_pylist()] for c in table.columns]
    return list(zip(*columns, strict=True))


def _without_zone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return column


def _plain_value(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value + 0.0  # no -0.0
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    assert not isinstance(value, datetime)
    return value


def _bits(table: pa.Table) -> list[Row]:
    columns = [
        [repr(v) if isinstance(v, float) else v for v in _without_zone(c).to_pylist()]
        for c in table.columns
    ]
    return list(zip(*columns, strict=True))
