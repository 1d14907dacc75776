"""What a client of Spark Connect writes, streams and makes; run by connect_script.py.

Each function gets the session, the folder of a repository of weather, and a folder to write
to; what it found is compared by test_connect.py, which also looks at what is stored.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.spark import (
    clone,
    export,
    ingest,
    map_blocks,
    read,
    read_chunks,
    read_stream,
    rechunk,
    reduce,
    write,
)
from tests.spark.repositories import CHUNKS, SHAPE

type Job = Callable[[SparkSession, str, Path], Any]

DIMS = ["time", "lat", "lon"]
CELLS = [(t, x, t + x) for t in range(6) for x in (0.0, 0.5)]
SCHEMA = "t long, x double, v double"


def new_repository(folder: Path) -> str:
    frazil.Repository.create(frazil.local_filesystem_storage(str(folder)))
    return str(folder)


def rows_by_spark(spark: SparkSession, _: str, folder: Path) -> int:
    path = new_repository(folder)
    options = {"dims": "t,x", "txnAppId": "connect", "txnVersion": "1"}
    writer = spark.createDataFrame(CELLS, SCHEMA).repartition(3).write.format("icechunk")
    for _again in range(2):
        writer.mode("append").options(**options).save(path)
    return read(spark, path).count()


def rows_by_frazil(spark: SparkSession, _: str, folder: Path) -> list[bool]:
    path = new_repository(folder)
    frame = spark.createDataFrame(CELLS, SCHEMA)
    options: dict[str, Any] = {"dims": ["t", "x"], "chunks": {"t": 2}, "txn": ("connect", 1)}
    return [write(frame, path, **options).committed for _again in range(2)]


def rows_that_do_not_fit(spark: SparkSession, _: str, folder: Path) -> str:
    path = new_repository(folder)
    with pytest.raises(InvalidInputError) as caught:
        write(spark.createDataFrame([*CELLS, CELLS[0]], SCHEMA), path, dims=["t", "x"])
    return str(caught.value.kind)


def chunk_rows(spark: SparkSession, weather: str, folder: Path) -> int:
    path = new_repository(folder)
    arrays = {"t2m": {"shape": SHAPE, "chunks": CHUNKS, "dtype": "float32", "dims": DIMS}}
    source = read_chunks(spark, weather, variables="t2m").repartition(3)
    options = {"input": "chunks", "arrays": json.dumps(arrays)}
    source.write.format("icechunk").mode("append").options(**options).save(path)
    return read(spark, path, variables="t2m").count()


def stream_of_rows(spark: SparkSession, _: str, folder: Path) -> list[int]:
    path = new_repository(folder)
    arriving = str(folder) + "-arriving"
    counts = []
    for first in (0, 6):
        spark.createDataFrame(CELLS[first : first + 6], SCHEMA).coalesce(1).write.mode(
            "append"
        ).parquet(arriving)
        query = (
            spark.readStream.schema(SCHEMA)
            .parquet(arriving)
            .writeStream.format("icechunk")
            .options(dims="t,x", checkpointLocation=str(folder) + "-checkpoint")
            .trigger(availableNow=True)
            .start(path)
        )
        query.awaitTermination()
        counts.append(read(spark, path).count())
    return counts


def stream_of_commits(spark: SparkSession, weather: str, folder: Path) -> list[Any]:
    changes = read_stream(spark, weather, variables=["t2m"], changes=True)
    query = (
        changes.writeStream.format("parquet")
        .option("checkpointLocation", str(folder) + "-checkpoint")
        .trigger(availableNow=True)
        .start(str(folder))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(folder))
    kinds = found.select("_change_type").distinct().collect()
    return [found.count(), *(row[0] for row in kinds)]


def files(spark: SparkSession, _: str, folder: Path) -> list[bool]:
    sources = Path(str(folder) + "-files")
    sources.mkdir()
    for day in range(6):
        hours = day * 4 + np.arange(4)
        made = xr.Dataset({"t": ("time", hours * 1.5)}, {"time": ("time", hours)})
        made.to_netcdf(sources / f"{day}.nc", engine="h5netcdf")
    path = new_repository(folder)
    return [
        ingest(
            spark, [str(sources)], path, concat_dim="time", idempotency_key="k", progress=False
        ).committed
        for _again in range(2)
    ]


def copied(weather: str, folder: Path) -> str:
    """A repository to change."""
    shutil.copytree(weather, folder)
    return str(folder)


def rechunked(spark: SparkSession, weather: str, folder: Path) -> bool:
    path = copied(weather, folder)
    chunks = {"time": 48, "lat": 5, "lon": 9}
    return rechunk(spark, path, "/t2m", chunks=chunks, progress=False).committed


def reduced(spark: SparkSession, weather: str, folder: Path) -> list[Any]:
    path = copied(weather, folder)
    arguments: dict[str, Any] = {"over": ["time"], "how": "mean"}
    made = reduce(spark, path, "t2m", into="means", progress=False, **arguments).committed
    return [made, reduce(spark, path, "t2m", **arguments).count()]


def mapped(spark: SparkSession, weather: str, folder: Path) -> bool:
    path = copied(weather, folder)
    # a server that lacks this module gets the function itself
    return map_blocks(
        spark, path, lambda v: v * 2, "t2m", {"twice": "f4"}, progress=False
    ).committed


def exported(spark: SparkSession, weather: str, folder: Path) -> list[Any]:
    folder.mkdir()
    zarr_store = export(spark, weather, folder / "zarr", progress=False)
    rows = export(spark, weather, folder / "rows", format="parquet", variables=["t2m"])
    one = export(spark, weather, folder / "one.nc", format="netcdf", progress=False)
    with pytest.raises(AlreadyExistsError):
        export(spark, weather, folder / "zarr")
    return [zarr_store.objects, rows.objects > 0, one.objects]


def cloned(spark: SparkSession, weather: str, folder: Path) -> int:
    clone(spark, weather, folder, progress=False)
    return read(spark, str(folder), variables="t2m").count()


def a_failing_function(spark: SparkSession, weather: str, folder: Path) -> bool:
    path = copied(weather, folder)
    with pytest.raises(InvalidInputError, match="shape"):
        map_blocks(spark, path, lambda v: v[0], "t2m", {"none": "f4"}, progress=False)
    return True


# A write and an error are for CI, the others for the long suite.
SOME: tuple[Job, ...] = (
    rows_by_spark,
    rows_that_do_not_fit,
)
OTHERS: tuple[Job, ...] = (
    rows_by_frazil,
    stream_of_rows,
    rechunked,
    chunk_rows,
    stream_of_commits,
    files,
    reduced,
    mapped,
    exported,
    cloned,
    a_failing_function,
)
