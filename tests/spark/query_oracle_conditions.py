"""Random conditions and expressions that mean the same in Spark and in DuckDB.

Each is a pair of texts. Where the two systems coerce types differently, DuckDB's text has the cast
that Spark does by itself: so what Spark's side sees is what people write.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from tests.spark.query_oracle_tables import TEXTS, Column

NUMBERS = frozenset({"int", "decimal", "float", "double"})
COMPARED = NUMBERS | {"text", "time", "bool"}
_OPERATORS = ("=", "<", "<=", ">", ">=", "<>")


@dataclass(frozen=True)
class Pair:
    """The same in both dialects."""

    spark: str
    duck: str


def pair(spark: str, duck: str | None = None) -> Pair:
    return Pair(spark, spark if duck is None else duck)


def fill(template: str | Pair, *parts: Pair) -> Pair:
    """Puts parts into a template, `{}` for each."""
    both = pair(template) if isinstance(template, str) else template
    return Pair(
        both.spark.format(*(p.spark for p in parts)), both.duck.format(*(p.duck for p in parts))
    )


def join(separator: str, parts: Sequence[Pair]) -> Pair:
    return Pair(separator.join(p.spark for p in parts), separator.join(p.duck for p in parts))


def quote(name: str, of: str = "") -> Pair:
    """A column, of a table if one is named."""
    before = f"{of}." if of else ""
    return Pair(f"{before}`{name}`", f'{before}"{name}"')


def text_literal(text: str) -> Pair:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return Pair(f"'{escaped}'", "'" + text.replace("'", "''") + "'")


def has_floor(column: Column) -> bool:
    """Spark's floor is a BIGINT and an error beyond it, DuckDB's is a DOUBLE."""
    return not column.may_be_nan and not column.is_large


class Conditions:
    """Makes conditions on the columns of a table that is called `of` in a query."""

    def __init__(self, rng: np.random.Generator, columns: Sequence[Column], of: str = "") -> None:
        self.rng = rng
        self.columns = columns
        self.of = of

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def column(self, column: Column) -> Pair:
        return quote(column.name, self.of)

    def condition(self, depth: int = 2) -> Pair:
        """Nested over several columns, dimensions more often than variables."""
        if depth and self.chance(0.55):
            if self.chance(0.2):
                return fill("NOT ({})", self.condition(depth - 1))
            word = self.one([" AND ", " AND ", " OR "])
            parts = [self.condition(depth - 1) for _ in range(int(self.rng.integers(2, 4)))]
            return fill("({})", join(word, parts))
        return self.leaf()

    def leaf(self) -> Pair:
        dims = [c for c in self.columns if c.is_dimension]
        column = self.one(dims if dims and self.chance(0.75) else self.columns)
        if self.chance(0.06):
            return fill(self.one(["{} IS NULL", "{} IS NOT NULL"]), self.column(column))
        if self.chance(0.06):
            others = [c for c in self.columns if c.kind in NUMBERS]
            if column.kind in NUMBERS and others:
                return self.between_columns(column, self.one(others))
        maker = {"bool": self.boolean, "text": self.text, "time": self.time,
                 "interval": self.interval, "bytes": self.null_only}  # fmt: skip
        found = maker.get(column.kind, self.number)(column)
        if self.chance(0.03):
            return fill(self.one(["({}) IS NULL", "({}) IS NOT NULL"]), found)
        return found

    def between_columns(self, a: Column, b: Column) -> Pair:
        operator = self.one(_OPERATORS)
        return fill(f"{{}} {operator} {{}}", self.as_double(a), self.as_double(b))

    def null_only(self, column: Column) -> Pair:
        return fill("{} IS NOT NULL", self.column(column))

    def boolean(self, column: Column) -> Pair:
        template = self.one(["{}", "NOT {}", "{} = true", "{} IS NOT DISTINCT FROM false",
                             "CAST({} AS INT) = 1", "{} IN (true, NULL)"])  # fmt: skip
        return fill(template, self.column(column))

    def interval(self, column: Column) -> Pair:
        hours = int(self.rng.integers(-60, 60))
        # DuckDB's interval has months and days: compared as a number of hours
        return Pair(
            f"{self.column(column).spark} {(op := self.one(_OPERATORS))} INTERVAL '{hours}' HOUR",
            f"epoch({self.column(column).duck}) {op} {hours * 3600}",
        )

    # Numbers

    def number(self, column: Column) -> Pair:
        plain = self.column(column)
        kind = int(self.rng.integers(0, 8))
        if kind <= 3:
            return self.compare(plain, lambda: self.number_literal(column), column)
        if kind == 4 and column.kind in {"float", "double"} and has_floor(column):
            step, n = self.one([10, 3, 0.5]), int(self.rng.integers(-5, 6))
            floor = pair(f"floor({{}} / {step}D) <= {n}", f"floor({{}} / {step}::DOUBLE) <= {n}")
            return fill(floor, self.as_double(column))
        if kind == 5 and column.kind == "int" and not column.is_large:
            base = self.as_bigint(column)
            n, k = int(self.rng.integers(1, 5)), int(self.rng.integers(-3, 4))
            template = self.one([
                pair(f"{{}} % {n} = {k}"), pair(f"{{}} * {n} + {k} > {k * 7}"),
                pair(f"{{}} div {n + 1} >= {k}", f"{{}} // {n + 1} >= {k}"),
                pair(f"abs({{}}) < {abs(k) * 50}"), pair(f"-{{}} <> {k}"),
                pair(f"CAST({{}} AS STRING) LIKE '{abs(k)}%'"),
            ])  # fmt: skip
            return fill(template, base)
        if kind == 6 and column.kind in {"float", "double"}:
            n = int(self.rng.integers(-40, 40))
            template = self.one([f"{{}} * 2 + 1 > {n}", f"abs({{}}) <= {abs(n)}", f"-{{}} < {n}",
                                 f"coalesce({{}}, {n}) >= {n}"])  # fmt: skip
            return fill(template, self.as_double(column))
        return self.compare(self.as_double(column), lambda: self.double_literal(column), column)

    def as_double(self, column: Column) -> Pair:
        return fill("CAST({} AS DOUBLE)", self.column(column))

    def as_bigint(self, column: Column) -> Pair:
        return fill("CAST({} AS BIGINT)", self.column(column))

    def near(self, column: Column) -> Any:
        """A value that is there, or nearly, or another."""
        if column.values and self.chance(0.8):
            return self.one(column.values)
        return self.one([0, 1, -1, 7, 100])

    def number_literal(self, column: Column) -> Pair:
        """As people write it: of the type that Spark gives to the text."""
        value = self.near(column)
        if column.kind in {"int", "decimal"}:
            whole = int(value) + int(self.rng.integers(-1, 2))
            if self.chance(0.1):
                return pair(f"{whole}.5")
            if column.kind == "int":
                whole = min(max(whole, -(2**63) + 1), 2**63 - 1)
            return pair(f"({whole})" if whole < 0 else str(whole))
        return self.float_literal(column, float(value))

    def float_literal(self, column: Column, value: float) -> Pair:
        if self.chance(0.3):
            value += float(self.rng.choice([-0.125, 0.5, 1]))
        return _float(value, "FLOAT" if column.kind == "float" else "DOUBLE")

    def double_literal(self, column: Column) -> Pair:
        return _float(float(self.near(column)), "DOUBLE")

    def compare(self, left: Pair, literal: Any, column: Column) -> Pair:
        """A comparison of any form with one or more literals."""
        del column
        kind = int(self.rng.integers(0, 10))
        if kind <= 4:
            return fill(f"{{}} {self.one(_OPERATORS)} {{}}", left, literal())
        if kind == 5:
            return fill(pair("{} <=> {}", "{} IS NOT DISTINCT FROM {}"), left, literal())
        if kind == 6:
            word = self.one(["BETWEEN", "NOT BETWEEN"])
            return fill(f"({{}} {word} {{}} AND {{}})", left, literal(), literal())
        if kind == 7:
            return fill(f"{{}} {self.one(_OPERATORS)} {{}}", literal(), left)
        several = [literal() for _ in range(int(self.rng.integers(1, 6)))]
        if self.chance(0.15):
            several.append(pair("NULL"))
        word = self.one(["IN", "IN", "NOT IN"])
        return fill(f"{{}} {word} ({{}})", left, join(", ", several))

    # Text

    def text(self, column: Column) -> Pair:
        plain = self.column(column)
        kind = int(self.rng.integers(0, 5))
        if kind <= 2:
            return self.compare(plain, lambda: text_literal(self._some_text(column)), column)
        if kind == 3:
            start = self.one(["a", "ab", "", "l", "日", "B", "🌊"])
            shape = self.one([f"{start}%", f"%{start}", f"%{start}%", f"{start}_"])
            word = self.one(["LIKE", "NOT LIKE"])
            return fill(f"{{}} {word} '{shape}'", plain)
        n = int(self.rng.integers(0, 4))
        template = self.one([f"length({{}}) <= {n}", f"upper({{}}) = 'A{'B' * n}'",
                             f"concat({{}}, 'x') > '{'a' * n}'",
                             "substring({}, 1, 1) = 'a'"])  # fmt: skip
        return fill(template, plain)

    def _some_text(self, column: Column) -> str:
        if column.values and self.chance(0.6):
            return str(self.one(column.values))
        return str(self.one(TEXTS))

    # Times

    def time(self, column: Column) -> Pair:
        plain = self.column(column)
        kind = int(self.rng.integers(0, 9))
        if kind <= 3:
            return self.compare(plain, lambda: self.time_literal(column), column)
        if kind == 4:
            left = fill(pair("date({})", "CAST({} AS DATE)"), plain)
            return self.compare(left, lambda: self.date_literal(column), column)
        if kind == 5:
            part = self.one(["year", "month", "day", "hour"])
            n = {"year": 1970, "month": 6, "day": 15, "hour": 12}[part]
            near = getattr(self._near_time(column), part) if self.chance(0.7) else n
            return fill(f"{part}({{}}) {self.one(_OPERATORS)} {near}", plain)
        if kind == 6:
            unit = self.one(["year", "month", "day", "hour", "week"])
            left = fill(f"date_trunc('{unit}', {{}})", plain)
            return self.compare(left, lambda: self.time_literal(column), column)
        if kind == 7:
            micros = int(self._near_time(column).timestamp()) * 1_000_000
            op = self.one(_OPERATORS)
            return fill(pair(f"unix_micros({{}}) {op} {micros}", f"epoch_us({{}}) {op} {micros}"),
                        plain)  # fmt: skip
        day = self.date_literal(column)
        return fill(pair(f"{{}} {(op := self.one(_OPERATORS))} {{}}",
                         f"{{}} {op} CAST({{}} AS TIMESTAMPTZ)"), plain, day)  # fmt: skip

    def _near_time(self, column: Column) -> datetime:
        found = self.near(column)
        if not isinstance(found, datetime):
            found = datetime(1970, 1, 1, tzinfo=UTC)
        found = found.astimezone(UTC)
        return found + timedelta(hours=int(self.rng.integers(-30, 30))) * self.chance(0.4)

    def time_literal(self, column: Column) -> Pair:
        shown = f"{self._near_time(column):%Y-%m-%d %H:%M:%S}"
        if self.chance(0.2):
            shown = shown[:10]
        if self.chance(0.3):
            return pair(f"'{shown}'", f"TIMESTAMPTZ '{shown}'")
        return pair(f"TIMESTAMP '{shown}'", f"TIMESTAMPTZ '{shown}'")

    def date_literal(self, column: Column) -> Pair:
        return pair(f"DATE '{self._near_time(column):%Y-%m-%d}'")


def _float(value: float, sql_type: str) -> Pair:
    if math.isnan(value):
        return pair(f"CAST('NaN' AS {sql_type})")
    # DuckDB divides the digits of a decimal by a power of ten, which is not the nearest double
    return pair(f"CAST({value!r} AS {sql_type})", f"CAST('{value!r}' AS {sql_type})")
