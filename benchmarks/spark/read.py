"""A table of 3.9 million rows: all of it aggregated, and a day of it."""

from pathlib import Path

import icechunk
import xarray as xr
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from benchmarks.spark.meter import Meter
from benchmarks.spark.sample import (
    CHUNKS,
    CORES,
    ROWS_PER_HOUR,
    VALUE_BYTES,
    amount,
    fields,
    start_spark,
)
from frazil.spark.io.read import read
from frazil.spark.pipelines.reduce import reduce

HOURS = amount(120, 72)
ROWS = HOURS * ROWS_PER_HOUR
DAY = "2024-01-03"
ALL, GROUPED, ONE_DAY = "all, one mean", "all, mean by latitude", "one day of five, one mean"
DAY_ROWS = 24 * ROWS_PER_HOUR


def prepare(folder: Path) -> None:
    """Writes the repository with the reference, so that no engine reads its own files."""
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "repo")))
    session = repo.writable_session("main")
    encoding = {"t2m": {"chunks": tuple(CHUNKS.values())}}
    fields(0, HOURS).to_zarr(session.store, encoding=encoding, consolidated=False)
    session.commit("sample")
    table = read(start_spark(), folder / "repo")
    table.write.parquet(str(folder / "parquet"))


def _measure(meter: Meter, whole: DataFrame, day: DataFrame) -> None:
    """Every run is a query of its own: Spark keeps what it shuffled for one that it has seen."""
    mean, size = f.avg("t2m"), ROWS * VALUE_BYTES
    meter(ALL, lambda _: whole.agg(mean).collect(), rows=ROWS, size_bytes=size)
    meter(GROUPED, lambda _: whole.groupBy("lat").agg(mean).collect(), rows=ROWS, size_bytes=size)
    meter(
        ONE_DAY,
        lambda _: day.agg(mean).collect(),
        rows=DAY_ROWS,
        size_bytes=DAY_ROWS * VALUE_BYTES,
    )


def frazil(folder: Path, meter: Meter) -> None:
    spark, repo = start_spark(), folder / "repo"
    _measure(meter, read(spark, repo), read(spark, repo, sel={"time": DAY}))


def parquet(folder: Path, meter: Meter) -> None:
    whole = start_spark().read.parquet(str(folder / "parquet"))
    _measure(meter, whole, whole.where(f.to_date("time") == DAY))


def pipeline(folder: Path, meter: Meter) -> None:
    """No rows: executors reduce chunks. It reads all there is, so it has no day of its own."""
    spark, repo, size = start_spark(), folder / "repo", ROWS * VALUE_BYTES

    def work(over: list[str]) -> None:
        reduce(spark, repo, "t2m", over=over, how="mean").collect()

    meter(ALL, lambda _: work(["time", "lat", "lon"]), rows=ROWS, size_bytes=size)
    meter(GROUPED, lambda _: work(["time", "lon"]), rows=ROWS, size_bytes=size)


def with_dask(folder: Path, meter: Meter) -> None:
    def opened() -> xr.DataArray:
        repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder / "repo")))
        store = repo.readonly_session("main").store
        found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks={})
        return found["t2m"]

    def mean(values: xr.DataArray, dims: list[str]) -> None:
        values.mean(dims).compute(num_workers=CORES)

    dims, size = ["time", "lat", "lon"], ROWS * VALUE_BYTES
    meter(ALL, lambda _: mean(opened(), dims), rows=ROWS, size_bytes=size)
    meter(GROUPED, lambda _: mean(opened(), ["time", "lon"]), rows=ROWS, size_bytes=size)
    meter(
        ONE_DAY,
        lambda _: mean(opened().sel(time=DAY), dims),
        rows=DAY_ROWS,
        size_bytes=DAY_ROWS * VALUE_BYTES,
    )


SIDES = {
    "frazil": frazil,
    "frazil reduce": pipeline,
    "dask + icechunk": with_dask,
    "Parquet": parquet,
}
