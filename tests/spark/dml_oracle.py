"""Random statements that change a random table, and the same on a table of DuckDB.

DuckDB's table, the twin, has a row for every cell of the grid. Two rules make up the difference: a
cell that is deleted has NULL in its variables, and new coordinate values come with all the cells
that they span. `Changes(spark, folder, seed).run(count)` does the statements of a seed again.
"""

# ruff: noqa: S608 -- no user's text is in these statements

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import icechunk
import numpy as np
import pyarrow as pa
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil

type Row = dict[str, Any]
type Cells = dict[tuple[Any, ...], tuple[int | None, float | None]]
"""The variables n and v, by coordinates."""

_START = datetime(2024, 1, 1)  # noqa: DTZ001 -- Spark's session is in UTC
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- the same
_STEP = timedelta(hours=6)
_KINDS = ("long", "double", "time", "text", "down")
_SPARK = {
    "long": "BIGINT",
    "double": "DOUBLE",
    "time": "TIMESTAMP",
    "text": "STRING",
    "down": "INT",
}
_DUCK = {**_SPARK, "text": "VARCHAR"}
_ARROW = {
    "long": pa.int64(),
    "double": pa.float64(),
    "time": pa.timestamp("us"),
    "text": pa.string(),
    "down": pa.int32(),
}
_VARIABLES = {"n": "INT", "v": "DOUBLE"}  # in the order of the table's columns
_FILL = -999  # of n
_DRIVER_ROWS = "spark.frazil.write.driverRows"
_FREQUENCIES = {
    "update": 0.22,
    "delete": 0.12,
    "insert": 0.14,
    "merge": 0.2,
    "append": 0.1,
    "upsert": 0.13,
    "overwrite": 0.03,
    "empty": 0.06,
}


def coordinate(kind: str, number: int) -> Any:
    """The value at a position of a dimension; they ascend, those of `down` descend."""
    match kind:
        case "long":
            return 10 * number - 30
        case "double":
            return number / 4 - 1.0
        case "time":
            return _START + _STEP * number
        case "text":
            return f"s{number:03d}"
    return -number


