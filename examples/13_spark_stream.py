"""A stream of rows becomes commits; docs/spark-streams.md has the way back. With frazil[spark]."""

from tempfile import TemporaryDirectory

import numpy as np
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark


def make_repository(place: str) -> frazil.Repository:
    """Room for four days at three places; nothing in it but coordinates."""
    repo = frazil.Repository.create(frazil.local_filesystem_storage(place))
    with repo.transaction("main", message="an empty grid") as store:
        group = zarr.create_group(store)
        for name, values in {"day": np.arange(4), "x": np.arange(3)}.items():
            group.create_array(name, data=values, chunks=4, dimension_names=[name])
        group.create_array(
            "t", shape=(4, 3), chunks=(1, 3), dtype="f8", fill_value=np.nan,
            dimension_names=["day", "x"],
        )  # fmt: skip
    return repo


def main(spark: SparkSession, folder: str) -> None:
    repo = make_repository(f"{folder}/weather")
    for day in range(2):  # measurements arrive as files of rows
        rows = [(day, x, 280.0 + day + x) for x in range(3)]
        frame = spark.createDataFrame(rows, "day long, x long, t double").coalesce(1)
        frame.write.mode("append").parquet(f"{folder}/arriving")

    arriving = spark.readStream.schema("day long, x long, t double").parquet(f"{folder}/arriving")
    query = (
        arriving.writeStream.format("icechunk")
        .option("path", f"{folder}/weather")
        .option("mode", "region")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    stored = zarr.open_array(repo.readonly_session("main").store, path="t", mode="r")
    print("stored:", np.asarray(stored[:2]).tolist())
    print("commits:", [each.message for each in repo.ancestry(branch="main")][-2:])


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(frazil.spark.session(app_name="example"), made)
