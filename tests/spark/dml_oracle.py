"""Random INSERT, UPDATE, DELETE and MERGE on a random table, and the same on a table of DuckDB.

DuckDB's table has a row for every cell of the grid. Two rules make up the difference: a cell that
is deleted has NULL in its variables, and new coordinate values come with all the cells that they
span. `Changes(spark, folder, seed).run(count)` does the statements of a seed again.
"""

# ruff: noqa: S608 -- no user's text is in these statements

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import icechunk
import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil

type Row = dict[str, Any]

_START = datetime(2024, 1, 1)  # noqa: DTZ001 -- Spark's session is in UTC
_KINDS = ("long", "double", "time", "text", "down")
_SPARK = {
    "long": "BIGINT",
    "double": "DOUBLE",
    "time": "TIMESTAMP",
    "text": "STRING",
    "down": "INT",
}
_DUCK = {**_SPARK, "text": "VARCHAR"}
_VARIABLES = {"n": "INT", "v": "DOUBLE"}  # in the order of the table's columns


def coordinate(kind: str, number: int) -> Any:
    """The value at a position of a dimension; they ascend, those of `down` descend."""
    match kind:
        case "long":
            return 10 * number - 30
        case "double":
            return number / 4 - 1.0
        case "time":
            return _START + timedelta(hours=6 * number)
        case "text":
            return f"s{number:03d}"
    return -number


