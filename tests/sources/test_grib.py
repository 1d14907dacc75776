"""GRIB2 messages as chunks of virtual arrays: what frazil reads is what ecCodes reads."""

import os
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
import zarr
from kerchunk.grib2 import scan_grib

import frazil
from frazil.errors import FormatError, InvalidInputError, ObjectChangedError
from frazil.references import import_kerchunk
from frazil.zarrstore.grib import GribCodec, decode_message
from tests.sources.places import Place

GRID = {
    "dataDate": 20240229,
    "dataTime": 0,
    "Ni": 6,
    "Nj": 4,
    "latitudeOfFirstGridPointInDegrees": 60.0,
    "latitudeOfLastGridPointInDegrees": 57.0,
    "longitudeOfFirstGridPointInDegrees": 0.0,
    "longitudeOfLastGridPointInDegrees": 5.0,
    "iDirectionIncrementInDegrees": 1.0,
    "jDirectionIncrementInDegrees": 1.0,
}
STEPS = (0, 6, 12)
# Packings of GRIB2; JPEG 2000 and PNG need libraries that a build may lack.
PACKINGS = ("grid_simple", "grid_complex", "grid_complex_spatial_differencing", "grid_ccsds")


def values_at(step: int) -> npt.NDArray[np.float64]:
    return np.asarray(273.15 + np.arange(24) * 0.37 + step, np.float64)


def message(step: int, *, packing: str = "grid_simple", missing: tuple[int, ...] = ()) -> bytes:
    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    try:
        for key, value in {
            **GRID,
            "dataDate": 20240229,
            "dataTime": 0,
            "stepRange": str(step),
        }.items():
            eccodes.codes_set(handle, key, value)
        eccodes.codes_set(handle, "shortName", "2t")
        eccodes.codes_set(handle, "bitsPerValue", 16)
        values = values_at(step)
        if missing:
            eccodes.codes_set(handle, "bitmapPresent", 1)
            values[list(missing)] = eccodes.codes_get(handle, "missingValue")
        eccodes.codes_set_values(handle, values)
        eccodes.codes_set(handle, "packingType", packing)
        data: bytes = eccodes.codes_get_message(handle)
        return data
    finally:
        eccodes.codes_release(handle)


def messages_in(file: Path) -> list[npt.NDArray[np.float64]]:
    """As ecCodes reads them."""
    found = []
    with file.open("rb") as opened:
        while (handle := eccodes.codes_grib_new_from_file(opened)) is not None:
            values = eccodes.codes_get_values(handle)
            missing = values == eccodes.codes_get(handle, "missingValue")
            found.append(np.where(missing, np.nan, values).reshape(4, 6))
            eccodes.codes_release(handle)
    return found


def written(folder: Path) -> Path:
    file = folder / "forecast.grib2"
    file.write_bytes(b"".join(message(step, missing=(3, 11)) for step in STEPS))
    return file


def imported(place: Place, file: Path, root: Path) -> frazil.Repository:
    """A group for each message."""
    url = place.publish(file)
    repo = place.repository(root)
    session = repo.writable_session("main")
    for step, references in zip(STEPS, scan_grib(str(file)), strict=True):
        import_kerchunk(session, references, group=f"step{step}", templates={"u": url})
    session.commit("forecast")
    return repo


def test_messages_are_read_as_eccodes_reads_them(place: Place, tmp_path: Path) -> None:
    file = written(place.folder)
    store = imported(place, file, tmp_path / "repo").readonly_session("main").store
    expected = messages_in(file)
    assert len(expected) == len(STEPS)
    for step, theirs in zip(STEPS, expected, strict=True):
        data = xr.open_zarr(store, group=f"step{step}", consolidated=False)
        np.testing.assert_array_equal(data["t2m"].values, theirs)
        assert np.isnan(theirs).sum() == 2
        np.testing.assert_array_equal(data["latitude"], [60, 59, 58, 57])
        np.testing.assert_array_equal(data["longitude"], np.arange(6))
        assert data["valid_time"].values == np.datetime64("2024-02-29") + np.timedelta64(step, "h")
        assert data["t2m"].attrs["units"] == "K"


def test_the_array_names_the_codec_that_others_know(disk: Place, tmp_path: Path) -> None:
    repo = imported(disk, written(disk.folder), tmp_path / "repo")
    array = zarr.open_array(repo.readonly_session("main").store, path="step0/t2m", mode="r")
    codecs: Any = array.metadata.to_dict()["codecs"]
    assert list(codecs) == [{"name": "gribberish", "configuration": {"var": "t2m"}}]


def test_a_file_of_other_messages_is_refused(disk: Place, tmp_path: Path) -> None:
    file = written(disk.folder)
    repo = imported(disk, file, tmp_path / "repo")
    later = file.stat().st_mtime + 60
    file.write_bytes(b"".join(message(step + 1, missing=(3, 11)) for step in STEPS))
    os.utime(file, (later, later))
    array = zarr.open_array(repo.readonly_session("main").store, path="step0/t2m", mode="r")
    with pytest.raises(ObjectChangedError, match=r"forecast\.grib2"):
        array[:]


@pytest.mark.parametrize("packing", PACKINGS)
def test_values_are_decoded_however_they_are_packed(packing: str) -> None:
    data = message(6, packing=packing)
    np.testing.assert_allclose(decode_message(data, "t2m"), values_at(6), atol=1e-3)


def test_coordinates_are_in_the_message() -> None:
    data = message(0)
    latitude, longitude = decode_message(data, "latitude"), decode_message(data, "longitude")
    np.testing.assert_array_equal(latitude, np.repeat([60.0, 59.0, 58.0, 57.0], 6))
    np.testing.assert_array_equal(longitude, np.tile(np.arange(6.0), 4))


@pytest.mark.parametrize("damage", [b"", b"GRIB", b"no message", message(0)[:60], bytes(200)])
def test_what_is_no_message_is_a_format_error(damage: bytes) -> None:
    with pytest.raises(FormatError, match="GRIB"):
        decode_message(damage, "t2m")


def test_options_that_only_gribberish_has_are_named() -> None:
    document: Any = {"name": "gribberish", "configuration": {"var": "t", "north_up": True}}
    with pytest.raises(InvalidInputError, match="north_up"):
        GribCodec.from_dict(document)
