"""`frazil head`, `cat`, `read`, `write`: values in and out."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr

import frazil as frazil_api
from tests.cli.running import fails, succeeds

T2M = (280 + np.arange(192).reshape(48, 4) / 10).astype("f4")
LATS = [10.0, 20.0, 30.0, 40.0]


def make_weather(path: Path) -> None:
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, path="model", attributes={"title": "a model"})
    time = group.create_array(
        "time", shape=48, chunks=48, dtype="i8", dimension_names=["time"],
        attributes={"units": "hours since 2024-01-01"},
    )  # fmt: skip
    time[:] = np.arange(48)
    lat = group.create_array("lat", shape=4, chunks=4, dtype="f8", dimension_names=["lat"])
    lat[:] = LATS
    t2m = group.create_array(
        "t2m", shape=(48, 4), chunks=(24, 4), dtype="f4", dimension_names=["time", "lat"],
        attributes={"units": "K", "standard_name": "air_temperature"},
    )  # fmt: skip
    t2m[:] = T2M
    rain = group.create_array(
        "rain", shape=(2, 48, 4), chunks=(1, 24, 4), dtype="f4",
        dimension_names=["level", "time", "lat"], attributes={"missing_value": -1e34},
    )  # fmt: skip
    rain[:] = np.where(np.arange(384).reshape(2, 48, 4) % 5 == 1, -1e34, 0.5)
    session.commit("two days")


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    path = tmp_path_factory.mktemp("values") / "weather"
    make_weather(path)
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    make_weather(tmp_path / "weather")
    return tmp_path / "weather"


def numbers(lines: list[str]) -> list[list[float]]:
    return [[float(word) for word in line.split("\t")] for line in lines]


def test_head_says_what_an_array_is_and_how_it_begins(weather: Path) -> None:
    lines = succeeds("head", weather, "model/t2m", "-n", 2).lines
    assert lines[0] == "array            /model/t2m  (time: 48, lat: 4) float32, 768 B"
    assert "stored: 2 inline" in lines[1]
    assert '  units          "K"' in lines
    assert '  standard_name  "air_temperature"' in lines
    assert lines[-3:] == [
        "time \\ lat            10.0   20.0",
        "2024-01-01T00:00:00  280.0  280.1",
        "2024-01-01T01:00:00  280.4  280.5",
    ]
    facts = succeeds("head", weather, "model/t2m", "--json").json
    assert (facts["shape"], facts["chunk_shape"], facts["codecs"]) == (
        [48, 4],
        [24, 4],
        ["bytes", "zstd"],
    )


@pytest.mark.parametrize(
    ("dtype", "fill", "shown"),
    [
        ("f8", np.nan, '"NaN"'),
        ("f4", -np.inf, '"-Infinity"'),
        ("f4", 1e20, "1.0000000200408773e+20"),
        ("f8", -9999.25, "-9999.25"),
        ("i2", -32768, "-32768"),
        ("c16", complex(1.5, np.nan), '[1.5, "NaN"]'),
    ],
)
def test_head_shows_the_fill_value_that_xarray_decodes(
    tmp_path: Path, dtype: str, fill: complex, shown: str
) -> None:
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    given = np.dtype(dtype).type(fill)
    written = xr.Dataset({"a": ("x", np.ones(3, dtype), {"_FillValue": given})})
    written.to_zarr(session.store, consolidated=False, zarr_format=3)
    session.commit("one array")
    store = repo.readonly_session("main").store
    decoded = xr.open_zarr(store, consolidated=False, decode_cf=False).a.attrs["_FillValue"]
    np.testing.assert_equal(np.dtype(dtype).type(decoded), given)
    answer = succeeds("head", tmp_path, "a")
    assert f"  _FillValue  {shown}" in answer.lines
    assert json.dumps(succeeds("head", tmp_path, "a", "--json").json["attributes"]) == (
        f'{{"_FillValue": {shown}}}'
    )


@pytest.mark.parametrize("value", ["NaN", "not base 64", -1.0, ["AAAAAAAA+H8="], None])
def test_head_shows_a_fill_value_in_another_form_as_it_is(tmp_path: Path, value: Any) -> None:
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    attributes = {"_FillValue": value}
    zarr.create_array(session.store, name="a", shape=3, dtype="f4", attributes=attributes)
    session.commit("one array")
    facts = succeeds("head", tmp_path, "a", "--json").json
    assert facts["attributes"] == attributes


def test_cat_by_position_and_by_label(weather: Path) -> None:
    lines = succeeds("cat", weather, "model/t2m", "--isel", "time=1:3", "--plain").lines
    np.testing.assert_allclose(numbers(lines), T2M[1:3])
    by_label = ("--sel", "time=2024-01-02..2024-01-02T01", "--sel", "lat=20")
    found = succeeds("cat", weather, "model/t2m", *by_label, "--json").json
    assert found["coords"]["lat"] == [20.0]
    assert found["coords"]["time"] == ["2024-01-02T00:00:00", "2024-01-02T01:00:00"]
    np.testing.assert_allclose(found["values"], T2M[24:26, 1:2])
    chosen = ("--isel", "time=0,-1", "--sel", "lat=40")
    picked = succeeds("cat", weather, "model/t2m", *chosen, "--plain").lines
    np.testing.assert_allclose(numbers(picked), [T2M[[0, -1], 3]])


def test_cat_and_head_show_coordinates_and_nan_for_what_is_missing(weather: Path) -> None:
    part = ("--isel", "time=0:2", "--isel", "lat=0:2")
    assert succeeds("cat", weather, "model/rain", *part).lines == [
        "# level = 0",
        "time \\ lat           10.0  20.0",
        "2024-01-01T00:00:00   0.5   nan",
        "2024-01-01T01:00:00   0.5   0.5",
        "",
        "# level = 1",
        "time \\ lat           10.0  20.0",
        "2024-01-01T00:00:00   0.5   0.5",
        "2024-01-01T01:00:00   nan   0.5",
    ]
    assert "nan" in succeeds("head", weather, "model/rain", "-n", 2).lines[-2]
    assert succeeds("cat", weather, "model/t2m", "--isel", "time=0:2", "--sel", "lat=20").lines == [
        "# lat = 20.0",
        "time                   t2m",
        "2024-01-01T00:00:00  280.1",
        "2024-01-01T01:00:00  280.5",
    ]
    one = succeeds("cat", weather, "model/t2m", "--isel", "time=0", "--isel", "lat=0").lines
    assert one == ["# time = 2024-01-01T00:00:00, lat = 10.0", "280.0"]


def test_cat_prints_no_more_than_a_screen_can_hold(
    weather: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.cli.values.MOST_VALUES", 100)
    error = fails("cat", weather, "model/t2m")[0]
    assert "that would print 192 values" in error
    assert len(succeeds("cat", weather, "model/t2m", "--all").lines) == 49
    assert len(succeeds("cat", weather, "model/t2m", "--plain").lines) == 48


def test_a_year_is_a_time_where_the_coordinate_is_one(weather: Path) -> None:
    assert len(succeeds("cat", weather, "model/t2m", "--sel", "time=2024").lines) == 49
    assert "no value '2030'" in fails("cat", weather, "model/t2m", "--sel", "time=2030")[0]


def test_cat_of_a_group_shows_its_attributes(weather: Path) -> None:
    assert succeeds("cat", weather, "model").json == {"title": "a model"}


def test_what_cannot_be_chosen_is_told(weather: Path) -> None:
    array = ("cat", weather, "model/t2m")
    assert "no dimension 'lon'" in fails(*array, "--isel", "lon=0")[0]
    assert "has 4 positions" in fails(*array, "--isel", "lat=4")[0]
    assert "write lat=60" in fails(*array, "--sel", "lat", code=2)[0]
    assert "not a position" in fails(*array, "--isel", "lat=x", code=2)[0]
    assert "/nope" in fails("head", weather, "nope")[0]
    assert "is a group" in fails("head", weather, "model")[0]


def test_read_writes_numpy_csv_and_parquet(weather: Path, tmp_path: Path) -> None:
    array = ("read", weather, "model/t2m", "--isel", "time=:3")
    for name in ("a.npy", "a.csv", "a.parquet"):
        assert succeeds(*array, "-o", tmp_path / name, "--json").json["shape"] == [3, 4]
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), T2M[:3])
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert rows[5] == {"time": "2024-01-01T01:00:00", "lat": "20.0", "t2m": str(T2M[1, 1])}
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["time", "lat", "t2m"]
    np.testing.assert_array_equal(table["t2m"].to_numpy(), T2M[:3].ravel())
    assert "expected one of" in fails(*array, "-o", tmp_path / "a.xls", code=2)[0]


def test_what_was_read_can_be_written(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    succeeds("read", own, "model/t2m", "-o", file)
    new = ("write", own, "copy/of/t2m", file, "--dims", "time,lat", "--chunks", "time=10")
    assert succeeds(*new, "-m", "a copy").out.startswith("committed ")
    assert succeeds("log", own, "-n", 1, "--json").json[0]["message"] == "a copy"
    facts = succeeds("head", own, "copy/of/t2m", "--json").json
    assert (facts["chunk_shape"], facts["dimension_names"]) == ([10, 4], ["time", "lat"])
    assert "--overwrite" in fails(*new)[0]
    succeeds(*new, "--overwrite")
    more = succeeds("write", own, "copy/of/t2m", file, "--append", "time", "--json").json
    assert more["shape"] == [96, 4]
    last = succeeds("cat", own, "copy/of/t2m", "--isel", "time=-1", "--plain").lines
    np.testing.assert_allclose(numbers(last), T2M[-1:])


def test_a_file_that_does_not_fit_changes_nothing(own: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((2, 5), dtype="f4"))
    (tmp_path / "words.csv").write_text("not,numbers\n")
    before = succeeds("log", own).out
    wide = ("write", own, "model/t2m", tmp_path / "wide.npy", "--append")
    assert "only time may differ" in fails(*wide, "time")[0]
    assert "no dimension 'lon'" in fails(*wide, "lon")[0]
    assert "cannot read" in fails("write", own, "words", tmp_path / "words.csv")[0]
    assert "3 dimensions" in fails("write", own, "w", tmp_path / "wide.npy", "--dims", "a,b,c")[0]
    assert succeeds("log", own).out == before
