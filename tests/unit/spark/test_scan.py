"""Rows of what xarray wrote, against xarray's own table of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from frazil.api import Repository, local_filesystem_storage
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.selection import to_selection
from tests.spark.in_process import counted


def dataset() -> xr.Dataset:
    rng = np.random.default_rng(3)
    shape = (30, 7, 5)
    rain = np.where(rng.random(shape) < 0.3, np.nan, rng.random(shape))
    made = xr.Dataset(
        {
            "rain": (("time", "y", "x"), rain),
            "count": (("time", "y", "x"), rng.integers(-5, 5, shape, dtype=np.int16)),
            "seen": (("time", "y", "x"), rng.random(shape) < 0.5),
        },
        coords={
            "time": pd.date_range("2023-12-30", periods=30, freq="3h"),
            "y": np.linspace(60, 50, 7, dtype=np.float32),
            "x": ["a", "b", "c", "d", "é"],
        },
    )
    made["rain"].encoding = {"dtype": "int16", "scale_factor": 1e-3, "_FillValue": -1}
    made["time"].encoding = {"units": "minutes since 2000-01-01", "dtype": "int32"}
    for name in made.data_vars:
        made[name].encoding["chunks"] = (8, 3, 2)
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("scan") / "repository"
    repository = Repository.create(local_filesystem_storage(where))
    with repository.transaction("main", message="xarray") as store:
        dataset().to_zarr(store, zarr_format=3, consolidated=False)
    return where


@pytest.mark.parametrize(
    "sel",
    [
        {},
        {"time": "2024-01-01"},
        {"time": slice("2023-12-31", "2024-01-01T05"), "x": ["a", "é"]},
        {"y": slice(52, 57), "x": "c"},
        {"time": ["2023-12-30T00:00:00", "2024-01-02T09:00:00"]},
    ],
)
@pytest.mark.parametrize("partition_bytes", [1, 3000, 2**30])
def test_rows_are_those_of_xarray(path: Path, sel: dict[str, Any], partition_bytes: int) -> None:
    options = ReadOptions(
        path="", selection=to_selection(sel), partition_bytes=partition_bytes, batch_rows=100
    )
    _, reader = counted(str(path), options)
    found = reader.table().to_pandas().set_index(["time", "y", "x"]).sort_index()
    wanted = {
        k: slice(v.stop, v.start) if k == "y" else v if isinstance(v, slice | list) else [v]
        for k, v in sel.items()
    }
    if sel.get("time") == "2024-01-01":
        wanted["time"] = slice("2024-01-01", "2024-01-01")
    expected = xr.decode_cf(dataset()).sel(wanted).to_dataframe()
    expected = expected.reset_index().set_index(["time", "y", "x"]).sort_index()
    assert len(found) == len(expected)
    times = found.index.get_level_values("time").tz_localize(None)
    assert (times == expected.index.get_level_values("time")).all()
    for name in ("count", "seen"):
        assert (found[name].to_numpy() == expected[name].to_numpy()).all()
    np.testing.assert_allclose(
        found["rain"].to_numpy(), expected["rain"].to_numpy(), atol=6e-4, equal_nan=True
    )


def test_without_decoding_values_are_as_stored(path: Path) -> None:
    options = ReadOptions(path="", decode_cf=False, selection=to_selection({"x": "a"}))
    _, reader = counted(str(path), options)
    rows = reader.table()
    assert rows["time"][0].as_py() == (pd.Timestamp("2023-12-30") - pd.Timestamp(2000, 1, 1)) // (
        pd.Timedelta("1min")
    )
    assert rows["rain"].null_count == 0
    assert -1 in rows["rain"].to_pylist()


def test_coordinates_alone_read_no_chunk(path: Path) -> None:
    store, reader = counted(str(path), ReadOptions(path="", columns=("y", "time")))
    assert reader.table().num_rows == 30 * 7 * 5
    chunks = [request.key for request in store.reads if request.key.startswith("chunks/")]
    assert chunks == []  # coordinates are so short that they are in the manifest
