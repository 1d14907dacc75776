"""Dask arrays and chunked data sets, written in parallel into one commit."""

from importlib import import_module
from tempfile import TemporaryDirectory

import dask
import dask.array
import numpy as np
import xarray as xr
import zarr
from engine import icechunk

# from icechunk.dask import store_dask; from icechunk.xarray import to_icechunk
store_dask = import_module(f"{icechunk.__name__}.dask").store_dask
to_icechunk = import_module(f"{icechunk.__name__}.xarray").to_icechunk


def write_arrays(repo: "icechunk.Repository") -> None:
    """Blocks of Dask arrays, each to its place in an array of the repository."""
    with repo.transaction("main", message="an empty array") as store:
        zarr.create_array(store, name="ramp", shape=(40, 10), chunks=(10, 10), dtype="f8")
    source = dask.array.arange(400, chunks=100).reshape((40, 10)).astype("f8")

    session = repo.writable_session("main")
    fork = session.fork()
    session.merge(store_dask(sources=[source], targets=[zarr.open_array(fork.store, path="ramp")]))
    session.commit("a ramp")

    found = zarr.open_array(repo.readonly_session("main").store, path="ramp", mode="r")
    np.testing.assert_array_equal(np.asarray(found[:]), np.arange(400.0).reshape(40, 10))
    print("sum of the ramp:", float(np.asarray(found[:]).sum()))


def write_dataset(repo: "icechunk.Repository") -> None:
    """A data set whose variables are Dask arrays; then some more of it."""
    values = dask.array.ones((48, 4), chunks=(12, 4))
    dataset = xr.Dataset({"t2m": (("time", "x"), values)}, coords={"time": np.arange(48)})

    session = repo.writable_session("main")
    to_icechunk(dataset, session, group="weather")
    session.commit("two days")
    session = repo.writable_session("main")
    to_icechunk(dataset.assign_coords(time=np.arange(48, 96)), session, group="weather",
                append_dim="time")  # fmt: skip
    session.commit("two more")

    store = repo.readonly_session("main").store
    found = xr.open_zarr(store, group="weather", consolidated=False)
    print("hours:", found.sizes["time"], "sum:", float(found["t2m"].sum()))


def main(folder: str) -> None:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(f"{folder}/weather"))
    with dask.config.set(scheduler="threads"):
        write_arrays(repo)
        write_dataset(repo)
    print("commits:", [snapshot.message for snapshot in repo.ancestry(branch="main")])


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
