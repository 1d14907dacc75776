"""A table of 7.8 million rows: all of it aggregated, and a day of it."""

from pathlib import Path

import icechunk
import xarray as xr
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from benchmarks.spark.meter import Meter
from benchmarks.spark.sample import CHUNKS, CORES, ROWS_PER_HOUR, VALUE_BYTES, fields, start_spark
from frazil.spark.read import read

HOURS = 240
ROWS = HOURS * ROWS_PER_HOUR
DAY = "2024-01-06"
DAY_ROWS = 24 * ROWS_PER_HOUR


def prepare(folder: Path) -> None:
    """The repository is written by the reference, so that nobody reads what is its own."""
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "repo")))
    session = repo.writable_session("main")
    encoding = {"t2m": {"chunks": tuple(CHUNKS.values())}}
    fields(0, HOURS).to_zarr(session.store, encoding=encoding, consolidated=False)
    session.commit("sample")
    table = read(start_spark(), folder / "repo")
    table.write.parquet(str(folder / "parquet"))


def _measure(meter: Meter, whole: DataFrame, day: DataFrame) -> None:
    size = ROWS * VALUE_BYTES
    mean = [f.avg("t2m"), f.max("t2m")]
    meter("all, one mean", lambda _: whole.agg(*mean).collect(), rows=ROWS, size_bytes=size)
    grouped = whole.groupBy("lat").agg(*mean)
    meter("all, mean by latitude", lambda _: grouped.collect(), rows=ROWS, size_bytes=size)
    meter(
        "one day of ten, one mean",
        lambda _: day.agg(*mean).collect(),
        rows=DAY_ROWS,
        size_bytes=DAY_ROWS * VALUE_BYTES,
    )


def frazil(folder: Path, meter: Meter) -> None:
    spark, repo = start_spark(), folder / "repo"
    _measure(meter, read(spark, repo), read(spark, repo, sel={"time": DAY}))


def parquet(folder: Path, meter: Meter) -> None:
    whole = start_spark().read.parquet(str(folder / "parquet"))
    _measure(meter, whole, whole.where(f.to_date("time") == DAY))


def with_dask(folder: Path, meter: Meter) -> None:
    def opened() -> xr.DataArray:
        repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder / "repo")))
        store = repo.readonly_session("main").store
        found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks={})
        return found["t2m"]

    def two(values: xr.DataArray, dims: list[str]) -> None:
        xr.Dataset({"mean": values.mean(dims), "max": values.max(dims)}).compute(num_workers=CORES)

    dims = ["time", "lat", "lon"]
    size = ROWS * VALUE_BYTES
    meter("all, one mean", lambda _: two(opened(), dims), rows=ROWS, size_bytes=size)
    meter(
        "all, mean by latitude",
        lambda _: two(opened(), ["time", "lon"]),
        rows=ROWS,
        size_bytes=size,
    )
    meter(
        "one day of ten, one mean",
        lambda _: two(opened().sel(time=DAY), dims),
        rows=DAY_ROWS,
        size_bytes=DAY_ROWS * VALUE_BYTES,
    )


SIDES = {"frazil": frazil, "dask + icechunk": with_dask, "Parquet": parquet}
