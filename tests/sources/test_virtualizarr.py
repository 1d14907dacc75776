"""Datasets that VirtualiZarr opened, written to and read from frazil, beside the real icechunk.

That its own `to_icechunk` works where icechunk is frazil is in tests/compat/test_virtualizarr.py.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import HTTPStore, LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser

import frazil
from frazil.errors import IcechunkError, InvalidInputError, ObjectChangedError, ReadOnlyError
from frazil.references import write_virtual_dataset
from tests.sources.places import Place


def written(folder: Path, day: int) -> Path:
    values = np.arange(24.0).reshape(4, 6) + 100 * day
    values[1, 2] = np.nan
    data = xr.Dataset(
        {"t": (("time", "x"), values, {"units": "K"}), "n": ("x", np.arange(6))},
        coords={"time": 4 * day + np.arange(4)},
        attrs={"title": "weather"},
    )
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunksizes": (2, 3)}
    file = folder / f"day{day}.nc"
    data.to_netcdf(file, engine="h5netcdf", encoding={"t": {**packing, "zlib": True}})
    return file


def opened(place: Place, file: Path) -> xr.Dataset:
    url = place.publish(file)
    stores: dict[str, Any] = {"file://": LocalStore()}
    if place.s3 is not None:
        stores[f"s3://{place.s3.bucket}"] = place.s3.raw()
    elif url.startswith("http"):
        stores[place.prefix] = HTTPStore(place.prefix, client_options={"allow_http": True})
    return open_virtual_dataset(
        url=url,
        registry=ObjectStoreRegistry(stores),
        parser=HDFParser(),
        loadable_variables=["time"],
    )


def read(repo: frazil.Repository, group: str = "") -> xr.Dataset:
    store = repo.readonly_session("main").store
    data: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False)
    return data.load()


def test_a_dataset_reads_as_its_file_does(place: Place, tmp_path: Path) -> None:
    file = written(place.folder, 0)
    repo = place.repository(tmp_path / "repo")
    session = repo.writable_session("main")
    write_virtual_dataset(opened(place, file), session, group="some/group")
    session.commit("a virtual dataset")
    expected = xr.open_dataset(file, engine="h5netcdf").load()
    xr.testing.assert_equal(read(repo, "some/group"), expected)
    assert read(repo, "some/group").attrs["title"] == "weather"
    location = f"{place.prefix}{file.name}"
    assert set(repo.readonly_session("main").all_virtual_chunk_locations()) == {location}


def test_a_dataset_can_be_appended(disk: Place, tmp_path: Path) -> None:
    files = [written(disk.folder, day) for day in range(2)]
    repo = disk.repository(tmp_path / "repo")
    for number, file in enumerate(files):
        session = repo.writable_session("main")
        write_virtual_dataset(
            opened(disk, file), session.store, append_dim="time" if number else None
        )
        session.commit(f"day {number}")
    days = [xr.open_dataset(file, engine="h5netcdf").load() for file in files]
    expected = xr.concat(days, dim="time", data_vars="minimal", coords="minimal", compat="override")
    xr.testing.assert_equal(read(repo), expected)


def test_a_file_modified_after_the_dataset_was_made_is_refused(disk: Place, tmp_path: Path) -> None:
    file = written(disk.folder, 0)
    session = disk.repository(tmp_path / "repo").writable_session("main")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    write_virtual_dataset(opened(disk, file), session, last_updated_at=long_ago)
    with pytest.raises(ObjectChangedError, match=r"day0\.nc"):
        zarr.open_array(session.store, path="n", mode="r")[:]


def test_a_dataset_outside_of_all_containers_changes_nothing(disk: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = written(elsewhere, 0)
    dataset = open_virtual_dataset(
        url=f"file://{file}",
        registry=ObjectStoreRegistry({"file://": LocalStore()}),
        parser=HDFParser(),
        loadable_variables=["time"],
    )
    session = disk.repository(tmp_path / "repo").writable_session("main")
    with pytest.raises((InvalidInputError, ValueError), match="container"):
        write_virtual_dataset(dataset, session)
    assert not session.has_uncommitted_changes


def test_a_read_only_session_is_refused(disk: Place, tmp_path: Path) -> None:
    dataset = opened(disk, written(disk.folder, 0))
    with pytest.raises(ReadOnlyError) as caught:
        write_virtual_dataset(dataset, disk.repository(tmp_path / "r").readonly_session("main"))
    assert isinstance(caught.value, IcechunkError)
