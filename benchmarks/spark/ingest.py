"""Ten compressed NetCDF files, a day each, to one array in other chunks, as one commit.

Beside it the way without frazil (xarray, dask and the reference on the same cores), and what the
same table costs Spark if it is Parquet, read and written again.
"""

from pathlib import Path

import dask
import icechunk
import xarray as xr
from icechunk.xarray import to_icechunk

from benchmarks.spark.meter import Meter
from benchmarks.spark.sample import (
    CHUNKS,
    CORES,
    ROWS_PER_HOUR,
    VALUE_BYTES,
    amount,
    create_repository,
    fields,
    start_spark,
)
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.io.read import read

FILES = amount(10, 2)
HOURS = 24 * FILES
ROWS = HOURS * ROWS_PER_HOUR
SIZE_BYTES = ROWS * VALUE_BYTES
PHASE = f"{FILES} files"


def prepare(folder: Path) -> None:
    (folder / "files").mkdir()
    for number in range(FILES):
        encoding = {"t2m": {"zlib": True, "complevel": 1, "chunksizes": (1, 180, 180)}}
        path = folder / "files" / f"{number:02d}.nc"
        fields(24 * number, 24).to_netcdf(path, engine="h5netcdf", encoding=encoding)
    spark, repo = start_spark(), create_repository(folder / "source")
    ingest(spark, [folder / "files"], repo, concat_dim="time", chunks=CHUNKS)
    read(spark, repo).write.parquet(str(folder / "parquet"))


def frazil(folder: Path, meter: Meter) -> None:
    spark = start_spark()

    def work(number: int) -> None:
        repo = create_repository(folder / f"frazil-{number}")
        ingest(spark, [folder / "files"], repo, concat_dim="time", chunks=CHUNKS)

    meter(PHASE, work, rows=ROWS, size_bytes=SIZE_BYTES)


def with_dask(folder: Path, meter: Meter) -> None:
    def work(number: int) -> None:
        storage = icechunk.local_filesystem_storage(str(folder / f"dask-{number}"))
        session = icechunk.Repository.create(storage).writable_session("main")
        files = sorted((folder / "files").glob("*.nc"))
        with (
            dask.config.set(scheduler="threads", num_workers=CORES),
            xr.open_mfdataset(files, engine="h5netcdf", chunks={"time": 24}) as found,
        ):
            found.t2m.encoding = {}
            encoding = {"t2m": {"chunks": tuple(CHUNKS.values())}}
            to_icechunk(found.chunk(time=24, lat=180, lon=180), session, encoding=encoding)
        session.commit("files")

    meter(PHASE, work, rows=ROWS, size_bytes=SIZE_BYTES)


def parquet(folder: Path, meter: Meter) -> None:
    rows = start_spark().read.parquet(str(folder / "parquet"))
    meter(
        PHASE,
        lambda number: rows.write.parquet(str(folder / f"parquet-{number}")),
        rows=ROWS,
        size_bytes=SIZE_BYTES,
    )


SIDES = {"frazil": frazil, "dask + icechunk": with_dask, "Parquet": parquet}
