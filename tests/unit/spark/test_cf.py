"""Decoding by CF attributes; xarray is the judge where it has an opinion."""

from typing import Any

import cftime
import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import (
    Plain,
    Scaled,
    Time,
    decode,
    decoded_dtype,
    plan_decoding,
    with_nan,
)
from frazil.spark.table.description import ArrayDescription
from tests.unit.spark.cf_cases import Encoded, encodings


def described(values: npt.NDArray[Any], **facts: Any) -> ArrayDescription:
    fill = facts.pop("fill_value", None)
    return ArrayDescription(
        name="v",
        path="/v",
        dims=("x",),
        shape=values.shape,
        chunks=values.shape,
        dtype=values.dtype,
        attrs=facts.pop("attrs", facts),
        fill_value=fill,
    )


def decoded(values: npt.NDArray[Any], **facts: Any) -> list[Any]:
    column = decode(plan_decoding(described(values, **facts)), values)
    null = column.null if column.null is not None else np.zeros(len(values), dtype=bool)
    return [None if n else v for v, n in zip(column.values.tolist(), null, strict=True)]


@given(encodings())
def test_random_attributes_are_decoded_as_xarray_decodes_them(case: Encoded) -> None:
    array = described(case.stored, attrs=case.attrs)
    column = decode(plan_decoding(array), case.stored)
    assert column.values.dtype == decoded_dtype(plan_decoding(array), array.dtype)
    expected, found = case.expected, with_nan(column)
    if case.is_time:
        assert np.array_equal(np.isnat(expected), np.isnat(found))
        assert np.isnat(expected).tolist() == _nulls(column.null, len(expected))
        apart = np.abs(np.nan_to_num((expected - found).astype(np.int64)[~np.isnat(found)]))
        # xarray cuts fractions of a microsecond off, and rounds numbers of its own
        exact = case.stored.dtype.kind in "iu" and not _is_packed(case)
        assert apart.max(initial=0) <= (0 if exact else 1)
    else:
        assert np.isnan(expected.astype(np.float64)).tolist() == _nulls(column.null, len(expected))
        if expected.dtype == np.float32:  # where a fill value is NaN xarray unpacks in float32
            np.testing.assert_allclose(found, expected, rtol=1e-6, equal_nan=True)
        else:
            assert np.array_equal(expected, found.astype(expected.dtype), equal_nan=True)


def _is_packed(case: Encoded) -> bool:
    return bool({"scale_factor", "add_offset"} & case.attrs.keys())


def _nulls(null: npt.NDArray[np.bool_] | None, size: int) -> list[bool]:
    return [False] * size if null is None else null.tolist()


@pytest.mark.parametrize(
    ("units", "calendar"),
    [
        ("hours since 1970-01-01", "standard"),
        ("hours since 2000-01-01 12:30:00", "proleptic_gregorian"),
        ("days since 1900-1-1 0:0:0", "gregorian"),
        ("seconds since 2024-02-29T06:00:00Z", "standard"),
        ("minutes since 1999-12-31 23:59:59.5", "standard"),
        ("days since 2000-01-01 00:00 +02:00", "standard"),
        ("milliseconds since 1980-06-15", "proleptic_gregorian"),
    ],
)
def test_times_are_decoded_as_xarray_decodes_them(units: str, calendar: str) -> None:
    stored = np.array([0, 1, 36, 87_660], dtype=np.int64)
    attrs = {"units": units, "calendar": calendar}
    dataset = xr.decode_cf(xr.Dataset({"v": ("x", stored, attrs)}))
    column = decode(plan_decoding(described(stored, **attrs)), stored)
    assert (column.values == dataset["v"].to_numpy().astype("datetime64[us]")).all()
    assert column.null is None


@pytest.mark.parametrize("year", [1, 1000, 1581, 1582, 1583, 1970, 2400])
@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian"])
def test_a_reference_date_is_read_in_its_calendar(year: int, calendar: str) -> None:
    units = f"days since {year:04}-03-01"
    decoding = plan_decoding(described(np.zeros(1, dtype=np.int32), units=units, calendar=calendar))
    days = cftime.date2num(cftime.datetime(1970, 1, 1, calendar=calendar), units, calendar=calendar)
    assert isinstance(decoding, Time)
    assert decoding.epoch_us == -int(days) * 86_400_000_000


@given(st.integers(-200_000, 200_000), st.sampled_from(["f4", "f8", "i4", "i8"]))
def test_whole_hours_decode_exactly_in_every_dtype(hours: int, dtype: str) -> None:
    stored = np.array([hours], dtype=dtype)
    column = decode(plan_decoding(described(stored, units="hours since 2000-01-01")), stored)
    expected = np.datetime64("2000-01-01", "us") + np.timedelta64(int(stored[0]) * 3600, "s")
    assert column.values[0] == expected


@pytest.mark.parametrize(
    ("units", "calendar"),
    [
        ("days since 2000-01-01", "noleap"),
        ("days since 2000-01-01", "360_day"),
        ("months since 2000-01-01", "standard"),
        ("hours", "standard"),
        ("days since the flood", "standard"),
        ("days since 2000-13-01", "standard"),
        ("K", "standard"),
    ],
)
def test_what_no_timestamp_can_say_stays_a_number(units: str, calendar: str) -> None:
    values = np.array([1.5, 2.5])
    assert decoded(values, units=units, calendar=calendar) == [1.5, 2.5]