def number_of(kind: str, value: Any) -> int:
    """The inverse of `coordinate`."""
    match kind:
        case "long":
            return (int(value) + 30) // 10
        case "double":
            return round((float(value) + 1) * 4)
        case "time":
            return int((value - _START) / _STEP)
        case "text":
            return int(value[1:])
    return -int(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A repository whose root group is the table."""

    path: str
    kinds: Mapping[str, str]  # by dimension
    chunks: Mapping[str, int]

    @property
    def name(self) -> str:
        return f"icechunk.`{self.path}`"

    @property
    def dims(self) -> list[str]:
        return list(self.kinds)

    @property
    def columns(self) -> list[str]:
        return [*self.kinds, *_VARIABLES]

    @property
    def schema(self) -> pa.Schema:
        dims = [(dim, _ARROW[kind]) for dim, kind in self.kinds.items()]
        return pa.schema([*dims, ("n", pa.int32()), ("v", pa.float64())])

    def columns_in(self, words: Mapping[str, str]) -> str:
        types = {**{dim: words[kind] for dim, kind in self.kinds.items()}, **_VARIABLES}
        return ", ".join(f"{name} {kind}" for name, kind in types.items())

    def sizes_of(self, cells: Iterable[tuple[Any, ...]]) -> dict[str, int]:
        """One more than the last number along each dimension."""
        numbers = [
            [number_of(kind, value) for value in set(values)]
            for kind, values in zip(self.kinds.values(), zip(*cells, strict=True), strict=True)
        ]
        return {dim: max(found) + 1 for dim, found in zip(self.dims, numbers, strict=True)}

    def read(self, snapshot: str | None = None) -> Cells:
        """Its cells, as the live `icechunk` package reads them."""
        storage = icechunk.local_filesystem_storage(self.path)
        repository = icechunk.Repository.open(storage)
        session = (
            repository.readonly_session("main")
            if snapshot is None
            else repository.readonly_session(snapshot_id=snapshot)
        )
        group = zarr.open_group(session.store, mode="r")
        arrays = {name: np.asarray(group[name][...]) for name in self.columns}  # type: ignore[index]
        coordinates = [self._decode(dim, arrays[dim]) for dim in self.dims]
        n = [None if x == _FILL else x for x in arrays["n"].ravel().tolist()]
        v = [None if np.isnan(x) else x for x in arrays["v"].ravel().tolist()]
        return dict(zip(product(*coordinates), zip(n, v, strict=True), strict=True))

    def _decode(self, dim: str, stored: np.ndarray) -> list[Any]:
        values: list[Any] = stored.tolist()
        if self.kinds[dim] == "time":
            return [_EPOCH + timedelta(microseconds=value) for value in values]
        return values

    def snapshots(self) -> list[str]:
        """The history of main, oldest first."""
        repository = frazil.Repository.open(frazil.local_filesystem_storage(self.path))
        return [info.id for info in repository.ancestry(branch="main")][::-1]


@dataclass(frozen=True, slots=True)
class Statement:
    """A change of the table: SQL, or rows that a DataFrame writes."""

    kind: str
    rows: tuple[Row, ...] = ()  # of the view `source`
    sql: str = ""  # with {table}, and {trouble} at the end of a condition
    duck: tuple[str, ...] = ()  # the same on the twin
    options: Mapping[str, str] | None = None  # of a DataFrame's write
    by_name: bool = False  # whether it is written to the table's name or to its path
    by_executors: bool = False  # whether tasks make the chunks, however few the rows are
    partitions: int = 1  # of the rows

    @property
    def only_inserts(self) -> bool:
        """True for a MERGE that Spark plans as an INSERT of the rows that it did not find."""
        clauses = self.sql.split("WHEN ")[1:]
        return bool(clauses) and all(each.startswith("NOT MATCHED THEN") for each in clauses)

    def __str__(self) -> str:
        how = self.sql or f"write {'to the table' if self.by_name else ''} {self.options}"
        tasks = ", by executors" if self.by_executors else ""
        return f"{self.kind}{tasks}: {how} {list(self.rows) if self.rows else ''}"


class Statements:
    """Random statements for a table."""

    def __init__(self, table: Table, rng: np.random.Generator) -> None:
        self.table = table
        self.rng = rng
        self.sizes: dict[str, int] = {}

    def choose(self, sizes: Mapping[str, int], without: Sequence[str] = ()) -> Statement:
        """A statement for a table that has the coordinates with numbers below `sizes`."""
        self.sizes = dict(sizes)
        frequencies = {k: p for k, p in _FREQUENCIES.items() if k not in without}
        p = np.array(list(frequencies.values()))
        kind = str(self.rng.choice(list(frequencies), p=p / p.sum()))
        statement: Statement = getattr(self, f"_{kind}")()
        return replace(
            statement,
            by_executors=bool(self.rng.random() < 0.4),
            partitions=int(self.rng.integers(1, 4)),
        )

    def cells(self, sizes: Mapping[str, int]) -> list[Row]:
        """All cells of a grid, with random values."""
        return [self._row(index) for index in product(*(range(n) for n in sizes.values()))]

    def _row(self, index: Sequence[int]) -> Row:
        places = {
            dim: coordinate(kind, k)
            for (dim, kind), k in zip(self.table.kinds.items(), index, strict=True)
        }
        n = None if self.rng.random() < 0.1 else int(self.rng.integers(-9, 10))
        v = None if self.rng.random() < 0.1 else float(self.rng.integers(-40, 40)) / 4
        return {**places, "n": n, "v": v}

    def _random_rows(self, beyond: int) -> tuple[Row, ...]:
        """Rows at random cells, of which some may be up to `beyond` further along a dimension."""
        dims, sizes = self.table.dims, self.sizes
        found = {
            tuple(int(self.rng.integers(n + beyond)) for n in sizes.values())
            for _ in range(int(self.rng.integers(1, 9)))
        }
        # values that are new must follow in order, without a gap that would be filled later
        for axis, dim in enumerate(dims):
            new = sorted({index[axis] for index in found if index[axis] >= sizes[dim]})
            nearer = {number: sizes[dim] + k for k, number in enumerate(new)}
            found = {
                (*index[:axis], nearer.get(index[axis], index[axis]), *index[axis + 1 :])
                for index in found
            }
        return tuple(self._row(index) for index in sorted(found))

    def _update(self) -> Statement:
        choices = ["v = v * 2 + 1", "n = NULL", "v = n, n = 5 - n", "v = -v", "v = 0.5"]
        setting, where = str(self.rng.choice(choices)), self._condition()
        return Statement(
            "update",
            sql=f"UPDATE {{table}} SET {setting} WHERE ({where}){{trouble}}",
            duck=(f"UPDATE t SET {setting} WHERE {where}",),
        )

    def _delete(self) -> Statement:
        where = self._condition()
        return Statement(
            "delete",
            sql=f"DELETE FROM {{table}} WHERE ({where}){{trouble}}",
            duck=(f"UPDATE t SET v = NULL, n = NULL WHERE {where}",),
        )

    def _insert(self) -> Statement:
        """Where there is a value, nothing is inserted at all."""
        return Statement(
            "insert",
            self._random_rows(beyond=2),
            "INSERT INTO {table} SELECT * FROM source",
            self._replaced(),
        )

    def _replaced(self) -> tuple[str, ...]:
        return (f"DELETE FROM t USING source s WHERE {self._same}", "INSERT INTO t FROM source")

    @property
    def _same(self) -> str:
        return " AND ".join(f"s.{dim} = t.{dim}" for dim in self.table.dims)

    def _append(self) -> Statement:
        """Rows at new values of the first dimension; with one that is there it is refused."""
        first = self.sizes[self.table.dims[0]]
        known = self.rng.random() < 0.1
        found = {
            (first + k - known, *(int(self.rng.integers(n)) for n in [*self.sizes.values()][1:]))
            for k in range(int(self.rng.integers(1, 3)))
            for _ in range(int(self.rng.integers(1, 5)))
        }
        rows = tuple(self._row(index) for index in sorted(found))
        return self._written("append", rows, {"mode": "append"})

    def _upsert(self) -> Statement:
        """Rows at cells that are there or not."""
        options = {"mode": "upsert", "appendDim": "*"}
        return self._written("upsert", self._random_rows(beyond=2), options)

    def _written(self, kind: str, rows: tuple[Row, ...], options: dict[str, str]) -> Statement:
        by_name = bool(self.rng.random() < 0.5)
        if not by_name and self.rng.random() < 0.5:
            options = {**options, "rebase": "rebase"}
        return Statement(kind, rows, duck=self._replaced(), options=options, by_name=by_name)

    def _merge(self) -> Statement:
        then = str(self.rng.choice(["UPDATE SET v = s.v, n = s.n", "UPDATE SET v = t.v + 1", ""]))
        clauses = [f"WHEN MATCHED AND s.n < 5 THEN {then}"] if then else []
        removed = ["WHEN MATCHED THEN DELETE"] if self.rng.random() < 0.5 else []
        added = ["WHEN NOT MATCHED THEN INSERT *"] if self.rng.random() < 0.8 else []
        left = "WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN UPDATE SET n = 4"
        others = [left] if self.rng.random() < 0.3 or not (clauses or removed or added) else []
        emptied = [each.replace("DELETE", "UPDATE SET v = NULL, n = NULL") for each in removed]
        named = [each.replace("INSERT *", "INSERT BY NAME") for each in added]
        using = f"USING source s ON {self._same}"
        return Statement(
            "merge",
            self._random_rows(beyond=2),
            " ".join(["MERGE INTO {table} t", using, *clauses, *removed, *added, *others]),
            (" ".join(["MERGE INTO t", using, *clauses, *emptied, *named, *others]),),
        )

    def _overwrite(self) -> Statement:
        rows = self.cells({dim: int(self.rng.integers(1, 6)) for dim in self.table.dims})
        sql = "INSERT OVERWRITE {table} SELECT * FROM source"
        return Statement("overwrite", tuple(rows), sql, ("DELETE FROM t", *self._replaced()[1:]))

    def _empty(self) -> Statement:
        """Changes nothing, by a condition that no row fulfils."""
        sql = f"UPDATE {{table}} SET v = 1 WHERE {self.table.dims[0]} IS NULL"
        return Statement("empty", sql=sql)

    def _condition(self) -> str:
        parts = [self._simple() for _ in range(int(self.rng.integers(1, 4)))]
        return f" {self.rng.choice(['AND', 'OR'])} ".join(parts)

    def _simple(self) -> str:
        if self.rng.random() < 0.3:
            return str(self.rng.choice(["v > 2", "n IS NULL", "n IN (1, 2, 3)", "NOT v <= n"]))
        dim = str(self.rng.choice(self.table.dims))
        numbers = sorted(int(k) for k in self.rng.integers(self.sizes[dim], size=2))
        low, high = sorted(coordinate(self.table.kinds[dim], k) for k in numbers)
        written = [f"TIMESTAMP '{x}'" if isinstance(x, datetime) else repr(x) for x in (low, high)]
        forms = [
            f"{dim} BETWEEN {written[0]} AND {written[1]}",
            f"{dim} = {written[0]}",
            f"NOT ({dim} < {written[1]})",
            f"{dim} IN ({', '.join(written)})",
        ]
        return str(self.rng.choice(forms))


class RefusedError(Exception):
    """The twin's no to a statement; its text is in frazil's error, too."""


class Twin:
    """The table in DuckDB."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.duck = duckdb.connect()
        self.duck.execute(f"CREATE TABLE t ({table.columns_in(_DUCK)})")

    def load(self, rows: Iterable[Row]) -> None:
        self.duck.execute("DELETE FROM t")
        self._register(rows)
        self.duck.execute("INSERT INTO t FROM source")
        self._expand()

    def load_cells(self, cells: Cells) -> None:
        columns = self.table.columns
        self.load(dict(zip(columns, (*at, *values), strict=True)) for at, values in cells.items())

    def apply(self, statement: Statement) -> None:
        """Raises RefusedError, and changes nothing."""
        self._register(statement.rows)
        if statement.kind == "insert" and self._count("(t.v IS NOT NULL OR t.n IS NOT NULL)"):
            raise RefusedError("inserting never overwrites")
        if statement.kind == "append":
            first = self.table.dims[0]
            (known,) = self._ask(f"SELECT count(*) FROM source SEMI JOIN t USING ({first})")
            if known[0]:
                raise RefusedError("appending never overwrites")
        for each in statement.duck:
            self.duck.execute(each)
        self._expand()

    def cells(self) -> Cells:
        rows = self._ask(f"SELECT {', '.join(self.table.columns)} FROM t")
        return {row[:-2]: (row[-2], row[-1]) for row in rows}

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.duck.execute(query).fetchall()

    def _count(self, condition: str) -> int:
        same = " AND ".join(f"s.{dim} = t.{dim}" for dim in self.table.dims)
        ((found,),) = self._ask(f"SELECT count(*) FROM t JOIN source s ON {same} WHERE {condition}")
        return int(found)

    def _register(self, rows: Iterable[Row]) -> None:
        self.duck.register("source", pa.Table.from_pylist(list(rows), self.table.schema))

    def _expand(self) -> None:
        """Adds the cells that are without a row."""
        dims = ", ".join(self.table.dims)
        grid = " CROSS JOIN ".join(f"(SELECT DISTINCT {dim} FROM t)" for dim in self.table.dims)
        self.duck.execute(
            f"INSERT INTO t ({dims}) SELECT * FROM (SELECT * FROM {grid})"
            f" EXCEPT SELECT {dims} FROM t"
        )


class Trouble:
    """Something that goes wrong in tasks of a statement; by default nothing."""

    def among(self, rows: DataFrame) -> DataFrame:
        return rows

    @property
    def condition(self) -> str:
        """Goes on after a condition; true for every row."""
        return ""


def view(spark: SparkSession, table: Table, rows: Iterable[Row], partitions: int) -> DataFrame:
    tuples = [tuple(row[column] for column in table.columns) for row in rows]
    return spark.createDataFrame(tuples, table.columns_in(_SPARK)).repartition(partitions)


def execute(
    spark: SparkSession, table: Table, statement: Statement, trouble: Trouble | None = None
) -> None:
    """Raises what Spark raises."""
    trouble = Trouble() if trouble is None else trouble
    spark.conf.set(_DRIVER_ROWS, "0" if statement.by_executors else "1000000")
    if statement.rows:
        frame = trouble.among(view(spark, table, statement.rows, statement.partitions))
        frame.createOrReplaceTempView("source")
    if statement.options is None:
        spark.sql(statement.sql.format(table=table.name, trouble=trouble.condition))
    elif statement.by_name:
        spark.table("source").writeTo(table.name).options(**statement.options).append()
    else:
        options = {"path": table.path, **statement.options}
        spark.table("source").write.format("icechunk").mode("append").options(**options).save()


def create(
    spark: SparkSession,
    folder: Path,
    seed: int,
    sizes: tuple[int, int] = (1, 7),
    dims: tuple[int, int] = (1, 4),
) -> tuple[Statements, Twin]:
    """A table of random dimensions, sizes and chunks, and its twin."""
    rng = np.random.default_rng(seed)
    kinds = {f"d{k}": str(rng.choice(_KINDS)) for k in range(int(rng.integers(*dims)))}
    lengths = {dim: int(rng.integers(*sizes)) for dim in kinds}
    chunks = {dim: int(rng.integers(1, 5)) for dim in kinds}
    table = Table(str(folder / f"r{seed}"), kinds, chunks)
    frazil.Repository.create(frazil.local_filesystem_storage(table.path))
    statements, twin = Statements(table, rng), Twin(table)
    rows = statements.cells(lengths)
    down = {dim: "descending" for dim, kind in kinds.items() if kind == "down"}
    (
        view(spark, table, rows, 2)
        .write.format("icechunk")
        .mode("append")
        .options(dims=",".join(kinds), chunks=json.dumps(chunks), order=json.dumps(down))
        .options(fill=json.dumps({"n": _FILL}))
        .save(table.path)
    )
    twin.load(rows)
    return statements, twin


class Changes:
    """A table of a catalog and its twin, compared after every statement."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark = spark
        self.statements, self.twin = create(spark, folder, seed)
        self.table = self.statements.table
        self.told = f"seed {seed}, dimensions {self.table.kinds}, chunks {self.table.chunks}"

    def run(self, count: int) -> None:
        self.check()
        for number in range(count):
            statement = self.statements.choose(self.table.sizes_of(self.twin.cells()))
            self.told += f"\n{number}: {statement}"
            self.do(statement)
            self.check()

    def execute(self, statement: Statement) -> None:
        execute(self.spark, self.table, statement)

    def do(self, statement: Statement) -> None:
        """One commit if something changes; none if the statement is refused."""
        history, before = self.table.snapshots(), self.twin.cells()
        refused = None
        try:
            self.twin.apply(statement)
        except RefusedError as reason:
            refused = str(reason)
        error = self._error_of(statement)
        told = f"{self.told}\nexpected {refused or 'no error'}, got {error}"
        assert (error is None) == (refused is None), told
        assert refused is None or refused in str(error), told
        after = self.table.snapshots()
        assert after[: len(history)] == history, self.told
        made = len(after) - len(history)
        assert made == 1 or (made == 0 and self.twin.cells() == before), f"{made}: {self.told}"

    def _error_of(self, statement: Statement) -> Exception | None:
        try:
            self.execute(statement)
        except PySparkException as error:
            return error
        return None

    def check(self) -> None:
        """Spark and the live `icechunk` package read what the twin has."""
        rows = self.spark.sql(f"SELECT * FROM {self.table.name}").collect()
        found = {tuple(row)[:-2]: (row.n, row.v) for row in rows}
        assert len(found) == len(rows), f"{self.told}\na cell is there twice: {rows}"
        expected = self.twin.cells()
        differing = {
            at: (found.get(at), expected.get(at))
            for at in found.keys() | expected.keys()
            if found.get(at) != expected.get(at) or (at in found) != (at in expected)
        }
        assert not differing, f"{self.told}\nSpark, DuckDB: {differing}"
        self.check_reference()

    def check_reference(self) -> None:
        found, expected = self.table.read(), self.twin.cells()
        assert found == expected, f"{self.told}\nicechunk: {found}\nDuckDB: {expected}"
