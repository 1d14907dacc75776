"""Which cell a row means: coordinates that are not stored as a column would say them."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark.runtime.workers import TaskFailedError
from frazil.spark.table.cf import Plain
from frazil.spark.table.options import ReadOptions
from frazil.spark.writing.columns import plan_snapping
from tests.spark.in_process import counted
from tests.spark.writing_cases import write_here

UTC = dt.UTC


def make(path: Path, coordinate: npt.NDArray[Any], **attrs: Any) -> frazil.Repository:
    """A variable v over one coordinate c: 1, 2, 3, ..."""
    repository = frazil.Repository.create(frazil.local_filesystem_storage(path))
    with repository.transaction("main", message="made") as store:
        group = zarr.group(store)
        made = group.create_array("c", data=coordinate, dimension_names=["c"])
        made.attrs.update(attrs)
        values = np.arange(1, len(coordinate) + 1, dtype=np.float32)
        group.create_array("v", data=values, chunks=2, dimension_names=["c"], fill_value=np.nan)
    return repository


def values(path: Path, name: str = "v") -> list[float]:
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    store = repository.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path=name, mode="r")[...]).tolist()  # type: ignore[no-any-return]  # numpy's


def schema(kind: DataType) -> StructType:
    return StructType([StructField("c", kind), StructField("v", FloatType())])


def write(path: Path, kind: DataType, cells: dict[Any, float], **options: str) -> None:
    rows = [{"c": at, "v": value} for at, value in cells.items()]
    write_here(path, schema(kind), [rows], **{"mode": "region", **options})


COORDINATES: dict[str, tuple[npt.NDArray[Any], dict[str, Any]]] = {
    "days as floats": (np.arange(0, 2, 1 / 24), {"units": "days since 2024-01-01"}),
    "hours as short floats": (
        np.arange(0, 50, 0.1, dtype=np.float32),
        {"units": "hours since 1990-01-01"},
    ),
    "scaled floats": (np.linspace(-3, 3, 23), {"scale_factor": 0.1, "add_offset": 7.3}),
    "packed": (np.arange(-300, 300, 7, dtype=np.int16), {"scale_factor": 0.01, "add_offset": 1.7}),
    "nanoseconds": (np.arange(0, 5_000_000, 1_000_007).astype("M8[ns]"), {}),
    "descending": (np.linspace(90, -90, 19), {}),
    "short floats": (np.linspace(0, 1, 11, dtype=np.float32), {}),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_rows_that_were_read_are_written_where_they_came_from(name: str, tmp_path: Path) -> None:
    coordinate, attrs = COORDINATES[name]
    make(tmp_path, coordinate, **attrs)
    _, reader = counted(str(tmp_path), ReadOptions(path=str(tmp_path)))
    rows = reader.table().to_pylist()
    changed = [{"c": row["c"], "v": -row["v"]} for row in reversed(rows)]
    write_here(tmp_path, reader.schema, [changed[::2], changed[1::2]], mode="region")
    assert values(tmp_path) == [-n for n in range(1, len(coordinate) + 1)]
    assert values(tmp_path, "c") == coordinate.tolist()
    with pytest.raises(TaskFailedError, match="already"):
        write_here(tmp_path, reader.schema, [changed], mode="append")


def test_a_float_column_finds_the_doubles_it_stands_for(tmp_path: Path) -> None:
    make(tmp_path, np.array([0.1, 0.2, 0.3]))
    short = float(np.float32(0.2))
    assert short != 0.2
    write(tmp_path, FloatType(), {short: 20.0})
    assert values(tmp_path) == [1.0, 20.0, 3.0]
    # upserting them makes no second 0.2 beside the first
    write(tmp_path, FloatType(), {short: 21.0, 0.5: 5.0}, mode="upsert")
    assert values(tmp_path) == [1.0, 21.0, 3.0, 5.0]
    assert values(tmp_path, "c") == [0.1, 0.2, 0.3, 0.5]


def test_a_column_that_cannot_tell_values_apart_is_refused(tmp_path: Path) -> None:
    make(tmp_path, np.array([0.1, 0.1 + 1e-12]))
    with pytest.raises(TaskFailedError, match=r"two values of the coordinate 'c' are both 0\.1"):
        write(tmp_path, FloatType(), {0.1: 1.0})
    write(tmp_path, DoubleType(), {0.1: 10.0})
    assert values(tmp_path) == [10.0, 2.0]


def test_doubles_for_a_coordinate_of_floats_are_refused_unless_near_is_enough(
    tmp_path: Path,
) -> None:
    make(tmp_path, np.array([0.1, 0.2, 0.3], dtype=np.float32))
    with pytest.raises(TaskFailedError, match=r"'c' is double.*takes float: cast the column"):
        write(tmp_path, DoubleType(), {0.2: 20.0})
    write(tmp_path, DoubleType(), {0.2: 20.0, 0.30001: 30.0}, tolerance='{"c": 0.001}')
    assert values(tmp_path) == [1.0, 20.0, 30.0]
    with pytest.raises(TaskFailedError, match="does not fit into float32"):
        write(tmp_path, DoubleType(), {0.26: 1.0}, tolerance='{"c": 0.001}')


def test_a_row_between_two_values_of_a_packed_coordinate_is_not_rounded(tmp_path: Path) -> None:
    make(tmp_path, np.arange(4, dtype=np.int16), scale_factor=0.5)
    write(tmp_path, DoubleType(), {0.5: 20.0})
    for mode in ("region", "upsert"):
        with pytest.raises(TaskFailedError, match=r"0.6 lies between .* 0.5 apart"):
            write(tmp_path, DoubleType(), {0.6: 1.0}, mode=mode)
    write(tmp_path, DoubleType(), {0.6: 21.0}, tolerance='{"c": 0.2}')
    assert values(tmp_path) == [1.0, 21.0, 3.0, 4.0]


def at(hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2024, 1, 1, hour, minute, tzinfo=UTC)


def test_times_are_met_exactly_or_within_seconds(tmp_path: Path) -> None:
    make(tmp_path, np.arange(4), units="hours since 2024-01-01")
    write(tmp_path, TimestampType(), {at(1): 20.0})
    with pytest.raises(TaskFailedError, match=r"T01:10:00.* is no whole number of the units"):
        write(tmp_path, TimestampType(), {at(1, 10): 1.0})
    with pytest.raises(TaskFailedError, match="outside the grid"):
        write(tmp_path, TimestampType(), {at(9): 1.0})
    write(tmp_path, TimestampType(), {at(1, 50): 30.0}, tolerance='{"c": 600}')
    write(tmp_path, TimestampNTZType(), {at(3).replace(tzinfo=None): 40.0})
    write(tmp_path, DateType(), {dt.date(2024, 1, 1): 10.0})
    assert values(tmp_path) == [10.0, 20.0, 30.0, 40.0]
    with pytest.raises(TaskFailedError, match="T01:50:00"):
        write(tmp_path, TimestampType(), {at(1, 50): 1.0}, tolerance='{"c": 599}')


def test_two_rows_near_one_value_are_two_rows_for_one_cell(tmp_path: Path) -> None:
    make(tmp_path, np.array([1.0, 2.0]))
    with pytest.raises(TaskFailedError, match=r"two rows are for one cell: c = 2\.0"):
        write(tmp_path, DoubleType(), {1.9: 1.0, 2.1: 2.0}, tolerance='{"c": 0.2}')
    # rows near what is there are not new
    with pytest.raises(TaskFailedError, match="has already"):
        write(tmp_path, DoubleType(), {2.1: 2.0}, tolerance='{"c": 0.2}', mode="append")
    write(tmp_path, DoubleType(), {2.3: 3.0}, tolerance='{"c": 0.2}', mode="append")
    assert values(tmp_path, "c") == [1.0, 2.0, 2.3]


@pytest.mark.parametrize(
    ("tolerance", "options", "message"),
    [
        ('{"q": 1}', {}, "'tolerance' names 'q'; the dimensions are c"),
        ('{"c": -1}', {}, "expected a number, 0 or more"),
        ('{"c": "1"}', {}, "expected a JSON object of numbers"),
        ('{"c": 1}', {"mode": "overwrite", "dims": "c"}, "which mode 'overwrite' makes"),
    ],
)
def test_tolerances_that_mean_nothing(
    tmp_path: Path, tolerance: str, options: dict[str, str], message: str
) -> None:
    make(tmp_path, np.array([1.0, 2.0]))
    with pytest.raises((InvalidInputError, TaskFailedError), match=message):
        write(tmp_path, DoubleType(), {1.0: 1.0}, tolerance=tolerance, **options)


def test_text_and_positions_have_no_tolerance(tmp_path: Path) -> None:
    repository = frazil.Repository.create(frazil.local_filesystem_storage(tmp_path))
    with repository.transaction("main", message="made") as store:
        group = zarr.group(store)
        group.create_array("c", data=np.array(["a", "b"]), dimension_names=["c"])
        group.create_array("v", data=np.zeros(2, np.float32), dimension_names=["c"])
        group.create_array("p/v", data=np.zeros(2, np.float32), dimension_names=["c"])
    with pytest.raises(TaskFailedError, match="whose values are no numbers"):
        write(tmp_path, StringType(), {"a": 1.0}, tolerance='{"c": 1}')
    with pytest.raises(TaskFailedError, match="which has no coordinate"):
        write(tmp_path, LongType(), {0: 1.0}, tolerance='{"c": 1}', group="p")


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20, unique=True),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.floats(0, 1e3),
)
def test_the_nearest_value_within_the_tolerance_is_found(
    known: list[float], rows: list[float], tolerance: float
) -> None:
    stored = np.array(known)
    snapping = plan_snapping("c", Plain(), stored, np.dtype(np.float64), tolerance)
    assert snapping is not None
    there, found = snapping.find(np.array(rows))
    nearest = [min(abs(k - row) for k in known) for row in rows]
    assert there.tolist() == [distance <= tolerance for distance in nearest]
    kept = [row for row, yes in zip(rows, there, strict=True) if yes]
    assert [abs(f - r) for f, r in zip(found.tolist(), kept, strict=True)] == [
        distance for distance, yes in zip(nearest, there, strict=True) if yes
    ]


@pytest.mark.spark
def test_times_are_moments_whatever_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = make(tmp_path, np.arange(0, 1, 1 / 24), units="days since 2024-01-01")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        here = spark.sql("SELECT TIMESTAMP'2023-12-31 20:00:00' AS c, CAST(-2 AS FLOAT) AS v")
        frazil.spark.write(here, repository, mode="region")  # 01:00 in UTC
        here = spark.sql("SELECT TIMESTAMP'2023-12-31 22:00:00' AS c, CAST(-4 AS FLOAT) AS v")
        here.write.format("icechunk").mode("append").option("mode", "region").save(str(tmp_path))
        plain = spark.sql("SELECT TIMESTAMP_NTZ'2024-01-01 05:00:00' c, CAST(-6 AS FLOAT) v")
        frazil.spark.write(plain, repository, mode="region")  # read as UTC
        frazil.spark.write(
            spark.sql("SELECT TIMESTAMP'2024-01-01 02:29:00' c, CAST(-8 AS FLOAT) v"),
            repository, mode="region", tolerance={"c": 1800},
        )  # fmt: skip
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    changed = [n for n, value in enumerate(values(tmp_path), 1) if value == -n]
    assert changed == [2, 4, 6, 8]
