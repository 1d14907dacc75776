"""Characters in NetCDF files that are stacked, beside xarray; missing pixels of TIFF files."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5netcdf
import numpy as np
import pytest
import tifffile
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.spark.sources import Source, describe_source, open_readers
from frazil.spark.sources.hdf5_files import NETCDF
from frazil.spark.sources.netcdf3 import NETCDF3
from frazil.spark.sources.tiff_files import TIFF, VARIABLE, find_nodata
from tests.examples_count import scaled
from tests.spark.netcdf3_files import Made, write_netcdf3

DIMS = ("a", "b", "c")
WORDS = st.text("abcdefgh", max_size=5)


@st.composite
def characters(draw: st.DrawFn) -> list[np.ndarray[Any, Any]]:
    """For each file an array (..., strlen) of one shape, of one to three dimensions."""
    shape = draw(st.lists(st.integers(1, 3), max_size=2))
    longest = draw(st.sampled_from([2, 3, 5]))
    arrays = []
    for _ in range(2):
        words = [draw(WORDS)[:longest] for _ in range(int(np.prod(shape)))]
        raw = "".join(word.ljust(longest, "\0") for word in words).encode()
        arrays.append(np.frombuffer(raw, "S1").reshape(*shape, longest))
    return arrays


def write_file(
    path: Path, names: np.ndarray[Any, Any], step: int, *, old: bool, is_scalar: bool
) -> None:
    dims = (*DIMS[: names.ndim - 1], "strlen")
    if not is_scalar:
        dims, names = ("time", *dims), names[np.newaxis]
    times = np.array(step if is_scalar else [step], "f8")
    time = Made(() if is_scalar else ("time",), times, {"units": "days since 2000-01-01"})
    if old:
        write_netcdf3(path, {"time": time, "names": Made(dims, names)})
        return
    with h5netcdf.File(path, "w") as file:
        file.dimensions = dict(zip(dims, names.shape, strict=True)) | (
            {} if is_scalar else {"time": 1}
        )
        file.create_variable("names", dims, "S1")[...] = names
        made = file.create_variable("time", time.dims, "f8")
        made[...] = times
        made.attrs["units"] = time.attrs["units"]


@settings(max_examples=scaled(15), deadline=None)
@given(arrays=characters(), old=st.booleans(), is_scalar=st.booleans())
def test_characters_of_stacked_files_are_what_xarray_makes_of_them(
    arrays: list[np.ndarray[Any, Any]], *, old: bool, is_scalar: bool
) -> None:
    """There is no library for NetCDF 3 here, so xarray reads the same as NetCDF 4."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{step}.nc" for step in range(len(arrays))]
        shown = [Path(folder) / f"{step}-4.nc" for step in range(len(arrays))]
        for step, names in enumerate(arrays):
            write_file(paths[step], names, step, old=old, is_scalar=is_scalar)
            write_file(shown[step], names, step, old=False, is_scalar=is_scalar)
        options: dict[str, Any] = {"data_vars": "all", "engine": "h5netcdf"}
        options["preprocess"] = lambda one: one.set_coords("time")
        with xr.open_mfdataset(shown, combine="nested", concat_dim="time", **options) as dataset:
            expected = np.asarray(dataset["names"].values).astype("U").tolist()
        kind = NETCDF3 if old else NETCDF
        found: list[Any] = []
        for step, path in enumerate(paths):
            source = Source(kind, str(path))
            described = describe_source(source, concat_dim="time").variables["names"]
            where = tuple(slice(0, length) for length in described.shape)
            with open_readers(dims=("time",)) as files:
                part = files.read(source, "names", where)
            assert part.shape == described.shape
            own = part.tolist()
            # texts of fewer than two dimensions are no field, and not stacked
            found += own if described.dims[:1] == ("time",) else [own]
            assert expected[step] == found[step]


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        ("u1", "255", 255), ("u1", "-9999", None), ("u1", "300", None), ("u1", "nan", None),
        ("i2", "-9999", -9999), ("i2", "-9999.0", -9999), ("i2", "-9999.5", None),
        ("i2", "1e3", 1000), ("i2", "inf", None), ("u1", "none", None), ("u1", "", None),
        ("i8", "-9223372036854775808", -(2**63)), ("u8", "18446744073709551615", 2**64 - 1),
        ("u8", "18446744073709551616", None), ("u8", "9" * 400, None), ("f4", "9" * 400, np.inf),
        ("f4", "-3.40282346638528898e+38", float(np.finfo("f4").min)), ("f4", "1e39", None),
        ("f4", "-inf", -np.inf), ("f8", "0.1", 0.1), ("?", "1", True), ("?", "0", False),
        ("?", "2", None),
    ],
)  # fmt: skip
def test_nodata_that_no_pixel_can_have_is_none(dtype: str, text: str, expected: Any) -> None:
    found = find_nodata(text, np.dtype(dtype))
    assert found == expected
    assert expected is None or np.asarray(found).dtype == np.dtype(dtype)
    assert np.isnan(find_nodata("nan", np.dtype("f4")))


@pytest.mark.parametrize(("text", "fill"), [("7", 7), ("-9999", None), ("nan", None)])
def test_a_file_with_such_nodata_is_read_and_says_so(
    tmp_path: Path, text: str, fill: int | None
) -> None:
    path = tmp_path / "bytes.tif"
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    tifffile.imwrite(path, pixels, extratags=[(42113, "s", 0, text, True)])
    source = Source(TIFF, str(path))
    if fill is None:
        with pytest.warns(UserWarning, match=f"nodata '{text}' is no value of uint8"):
            described = describe_source(source, concat_dim=None, storage=True)
    else:
        described = describe_source(source, concat_dim=None, storage=True)
    assert described.variables[VARIABLE].attrs.get("_FillValue") == fill
    with open_readers() as files:
        if fill is None:
            with pytest.warns(UserWarning, match="ignored"):
                found = files.read(source, VARIABLE, (slice(0, 3), slice(0, 4)))
        else:
            found = files.read(source, VARIABLE, (slice(0, 3), slice(0, 4)))
    np.testing.assert_array_equal(found, pixels)
