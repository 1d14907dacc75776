"""Tables that are arrays, for tests of writing: generated, partitioned, and written here."""

import datetime as dt
import json
import pickle
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.spark.table.schema import arrow_schema
from frazil.spark.writing.options import TASKS, WRITE, parse_write_options
from frazil.spark.writing.sink import RowsWriter, answer_write
from frazil.spark.writing.write_tasks import TasksWriter

type Rows = list[dict[str, Any]]

_COMPLEX = StructType([StructField("re", DoubleType()), StructField("im", DoubleType())])
_TIMES = st.integers(-(2**51), 2**51).map(  # some seventy years before and after 1970
    lambda micros: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
)
_FLOATS = st.floats(-1e6, 1e6, width=32)
_TEXT = st.text(string.ascii_letters + "é水 ", max_size=4)
COORDINATES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (LongType(), st.integers(-(2**60), 2**60)),
    (ShortType(), st.integers(-300, 300)),
    (DoubleType(), st.floats(-90, 90).map(lambda x: x + 0.0)),  # no -0.0, which equals 0.0
    (StringType(), _TEXT),
    (TimestampType(), _TIMES),
]
VARIABLES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (FloatType(), _FLOATS | st.none()),
    (DoubleType(), st.floats(allow_nan=False) | st.none()),
    (IntegerType(), st.integers(-(2**31) + 2, 2**31 - 1) | st.none()),
    (LongType(), st.integers(-(2**62), 2**62) | st.none()),
    (DecimalType(20, 0), st.integers(0, 2**64 - 3)),
    (BooleanType(), st.booleans()),
    (StringType(), _TEXT),
    (TimestampType(), _TIMES | st.none()),
    (DayTimeIntervalType(), st.timedeltas(dt.timedelta(-9), dt.timedelta(9)) | st.none()),
    (_COMPLEX, st.fixed_dictionaries({"re": _FLOATS, "im": _FLOATS})),
]


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of a whole grid, in no order, and how they are to be stored and partitioned."""

    schema: StructType
    dims: tuple[str, ...]
    rows: Rows
    chunks: Mapping[str, int]
    partitions: int

    @property
    def options(self) -> dict[str, str]:
        return {"dims": ",".join(self.dims), "chunks": json.dumps(self.chunks)}

    @property
    def parts(self) -> list[Rows]:
        return [self.rows[k :: self.partitions] for k in range(self.partitions)]


@st.composite
def cases(draw: st.DrawFn, *, max_size: int = 4) -> Case:
    dims = {name: draw(st.sampled_from(COORDINATES)) for name in "abc"[: draw(st.integers(1, 3))]}
    values = {
        name: draw(st.lists(each, min_size=1, max_size=max_size, unique=True))
        for name, (_, each) in dims.items()
    }
    variables = {name: draw(st.sampled_from(VARIABLES)) for name in "vw"[: draw(st.integers(1, 2))]}
    rows = [
        dict(zip(dims, where, strict=True)) | {n: draw(each) for n, (_, each) in variables.items()}
        for where in product(*values.values())
    ]
    Random(draw(st.integers(0, 99))).shuffle(rows)
    kinds = {**dims, **variables}
    return Case(
        schema=StructType([StructField(name, kind) for name, (kind, _) in kinds.items()]),
        dims=tuple(dims),
        rows=rows,
        chunks={name: draw(st.integers(1, 5)) for name in dims},
        partitions=draw(st.integers(1, 4)),
    )


def table_of(schema: StructType, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(_exact(schema, rows), schema=arrow_schema(schema))


def ordered(rows: Rows, dims: Sequence[str]) -> Rows:
    return sorted(rows, key=lambda row: tuple(row[dim] for dim in dims))


def make_repository(path: Path) -> Repository:
    return Repository.create(LocalStore(str(path)))


def write_here(
    path: Path | str,
    schema: StructType,
    parts: Sequence[Rows],
    **options: str,
) -> None:
    """As Spark would by its data source: every step with a copy of the writer."""
    given = {"path": str(path), **options}
    pickled = pickle.dumps(RowsWriter(parse_write_options(given), schema))

    def copy() -> RowsWriter:
        made = pickle.loads(pickled)
        assert isinstance(made, RowsWriter)
        return made

    messages = [copy().write(iter(table_of(schema, part).to_batches())) for part in parts]
    copy().commit(pickle.loads(pickle.dumps(messages)))
    if WRITE in options:
        _run_tasks(given, sum(map(len, parts)))


def _run_tasks(given: dict[str, str], rows: int) -> None:
    """As the Java side does, task after task, the last one twice."""
    for number in count():
        question = {"tasks": rows, "round": number, "epoch": None}
        tasks = answer_write(question, given)["tasks"]
        if not tasks:
            return
        parsed = parse_write_options({**given, TASKS: json.dumps(question)})
        pickled = pickle.dumps(TasksWriter(parsed))
        messages: list[Any] = [
            pickle.loads(pickled).write(iter([pa.record_batch({"id": [task]})]))
            for task in [*range(tasks), tasks - 1]
        ]
        pickle.loads(pickled).commit(pickle.loads(pickle.dumps(messages[:-1])))


def by_tasks(*, rows: int = 0, chunks: int = 0) -> dict[str, str]:
    """The option of the Java side by which tasks make the chunks of more rows, and manifests."""
    told = {"job": str(uuid4()), "rows": rows, "chunks": chunks}
    return {WRITE: json.dumps(told)}


def _exact(schema: StructType, rows: Rows) -> Rows:
    """Decimals as Arrow wants them; the rest as it is."""
    decimals = [f.name for f in schema if isinstance(f.dataType, DecimalType)]
    if not decimals:
        return rows
    return [
        {**row, **{n: None if row[n] is None else Decimal(row[n]) for n in decimals}}
        for row in rows
    ]
