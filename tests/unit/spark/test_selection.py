"""Selections by value: their text, and the positions they mean."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import Values
from frazil.spark.table.selection import (
    Between,
    Bounds,
    Constraint,
    Labels,
    Selection,
    format_selection,
    parse_selection,
    resolve,
    to_selection,
)

HOURS = np.arange("2024-01-30", "2024-03-03", dtype="datetime64[h]").astype("datetime64[us]")
LATITUDES = np.linspace(90, -90, 19)

labels = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
constraints: st.SearchStrategy[Constraint] = st.one_of(
    st.lists(labels, min_size=1).map(lambda values: Labels(tuple(values))),
    st.builds(Between, st.none() | labels, st.none() | labels),
    st.builds(Bounds, ge=labels, lt=st.none() | labels),
    st.builds(Bounds, among=st.lists(labels).map(tuple)),
)


def positions(values: npt.NDArray[Any], *wanted: Constraint) -> list[int]:
    return list(resolve("x", Values(values, None), wanted))


def selected(values: npt.NDArray[Any], sel: object) -> list[Any]:
    return [values.tolist()[i] for i in positions(values, *to_selection({"x": sel}).on("x"))]


@given(st.lists(st.tuples(st.text(), constraints)))
def test_text_keeps_a_selection(parts: list[tuple[str, Constraint]]) -> None:
    selection = Selection(tuple(parts))
    assert parse_selection(format_selection(selection)) == selection


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "3", '{"x": null}', '{"x": {"from": 1}}', '{"x": [[1]]}', '{"x": {"in": 3}}'],
)
def test_text_that_is_no_selection_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="sel"):
        parse_selection(text)


def test_python_values_are_understood() -> None:
    moment = datetime(2024, 2, 1, 3, tzinfo=UTC)
    given_values = {
        "a": 3,
        "b": slice(1.5, None),
        "c": [np.float32(0.5), np.int8(3)],
        "d": moment,
        "e": [np.datetime64("2024-02-01"), date(2024, 2, 2)],
        "f": np.arange(2),
        "g": "text",
    }
    assert to_selection(given_values).constraints == (
        ("a", Labels((3,))),
        ("b", Between(1.5, None)),
        ("c", Labels((0.5, 3))),
        ("d", Labels(("2024-02-01T03:00:00.000000",))),
        ("e", Labels(("2024-02-01T00:00:00.000000", "2024-02-02"))),
        ("f", Labels((0, 1))),
        ("g", Labels(("text",))),
    )


@pytest.mark.parametrize("wrong", [slice(1, 9, 2), object(), None, [None]])
def test_python_values_that_select_nothing_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="'x'"):
        to_selection({"x": wrong})


@pytest.mark.parametrize(
    "sel",
    [
        "2024-02",
        "2024-02-29",
        "2024-02-29T06",
        slice("2024-02-01", "2024-02-03"),
        slice("2024-02-28T12:00", None),
        slice(None, "2024-02"),
        ["2024-02-01T00:00:00", "2024-03-01T05:00:00"],
    ],
)
def test_times_select_what_xarray_selects(sel: Any) -> None:
    array = xr.DataArray(np.arange(len(HOURS)), dims="x", coords={"x": HOURS})
    expected = np.atleast_1d(array.sel(x=sel).to_numpy())
    assert positions(HOURS, *to_selection({"x": sel}).on("x")) == expected.tolist()


def test_ranges_are_by_value_whichever_way_the_coordinate_runs() -> None:
    falling = LATITUDES.tolist()
    assert selected(LATITUDES, slice(10, 60)) == [v for v in falling if 10 <= v <= 60]
    assert selected(LATITUDES, slice(None, 50)) == [v for v in falling if v <= 50]
    assert selected(LATITUDES, slice(60, 10)) == []
    assert selected(LATITUDES, [-90.0, 40]) == [40.0, -90.0]


def test_a_value_is_compared_as_the_coordinate_stores_it() -> None:
    assert selected(np.array([0.1, 0.2], dtype=np.float32), 0.1) == [np.float32(0.1).item()]


def test_a_value_that_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(InvalidInputError, match=r"'x' has no value 41; .* from 90\.0 to -90\.0"):
        selected(LATITUDES, [40, 41])
    with pytest.raises(InvalidInputError, match="no value '2025-01-01'"):
        selected(HOURS, "2025-01-01")


def test_values_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="is a number"):
        selected(LATITUDES, "40")
    with pytest.raises(InvalidInputError, match="is a time"):
        selected(HOURS, 40)
    with pytest.raises(InvalidInputError, match="is text"):
        selected(np.array(["a"], dtype=object), 40)


def test_text_coordinates_are_selected_by_text() -> None:
    names = np.array(["oslo", "bergen", "narvik"], dtype=object)
    assert selected(names, ["oslo", "narvik"]) == ["oslo", "narvik"]
    assert selected(names, slice("n", "p")) == ["oslo", "narvik"]


def test_missing_coordinates_are_in_no_selection_by_value() -> None:
    values = Values(np.array([1.0, 2.0, 3.0]), np.array([False, True, False]))
    assert list(resolve("x", values, [Between(1, 3)])) == [0, 2]


def test_bounds_keep_nan_because_spark_holds_it_to_be_the_greatest() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert positions(values, Bounds(gt=2)) == [1, 2]


def test_bounds_on_float32_are_wide_enough_for_both_precisions() -> None:
    stored = np.array([0.1, 0.2, 0.3], dtype=np.float32)
    for bounds in (Bounds(among=(0.1,)), Bounds(le=0.1), Bounds(lt=0.1)):
        assert positions(stored, bounds) == [0]
    assert positions(stored, Bounds(gt=0.1)) == [0, 1, 2]
    assert positions(stored, Bounds(gt=0.25)) == [2]
    assert positions(np.array([0.25, 0.5], dtype=np.float32), Bounds(gt=0.25)) == [1]


def test_bounds_on_large_integers_are_not_lost_in_doubles() -> None:
    stored = np.array([2**53, 2**53 + 1, 2**53 + 2])
    assert positions(stored, Bounds(among=(2**53 + 1,)))[0] <= 1
    assert 1 in positions(stored, Bounds(among=(2**53 + 1,)))
    assert 1 in positions(stored, Bounds(gt=float(2**53)))


def test_bounds_on_time_are_instants() -> None:
    assert positions(HOURS, Bounds(le="2024-01-30T02:00:00")) == [0, 1, 2]
    assert positions(HOURS, Bounds(ge="2024-01-30", lt="2024-01-30T02:00:00")) == [0, 1]
    assert positions(HOURS, Bounds(gt="2024-01-30", le="2024-01-30T02:00:00")) == [1, 2]
    assert positions(HOURS, Bounds(among=("2024-01-30T02:00:00", "1999-01-01"))) == [2]


def test_gapless_positions_are_a_range() -> None:
    assert resolve("x", Values(np.arange(9), None), [Bounds(ge=3)]) == range(3, 9)
    assert resolve("x", Values(np.arange(9), None), [Bounds(ge=33)]) == range(0)
