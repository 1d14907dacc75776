"""Packages that write to or read from icechunk, where icechunk is frazil: a short task of each."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.facade.test_install_as_icechunk import WITHOUT_ICECHUNK, run

BEFORE = f"""
import warnings
warnings.simplefilter("ignore")  # of others
{WITHOUT_ICECHUNK}
import frazil
frazil.install_as_icechunk()
import icechunk
import numpy as np
import xarray as xr
import zarr

def create(name, **options):
    return icechunk.Repository.create(icechunk.local_filesystem_storage(name), **options)

def read(repo, group=""):
    store = repo.readonly_session("main").store
    return xr.open_zarr(store, group=group, consolidated=False).load()
"""
NETCDF = """
import os
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset

os.mkdir("data")
expected = xr.Dataset(
    {"t": (("time", "x"), np.arange(24.0).reshape(4, 6), {"units": "K"})},
    coords={"time": np.arange(4)},
)
expected.to_netcdf("data/a.nc", engine="h5netcdf", encoding={"t": {"chunksizes": (2, 3)}})
prefix = f"file://{os.getcwd()}/data/"
registry = ObjectStoreRegistry({"file://": LocalStore("/")})

def create_virtual(name):
    config = icechunk.RepositoryConfig.default()
    store = icechunk.local_filesystem_store(f"{os.getcwd()}/data")
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    access = {prefix: icechunk.credentials.LocalFileSystemAccess}
    return create(name, config=config, authorize_virtual_chunk_access=access)
"""


def use(program: str, folder: Path, *, before: str = "") -> None:
    run(program, folder, before=BEFORE + before)


def test_virtualizarr_writes_and_parses(tmp_path: Path) -> None:
    use(
        """
        from virtualizarr.parsers import HDFParser, IcechunkParser

        repo = create_virtual("repo")
        session = repo.writable_session("main")
        data = open_virtual_dataset(
            url=prefix + "a.nc", registry=registry, parser=HDFParser(), loadable_variables=["time"]
        )
        data.virtualize.to_icechunk(session.store)
        session.commit("virtual")
        xr.testing.assert_identical(read(repo), expected)
        assert session.all_virtual_chunk_locations() == [prefix + "a.nc"] * 4

        again = open_virtual_dataset(  # the repository as a source of references
            url=f"file://{os.getcwd()}/repo", registry=registry, parser=IcechunkParser()
        )
        assert again.t.data.manifest.shape_chunk_grid == (2, 2)
        """,
        tmp_path,
        before=NETCDF,
    )


def test_what_kerchunk_writes_is_taken_over(tmp_path: Path) -> None:
    use(
        """
        import json
        from kerchunk.hdf import SingleHdf5ToZarr
        from virtualizarr.parsers import KerchunkJSONParser

        with open("data/a.nc", "rb") as file:
            references = SingleHdf5ToZarr(file, prefix + "a.nc", inline_threshold=0).translate()
        with open("data/a.json", "w") as file:
            json.dump(references, file)
        repo = create_virtual("repo")
        session = repo.writable_session("main")
        data = open_virtual_dataset(
            url=prefix + "a.json", registry=registry, parser=KerchunkJSONParser()
        )
        data.virtualize.to_icechunk(session.store)
        session.commit("kerchunk")
        assert (read(repo).t.values == expected.t.values).all()
        assert {prefix + "a.nc"} == set(session.all_virtual_chunk_locations())
        """,
        tmp_path,
        before=NETCDF,
    )


def test_xarray_writes_trees_and_appends_and_dask_reads_and_writes(tmp_path: Path) -> None:
    use(
        """
        import dask.array
        from icechunk.dask import store_dask
        from icechunk.xarray import to_icechunk

        repo = create("repo")
        day = xr.Dataset({"t": (("time", "x"), np.ones((2, 3)))}, coords={"time": [0, 1]})
        tree = xr.DataTree.from_dict({"/coarse": day, "/fine": day * 2})
        with repo.transaction("main", message="a tree") as store:
            tree.to_zarr(store, consolidated=False)
        with repo.transaction("main", message="one more day") as store:
            later = day.assign_coords(time=[2, 3])
            later.to_zarr(store, group="fine", append_dim="time", consolidated=False)
        store = repo.readonly_session("main").store
        back = xr.open_datatree(store, engine="zarr", consolidated=False)
        assert back["/fine"].t.values.sum() == 18 and back["/coarse"].t.shape == (2, 3)

        session = repo.writable_session("main")
        target = zarr.create_array(session.store, name="d", shape=(6, 4), chunks=(2, 4), dtype="f8")
        fork = session.fork()
        source = dask.array.arange(24.0, chunks=8).reshape((6, 4)).rechunk((2, 4))
        session.merge(store_dask(sources=[source], targets=[zarr.open_array(fork.store, path="d")]))
        to_icechunk(day.chunk(time=1), session, group="lazy")
        session.commit("lazily")
        store = repo.readonly_session("main").store
        lazy = dask.array.from_zarr(zarr.open_array(store, path="d", mode="r"))
        assert lazy.sum().compute() == 276
        assert read(repo, "lazy").t.values.sum() == 6
        """,
        tmp_path,
    )


ARRAY_LIBRARIES = {
    "cubed": """
        import cubed.array_api as xp
        from cubed.icechunk import store_icechunk

        repo = create("repo")
        session = repo.writable_session("main")
        zarr.create_array(session.store, name="a", shape=(6, 4), chunks=(2, 2), dtype="f8")
        fork = session.fork()
        ones = xp.ones((6, 4), chunks=(2, 2))
        target = zarr.open_array(fork.store, path="a")
        session.merge(store_icechunk(sources=[ones + 1], targets=[target]))
        session.commit("by cubed")
        assert zarr.open_array(repo.readonly_session("main").store, path="a")[:].sum() == 48
        """,
    "dask_array": """
        import dask_array
        from icechunk.xarray import to_icechunk

        from dask_array.xarray import register

        register()
        repo = create("repo")
        session = repo.writable_session("main")
        to_icechunk(xr.Dataset({"t": (("x",), dask_array.arange(12.0, chunks=3))}), session)
        session.commit("by dask-array")
        assert read(repo).t.values.sum() == 66
        """,
}


@pytest.mark.parametrize("name", ARRAY_LIBRARIES)
def test_other_array_libraries_write(name: str, tmp_path: Path) -> None:
    use(dedent(ARRAY_LIBRARIES[name]), tmp_path)
