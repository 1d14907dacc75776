"""Memory that Spark jobs take on the driver, by chunk.

    python -m benchmarks.driver_memory [COUNT...]

Of each job: the peak of the memory of Python and numpy (tracemalloc) and of Arrow above what was
there before, and the size of what Spark collected, which `spark.driver.maxResultSize` bounds (1 GiB
unless said otherwise). Arrays have chunks of one element, so that the rest is as small as can be.
`df.write` commits in a process of Spark's own: here its commit is run in this one, as Spark runs
it, with rows that tasks have put aside before.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import xarray as xr
import zarr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

import frazil
from frazil.ids import ChunkId
from frazil.spark import ingest, map_blocks, rechunk, reduce, write
from frazil.spark.actions.collection import garbage_collect
from frazil.spark.io.write_options import parse_write_options
from frazil.spark.io.write_sink import RowsWriter
from frazil.spark.pipelines.map_blocks import Output
from frazil.spark.spark_session import session

COUNTS = (1_000, 10_000, 100_000)
LIMIT_BYTES = 1 << 30  # Spark's default for maxResultSize


@dataclass(slots=True)
class Taken:
    python: int = 0
    arrow: int = 0
    collected: int = 0


@contextmanager
def measured(spark: SparkSession) -> Iterator[Taken]:
    taken, frames = Taken(), type(spark.range(1))
    collect = frames.toArrow

    def counting(frame: DataFrame) -> pa.Table:
        table = collect(frame)
        taken.collected += table.nbytes
        taken.arrow = max(taken.arrow, pa.total_allocated_bytes() - before)
        return table

    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    with patch.object(frames, "toArrow", counting):
        yield taken
    taken.python = tracemalloc.get_traced_memory()[1] - start
    tracemalloc.stop()


def create(folder: Path, count: int) -> frazil.Repository:
    """An array of `count` elements in few chunks, none of which are inline."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder)), config)
    writable = repo.writable_session("main")
    zarr.create_group(writable.store)
    array = zarr.create_array(
        writable.store, name="a", shape=(count,), chunks=(count // 100,), dtype="f8",
        dimension_names=["x"],
    )  # fmt: skip
    array[:] = np.arange(count)
    writable.commit("data")
    return repo


def double(values: Any) -> Any:
    return 2 * values


def jobs(spark: SparkSession, folder: Path, count: int) -> dict[str, Callable[[], object]]:
    small = {"x": 1}
    repo = create(folder / "source", count)
    xr.Dataset({"v": ("x", np.arange(count) * 1.0)}).to_netcdf(folder / "f.nc", engine="h5netcdf")
    rows = spark.range(count).selectExpr("id as x", "cast(id as double) as v")
    garbage = create(folder / "garbage", 1000)
    for _ in range(count):
        garbage.engine.store.put(f"chunks/{ChunkId.random()}", b"")
    garbage.engine.store.sync()
    old = datetime.now(UTC) + timedelta(days=1)

    def target(name: str) -> frazil.Repository:
        config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
        return frazil.Repository.create(frazil.local_filesystem_storage(str(folder / name)), config)

    def data_source() -> Callable[[], object]:
        target("data_source")
        named = {"path": str(folder / "data_source"), "dims": "x", "chunks": '{"x": 1}'}
        fields = [StructField("x", LongType()), StructField("v", DoubleType())]
        writer = RowsWriter(parse_write_options(named), StructType(fields))
        columns = {"x": np.arange(count), "v": np.arange(count) * 1.0}
        message = writer.write(iter(pa.table(columns).to_batches(max_chunksize=10_000)))
        return lambda: writer.commit([message])

    return {
        "df.write": data_source(),
        "write": lambda: write(rows, target("write"), dims=["x"], chunks=small),
        "ingest": lambda: ingest(
            spark, [folder / "f.nc"], target("ingest"), concat_dim="x", chunks=small
        ),
        "rechunk": lambda: rechunk(spark, repo, "/a", chunks=small),
        "map_blocks": lambda: map_blocks(
            spark, repo, double, "/a", {"/b": Output(dtype="f8", chunks=small)}
        ),
        "reduce": lambda: reduce(spark, repo, "b", over="x", how="sum", into="/sums"),
        "garbage_collect": lambda: garbage_collect(
            spark, garbage, old, safety_age=timedelta(0), dry_run=False
        ),
    }


def main(*counts: int) -> None:
    spark = session(app_name="driver memory", master="local[2]")
    print("| job | chunks | Python, bytes for each | Arrow | collected | chunks until 1 GiB |")
    print("|---|---|---|---|---|---|")
    for count in counts or COUNTS:
        with TemporaryDirectory(prefix="frazil-driver-") as folder:
            for name, job in jobs(spark, Path(folder), count).items():
                with measured(spark) as taken:
                    try:
                        job()
                    except Exception as error:  # noqa: BLE001 -- the other jobs are measured still
                        print(f"| {name} | {count} | {type(error).__name__}: {error} |"[:200])
                        continue
                parts = [value / count for value in (taken.python, taken.arrow, taken.collected)]
                most = int(LIMIT_BYTES / parts[2]) if parts[2] else 0
                cells = [f"{value:.0f}" for value in parts]
                print(f"| {name} | {count:,} | {' | '.join(cells)} | {most:,} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
