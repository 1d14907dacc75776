"""Random queries, as SQL for Spark and for DuckDB, and as operations on DataFrames."""

# ruff: noqa: S608 -- no user's text is in these queries

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.spark.query_oracle_conditions import (
    COMPARED,
    NUMBERS,
    Conditions,
    Pair,
    fill,
    has_floor,
    join,
    pair,
    quote,
    text_literal,
)
from tests.spark.query_oracle_tables import Column, Version

_MOST_JOINED = 20_000  # rows of a join that are all looked at; of more only aggregates

type Frames = Mapping[str, DataFrame]


@dataclass(frozen=True)
class Query:
    """A question and how to compare its answers.

    `limit` is that of a LIMIT without an order: any so many of the rows that DuckDB has without it.
    With `is_sample` any of them.
    """

    spark: str | Callable[[SparkSession, Frames], pa.Table]
    duck: str
    told: str
    limit: int | None = None
    is_sample: bool = False


@dataclass(frozen=True)
class Table:
    """A table by the name of its view in both systems."""

    name: str
    version: Version

    @property
    def rows(self) -> int:
        return int(self.version.rows.num_rows)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.version.columns


class Queries(Conditions):
    """Makes queries on some tables."""

    def __init__(self, rng: np.random.Generator, tables: Sequence[Table]) -> None:
        self.tables = tables
        self.table: Table = tables[int(rng.integers(len(tables)))]
        super().__init__(rng, self.table.columns)

    def make(self) -> Query:
        forms: list[tuple[int, Callable[[], Query]]] = [
            (5, self.simple), (6, self.aggregated), (4, self.first_rows), (2, self.any_rows),
            (4, self.joined), (2, self.with_values), (3, self.set_operation), (2, self.cte),
            (2, self.window), (4, self.subquery), (1, self.sampled), (2, self.nested),
            (1, self.distinct), (5, self.frames),
        ]  # fmt: skip
        weights = np.array([weight for weight, _ in forms], dtype=float)
        return forms[int(self.rng.choice(len(forms), p=weights / weights.sum()))][1]()

    def sql(self, text: Pair, **how: int | bool) -> Query:
        return Query(text.spark, text.duck, text.spark, **how)  # type: ignore[arg-type]

    def on(self, table: Table, of: str = "") -> "Conditions":
        return Conditions(self.rng, table.columns, of)

    def where(self, maker: Conditions | None = None, depth: int = 2) -> Pair:
        if self.chance(0.12):
            return pair("")
        return fill(" WHERE {}", (maker or self).condition(depth))

    # Lists of columns

    def shown(self, table: Table, of: str = "", most: int = 4) -> list[Pair]:
        usable = [c for c in table.columns if c.kind != "interval"]
        if not usable:
            return [pair("1")]
        count = min(len(usable), int(self.rng.integers(1, most + 1)))
        chosen = self.rng.choice(len(usable), count, replace=False)
        return [quote(usable[int(k)].name, of) for k in chosen]

    def named(self, parts: Sequence[Pair]) -> Pair:
        return join(", ", [fill(f"{{}} AS c{k}", part) for k, part in enumerate(parts)])

    def aggregate(self, columns: Sequence[Column], of: str = "") -> Pair:
        column = self.one(columns)
        plain = quote(column.name, of)
        options = ["count(*)", "count({})"]
        if column.kind in COMPARED:
            options += ["min({})", "max({})", "count(DISTINCT {})", "min({})", "max({})"]
        if column.kind == "bool":
            options += ["bool_or({})", "bool_and({})"]
        if column.kind in {"float", "double"} or (column.kind == "int" and not column.is_large):
            options += ["sum({})", "avg({})", "sum({})", "avg({})"]
        found = fill(self.one(options), plain)
        if self.chance(0.1):
            condition = Conditions(self.rng, columns, of).condition(1)
            return fill("{} FILTER (WHERE {})", found, condition)
        return found

    def aggregates(self, columns: Sequence[Column], of: str = "") -> list[Pair]:
        return [self.aggregate(columns, of) for _ in range(int(self.rng.integers(1, 5)))]

    def keys(self, table: Table, of: str = "") -> list[Pair]:
        """What to group by: columns, or expressions of them."""
        found = []
        for _ in range(int(self.rng.choice([0, 1, 1, 2, 3]))):
            dims = [c for c in table.columns if c.is_dimension and c.kind in COMPARED]
            rest = [c for c in table.columns if c.kind in COMPARED]
            if not rest:
                return []
            column = self.one(dims if dims and self.chance(0.8) else rest)
            found.append(self.key(column, quote(column.name, of)))
        return list({each.spark: each for each in found}.values())

    def key(self, column: Column, plain: Pair) -> Pair:
        if column.kind == "time" and self.chance(0.5):
            part = self.one(["year({})", "month({})", "hour({})", "date_trunc('month', {})",
                             "CAST({} AS DATE)"])  # fmt: skip
            return fill(part, plain)
        if column.kind == "double" and has_floor(column) and self.chance(0.3):
            return fill(pair("floor({} / 10D)", "floor({} / 10::DOUBLE)"), plain)
        if column.kind == "int" and not column.is_large and self.chance(0.2):
            return fill("CAST({} AS BIGINT) % 3", plain)
        return plain

    def order(self, parts: Sequence[Pair]) -> Pair:
        """A total order of what is selected: rows that are not told apart are equal."""
        turned = [parts[int(k)] for k in self.rng.permutation(len(parts))]
        return join(", ", [self.ordered(each) for each in turned])

    def ordered(self, part: Pair) -> Pair:
        direction = self.one(["ASC", "DESC"])
        nulls = self.one(["NULLS FIRST", "NULLS LAST", ""])
        implied = nulls or {"ASC": "NULLS FIRST", "DESC": "NULLS LAST"}[direction]
        return fill(pair(f"{{}} {direction} {nulls}", f"{{}} {direction} {implied}"), part)

    # Forms

    def simple(self) -> Query:
        parts = self.shown(self.table)
        if self.chance(0.3):
            parts.append(self.condition(1))
        if self.chance(0.2):
            other = self.condition(1)
            parts.append(fill("CASE WHEN {} THEN 1 WHEN {} THEN 2 END", self.condition(1), other))
        return self.sql(self.select(parts))

    def select(self, parts: Sequence[Pair]) -> Pair:
        return fill(f"SELECT {{}} FROM {self.table.name}{{}}", self.named(parts), self.where())

    def distinct(self) -> Query:
        parts = self.shown(self.table, most=2)
        text = fill(f"SELECT DISTINCT {{}} FROM {self.table.name}{{}}", self.named(parts),
                    self.where())  # fmt: skip
        return self.sql(text)

    def aggregated(self) -> Query:
        keys, counts = self.keys(self.table), self.aggregates(self.columns)
        text = self.select([*keys, *counts])
        if keys:
            word = self.one(["{}", "{}", "{}", "ROLLUP({})", "CUBE({})"])
            # of no rows at all, DuckDB makes a total, and Spark does not
            having = "" if word == "{}" else " HAVING count(*) > 0"
            text = fill(f"{{}} GROUP BY {word}{having}", text, join(", ", keys))
            if having:
                return self.sql(text)
        if self.chance(0.15):
            text = fill(f"{{}} HAVING count(*) {self.one(['>', '<='])} 3", text)
        return self.sql(text)

    def first_rows(self) -> Query:
        parts = self.shown(self.table)
        limit = f" LIMIT {self.rng.choice([1, 2, 5, 20, 200])}" if self.chance(0.9) else ""
        offset = f" OFFSET {self.rng.integers(0, 30)}" if self.chance(0.4) else ""
        text = fill(f"{{}} ORDER BY {{}}{limit}{offset}", self.select(parts), self.order(parts))
        return self.sql(text)

    def any_rows(self) -> Query:
        text = self.select(self.shown(self.table))
        limit = int(self.rng.choice([0, 1, 3, 10, 100]))
        offset = int(self.rng.integers(0, 20)) if self.chance(0.3) else 0
        spark = f"{text.spark} LIMIT {limit}" + (f" OFFSET {offset}" if offset else "")
        duck = f"SELECT * FROM ({text.duck})"
        if offset:  # which rows are passed over is not said: only their number counts
            spark, duck = (f"SELECT count(*) FROM ({s})" for s in (spark, text.duck))
            duck = f"SELECT least({limit}, greatest(0, count(*) - {offset})) FROM ({text.duck})"
            return Query(spark, duck, spark)
        return Query(spark, duck, spark, limit=limit)

    def sampled(self) -> Query:
        parts = self.named(self.shown(self.table))
        percent = int(self.rng.choice([0, 10, 50, 100]))
        where = self.where()
        spark = f"SELECT {parts.spark} FROM {self.table.name} TABLESAMPLE ({percent} PERCENT)"
        duck = f"SELECT {parts.duck} FROM {self.table.name}{where.duck}"
        return Query(spark + where.spark, duck, spark + where.spark, is_sample=percent < 100)

    def nested(self) -> Query:
        """Of the first rows in some order, or of a filtered table, something else."""
        usable = [c for c in self.columns if c.kind in COMPARED]
        if not usable:
            return self.simple()
        parts = [quote(c.name) for c in usable]
        inner = fill(f"SELECT {{}} FROM {self.table.name}{{}}", join(", ", parts), self.where())
        if self.chance(0.6):
            limit = int(self.rng.choice([1, 5, 20]))
            inner = fill(f"{{}} ORDER BY {{}} LIMIT {limit}", inner, self.order(parts))
        outer = Conditions(self.rng, usable)
        counts = self.named(self.aggregates(usable))
        return self.sql(fill("SELECT {} FROM ({}) AS s{}", counts, inner, self.where(outer)))

    def window(self) -> Query:
        usable = [c for c in self.columns if c.kind in COMPARED]
        if not usable or self.table.rows > 2000:
            return self.aggregated()
        order, part = (quote(self.one(usable).name) for _ in range(2))
        function = self.one([pair("rank()"), pair("dense_rank()"), pair("count(*)"),
                             self.aggregate(usable)])  # fmt: skip
        if "DISTINCT" in function.spark:
            function = pair("count(*)")
        by = fill("PARTITION BY {} ", part) if self.chance(0.7) else pair("")
        over = fill("{} OVER ({}ORDER BY {})", function, by, self.ordered(order))
        return self.sql(self.select([*self.shown(self.table, most=2), over]))

    def cte(self) -> Query:
        """A common table expression used twice."""
        usable = [c for c in self.columns if c.kind in COMPARED]
        if not usable:
            return self.simple()
        inner = fill(f"SELECT {{}} FROM {self.table.name}{{}}",
                     join(", ", [quote(c.name) for c in usable]), self.where())  # fmt: skip
        maker = Conditions(self.rng, usable)
        counts = self.aggregates(usable)
        halves = [fill("SELECT {} FROM w{}", self.named(counts), self.where(maker)) for _ in "ab"]
        return self.sql(fill("WITH w AS ({}) {} UNION ALL {}", inner, *halves))

    def set_operation(self) -> Query:
        word = self.one(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL",
                         "INTERSECT ALL", "UNION ALL"])  # fmt: skip
        parts = self.named(self.shown(self.table, most=3))
        others = [t for t in self.tables if _alike(t, self.table)]
        texts = [
            fill(f"SELECT {{}} FROM {self.one(others).name}{{}}", parts, self.where())
            for _ in range(3 if word == "UNION ALL" and self.chance(0.3) else 2)
        ]
        return self.sql(join(f" {word} ", texts))

    def subquery(self) -> Query:
        """Conditions that contain queries."""
        other: Table = self.one([t for t in self.tables if t.rows <= 2000] or [self.table])
        match = self.match(self.table, other)
        if match is None or self.table.rows * other.rows > 4_000_000:
            return self.simple()
        outer, inner = match
        left, right = quote(outer.name, "a"), quote(inner.name, "b")
        where = self.where(self.on(other, "b"), 1)
        kind = int(self.rng.integers(0, 4))
        if kind == 0:
            function, operator = self.one(["min", "max"]), self.one(["=", "<", ">=", "<>"])
            found = fill(f"{{}} {operator} (SELECT {function}({{}}) FROM {other.name} b{{}})",
                         left, right, where)  # fmt: skip
        elif kind in {1, 2}:
            word = self.one(["IN", "IN", "NOT IN"])
            found = fill(f"{{}} {word} (SELECT {{}} FROM {other.name} b{{}})", left, right, where)
        else:
            word = self.one(["EXISTS", "NOT EXISTS"])
            condition = self.on(other, "b").condition(1)
            found = fill(f"{word} (SELECT 1 FROM {other.name} b WHERE {{}} = {{}} AND {{}})",
                         left, right, condition)  # fmt: skip
        mine = self.on(self.table, "a").condition(1)
        found = fill(self.one(["{}", "{} AND {}", "{} AND {}"]), found, mine)
        parts = self.named(self.shown(self.table, "a"))
        return self.sql(fill(f"SELECT {{}} FROM {self.table.name} a WHERE {{}}", parts, found))

    # Joins

    def match(self, a: Table, b: Table) -> tuple[Column, Column] | None:
        """A column of each that can be equal."""
        found = [
            (x, y)
            for x in a.columns
            for y in b.columns
            if x.kind == y.kind and x.kind in COMPARED and (x.is_dimension or self.chance(0.3))
        ]
        same = [(x, y) for x, y in found if x.name == y.name and x.is_dimension]
        return self.one(same or found) if found else None

    def joined(self) -> Query:
        small = [t for t in self.tables if t.rows <= 700]
        if self.table not in small:
            return self.with_values()
        other: Table = self.one(small)
        match = self.match(self.table, other)
        if match is None:
            return self.simple()
        on = [fill("{} = {}", quote(match[0].name, "a"), quote(match[1].name, "b"))]
        if _alike(self.table, other):
            same = [c for c in self.columns if c.is_dimension and c.kind in COMPARED]
            on += [fill("{} = {}", quote(c.name, "a"), quote(c.name, "b"))
                   for c in same if self.chance(0.7)]  # fmt: skip
        if self.chance(0.25):
            on.append(self.on(self.one([other]), "b").condition(1))
        if self.chance(0.1):
            on.append(self.on(self.table, "a").condition(1))
        word = self.one(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI", "ANTI"])
        one_sided = word in {"SEMI", "ANTI"}
        join_text = pair(f"LEFT {word} JOIN", f"{word} JOIN") if one_sided else pair(word)
        condition = self.on(self.table, "a").condition(2)
        if self.chance(0.5) and not one_sided:
            condition = fill("{} AND {}", condition, self.on(other, "b").condition(1))
        parts = self.shown(self.table, "a", 2)
        if not one_sided:
            parts += self.shown(other, "b", 2)
        if self.table.rows * other.rows > _MOST_JOINED or self.chance(0.4):
            parts = self.aggregates(self.columns, "a")
        tables = fill(f"{self.table.name} a {{}} {other.name} b ON {{}}", join_text,
                      join(" AND ", on))  # fmt: skip
        where = fill(" WHERE {}", condition) if self.chance(0.85) else pair("")
        return self.sql(fill("SELECT {} FROM {}{}", self.named(parts), tables, where))

    def with_values(self) -> Query:
        """A join with a few rows: those are broadcast, and prune at run time."""
        usable = [c for c in self.columns if c.kind in NUMBERS | {"text", "time"}]
        if not usable:
            return self.simple()
        column = self.one(usable)
        literals = {
            (each := self.literal(column)).spark: each for _ in range(int(self.rng.integers(1, 5)))
        }
        rows = join(", ", [fill("({})", each) for each in literals.values()])
        extra = self.one(["", " WHERE s.k IS NOT NULL"])
        tables = fill(
            f"{self.table.name} a JOIN (SELECT k FROM (VALUES {{}}) AS v(k)) s ON {{}} = s.k",
            rows, quote(column.name, "a"),
        )  # fmt: skip
        where = fill(" WHERE {}", self.on(self.table, "a").condition(1))
        if self.chance(0.5):
            where = pair(extra)
        parts = self.aggregates(self.columns, "a")
        return self.sql(fill("SELECT {} FROM {}{}", self.named(parts), tables, where))

    def literal(self, column: Column) -> Pair:
        if column.kind == "text":
            return text_literal(self._some_text(column))
        if column.kind == "time":
            shown = f"{self._near_time(column):%Y-%m-%d %H:%M:%S}"
            return pair(f"TIMESTAMP '{shown}'", f"TIMESTAMPTZ '{shown}'")
        if column.kind in {"int", "decimal"}:
            whole = self.number_literal(column).spark.split(".")[0]
            sql_type = "BIGINT" if column.kind == "int" else "DECIMAL(20, 0)"
            return pair(f"CAST({whole} AS {sql_type})")
        return self.float_literal(column, float(self.near(column)))

    # DataFrames

    def frames(self) -> Query:
        name = self.table.name
        parts = self.shown(self.table, most=3)
        shown = self.named(parts)
        p, q = self.condition(), self.condition()
        select, counted = f"SELECT {shown.duck} FROM {name}", f"SELECT count(*) FROM {name}"
        twice = f"SELECT {shown.spark} FROM oracle_view"
        columns = [f"{each.spark} AS c{k}" for k, each in enumerate(parts)]
        forms: list[tuple[str, Callable[[SparkSession, DataFrame], DataFrame], str]] = [
            ("where p union where q",
             lambda _, f: f.where(p.spark).union(f.where(q.spark)).selectExpr(*columns),
             f"{select} WHERE {p.duck} UNION ALL {select} WHERE {q.duck}"),
            ("where p union where q union all",
             lambda _, f: f.where(p.spark).union(f).union(f.where(q.spark)).selectExpr(*columns),
             f"{select} WHERE {p.duck} UNION ALL {select} UNION ALL {select} WHERE {q.duck}"),
            ("where p, where q", lambda _, f: f.where(p.spark).where(q.spark).selectExpr(*columns),
             f"{select} WHERE {p.duck} AND {q.duck}"),
            ("planned before", lambda _, f: _planned(f, p.spark, q.spark).selectExpr(*columns),
             f"{select} WHERE {p.duck}"),
            ("where p exceptAll where q",
             lambda _, f: f.selectExpr("*").where(p.spark).selectExpr(*columns).exceptAll(
                 f.where(q.spark).selectExpr(*columns)),
             f"{select} WHERE {p.duck} EXCEPT ALL {select} WHERE {q.duck}"),
            ("cached where p, then where q and all of it",
             lambda _, f: _cached(f, p.spark, q.spark).selectExpr(*columns),
             f"{select} WHERE {p.duck} AND {q.duck} UNION ALL {select} WHERE {p.duck}"),
            ("counts", lambda s, f: _counts(s, f, p.spark, q.spark),
             f"SELECT ({counted} WHERE {p.duck}), ({counted}), ({counted} WHERE {q.duck})"),
            ("a view of where p, in SQL",
             lambda s, f: _view(s, f.where(p.spark),
                                f"{twice} WHERE {q.spark} UNION ALL {twice}"),
             f"{select} WHERE {p.duck} AND {q.duck} UNION ALL {select} WHERE {p.duck}"),
        ]  # fmt: skip
        told, ask, duck = forms[int(self.rng.integers(len(forms)))]
        text = f"DataFrame {name}: {told}; {shown.spark}\n  p: {p.spark}\n  q: {q.spark}"
        return Query(lambda s, frames: ask(s, frames[name]).toArrow(), duck, text)


def _alike(a: Table, b: Table) -> bool:
    return [(c.name, c.kind) for c in a.columns] == [(c.name, c.kind) for c in b.columns]


def _planned(frame: DataFrame, p: str, q: str) -> DataFrame:
    first, second = frame.where(p), frame.where(q)
    for each in (first, second):
        each._jdf.queryExecution().executedPlan()  # as explain(), without printing
    return first


def _cached(frame: DataFrame, p: str, q: str) -> DataFrame:
    kept = frame.where(p).cache()
    return kept.where(q).union(kept)


def _counts(spark: SparkSession, frame: DataFrame, p: str, q: str) -> DataFrame:
    counts = [frame.where(p).count(), frame.count(), frame.where(q).count()]
    return spark.createDataFrame([tuple(counts)], "a LONG, b LONG, c LONG")


def _view(spark: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    frame.createOrReplaceTempView("oracle_view")
    return spark.sql(query)
