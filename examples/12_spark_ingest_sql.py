"""Files become one commit on Spark; SQL reads the chunks it needs. With frazil[spark,ingest]."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark


def make_files(folder: Path) -> None:
    """Three days of hours, a NetCDF file each."""
    for day in range(3):
        hours = 24 * day + np.arange(24)
        t2m = 280 + hours[:, None] / 10 + np.zeros((24, 4))
        xr.Dataset(
            {"t2m": (("time", "lat"), t2m.astype("f4"), {"units": "K"})},
            coords={
                "time": ("time", hours, {"units": "hours since 2024-03-01"}),
                "lat": [30.0, 40.0, 50.0, 60.0],
            },
        ).to_netcdf(folder / f"day{day}.nc", engine="h5netcdf")


def main(spark: SparkSession, folder: str) -> None:
    make_files(Path(folder))
    repo = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/weather"))
    done = frazil.spark.ingest(
        spark, f"{folder}/day*.nc", repo, concat_dim="time", chunks={"time": 24, "lat": 2}
    )
    print("one commit:", done.files, "files,", done.chunks, "chunks")

    query = "SELECT avg(t2m) AS t FROM weather WHERE time >= '2024-03-03' AND lat > 45"
    plan = frazil.spark.plan_sql(spark, query, {"weather": repo})
    print(plan.summary)
    mean = plan.run(spark).collect()[0]["t"]
    print("mean:", round(float(mean), 2))

    # A DataFrame like any other: joins, windows, pandas, Parquet.
    warm = frazil.spark.read(spark, repo, sel={"lat": slice(40, 50)}).where("t2m > 287")
    print("warm rows:", warm.count())


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(frazil.spark.session(app_name="example"), made)
