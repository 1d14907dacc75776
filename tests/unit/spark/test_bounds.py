"""Bounds of the option `sel`, and times as text. numpy and xarray judge that nothing is lost."""

import json
from collections.abc import Callable
from operator import eq, ge, gt, le, lt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from frazil.spark.table.cf import Plain, Values, decode
from frazil.spark.table.description import ArrayDescription, Dimension, Grid
from frazil.spark.table.schema import plan_columns
from frazil.spark.table.selection import parse_selection, resolve
from frazil.spark.table.timetext import Period, find_instant, find_period, format_micros
from tests.unit.spark.cf_cases import Encoded, encodings

COMPARE: dict[str, Callable[[Any, Any], Any]] = {"ge": ge, "gt": gt, "le": le, "lt": lt, "in": eq}
OFFSETS = {
    "Z": 0, "UTC": 0, "GMT": 0, "UTC+0": 0, "+02:00": 120, "-08:00": -480, "+2": 120,
    "GMT+2": 120, "UTC+02:00": 120, "UT-3": -180, "+5:30": 330, "+0530": 330, "+05:3": 303,
    "-18:00": -1080, "+01:00:00": 60, "+010000": 60,
}  # fmt: skip


def kept(values: Values, bounds: object) -> set[int]:
    return set(resolve("c", values, parse_selection(json.dumps({"c": bounds})).on("c")))


def bound(operator: str, label: object) -> dict[str, object]:
    return {operator: [label] if operator == "in" else label}


@pytest.mark.parametrize("zone", OFFSETS)
def test_a_time_may_have_an_offset(zone: str) -> None:
    expected = 1_704_110_400_000_000 - OFFSETS[zone] * 60_000_000
    assert find_instant(f"2024-01-01 12:00:00{zone}") == expected


@pytest.mark.parametrize(
    "text", ["yesterday", "2024-02-31", "2024-13-01", "2024-01-01 24:00", "2024-01-01+19:00", ""]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert find_period(text) is None
    assert find_instant(text) is None


@given(st.integers(-91 * 10**17, 91 * 10**17))
def test_every_microsecond_has_its_text(micros: int) -> None:
    assert find_period(format_micros(micros)) == Period(micros, micros + 1)


@pytest.mark.parametrize("text", ["0000-01-01", "0001-01-01", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("operator", COMPARE)
def test_times_at_the_ends_of_the_calendar_are_exact(text: str, operator: str) -> None:
    instant = find_instant(text)
    assert instant is not None
    stored = np.array([instant - 1, instant, instant + 1])
    found = kept(Values(stored.view("datetime64[us]"), None), bound(operator, text))
    assert found == set(np.flatnonzero(COMPARE[operator](stored, instant)).tolist())


POOL = [-3, -0.1, 0, 1, 2, 2.5, 7, 7.25, 10, 99, 100]
limits = st.dictionaries(st.sampled_from(["ge", "gt", "le", "lt"]), st.sampled_from(POOL))
among = st.none() | st.lists(st.sampled_from(POOL), max_size=3)
orders = st.lists(st.sampled_from([*POOL, np.nan, np.inf, -np.inf]), max_size=12)


@given(limits, among, orders, st.sampled_from(["f4", "f8", "i8", "u1"]))
def test_no_value_within_bounds_is_lost(
    given_limits: dict[str, float], listed: list[float] | None, values: list[float], dtype: str
) -> None:
    """Values in any order, some twice, NaN and infinities among them."""
    if np.dtype(dtype).kind != "f":
        values = [abs(v) if dtype == "u1" else v for v in values if np.isfinite(v)]
    stored = np.array(values).astype(dtype)
    bounds = {**given_limits, **({} if listed is None else {"in": listed})}
    wanted = np.ones(len(stored), dtype=np.bool_)
    for operator, label in given_limits.items():
        wanted &= COMPARE[operator](stored, label)
    wanted &= True if listed is None else np.isin(stored, listed)
    found = kept(decode(Plain(), stored), bounds)
    assert set(np.flatnonzero(wanted).tolist()) <= found
    if dtype == "f8":  # in the precision of the literals: exact, but that NaN is kept
        assert all(wanted[k] or np.isnan(stored[k]) for k in found)


def as_written(number: float) -> float:
    """1 rather than 1.0: integers are compared with integers exactly."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


@given(encodings(), st.sampled_from(list(COMPARE)), st.integers(0, 5))
def test_encoded_coordinates_are_compared_as_xarray_decodes_them(
    case: Encoded, operator: str, at: int
) -> None:
    expected = case.expected
    pivot = expected[at % len(expected)]
    assume(not pd.isna(pivot))
    array = ArrayDescription(
        name="c", path="/c", dims=("c",), shape=expected.shape, chunks=expected.shape,
        dtype=case.stored.dtype, attrs=case.attrs,
    )  # fmt: skip
    grid = Grid("/", (Dimension("c", len(expected), array),), ())
    (column,) = plan_columns(grid, decode_cf=True)
    label = f"{pivot}Z" if case.is_time else as_written(float(pivot))
    found = kept(decode(column.decoding, case.stored), bound(operator, label))
    with np.errstate(invalid="ignore"):
        apart = (expected - pivot).astype(np.float64)
        # by a microsecond times may differ from those of xarray, which cuts fractions off
        sure = np.abs(apart) > 1 if case.is_time else ~np.isnan(apart)
        wanted = COMPARE[operator](expected, pivot) & sure & ~pd.isna(expected)
    assert set(np.flatnonzero(wanted).tolist()) <= found
    beyond = found - set(np.flatnonzero(wanted).tolist())
    assert all(not sure[k] or pd.isna(expected[k]) or expected.dtype == np.float32 for k in beyond)
