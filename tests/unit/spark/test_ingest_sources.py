import os
import pickle
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.spark.sources import (
    Source,
    SourceDescription,
    describe_source,
    find_sources,
    open_readers,
)
from frazil.spark.sources.hdf5_files import NETCDF


def dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "t": (("time", "x"), np.arange(6, dtype=np.float32).reshape(3, 2), {"units": "K"}),
            "mask": (("x",), np.array([0, 1], dtype=np.int8)),
        },
        coords={"time": ("time", np.array([0, 1, 2]), {"units": "hours since 2024-01-01"})},
        attrs={"title": "a small one"},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.nc"
    dataset().to_netcdf(path, engine="h5netcdf")
    return path


def netcdf(path: Path) -> Source:
    return Source(NETCDF, str(path))


def described(source: Source, **options: object) -> SourceDescription:
    given: dict[str, object] = {"concat_dim": "time", "only": None, **options}
    return describe_source(source, **given)  # type: ignore[arg-type]  # options of a test


@pytest.mark.parametrize("kind", ["netcdf", "zarr2", "zarr3"])
def test_every_kind_of_source_says_the_same_about_the_same_data(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "netcdf":
        dataset().to_netcdf(path, engine="h5netcdf")
    else:
        dataset().to_zarr(path, zarr_format=2 if kind == "zarr2" else 3, consolidated=False)
    (source,) = find_sources(path)

    found = described(source)

    assert found.attrs["title"] == "a small one"
    assert found.sizes == {"time": 3, "x": 2}
    assert found.variables["t"].dtype == np.float32
    assert found.variables["t"].attrs["units"] == "K"
    times = found.variables["time"].values
    assert times is not None
    assert times.tolist() == [0, 1, 2]  # as stored, not decoded
    assert found.variables["mask"].digest is not None
    with open_readers() as files:
        part = files.read(source, "t", (slice(1, 3), slice(0, 1)))
    np.testing.assert_array_equal(part, [[2], [4]])


def test_values_stay_packed(tmp_path: Path) -> None:
    path = tmp_path / "packed.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"time": 2}
        rain = made.create_variable("rain", ("time",), "i2", fillvalue=np.int16(-1))
        rain.attrs["scale_factor"] = 0.5
        rain[...] = [3, -1]

    found = described(netcdf(path)).variables["rain"]

    assert found.dtype == np.int16
    assert found.attrs["scale_factor"] == 0.5
    assert found.attrs["_FillValue"] == -1
    with open_readers() as files:
        assert files.read(netcdf(path), "rain", (slice(0, 2),)).tolist() == [3, -1]


def test_other_byte_orders_are_made_native(tmp_path: Path) -> None:
    path = tmp_path / "big.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"x": 2}
        made.create_variable("v", ("x",), ">f4", data=np.array([1, 2], ">f4"))

    assert described(netcdf(path), concat_dim=None).variables["v"].dtype == np.dtype("=f4")
    with open_readers() as files:
        values = files.read(netcdf(path), "v", (slice(0, 2),))
    assert values.dtype.isnative
    assert values.tolist() == [1, 2]


def test_text_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "text.nc"
    xr.Dataset({"name": (("x",), np.array(["a", "longer", "é"], dtype=object))}).to_netcdf(
        path, engine="h5netcdf"
    )

    assert described(netcdf(path), concat_dim=None).variables["name"].dtype.hasobject
    with open_readers() as files:
        values = files.read(netcdf(path), "name", (slice(0, 3),))
    assert values.tolist() == ["a", "longer", "é"]


def test_characters_are_joined_to_text(tmp_path: Path) -> None:
    path = tmp_path / "chars.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"time": 2, "strlen": 4}
        letters = np.array([list("ab\0\0"), list("wxyz")], dtype="S1")
        made.create_variable("code", ("time", "strlen"), "S1", data=letters)
        made.create_variable("n", ("time",), "i4", data=[1, 2])

    found = described(netcdf(path)).variables["code"]

    assert (found.dims, found.shape) == (("time",), (2,))
    assert found.dtype.hasobject
    with open_readers() as files:
        assert files.read(netcdf(path), "code", (slice(0, 2),)).tolist() == ["ab", "wxyz"]
        assert files.read(netcdf(path), "code", (slice(1, 2),)).tolist() == ["wxyz"]


def test_a_variable_shorter_than_its_unlimited_dimension_is_padded(tmp_path: Path) -> None:
    path = tmp_path / "short.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"time": None}
        made.create_variable("full", ("time",), "i4")
        made.create_variable("short", ("time",), "f4", fillvalue=np.float32(-1))
        made.resize_dimension("time", 3)
        made["full"][...] = [1, 2, 3]
        made["short"][...] = [1, 2, 3]
    with h5py.File(path, "r+") as raw:
        raw["short"].resize((2,))

    with open_readers() as files:
        assert files.read(netcdf(path), "short", (slice(0, 3),)).tolist() == [1, 2, -1]


def test_chosen_variables_bring_their_coordinates_and_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    made = dataset()
    made["time"].attrs["bounds"] = "time_bnds"
    made["time_bnds"] = (("time", "nv"), np.zeros((3, 2)))
    made["other"] = ("time", np.zeros(3))
    made.to_netcdf(path, engine="h5netcdf")

    found = described(netcdf(path), only=["t"])

    assert sorted(found.variables) == ["t", "time", "time_bnds"]


def test_a_variable_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"a\.nc: no variable 'wind'; there is mask, t, ti"):
        described(netcdf(file), only=["wind"])


