"""xarray reads back what it wrote, through commits."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from frazil import Repository, Storage, in_memory_storage, local_filesystem_storage

# Zarr version 3 has no final specification for some strings yet, and zarr says so.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")


def weather(start: str, hours: int) -> xr.Dataset:
    """A small data set with what real ones have: times, strings, missing values, encodings."""
    times = pd.date_range(start, periods=hours, freq="h")
    shape = (hours, 3, 4)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    values[0, 0, 0] = np.nan
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), values, {"units": "K", "standard_name": "air"}),
            "station": (("lat",), np.array(["a", "bb", "ccc"], dtype=object)),
            "count": ((), np.int64(hours)),
        },
        coords={"time": times, "lat": [10.0, 20.0, 30.0], "lon": [0.0, 1.0, 2.0, 3.0]},
        attrs={"title": "weather"},
    )


@pytest.fixture(params=["memory", "local"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    storage: Storage = (
        in_memory_storage()
        if request.param == "memory"
        else local_filesystem_storage(tmp_path / "repository")
    )
    return Repository.create(storage)


def read(repository: Repository, group: str | None = None) -> xr.Dataset:
    store = repository.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False).load()
    return found


@pytest.mark.parametrize("group", [None, "daily/europe"])
def test_a_dataset_comes_back_as_it_was_written(repository: Repository, group: str | None) -> None:
    session = repository.writable_session("main")
    weather("2024-01-01", 6).to_zarr(session.store, group=group, consolidated=False)
    session.commit("weather")
    xr.testing.assert_identical(read(repository, group), weather("2024-01-01", 6))


def test_appending_adds_a_version_and_keeps_the_old_one(repository: Repository) -> None:
    first, second = weather("2024-01-01", 5), weather("2024-01-01T05:00", 4)
    with repository.transaction("main", message="first") as store:
        first.to_zarr(store, consolidated=False, encoding={"t2m": {"chunks": (2, 3, 4)}})
    with repository.transaction("main", message="second") as store:
        second.to_zarr(store, consolidated=False, append_dim="time")
    both = xr.concat([first, second], dim="time", data_vars="minimal", coords="minimal",
                     compat="override")  # fmt: skip
    found = read(repository)
    xr.testing.assert_equal(found.drop_vars("count"), both.drop_vars("count"))

    newest, older, _ = repository.ancestry(branch="main")
    assert (newest.message, older.message) == ("second", "first")
    store = repository.readonly_session(snapshot_id=older.id).store
    xr.testing.assert_identical(xr.open_zarr(store, consolidated=False).load(), first)


def test_a_region_is_overwritten_and_the_rest_stays(repository: Repository) -> None:
    data = weather("2024-01-01", 6)
    with repository.transaction("main", message="all") as store:
        data.to_zarr(store, consolidated=False, encoding={"t2m": {"chunks": (4, 3, 4)}})
    part = data[["t2m"]].isel(time=slice(2, 5)).drop_vars(["lat", "lon"]) * 0 - 1
    with repository.transaction("main", message="part") as store:
        part.to_zarr(store, consolidated=False, region={"time": slice(2, 5)})
    expected = data["t2m"].copy()
    expected[2:5] = -1
    np.testing.assert_array_equal(read(repository)["t2m"], expected)


def test_mode_w_replaces_what_was_there(repository: Repository) -> None:
    for hours in (6, 2):
        with repository.transaction("main", message=f"{hours} hours") as store:
            weather("2024-01-01", hours).to_zarr(store, mode="w", consolidated=False)
    xr.testing.assert_identical(read(repository), weather("2024-01-01", 2))


def test_dask_arrays_are_written_by_many_threads(repository: Repository) -> None:
    data = weather("2024-01-01", 48).drop_vars("station")  # which dask could not write lazily
    with repository.transaction("main", message="dask") as store:
        data.chunk(time=5).to_zarr(store, consolidated=False)
    xr.testing.assert_identical(read(repository), data)
