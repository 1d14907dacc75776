"""Source formats: recognised by first bytes and suffixes, registered by one line."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from frazil.errors import FormatError, InvalidInputError
from frazil.spark.sources import (
    Source,
    SourceFormat,
    describe_source,
    find_sources,
    local_path,
    open_readers,
    parse_format,
    register_source_format,
    unregister_source_format,
)
from frazil.spark.sources.source_formats import BUILT_IN, recognise_format


def open_text(source: Source, _group: str | None) -> xr.Dataset:
    with local_path(source) as path:
        numbers = [float(line) for line in Path(path).read_text().splitlines()]
    return xr.Dataset({"v": ("x", np.array(numbers))})


TEXT = SourceFormat(name="text", aliases=("lines",), suffixes=(".txt",), open=open_text)


@pytest.fixture
def registered() -> Iterator[SourceFormat]:
    register_source_format(TEXT)
    yield TEXT
    unregister_source_format(TEXT)


@pytest.mark.parametrize(
    ("name", "first_bytes", "expected"),
    [
        ("a.nc", b"\x89HDF", "netcdf"),
        ("a", b"", "netcdf"),
        ("a.tif", b"CDF\x01", "netcdf3"),  # first bytes count for more than the name
        ("a.nc", b"GRIB", "grib"),
        ("a.GRB2", b"", "grib"),
        ("a.bin", b"II*\0", "tiff"),
        ("a.tiff", b"", "tiff"),
    ],
)
def test_formats_are_recognised(name: str, first_bytes: bytes, expected: str) -> None:
    assert recognise_format(name, first_bytes).name == expected


def test_a_registered_format_is_found_described_and_read(
    registered: SourceFormat, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    (source,) = find_sources(tmp_path)
    assert source.format is registered
    assert parse_format("Lines") is registered
    description = describe_source(source, concat_dim=None, storage=True)
    assert description.sizes == {"x": 3}
    assert description.variables["v"].storage == "files of format text"  # why it is not virtual
    with open_readers() as readers:
        assert readers.read(source, "v", (slice(1, 3),)).tolist() == [2, 3]


def test_damage_names_the_file(registered: SourceFormat, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(FormatError, match=r"a\.txt"):
        describe_source(Source(registered, str(tmp_path / "a.txt")), concat_dim=None)


def test_a_format_travels_with_its_sources_unregistered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("4\n")
    source = Source(TEXT, str(tmp_path / "a.txt"))
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert describe_source(copy, concat_dim=None).sizes == {"x": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        SourceFormat(name="hdf5", open=open_text),
        SourceFormat(name="x", aliases=("zarr",), open=open_text),
        SourceFormat(name="x", magics=(b"GRIB",), open=open_text),
        SourceFormat(name="x", magics=(b"",), open=open_text),
        SourceFormat(name="x", magics=(b"12345",), open=open_text),
    ],
    ids=["alias-as-name", "name-as-alias", "magic", "empty", "long"],
)
def test_a_format_that_hides_another_is_refused(wrong: SourceFormat) -> None:
    with pytest.raises(InvalidInputError):
        register_source_format(wrong)
    assert parse_format("zarr") in BUILT_IN


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidInputError, match="geotiff, grib, grib2, hdf5, netcdf"):
        parse_format("parquet?")
