"""What a write makes takes the same columns again: types, times, and the order of coordinates."""

import datetime as dt
import json
import warnings
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import frazil
from frazil.errors import IcechunkError
from frazil.spark.runtime.workers import TaskFailedError
from frazil.spark.table.options import ReadOptions
from tests.examples_count import scaled
from tests.spark.in_process import counted
from tests.spark.writing_cases import VARIABLES, Rows, make_repository, write_here

REFUSED = (IcechunkError, TaskFailedError)
DATES = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
TYPES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    *VARIABLES,
    (ByteType(), st.integers(-100, 100) | st.none()),
    (ShortType(), st.integers(-9999, 9999) | st.none()),
    (DateType(), DATES | st.none()),
    (TimestampNTZType(), DATES.map(lambda day: dt.datetime.combine(day, dt.time(1, 2, 3, 4)))),
    *(
        (DecimalType(digits, 0), st.integers(-(10**digits) + 1, 10**digits - 1).map(Decimal))
        for digits in (1, 5, 9, 10, 18)
    ),
    (DecimalType(19, 0), st.integers(0, 10**19 - 1).map(Decimal)),
]
# what the caller may ask an array to be, by the type of the column
NARROWER: dict[type[DataType], list[str]] = {
    LongType: ["int64", "float64"],
    IntegerType: ["int32", "int64", "float64"],
    ShortType: ["int16", "int32", "float32"],
    ByteType: ["int8", "int16"],
    DoubleType: ["float64"],
    DecimalType: ["int64"],
    StringType: ["<U8"],
}


def read_back(path: Path) -> Rows:
    rows: Rows = counted(str(path), ReadOptions(path=str(path)))[1].table().to_pylist()
    return rows


@settings(max_examples=scaled(20), deadline=None)
@given(st.data())
def test_the_schema_that_made_an_array_can_be_written_again(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(TYPES))
    schema = StructType([StructField("t", LongType()), StructField("v", kind)])
    first = [{"t": t, "v": data.draw(values)} for t in range(2)]
    later = [{"t": t, "v": data.draw(values)} for t in range(2, 4)]
    again = [{"t": t, "v": data.draw(values)} for t in range(1, 3)]
    asked = data.draw(st.none() | st.sampled_from(NARROWER.get(type(kind), ["int64"])))
    assume(asked is None or type(kind) in NARROWER)
    options = {} if asked is None else {"dtypes": json.dumps({"v": asked})}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        try:
            write_here(path, schema, [first], dims="t", **options)
        except TaskFailedError:
            assume(False)  # a value that the dtype asked for cannot hold
        made = read_back(path)
        for rows, mode in ((later, "append"), (again, "region"), (again, "upsert")):
            if asked is None:
                write_here(path, schema, [rows], mode=mode)
                continue
            try:
                write_here(path, schema, [rows], mode=mode, **options)
            except TaskFailedError as refusal:
                error = str(refusal)
            else:
                continue
            assert "does not fit" in error or "stores for NULL" in error
            return
        found = read_back(path)
        # the same values, wherever they were written
        with TemporaryDirectory() as other:
            whole = Path(other) / "repo"
            make_repository(whole)
            expected = [first[0], *again, later[1]]
            write_here(whole, schema, [expected], dims="t", **options)
            assert found == read_back(whole)
        assert made[0] == found[0]


def test_a_narrower_dtype_can_be_asked_for_again() -> None:
    """As a stream does, which repeats its options with each batch."""
    schema = StructType([StructField("t", LongType()), StructField("v", DoubleType())])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        options = {"dims": "t", "dtypes": '{"v": "float32", "t": "int32"}'}
        write_here(path, schema, [[{"t": 0, "v": 0.1}]], **options)
        write_here(path, schema, [[{"t": 1, "v": 0.2}]], **options)
        assert [row["v"] for row in read_back(path)] == [np.float32(0.1), np.float32(0.2)]
        with pytest.raises(REFUSED, match="cast the column"):
            write_here(path, schema, [[{"t": 2, "v": 0.2}]])


def test_numbers_are_not_taken_for_times_by_their_attributes() -> None:
    schema = StructType([StructField("t", LongType()), StructField("v", LongType())])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        attrs = json.dumps({"v": {"units": "seconds since 1970-01-01"}})
        with pytest.raises(REFUSED, match="cast it to TIMESTAMP"):
            write_here(path, schema, [[{"t": 0, "v": 5_000_000}]], dims="t", attrs=attrs)
        attrs = json.dumps({"v": {"units": "seconds"}})
        write_here(path, schema, [[{"t": 0, "v": 5_000_000}]], dims="t", attrs=attrs)
        assert read_back(path) == [{"t": 0, "v": 5_000_000}]


