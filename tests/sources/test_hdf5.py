"""NetCDF4 and HDF5 files as virtual arrays: what frazil reads is what h5py and xarray read."""

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.clock import to_datetime
from frazil.errors import ObjectChangedError, StorageError
from frazil.references import import_kerchunk
from tests.sources.made import hdf5_references
from tests.sources.places import Place

# zarr's, about text of fixed length
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
NAME = r"some(%20| )file\.h5"
RNG = np.random.default_rng(4)
ARRAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "contiguous": (RNG.random((6, 5)), {}),
    "chunked": (RNG.integers(0, 1000, (7, 10), "i4"), {"chunks": (3, 4)}),
    "deflated": (RNG.random((8, 9)).astype("f4"), {"chunks": (4, 4), "compression": "gzip"}),
    "shuffled": (
        np.arange(200, dtype="i8").reshape(10, 20),
        {"chunks": (5, 7), "compression": "gzip", "shuffle": True},
    ),
    "summed": (np.arange(40, dtype="u2"), {"chunks": (16,), "fletcher32": True}),
    "big_endian": (np.arange(12, dtype=">f8").reshape(3, 4), {"chunks": (2, 2)}),
    "truth": (np.array([True, False, True]), {}),
    "bytes": (np.array([b"ab", b"c", b"def"], dtype="S3"), {}),
    "scalar": (np.float64(2.5), {}),
}


def written(folder: Path) -> Path:
    path = folder / "some file.h5"
    with h5py.File(path, "w") as file:
        for name, (values, options) in ARRAYS.items():
            file.create_dataset(name, data=values, **options)
        file.create_dataset("inner/partly", shape=(6, 6), chunks=(2, 2), dtype="f8", fillvalue=7)
        file["inner/partly"][:3, :3] = 1.5
        file.attrs["title"] = "a test"
    return path


def imported(place: Place, file: Path, root: Path) -> frazil.Repository:
    url = place.publish(file)
    references = hdf5_references(file, url)
    repo = place.repository(root)
    session = repo.writable_session("main")
    import_kerchunk(session, references)
    session.commit("import")
    return repo


def test_arrays_of_an_hdf5_file_are_read_as_h5py_reads_them(place: Place, tmp_path: Path) -> None:
    file = written(place.folder)
    repo = imported(place, file, tmp_path / "repo")
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    with h5py.File(file) as original:
        for name in [*ARRAYS, "inner/partly"]:
            theirs = original[name][()]
            array = group[name]
            assert isinstance(array, zarr.Array)
            ours = array[()]
            assert np.asarray(ours).dtype.kind == np.asarray(theirs).dtype.kind, name
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert group.attrs["title"] == original.attrs["title"]


def netcdf(folder: Path) -> Path:
    """Packed values, missing ones, times and text."""
    values = np.linspace(-5, 5, 60).reshape(5, 3, 4)
    values[2, 1, 1:3] = np.nan
    data = xr.Dataset(
        {
            "packed": (("time", "y", "x"), values, {"units": "K"}),
            "plain": (("y", "x"), np.arange(12, dtype="i2").reshape(3, 4)),
            "names": (("y",), np.array(["one", "zwei", "trois"], dtype=object)),
        },
        coords={
            "time": np.datetime64("2024-02-28", "ns") + np.arange(5) * np.timedelta64(1, "D"),
            "x": np.arange(4.0),
        },
        attrs={"title": "packed"},
    )
    packing = {
        "dtype": "i2",
        "scale_factor": 0.001,
        "add_offset": 1.0,
        "_FillValue": -32768,
        "chunksizes": (2, 3, 2),
        "zlib": True,
        "shuffle": True,
    }
    path = folder / "packed.nc"
    data.to_netcdf(path, engine="h5netcdf", encoding={"packed": packing})
    return path


def test_a_netcdf_file_is_decoded_as_xarray_decodes_it(place: Place, tmp_path: Path) -> None:
    file = netcdf(place.folder)
    repo = imported(place, file, tmp_path / "repo")
    ours = xr.open_zarr(repo.readonly_session("main").store, consolidated=False).load()
    theirs = xr.open_dataset(file, engine="h5netcdf").load()
    assert np.isnan(ours["packed"].values).sum() == 2
    assert set(ours.variables) == set(theirs.variables)
    for name in theirs.variables:
        assert ours[name].dims == theirs[name].dims
        np.testing.assert_array_equal(
            ours[name].values, theirs[name].values.astype(ours[name].dtype)
        )
        assert ours[name].attrs == theirs[name].attrs
    assert ours.attrs == theirs.attrs


def test_a_file_that_was_modified_since_is_refused(place: Place, tmp_path: Path) -> None:
    file = netcdf(place.folder)
    long_ago = 1_600_000_000
    url = place.publish(file)
    references = hdf5_references(file, url)
    repo = place.repository(tmp_path / "repo")
    session = repo.writable_session("main")
    moment = to_datetime(long_ago * 1_000_000)
    import_kerchunk(session, references, last_updated_at=moment)
    store = session.store
    with pytest.raises(ObjectChangedError, match=file.name):
        zarr.open_array(store, path="plain", mode="r")[:]


def test_a_file_that_is_shorter_than_its_references_say_is_refused(
    place: Place, tmp_path: Path
) -> None:
    file = written(place.folder)
    repo = imported(place, file, tmp_path / "repo")
    before = file.stat()
    _, offset, length = hdf5_references(file, "file")["refs"]["shuffled/1.1"]
    file.write_bytes(file.read_bytes()[: offset + length - 1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    place.publish(file)
    store = repo.readonly_session("main").store
    with pytest.raises(StorageError, match=NAME):
        zarr.open_array(store, path="shuffled", mode="r")[()]


def test_a_file_that_is_gone_is_named(disk: Place, tmp_path: Path) -> None:
    file = written(disk.folder)
    repo = imported(disk, file, tmp_path / "repo")
    file.unlink()
    store = repo.readonly_session("main").store
    with pytest.raises(StorageError, match=NAME):
        zarr.open_array(store, path="contiguous", mode="r")[()]