def test_times_out_of_range_are_null() -> None:
    stored = np.array([0.0, 9.96921e36, np.nan, -1e300])
    column = decode(plan_decoding(described(stored, units="hours since 1970-01-01")), stored)
    assert column.null is not None
    assert column.null.tolist() == [False, True, True, True]


def test_fill_and_missing_values_are_null_before_scaling() -> None:
    stored = np.array([-32768, 0, 100, -999], dtype=np.int16)
    attrs = {"_FillValue": -32768, "missing_value": [-999], "scale_factor": 0.5, "add_offset": 10}
    assert decoded(stored, **attrs) == [None, 10.0, 60.0, None]


def test_scaled_values_equal_those_of_xarray() -> None:
    stored = np.arange(-50, 50, dtype=np.int16)
    attrs = {"_FillValue": -7, "scale_factor": 0.01, "add_offset": 273.15}
    expected = xr.decode_cf(xr.Dataset({"v": ("x", stored, attrs)}))["v"].to_numpy()
    mine = [np.nan if v is None else v for v in decoded(stored, **attrs)]
    np.testing.assert_allclose(mine, expected, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (0, [0, -1, 5]),  # Zarr's default: an ordinary value
        (-1, [0, None, 5]),
        (None, [0, -1, 5]),
        (1 << 40, [0, -1, 5]),  # cannot occur in the dtype
    ],
)
def test_a_zarr_fill_value_is_null_unless_it_is_the_default(
    fill: int | None, expected: list[int | None]
) -> None:
    assert decoded(np.array([0, -1, 5], dtype=np.int32), fill_value=fill) == expected


def test_nan_is_null_and_float_fills_compare_in_the_stored_precision() -> None:
    stored = np.array([1.0, np.nan, 1e20, 9.96921e36], dtype=np.float32)
    assert decoded(stored, _FillValue=1e20, fill_value=np.float32(9.96921e36)) == [
        1.0,
        None,
        None,
        None,
    ]


def test_fill_values_that_xarray_wrote_to_zarr_are_understood() -> None:
    stored = np.array([1.0, -9999.0])
    assert decoded(stored, _FillValue="AAAAAICHw8A=") == [1.0, None]
    assert decoded(stored, _FillValue="NaN") == [1.0, -9999.0]
    assert decoded(stored, _FillValue="no number at all") == [1.0, -9999.0]


def test_text_has_its_own_missing_value() -> None:
    stored = np.array(["a", "missing", ""], dtype=object)
    assert decoded(stored, _FillValue="missing", fill_value="") == ["a", None, ""]


def test_not_a_time_is_null() -> None:
    stored = np.array(["2024-01-01", "NaT"], dtype="datetime64[ns]")
    column = decode(plan_decoding(described(stored)), stored)
    assert column.null is not None
    assert column.null.tolist() == [False, True]


def test_the_dtype_after_decoding_is_known_before() -> None:
    stored = np.dtype(np.int16)
    assert decoded_dtype(Plain(), stored) == stored
    assert decoded_dtype(Scaled(2.0, 0.0), stored) == np.float64
    assert decoded_dtype(Time(1, 0), stored) == np.dtype("datetime64[us]")


@pytest.mark.parametrize("fill", [-1, 65_535, -1.0])
@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
def test_a_fill_value_of_unsigned_numbers_may_be_given_either_way(key: str, fill: float) -> None:
    """NetCDF gives it in the stored type; xarray takes `missing_value` only as unsigned."""
    stored = np.array([100, 40_000, 65_535], dtype=np.uint16).view(np.int16)
    assert decoded(stored, _Unsigned="true", **{key: fill}) == [100, 40_000, None]
    stored = np.array([100, 200, 255], dtype=np.uint8)
    assert decoded(stored, _Unsigned="false", **{key: -1}) == [100, -56, None]


@pytest.mark.parametrize("given", ["true", "True", True])
def test_unsigned_is_true_however_it_is_written(given: object) -> None:
    assert decoded(np.array([-1], dtype=np.int8), _Unsigned=given) == [255]
    assert decoded(np.array([-1.0]), _Unsigned=given) == [-1.0]


def test_the_bits_of_large_integers_are_kept() -> None:
    stored = np.array([-1, -(2**63), 5], dtype=np.int64)
    assert decoded(stored, _Unsigned="true") == [2**64 - 1, 2**63, 5]


@pytest.mark.parametrize("key", ["scale_factor", "add_offset"])
@pytest.mark.parametrize("value", ["large", [1, 2], {}, [[0.5]]])
def test_a_scale_that_is_no_number_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=key):
        plan_decoding(described(np.arange(3), **{key: value}))
    assert decoded(np.arange(3), **{key: [2]}) == ([0.0, 2.0, 4.0] if "scale" in key else [2, 3, 4])


@pytest.mark.parametrize("value", [{}, [[1.0, 2.0]], [{}], None, [None]])
@pytest.mark.parametrize("dtype", ["f8", "i4", "O"])
def test_a_fill_value_that_is_none_masks_nothing(value: object, dtype: str) -> None:
    stored = np.array([1, 2], dtype=dtype)
    decoding = plan_decoding(described(stored, _FillValue=value))
    assert decode(decoding, stored).null is None
    hash(decoding)  # a part of the key under which workers cache coordinates
