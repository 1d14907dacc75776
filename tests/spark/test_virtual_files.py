"""NetCDF and GRIB files as virtual chunks, read by Spark: the same rows as of copies."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from kerchunk.combine import MultiZarrToZarr
from kerchunk.grib2 import scan_grib
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.references import import_kerchunk
from tests.sources.made import hdf5_references
from tests.sources.places import on_disk
from tests.sources.test_grib import message, messages_in

pytestmark = pytest.mark.spark
QUERY = "SELECT time, y, x, t FROM weather WHERE t > 5 ORDER BY time, y, x"


def written(folder: Path, day: int) -> Path:
    values = np.arange(60.0).reshape(4, 3, 5) / 4 + day
    values[1, 1, :2] = np.nan
    time = np.datetime64("2024-02-28", "ns") + (4 * day + np.arange(4)) * np.timedelta64(6, "h")
    data = xr.Dataset(
        {"t": (("time", "y", "x"), values, {"units": "K"})},
        coords={"time": time, "y": np.arange(3.0), "x": np.arange(5)},
    )
    data["time"].encoding = {"units": "hours since 2024-01-01", "dtype": "i4"}
    packing = {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -1, "chunksizes": (2, 3, 5)}
    file = folder / f"day{day}.nc"
    data.to_netcdf(file, engine="h5netcdf", encoding={"t": {**packing, "zlib": True}})
    return file


def test_a_virtual_repository_has_the_rows_of_a_copied_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    files = [written(folder, day) for day in range(2)]
    copied = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "copied")))
    frazil.spark.ingest(spark, folder, copied, concat_dim="time", progress=False)

    sets = [hdf5_references(file, str(file)) for file in files]
    gc.disable()  # see hdf5_references
    try:
        maker = MultiZarrToZarr(
            sets, concat_dims=["time"], identical_dims=["x", "y"], inline_threshold=0
        )
        references: dict[str, Any] = maker.translate()
    finally:
        gc.enable()
    virtual = on_disk(folder).repository(tmp_path / "virtual")
    session = virtual.writable_session("main")
    assert import_kerchunk(session, references).virtual_chunks > 4
    session.commit("virtual")

    expected = frazil.spark.sql(spark, QUERY, tables={"weather": copied}).collect()
    found = frazil.spark.sql(spark, QUERY, tables={"weather": virtual}).collect()
    assert len(expected) > 50
    assert found == expected


def test_workers_decode_grib_messages(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    file = folder / "forecast.grib2"
    file.write_bytes(message(6, missing=(3,)))
    repo = on_disk(folder).repository(tmp_path / "repo")
    session = repo.writable_session("main")
    (references,) = scan_grib(str(file))
    import_kerchunk(session, references, templates={"u": str(file)})
    session.commit("forecast")
    rows = frazil.spark.read(spark, repo).select("latitude", "longitude", "t2m").collect()
    (expected,) = messages_in(file)
    found = {(60 - int(row.latitude), int(row.longitude)): row.t2m for row in rows}
    assert len(found) == expected.size
    for place, value in np.ndenumerate(expected):
        assert found[place[0], place[1]] == value or (np.isnan(value) and found[place] is None)
