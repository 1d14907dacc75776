import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.source_checks import (
    TimeEncoding,
    convert,
    find_time_encoding,
    plan_conversion,
)

UNITS = st.sampled_from(["seconds", "minutes", "hours", "days", "milliseconds"])
CALENDARS = st.sampled_from(["standard", "proleptic_gregorian", "noleap", "360_day", "julian"])


def dates() -> st.SearchStrategy[str]:
    return st.builds(
        "{:04d}-{:02d}-{:02d} {:02d}:00:00".format,
        st.integers(1850, 2150),
        st.integers(1, 12),
        st.integers(1, 28),
        st.integers(0, 23),
    )


@st.composite
def encodings(draw: st.DrawFn) -> tuple[TimeEncoding, TimeEncoding]:
    calendar = draw(CALENDARS)
    one, other = (TimeEncoding(f"{draw(UNITS)} since {draw(dates())}", calendar) for _ in "12")
    return one, other


@given(encodings(), st.lists(st.integers(-5000, 5000), min_size=1, max_size=5))
def test_converted_times_name_the_same_dates(
    pair: tuple[TimeEncoding, TimeEncoding], raw: list[int]
) -> None:
    source, target = pair
    values = np.array(raw, dtype=np.int64)
    conversion = plan_conversion(source, target)

    out = (
        values
        if conversion is None
        else convert(values, conversion, dtype=np.dtype(np.float64), fill=None)
    )

    expected = cftime.date2num(
        cftime.num2date(values, source.units, source.calendar), target.units, target.calendar
    )
    np.testing.assert_allclose(out.astype(float), np.asarray(expected, dtype=float), rtol=1e-12)


def test_whole_numbers_stay_exact_where_floats_would_not() -> None:
    conversion = plan_conversion(
        TimeEncoding("microseconds since 1900-01-01", "standard"),
        TimeEncoding("microseconds since 1899-12-31", "standard"),
    )
    assert conversion is not None
    odd = 2**53 + 1

    out = convert(np.array([odd]), conversion, dtype=np.dtype(np.int64), fill=None)

    assert out.tolist() == [odd + 86_400_000_000]


def test_missing_times_stay_missing() -> None:
    conversion = plan_conversion(
        TimeEncoding("hours since 2024-01-02", "standard"),
        TimeEncoding("hours since 2024-01-01", "standard"),
    )
    assert conversion is not None

    whole = convert(np.array([0, -999]), conversion, dtype=np.dtype(np.int32), fill=-999)
    real = convert(np.array([0, np.nan]), conversion, dtype=np.dtype(np.float64), fill=None)

    assert whole.tolist() == [24, -999]
    assert whole.dtype == np.int32
    np.testing.assert_array_equal(real, [24, np.nan])


def test_times_too_large_for_the_target_are_refused() -> None:
    conversion = plan_conversion(
        TimeEncoding("days since 2024-01-01", "standard"),
        TimeEncoding("seconds since 2024-01-01", "standard"),
    )
    assert conversion is not None

    with pytest.raises(InvalidInputError, match="do not fit into the target's int16"):
        convert(np.array([1]), conversion, dtype=np.dtype(np.int16), fill=None)


def test_months_have_no_exact_length() -> None:
    with pytest.raises(InvalidInputError, match="no exact conversion"):
        plan_conversion(
            TimeEncoding("months since 2024-01-01", "standard"),
            TimeEncoding("days since 2024-01-01", "standard"),
        )


@pytest.mark.parametrize("units", ["K", "hours", "since", 5, None, "hours since"])
def test_other_units_are_not_times(units: object) -> None:
    assert find_time_encoding({"units": units}) is None
