"""Maps have north at the top, and axes the coordinates that they were given."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import frazil
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.explored import Explored
from frazil.web.http import Asked
from frazil.web.previews import Preview, preview
from tests.examples_count import scaled

NORTH: tuple[tuple[str, dict[str, str]], ...] = (
    ("lat", {}),
    ("nav_lat", {}),
    ("j", {"units": "degrees_north"}),
    ("j", {"standard_name": "latitude"}),
    ("y", {"axis": "Y"}),
    ("j", {"standard_name": "projection_y_coordinate"}),
)
EAST: tuple[tuple[str, dict[str, str]], ...] = (
    ("lon", {}),
    ("Longitude", {}),
    ("i", {"units": "degrees_east"}),
    ("i", {"standard_name": "longitude"}),
    ("x", {"axis": "X"}),
    ("i", {"standard_name": "projection_x_coordinate"}),
)


def explored_of(write: Callable[[zarr.Group], None]) -> tuple[Explored, SnapshotId]:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    with repo.transaction("main", message="written") as store:
        write(zarr.group(store))
    explored = Explored(repo.engine, "made")
    return explored, explored.snapshot("main")


def put(group: zarr.Group, name: str, data: Any, dims: list[str], **attributes: Any) -> None:
    group.create_array(name, data=np.asarray(data), dimension_names=dims, attributes=attributes)


def pixels_of(found: Preview, **asked: str) -> npt.NDArray[np.int64]:
    png = found.png(Asked({"scale": "grey", **asked}))
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))[:, :, 0].astype(np.int64)


@settings(max_examples=scaled(25))
@given(st.integers(0, 5), st.booleans(), st.booleans(), st.booleans())
def test_north_is_up_and_east_is_right(which: int, south_first: bool, east_first: bool,  # noqa: FBT001 -- drawn
                                       transposed: bool) -> None:  # fmt: skip  # noqa: FBT001 -- drawn
    """The grey of a pixel is its latitude (times four) and its longitude."""
    (north, about_north), (east, about_east) = NORTH[which], EAST[which]
    latitude = np.arange(-20, 21, 10) * (1 if south_first else -1)
    longitude = np.arange(0, 8) * (-1 if east_first else 1)
    field = 4.0 * latitude[:, np.newaxis] + longitude

    def write(group: zarr.Group) -> None:
        put(group, north, latitude, [north], **about_north)
        put(group, east, longitude, [east], **about_east)
        inner = group.create_group("inner")
        data, dims = (field.T, [east, north]) if transposed else (field, [north, east])
        put(inner, "v", data[np.newaxis], ["time", *dims])

    explored, snapshot = explored_of(write)
    found = preview(explored, snapshot, NodePath("/inner/v"), Asked({}))
    pixels = pixels_of(found)
    assert pixels.shape == (5, 8)
    assert (np.diff(pixels, axis=0) < 0).all()
    assert (np.diff(pixels, axis=1) > 0).all()
    facts: Any = found.facts(Asked({}))
    down, across = facts["along"]
    assert down["numbers"] == sorted(latitude.tolist(), reverse=True)
    assert across["numbers"] == sorted(longitude.tolist())
    stored = pixels_of(found, flip="none")
    assert np.array_equal(pixels[:: -1 if south_first else 1, :: -1 if east_first else 1], stored)
    assert np.array_equal(pixels_of(found, flip="both"), stored[::-1, ::-1])
    assert np.array_equal(pixels_of(found, flip="rows"), stored[::-1])


@pytest.mark.parametrize(
    ("name", "attributes", "deep_below"),
    [
        ("depth", {}, True),
        ("level", {"units": "hPa"}, True),
        ("z", {"positive": "down"}, True),
        ("height", {"units": "m"}, False),
        ("lev", {"positive": "up"}, False),
    ],
)
def test_sections_have_the_deep_below(
    name: str,
    attributes: dict[str, str],
    deep_below: bool,  # noqa: FBT001 -- a parameter
) -> None:
    def write(group: zarr.Group) -> None:
        put(group, name, [0, 10, 100], [name], **attributes)
        put(group, "v", np.arange(12).reshape(4, 3), ["station", name])

    explored, snapshot = explored_of(write)
    found = preview(explored, snapshot, NodePath("/v"), Asked({}))
    assert found.plan.axes == (1, 0)  # the vertical goes up and down
    assert found.flips(Asked({})) == (not deep_below, False)


@given(st.integers(1, 3000), st.integers(1, 3000))
@settings(max_examples=scaled(25), deadline=None)
def test_a_thinned_map_keeps_its_proportions(rows: int, columns: int) -> None:
    def write(group: zarr.Group) -> None:
        group.create_array("v", shape=(rows, columns), chunks=(512, 512), dtype="u1")

    explored, snapshot = explored_of(write)
    found = preview(explored, snapshot, NodePath("/v"), Asked({}))
    aspect = found.facts(Asked({}))["aspect"]
    assert aspect == pytest.approx(np.clip(rows / columns, 1 / 6, 3))
    steps = found.plan.steps
    assert steps[0] == steps[1] or min(found.is_valid.shape) >= min(16, rows, columns)


def test_statistics_are_those_of_the_slice_or_of_a_sample_that_is_called_one() -> None:
    values = np.random.default_rng(1).normal(size=(1500, 2100)).astype("f4")
    values[0, 1] = 99  # no multiple of any step

    def write(group: zarr.Group) -> None:
        group.create_array("v", data=values, chunks=(300, 300))
        huge = group.create_array("huge", shape=(60_000, 60_000), chunks=(1000, 1000), dtype="f4",
                                  fill_value=np.nan)  # fmt: skip
        huge[:1000, :1000] = 1

    explored, snapshot = explored_of(write)
    found = preview(explored, snapshot, NodePath("/v"), Asked({}))
    facts = found.facts(Asked({}))
    assert facts["steps"] == (3, 3)
    assert (facts["is_exact"], facts["max"], facts["valid"]) == (True, 99, values.size)
    assert facts["mean"] == pytest.approx(values.mean(dtype=float), abs=1e-7)
    assert np.array_equal(
        np.frombuffer(found.binary(Asked({})), "<f4").reshape(500, 700), values[::3, ::3]
    )
    sample = preview(explored, snapshot, NodePath("/huge"), Asked({})).facts(Asked({}))
    assert sample["is_exact"] is False


def test_a_region_is_shown_at_full_resolution() -> None:
    values = np.arange(3000 * 10).reshape(10, 3000).T.astype("f8")
    explored, snapshot = explored_of(lambda group: put(group, "v", values, ["a", "b"]))
    found = preview(explored, snapshot, NodePath("/v"), Asked({"region": "2000,2100,3,9"}))
    shown = np.frombuffer(found.binary(Asked({})), "<f8").reshape(100, 6)
    assert np.array_equal(shown, values[2000:2100, 3:9])
    assert found.facts(Asked({}))["region"] == ((2000, 2100), (3, 9))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_series_goes_along_any_dimension(axis: int) -> None:
    values = np.random.default_rng(2).normal(size=(7, 5, 6))
    explored, snapshot = explored_of(lambda group: put(group, "v", values, ["t", "b", "c"]))
    at = ["2", "3", "4"]
    at[axis] = "*"
    found = preview(
        explored, snapshot, NodePath("/v"), Asked({"axes": str(axis), "slice_at": ",".join(at)})
    )
    index = [2, 3, 4]
    wanted = values[tuple(slice(None) if k == axis else n for k, n in enumerate(index))]
    assert found.facts(Asked({}))["line"] == wanted.tolist()


def test_a_long_dimension_still_has_its_coordinate() -> None:
    def write(group: zarr.Group) -> None:
        group.create_array("time", data=np.arange(9000) * 6, chunks=(50,), dimension_names=["time"],
                           attributes={"units": "hours since 2000-01-01"})  # fmt: skip
        put(group, "v", np.zeros((9000, 2, 2)), ["time", "b", "c"])

    explored, snapshot = explored_of(write)
    found = preview(explored, snapshot, NodePath("/v"), Asked({"slice_at": "8999,*,*"}))
    facts: Any = found.facts(Asked({}))
    wanted = pd.Timestamp("2000-01-01") + pd.Timedelta(hours=6 * 8999)
    assert facts["dimensions"][0]["place"] == f"{wanted:%Y-%m-%d %H:%M}"


@settings(max_examples=scaled(30), deadline=None)
@given(
    st.sampled_from(["noleap", "365_day", "all_leap", "360_day", "standard"]),
    st.sampled_from(["days", "hours", "minutes"]),
    st.lists(st.integers(-(10**6), 10**7), min_size=1, max_size=5),
)
def test_times_of_every_calendar_are_what_xarray_says(
    calendar: str, unit: str, numbers: list[int]
) -> None:
    attributes = {"units": f"{unit} since 1850-02-03 12:00", "calendar": calendar}

    def write(group: zarr.Group) -> None:
        put(group, "time", numbers, ["time"], **attributes)
        put(group, "v", np.zeros((len(numbers), 2)), ["time", "b"])

    explored, snapshot = explored_of(write)
    facts: Any = preview(explored, snapshot, NodePath("/v"), Asked({})).facts(Asked({}))
    texts = facts["along"][0]["texts"]
    times = xr.coding.times.CFDatetimeCoder(use_cftime=True).decode(
        xr.Variable("time", numbers, attributes)
    )
    wanted = [f"{t.year:04}-{t.month:02}-{t.day:02} {t.hour:02}:{t.minute:02}" for t in times.data]
    if calendar == "standard":  # numpy has no Julian calendar
        wanted = wanted if min(t.year for t in times.data) > 1582 else texts
    assert [text if " " in text else f"{text} 00:00" for text in texts] == wanted


@pytest.mark.parametrize(
    ("values", "scale", "limits"),
    [
        ([[-3.0, 1.0]], "balance", (-3, 3)),
        ([[0.0, 1.0]], "viridis", (0, 1)),
        ([[-0.001, 5.0]], "viridis", (-0.001, 5)),
        ([[2.0, 5.0]], "viridis", (2, 5)),
    ],
)
def test_signed_values_have_their_colours_around_zero(
    values: list[list[float]], scale: str, limits: tuple[float, float]
) -> None:
    explored, snapshot = explored_of(lambda group: put(group, "v", values, ["a", "b"]))
    facts = preview(explored, snapshot, NodePath("/v"), Asked({})).facts(Asked({}))
    assert (facts["scale"], facts["low"], facts["high"]) == (scale, *limits)


def test_a_difference_is_the_newer_values_minus_the_older() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(size=(2, 6, 8))
    after[0, :4] = before[0, :4]
    after[1, 1], before[1, 2] = np.nan, np.nan
    repo = frazil.Repository.create(frazil.in_memory_storage())
    with repo.transaction("main", message="one") as store:
        zarr.create_array(store, name="v", data=before, chunks=(3, 4))
    first = repo.lookup_branch("main")
    with repo.transaction("main", message="two") as store:
        array = zarr.open_array(store, path="v")
        array.resize((9, 8))
        array[:6] = after
    explored = Explored(repo.engine, "made")
    asked = Asked({"from": first})
    found = preview(explored, explored.snapshot("main"), NodePath("/v"), asked)
    apart = after - before
    np.testing.assert_array_equal(np.frombuffer(found.binary(asked)).reshape(6, 8), apart)
    facts = found.facts(asked)
    most = np.nanmax(np.abs(apart))
    assert (facts["scale"], facts["low"], facts["high"]) == ("balance", -most, most)
    assert facts["changed"] == 48 - 4
    assert facts["mean"] == pytest.approx(np.nanmean(apart))