class Changes:
    """A table of a catalog, and its twin in DuckDB."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.spark = spark
        self.path = folder / f"r{seed}"
        self.kinds = {
            f"d{k}": str(self.rng.choice(_KINDS)) for k in range(int(self.rng.integers(1, 4)))
        }
        self.sizes = {dim: int(self.rng.integers(1, 7)) for dim in self.kinds}
        chunks = {dim: int(self.rng.integers(1, 5)) for dim in self.kinds}
        self.table = f"icechunk.`{self.path}`"
        self.told = f"seed {seed}, dimensions {self.kinds}, sizes {self.sizes}, chunks {chunks}"
        self.duck = duckdb.connect()
        types = {**{d: _DUCK[k] for d, k in self.kinds.items()}, **_VARIABLES}
        columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
        self.duck.execute(f"CREATE TABLE t ({columns})")
        frazil.Repository.create(frazil.local_filesystem_storage(str(self.path)))
        self._create(chunks)

    @property
    def dims(self) -> list[str]:
        return list(self.kinds)

    @property
    def columns(self) -> list[str]:
        return [*self.kinds, *_VARIABLES]

    def _create(self, chunks: dict[str, int]) -> None:
        self._view(rows := self._cells(), "first")
        down = {dim: "descending" for dim, kind in self.kinds.items() if kind == "down"}
        (
            self.spark.table("first")
            .write.format("icechunk")
            .mode("append")
            .options(dims=",".join(self.dims), chunks=json.dumps(chunks), fill='{"n": -999}')
            .options(order=json.dumps(down))
            .save(str(self.path))
        )
        self._insert(rows)
        self.expand()

    def _cells(self) -> list[Row]:
        """All cells of the grid, with random values."""
        grids = np.meshgrid(*(np.arange(n) for n in self.sizes.values()), indexing="ij")
        return [self._row(index) for index in zip(*(g.ravel() for g in grids), strict=True)]

    def _row(self, index: Sequence[Any]) -> Row:
        places = {
            dim: coordinate(kind, int(k))
            for (dim, kind), k in zip(self.kinds.items(), index, strict=True)
        }
        v = None if self.rng.random() < 0.1 else float(self.rng.integers(-40, 40)) / 4
        n = None if self.rng.random() < 0.1 else int(self.rng.integers(-9, 10))
        return {**places, "v": v, "n": n}

    def _random_rows(self, beyond: int) -> list[Row]:
        """Rows at random cells, of which some may be up to `beyond` further along a dimension."""
        found: dict[tuple[int, ...], Row] = {}
        for _ in range(int(self.rng.integers(1, 9))):
            index = tuple(int(self.rng.integers(n + beyond)) for n in self.sizes.values())
            found[index] = self._row(index)
        # values that are new must follow in order, without a gap that would be filled later
        for position, dim in enumerate(self.dims):
            new = sorted({index[position] for index in found if index[position] >= self.sizes[dim]})
            for index in [i for i in found if i[position] in new]:
                nearer = list(index)
                nearer[position] = self.sizes[dim] + new.index(index[position])
                row = found.pop(index)
                row[dim] = coordinate(self.kinds[dim], nearer[position])
                found[tuple(nearer)] = row
        return list(found.values())

    def _view(self, rows: list[Row], name: str) -> None:
        types = {**{d: _SPARK[k] for d, k in self.kinds.items()}, **_VARIABLES}
        schema = ", ".join(f"{column} {kind}" for column, kind in types.items())
        tuples = [tuple(row[column] for column in self.columns) for row in rows]
        frame = self.spark.createDataFrame(tuples, schema)
        frame.repartition(int(self.rng.integers(1, 4))).createOrReplaceTempView(name)

    # the twin

    def _insert(self, rows: list[Row]) -> None:
        marks = ", ".join("?" for _ in self.columns)
        for row in rows:
            self.duck.execute(f"INSERT INTO t VALUES ({marks})", [row[c] for c in self.columns])

    def expand(self) -> None:
        """Adds the cells that are without a row, and learns the sizes."""
        grid = " CROSS JOIN ".join(f"(SELECT DISTINCT {dim} FROM t)" for dim in self.dims)
        self.duck.execute(
            f"INSERT INTO t ({', '.join(self.dims)}) SELECT * FROM (SELECT * FROM {grid})"
            f" EXCEPT SELECT {', '.join(self.dims)} FROM t"
        )
        self.sizes = {
            dim: self.duck.execute(f"SELECT count(DISTINCT {dim}) FROM t").fetchall()[0][0]
            for dim in self.dims
        }

    # statements

    def run(self, count: int) -> None:
        self.check()
        kinds = ("update", "delete", "insert", "merge", "overwrite", "empty")
        for number in range(count):
            kind = str(self.rng.choice(kinds, p=[0.3, 0.15, 0.2, 0.25, 0.03, 0.07]))
            getattr(self, kind)()
            self.told += f"\n{number}: {self.statement}"
            self.expand()
            self.check()
        self.check_reference()

    def _do(self, statement: str) -> None:
        self.statement = statement
        self.spark.sql(statement)

    def update(self) -> None:
        choices = ["v = v * 2 + 1", "n = NULL", "v = n, n = 5 - n", "v = -v", "v = 0.5"]
        setting, where = str(self.rng.choice(choices)), self._condition()
        self._do(f"UPDATE {self.table} SET {setting} WHERE {where}")
        self.duck.execute(f"UPDATE t SET {setting} WHERE {where}")

    def delete(self) -> None:
        where = self._condition()
        self._do(f"DELETE FROM {self.table} WHERE {where}")
        self.duck.execute(f"UPDATE t SET v = NULL, n = NULL WHERE {where}")

    def insert(self) -> None:
        """Where there is a value, nothing is inserted at all."""
        rows = self._random_rows(beyond=2)
        self._view(rows, "source")
        self.duck.register("source", pa.Table.from_pylist(rows, self._arrow()))
        same = " AND ".join(f"s.{dim} = t.{dim}" for dim in self.dims)
        taken = self.duck.execute(
            f"SELECT count(*) FROM t JOIN source s ON {same}"
            " WHERE t.v IS NOT NULL OR t.n IS NOT NULL"
        ).fetchall()[0][0]
        statement = f"INSERT INTO {self.table} SELECT * FROM source"
        if taken:
            with pytest.raises(Exception, match="inserting never overwrites"):
                self._do(statement)
            return
        self._do(statement)
        self.duck.execute(f"DELETE FROM t USING source s WHERE {same}")
        self._insert(rows)

    def merge(self) -> None:
        self._view(rows := self._random_rows(beyond=2), "source")
        self.duck.register("source", pa.Table.from_pylist(rows, self._arrow()))
        same = " AND ".join(f"s.{dim} = t.{dim}" for dim in self.dims)
        then = str(self.rng.choice(["UPDATE SET v = s.v, n = s.n", "UPDATE SET v = t.v + 1", ""]))
        clauses = [f"WHEN MATCHED AND s.n < 5 THEN {then}"] if then else []
        removed = ["WHEN MATCHED THEN DELETE"] if self.rng.random() < 0.5 else []
        added = ["WHEN NOT MATCHED THEN INSERT *"] if self.rng.random() < 0.8 else []
        left = "WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN UPDATE SET n = 4"
        others = [left] if self.rng.random() < 0.3 or not (clauses or removed or added) else []
        self._do(
            f"MERGE INTO {self.table} t USING source s ON {same} "
            + " ".join([*clauses, *removed, *added, *others])
        )
        emptied = [each.replace("DELETE", "UPDATE SET v = NULL, n = NULL") for each in removed]
        named = [each.replace("INSERT *", "INSERT BY NAME") for each in added]
        self.duck.execute(
            f"MERGE INTO t USING source s ON {same} "
            + " ".join([*clauses, *emptied, *named, *others])
        )

    def overwrite(self) -> None:
        self.sizes = {dim: int(self.rng.integers(1, 6)) for dim in self.kinds}
        self._view(rows := self._cells(), "source")
        self._do(f"INSERT OVERWRITE {self.table} SELECT * FROM source")
        self.duck.execute("DELETE FROM t")
        self._insert(rows)

    def empty(self) -> None:
        """Changes nothing, by a condition that no row fulfils."""
        self._do(f"UPDATE {self.table} SET v = 1 WHERE {self.dims[0]} IS NULL")

    def _condition(self) -> str:
        parts = [self._simple() for _ in range(int(self.rng.integers(1, 4)))]
        return f" {self.rng.choice(['AND', 'OR'])} ".join(parts)

    def _simple(self) -> str:
        if self.rng.random() < 0.3:
            return str(self.rng.choice(["v > 2", "n IS NULL", "n IN (1, 2, 3)", "NOT v <= n"]))
        dim = str(self.rng.choice(self.dims))
        numbers = sorted(int(k) for k in self.rng.integers(self.sizes[dim], size=2))
        low, high = sorted(
            (coordinate(self.kinds[dim], k) for k in numbers),
        )
        written = [f"TIMESTAMP '{x}'" if isinstance(x, datetime) else repr(x) for x in (low, high)]
        forms = [
            f"{dim} BETWEEN {written[0]} AND {written[1]}",
            f"{dim} = {written[0]}",
            f"NOT ({dim} < {written[1]})",
            f"{dim} IN ({', '.join(written)})",
        ]
        return str(self.rng.choice(forms))

    # comparisons

    def _arrow(self) -> pa.Schema:
        kinds = {
            "long": pa.int64(), "double": pa.float64(), "time": pa.timestamp("us"),
            "text": pa.string(), "down": pa.int32(),
        }  # fmt: skip
        dims = [(dim, kinds[kind]) for dim, kind in self.kinds.items()]
        return pa.schema([*dims, ("n", pa.int32()), ("v", pa.float64())])

    def check(self) -> None:
        order = ", ".join(self.dims)
        found = [tuple(row) for row in self.spark.sql(f"SELECT * FROM {self.table}").collect()]
        expected = self.duck.execute(f"SELECT * FROM t ORDER BY {order}").fetchall()
        key = len(self.dims)
        found.sort(key=lambda row: row[:key])
        assert found == expected, f"{self.told}\nSpark:  {found}\nDuckDB: {expected}"

    def check_reference(self) -> None:
        """The live `icechunk` package reads the same."""
        storage = icechunk.local_filesystem_storage(str(self.path))
        session = icechunk.Repository.open(storage).readonly_session("main")
        group = zarr.open_group(session.store, mode="r")
        order = ", ".join(
            f"{dim} DESC" if kind == "down" else dim for dim, kind in self.kinds.items()
        )
        expected = self.duck.execute(f"SELECT v, n FROM t ORDER BY {order}").fetchall()
        n, v = (np.asarray(group[name][...]).ravel() for name in ("n", "v"))  # type: ignore[index]
        wanted = [np.nan if row[0] is None else row[0] for row in expected]
        assert np.array_equal(v, wanted, equal_nan=True)
        assert n.tolist() == [-999 if row[1] is None else row[1] for row in expected]
