"""NetCDF 3 files: what they hold, where it lies, and files that are damaged."""

from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from frazil.errors import FormatError, IcechunkError
from frazil.spark.sources import (
    Source,
    describe_source,
    find_sources,
    open_readers,
    open_source,
)
from frazil.spark.sources.netcdf3 import NETCDF3, netcdf3_chunks
from tests.examples_count import scaled
from tests.servers.http_files import HttpServer
from tests.spark.netcdf3_files import Made, write_netcdf3

DTYPES = {1: ["i1", "i2", "i4", "f4", "f8"], 5: ["u1", "u2", "u4", "i8", "u8", "f4", "i2"]}


@st.composite
def contents(draw: st.DrawFn) -> tuple[dict[str, Made], str | None, int]:
    version = draw(st.sampled_from([1, 2, 5]))
    sizes = {"time": draw(st.integers(1, 4)), "y": draw(st.integers(1, 3)), "x": 5}
    made = {}
    for number in range(draw(st.integers(1, 3))):
        dims = draw(st.sampled_from([(), ("time",), ("time", "y", "x"), ("y", "x"), ("x",)]))
        dtype = np.dtype(draw(st.sampled_from(DTYPES[5 if version == 5 else 1])))
        values = draw(hnp.arrays(dtype, tuple(sizes[dim] for dim in dims)))
        made[f"v{number}"] = Made(dims, values, {"units": "K", "scale": np.float32(number)})
    return made, draw(st.sampled_from([None, "time"])), version


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(contents())
def test_files_read_as_they_were_written(
    tmp_path: Path, drawn: tuple[dict[str, Made], str | None, int]
) -> None:
    made, record_dim, version = drawn
    path = write_netcdf3(
        tmp_path / "a.nc", made, record_dim=record_dim, version=version, attrs={"title": "é"}
    )
    (source,) = find_sources(path)
    assert source.format is NETCDF3

    found = describe_source(source, concat_dim=None)

    assert found.attrs["title"] == "é"
    for name, each in made.items():
        with open_readers() as reading:
            whole = tuple(slice(0, length) for length in each.values.shape)
            values = reading.read(source, name, whole)
        np.testing.assert_array_equal(values, each.values)
        assert found.variables[name].dims == each.dims
        assert found.variables[name].attrs["units"] == "K"
        assert values.dtype == each.values.dtype
        _check_chunks(source, name, each.values, record_dim in each.dims)


def _check_chunks(source: Source, name: str, values: npt.NDArray[Any], by_record: Any) -> None:
    """The bytes at the places of the chunks are the values."""
    chunks = (1, *values.shape[1:]) if by_record else values.shape
    table = netcdf3_chunks(source, name, chunks, None)
    raw = Path(source.path).read_bytes()
    parts = [
        raw[int(start) : int(start) + int(size)]
        for start, size in zip(table.offset, table.length, strict=True)
    ]
    flat = np.frombuffer(b"".join(parts), dtype=values.dtype.newbyteorder(">"))
    np.testing.assert_array_equal(flat.reshape(values.shape), values)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("web")) as running:
        yield running


@settings(max_examples=scaled(30), deadline=None)
@given(drawn=contents(), data=st.data())
def test_parts_of_remote_files_are_those_of_local_ones(
    server: HttpServer, drawn: tuple[dict[str, Made], str | None, int], data: st.DataObject
) -> None:
    made, record_dim, version = drawn
    write_netcdf3(server.root / "a.nc", made, record_dim=record_dim, version=version)
    (here,) = find_sources(server.root / "a.nc")
    (there,) = find_sources(f"{server.url}/a.nc")
    with open_source(here) as local, open_source(there) as remote:
        for name, each in made.items():
            key = data.draw(hnp.basic_indices(each.values.shape, allow_newaxis=False))
            parts = key if isinstance(key, tuple) else (key,)
            backwards = any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts)
            if backwards and not each.values[key].size:  # xarray itself raises for [0:0:-1]
                continue
            want, found = local.variables[name][key], remote.variables[name][key]
            np.testing.assert_array_equal(found.values, want.values)
            assert found.dims == want.dims
            assert found.dtype == want.dtype.newbyteorder("=")


@pytest.mark.parametrize("name", ["bears.nc", "example_1.nc"])
def test_files_of_others_are_read(name: str) -> None:
    """Of the tests of xarray, made by the library of NetCDF."""
    path = Path(str(files("xarray"))) / "tests" / "data" / name
    (source,) = find_sources(path)
    assert source.format is NETCDF3
    with open_source(source) as found:
        if name == "bears.nc":
            assert found["order"].values.tolist() == [[1, 2, 3], [4, 5, 6]]
            assert found["cross"].values[0].tolist() == [4.0, 5.0, 2**-12]
            assert found["bears"].values[1].tolist() == [b"uis", b"hab", b"le"]
        else:
            assert found["lon"].values.tolist()[:3] == [-160, -140, -118]
            assert found["rh"].values[0, 1].tolist() == pytest.approx(
                [0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.5, 0.7, 0.8, 0.8]
            )


@settings(
    max_examples=scaled(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, data: st.DataObject) -> None:
    made = {"v": Made(("time", "x"), np.ones((3, 4), "f4")), "w": Made(("x",), np.ones(4, "i2"))}
    raw = bytearray(write_netcdf3(tmp_path / "a.nc", made, record_dim="time").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(raw)))
    (tmp_path / "b.nc").write_bytes(raw[:cut])
    (source,) = find_sources(tmp_path / "b.nc")
    with suppress(IcechunkError):
        describe_source(source, concat_dim="time", storage=True)


def test_a_truncated_file_is_told(tmp_path: Path) -> None:
    made = {"v": Made(("x",), np.arange(100.0))}
    path = write_netcdf3(tmp_path / "a.nc", made)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FormatError, match=r"a\.nc.*ends at byte"):
        describe_source(find_sources(path)[0], concat_dim=None)