def test_plain_hdf5_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as made:
        made["v"] = np.arange(4)

    found = described(netcdf(path), concat_dim=None)

    assert found.variables["v"].dims == ("phony_dim_0",)


def test_a_type_that_zarr_has_no_name_for_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "compound.h5"
    with h5py.File(path, "w") as made:
        made["v"] = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])

    with pytest.raises((InvalidInputError, FormatError), match=r"compound\.h5"):
        described(netcdf(path), concat_dim=None)


def test_descriptions_travel(file: Path) -> None:
    found = pickle.loads(pickle.dumps(described(netcdf(file))))

    assert found.variables["t"].shape == (3, 2)


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 100, 0.5])
def test_a_truncated_file_is_named(file: Path, keep: float) -> None:
    size = file.stat().st_size
    os.truncate(file, int(keep * size) if keep < 1 else int(keep))

    with pytest.raises(FormatError, match=r"a\.nc"):
        described(netcdf(file))


def test_a_file_that_is_no_array_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_text("station,temperature\n1,20\n")

    with pytest.raises(FormatError, match=r"a\.nc: cannot be read as an array file"):
        described(netcdf(path))


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFoundError, match=r"gone\.nc"):
        described(netcdf(tmp_path / "gone.nc"))


def test_damaged_data_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as made:
        made.dimensions = {"x": 4096}
        made.create_variable(
            "v",
            ("x",),
            "f8",
            chunks=(4096,),
            compression="gzip",
            data=np.random.default_rng(0).random(4096),
        )
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2 + 2000
    raw[middle : middle + 4000] = bytes(4000)
    path.write_bytes(raw)

    with pytest.raises(FormatError, match=r"a\.nc"), open_readers() as files:
        files.read(netcdf(path), "v", (slice(0, 4096),))


# ---- finding -------------------------------------------------------------------------------------


def test_patterns_and_directories_are_expanded_in_order(tmp_path: Path) -> None:
    for name in ("b.nc", "a.nc", "notes.txt"):
        (tmp_path / name).touch()
    store = tmp_path / "c.zarr"
    store.mkdir()
    (store / "zarr.json").write_text("{}")

    found = find_sources([tmp_path])

    assert [Path(source.path).name for source in found] == ["a.nc", "b.nc", "c.zarr"]
    assert [source.format.name for source in found] == ["netcdf", "netcdf", "zarr"]
    assert find_sources(str(tmp_path / "*.nc")) == found[:2]


def test_the_order_given_is_kept(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.nc", "a.nc")]
    for path in paths:
        path.touch()

    assert [source.path for source in find_sources(paths)] == [str(path) for path in paths]


@pytest.mark.parametrize("name", ["gone.nc", "gone-*.nc", "empty"])
def test_a_name_that_leads_nowhere_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ObjectNotFoundError, match=name.replace("*", r"\*")):
        find_sources(tmp_path / name)


def test_a_source_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.nc").touch()

    with pytest.raises(InvalidInputError, match=r"a\.nc: named twice"):
        find_sources([tmp_path / "a.nc", str(tmp_path / "*.nc")])