UNITS = ["microseconds", "milliseconds", "seconds", "minutes", "hours", "days"]
STEPS = [1, 1_000, 1_000_000, 60_000_000, 450_000_000, 3_600_000_000, 86_400_000_000]
EPOCHS = ["1970-01-01", "1900-01-01", "2024-02-29 12:00:00", "0001-01-01"]


@st.composite
def times(draw: st.DrawFn) -> list[dt.datetime]:
    step = draw(st.sampled_from(STEPS))
    start = dt.datetime(draw(st.sampled_from([1900, 1970, 2024])), 1, 1, tzinfo=dt.UTC)
    span = min(10**15 // step, 200_000)
    steps = draw(st.lists(st.integers(0, span), min_size=1, max_size=3, unique=True))
    return sorted(start + dt.timedelta(microseconds=step * k) for k in steps)


@settings(max_examples=scaled(30), deadline=None)
@given(
    moments=times(),
    dtype=st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8"]),
    unit=st.sampled_from(UNITS),
    epoch=st.sampled_from(EPOCHS),
    is_coordinate=st.booleans(),
)
def test_times_are_stored_exactly_or_refused(
    moments: list[dt.datetime], dtype: str, unit: str, epoch: str, *, is_coordinate: bool
) -> None:
    """xarray is asked what it reads, to the microsecond, the finest that Spark has."""
    schema = StructType([StructField("t", TimestampType()), StructField("v", TimestampType())])
    name = "t" if is_coordinate else "v"
    whole = [dt.datetime(2000, 1, 1 + k, tzinfo=dt.UTC) for k in range(len(moments))]
    rows = [
        {"t": moment if is_coordinate else plain, "v": plain if is_coordinate else moment}
        for moment, plain in zip(moments, whole, strict=True)
    ]
    units = f"{unit} since {epoch}"
    options = {"dtypes": json.dumps({name: dtype}), "units": json.dumps({name: units})}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        try:
            for row in rows:  # one after the other: the first makes the array
                write_here(path, schema, [[row]], dims="t", **options)
        except TaskFailedError as error:
            message = str(error)
            assert name in message
            assert _cannot_hold(moments, dtype, unit, epoch), message
            return
        repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
        coder = xr.coders.CFDatetimeCoder(time_unit="us")
        store = repository.readonly_session("main").store
        assert zarr.open_array(store, path=name).dtype == np.dtype(dtype)
        with warnings.catch_warnings(), np.errstate(over="ignore"):
            warnings.simplefilter("ignore")  # xarray would rather decode floats to nanoseconds
            dataset = xr.open_zarr(store, consolidated=False, decode_times=coder, chunks=None)
            found = dataset[name].values
        expected = np.array([m.replace(tzinfo=None) for m in moments], "M8[us]")
        assert np.abs(found.astype("M8[us]") - expected).max() <= np.timedelta64(1, "us")
        assert [row[name] for row in read_back(path)] == moments


def _cannot_hold(moments: list[dt.datetime], dtype: str, unit: str, epoch: str) -> bool:
    """Whether the nearest number of the dtype means another microsecond, for one of them."""
    us = dict(zip(UNITS, [1, 1_000, 10**6, 60 * 10**6, 3600 * 10**6, 86400 * 10**6], strict=True))
    zero = dt.datetime.fromisoformat(epoch).replace(tzinfo=dt.UTC)
    fill = {"i1": -127, "i2": -32_767, "i4": -2_147_483_647, "i8": -(2**63) + 2}
    for moment in moments:
        since = (moment - zero) // dt.timedelta(microseconds=1)
        with np.errstate(over="ignore"):
            if dtype[0] == "i":
                number, rest = divmod(since, us[unit])
                limits = np.iinfo(dtype)
                if rest or not limits.min <= number <= limits.max or number == fill[dtype]:
                    return True
            else:
                stored = float(np.float64(since / us[unit]).astype(dtype))
                if not np.isfinite(stored) or round(stored * us[unit]) != since:
                    return True
    return False


def appended(values: list[int], **options: str) -> list[int]:
    """The coordinate after writing each value by itself."""
    schema = StructType([StructField("t", LongType()), StructField("v", DoubleType())])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        for value in values:
            write_here(path, schema, [[{"t": value, "v": float(value)}]], dims="t", **options)
        rows = read_back(path)
        assert all(row["v"] == row["t"] for row in rows)
        return [row["t"] for row in rows]


@settings(max_examples=scaled(15), deadline=None)
@given(
    batches=st.lists(
        st.lists(st.integers(-20, 20), min_size=1, max_size=3), min_size=1, max_size=4
    ),
    order=st.sampled_from([None, "ascending", "descending"]),
    from_nothing=st.booleans(),
)
def test_the_first_two_values_decide_the_order(
    batches: list[list[int]], order: str | None, *, from_nothing: bool
) -> None:
    """A model in lists beside it: each batch is appended in order, or refused."""
    schema = StructType([StructField("t", LongType()), StructField("v", DoubleType())])
    options = {"dims": "t"} | ({} if order is None else {"order": json.dumps({"t": order})})
    model: list[int] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        make_repository(path)
        for batch in [[], *batches] if from_nothing else batches:
            rows = [{"t": t, "v": float(t)} for t in sorted(set(batch))]
            expected = _after(model, sorted(set(batch)), order)
            try:
                write_here(path, schema, [rows], **options)
            except TaskFailedError:
                assert expected is None, (model, batch)
            else:
                assert expected is not None, (model, batch)
                model = expected
            if model:
                assert [row["t"] for row in read_back(path)] == model
                assert all(row["v"] == row["t"] for row in read_back(path))


def _after(model: list[int], batch: list[int], order: str | None) -> list[int] | None:
    """In every order that is allowed, whether the whole is sorted that way."""
    if len(model) > 1:
        descends = [model[0] > model[1]]
    elif order is not None:
        descends = [order == "descending"]
    else:
        descends = [False, True] if model else [False]
    if set(model) & set(batch):
        return None
    for way in descends:
        whole = [*model, *sorted(batch, reverse=way)]
        if whole == sorted(whole, reverse=way):
            return whole
    return None


def test_with_unordered_the_order_asked_for_is_kept_among_new_values() -> None:
    assert appended([20, 10, 5]) == [20, 10, 5]
    assert appended([20, 30, 40]) == [20, 30, 40]
    with pytest.raises(REFUSED, match="no longer be in order"):
        appended([20, 10, 15])
    with pytest.raises(REFUSED, match="no longer be in order"):
        appended([20, 30], order='{"t": "descending"}')
    assert appended([20, 10, 15], unordered="true") == [20, 10, 15]
    with pytest.raises(REFUSED, match="expected 'ascending' or 'descending'"):
        appended([20, 10], order='{"t": "down"}')


def test_an_error_of_times_names_the_value_that_would_be_read() -> None:
    schema = StructType([StructField("t", TimestampType())])
    with TemporaryDirectory() as folder:
        make_repository(Path(folder) / "repo")
        options = {"dtypes": '{"t": "f4"}', "units": '{"t": "hours since 1900-01-01"}'}
        rows = [{"t": dt.datetime(2024, 3, 1, 0, 10, tzinfo=dt.UTC)}]
        with pytest.raises(REFUSED, match=r"2024-03-01T00:10:00.* read as 2024-03-01T00:07:30"):
            write_here(Path(folder) / "repo", schema, [rows], dims="t", **options)


def test_units_that_begin_too_far_away_are_refused() -> None:
    schema = StructType([StructField("t", TimestampType())])
    with TemporaryDirectory() as folder:
        make_repository(Path(folder) / "repo")
        options = {"units": '{"t": "days since 300000-01-01"}'}
        rows = [{"t": dt.datetime(2024, 3, 1, tzinfo=dt.UTC)}]
        with pytest.raises(REFUSED, match="too far from 1970"):
            write_here(Path(folder) / "repo", schema, [rows], dims="t", **options)


def test_rows_that_change_nothing_are_committed_too() -> None:
    """A stream that updates cells must get past such a batch, and find its key later."""
    schema = StructType([StructField("t", LongType()), StructField("v", DoubleType())])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "repo"
        repository = make_repository(path)
        write_here(path, schema, [[{"t": 0, "v": None}]], dims="t")
        before = repository.lookup_branch("main")
        write_here(path, schema, [[{"t": 0, "v": None}]], mode="upsert")
        assert repository.lookup_branch("main") != before
        assert read_back(path) == [{"t": 0, "v": None}]
