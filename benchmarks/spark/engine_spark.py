"""Engines on Spark: frazil's tables and jobs, Parquet, and two sources that show Spark's limits."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import frazil
from benchmarks.spark.data import DIMS, SERIES, TILES, Sample, paths_of
from benchmarks.spark.engine import CORES, RESULT, SCAN, Engine, Work, Written
from benchmarks.spark.queries import Query, stations
from frazil.spark.ingestion.ingest import ingest
from frazil.spark.io.write import write
from frazil.spark.pipelines.export import export
from frazil.spark.pipelines.map_blocks import map_blocks
from frazil.spark.pipelines.rechunk import rechunk
from frazil.spark.pipelines.reduce import reduce
from frazil.spark.spark_session import session

CHUNKS = dict(zip(DIMS, TILES, strict=True))
ORDER = {"lat": "descending"}


class OnSpark(Engine):
    """A session, and the work that is the same for all tables."""

    def __init__(self, sample: Sample, scratch: Path) -> None:
        super().__init__(sample, scratch)
        virtual = json.dumps({f"file://{sample['files']}/": "local"})
        self.spark = session(
            app_name="benchmark",
            master=f"local[{CORES}]",
            config={"spark.sql.catalog.icechunk.authorize": virtual},
        )
        places = self.spark.createDataFrame(pd.DataFrame(stations()))
        places.createOrReplaceTempView("stations")

    def table(self, part: str) -> str:
        """The name of a table in SQL; without it, there are no queries."""
        raise NotImplementedError

    def rows(self, text: str, part: str = "repo") -> DataFrame:
        return self.spark.sql(text.format(cells=self.table(part), stations="stations"))

    def query(self, query: Query) -> Work | None:
        return lambda _: self.rows(query.sql, query.source).toPandas()

    def scan(self) -> Work | None:
        return lambda _: _drop(self.rows(SCAN))

    def export(self) -> Work | None:
        return lambda number: self.to_parquet(self.rows(SCAN), f"export-{number}")

    def to_parquet(self, rows: DataFrame, name: str) -> Written:
        rows.write.parquet(str(self.scratch / name))
        return Written(self.scratch / name)

    def create(self, name: str, files: Path | None = None) -> frazil.Repository:
        """A new repository; it may refer to `files`."""
        config = frazil.RepositoryConfig.default()
        if files:
            prefix = f"file://{files}/"
            store = frazil.local_filesystem_store(prefix)
            config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
        storage = frazil.local_filesystem_storage(str(self.scratch / name))
        return frazil.Repository.create(storage, config)

    def day(self, number: int) -> DataFrame:
        path = self.sample["days"] / f"{number:02d}.parquet"
        return self.spark.read.parquet(str(path)).select(*DIMS, "t2m")

    def all_rows(self) -> DataFrame:
        return self.spark.read.parquet(str(self.sample["parquet"])).select(*DIMS, "t2m")


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


class Frazil(OnSpark):
    """Plain SQL and DataFrames on a repository, through the catalog."""

    def table(self, part: str) -> str:
        return f"icechunk.`{self.sample[part]}`"

    def write(self) -> Work | None:
        return lambda number: self._save(self.rows(RESULT), f"write-{number}")

    def load(self) -> Work | None:
        return lambda number: self._save(self.all_rows(), f"load-{number}")

    def _save(self, rows: DataFrame, name: str) -> Written:
        self.create(name)
        options = {"dims": ",".join(DIMS), "chunks": json.dumps(CHUNKS), "order": json.dumps(ORDER)}
        path = self.scratch / name
        rows.write.format("icechunk").mode("append").options(**options).save(str(path))
        return Written(path)

    def append(self) -> Work | None:
        target = self.scratch / "append"
        shutil.copytree(self.sample["maps"], target)

        def work(number: int) -> Written:
            self.day(number).write.format("icechunk").mode("append").save(str(target))
            return Written(target)

        return work


def to_celsius(values: Any) -> Any:
    return values - np.float32(273.15)


class Jobs(OnSpark):
    """The jobs of `frazil.spark` that work on arrays."""

    def query(self, query: Query) -> Work | None:
        if (arguments := query.reduction) is None:
            return None
        repo: Any = self.sample[query.source]
        run: Any = reduce
        if query.source == "virtual":
            access = {f"file://{self.sample['files']}/": None}
            storage = frazil.local_filesystem_storage(str(repo))
            repo = frazil.Repository.open(storage, authorize_virtual_chunk_access=access)
        return lambda _: run(self.spark, repo, **arguments).toPandas()

    def scan(self) -> Work | None:
        return None

    def write(self) -> Work | None:
        source = self.scratch / "write"
        shutil.copytree(self.sample["repo"], source)

        def work(number: int) -> Written:
            name = f"celsius-{number}"
            map_blocks(self.spark, source, to_celsius, "t2m", {name: "f4"}, progress=False)
            return Written(source, variable=name)

        return work

    def load(self) -> Work | None:
        def work(number: int) -> Written:
            name = f"load-{number}"
            write(self.all_rows(), self.create(name), dims=DIMS, chunks=CHUNKS, order=ORDER)
            return Written(self.scratch / name)

        return work

    def append(self) -> Work | None:
        target = self.scratch / "append"
        shutil.copytree(self.sample["maps"], target)

        def work(number: int) -> Written:
            file = self.sample["days"] / f"{number:02d}.nc"
            ingest(self.spark, file, target, concat_dim="time", mode="append", progress=False)
            return Written(target)

        return work

    def ingest(self) -> Work | None:
        def work(number: int) -> Written:
            repo = self.create(f"ingest-{number}")
            files = self.sample["files"]
            ingest(self.spark, files, repo, concat_dim="time", chunks=CHUNKS, progress=False)
            return Written(self.scratch / f"ingest-{number}")

        return work

    def virtual_ingest(self) -> Work | None:
        return lambda number: self._refer(self.sample["files"], f"virtual-{number}")

    def references(self) -> Work | None:
        def work(number: int) -> None:
            self._refer(self.sample["small_chunks"], f"references-{number}")

        return work

    def _refer(self, files: Path, name: str) -> Written:
        repo, found = self.create(name, files), list(paths_of(files))
        ingest(self.spark, found, repo, concat_dim="time", virtual=True, progress=False)
        return Written(self.scratch / name)

    def rechunk(self) -> Work | None:
        source = self.scratch / "rechunk"
        shutil.copytree(self.sample["maps"], source)
        chunks = dict(zip(DIMS, SERIES, strict=True))

        def work(number: int) -> Written:
            rechunk(self.spark, source, chunks=chunks, into=f"/series-{number}", progress=False)
            return Written(source, f"series-{number}")

        return work

    def export(self) -> Work | None:
        def work(number: int) -> Written:
            target = self.scratch / f"export-{number}"
            repo = self.sample["repo"]
            export(self.spark, repo, target, format="parquet", variables=["t2m"], progress=False)
            return Written(target)

        return work


class Parquet(OnSpark):
    """The same table as Parquet, sorted by time, latitude and longitude."""

    def table(self, part: str) -> str:  # noqa: ARG002 -- there is but one
        return f"parquet.`{self.sample['parquet']}`"

    def query(self, query: Query) -> Work | None:
        return super().query(query) if query.rows else None

    def write(self) -> Work | None:
        return lambda number: self.to_parquet(self.rows(RESULT), f"write-{number}")

    def load(self) -> Work | None:
        return lambda number: self.to_parquet(self.all_rows(), f"load-{number}")

    def append(self) -> Work | None:
        target = self.scratch / "append"
        self.spark.read.parquet(str(self.sample["parquet"])).select(*DIMS, "t2m").write.parquet(
            str(target)
        )

        def work(number: int) -> Written:
            self.day(number).write.mode("append").parquet(str(target))
            return Written(target)

        return work


class ConstantRows(OnSpark):
    """No engine but a limit: rows of constants, as a data source in Python hands them to Spark."""

    def scan(self) -> Work | None:
        self.spark.dataSource.register(ConstantSource)
        source = self.spark.read.format("constant").option("rows", self.sample.cells)
        return lambda _: _drop(source.load())


class Range(OnSpark):
    """No engine but a limit: rows that Spark makes by itself, without any source."""

    def scan(self) -> Work | None:
        rows = self.spark.range(0, self.sample.cells, 1, CORES).selectExpr(
            "timestamp_seconds(id) AS time",
            "CAST(id % 180 AS FLOAT) AS lat",
            "CAST(id % 360 AS FLOAT) AS lon",
            "CAST(id AS FLOAT) AS t2m",
        )
        return lambda _: _drop(rows)


class ConstantSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return "time TIMESTAMP, lat FLOAT, lon FLOAT, t2m FLOAT"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- of PySpark
        return ConstantReader(int(self.options["rows"]))


class ConstantReader(DataSourceReader):
    BATCH_ROWS = 65_536
    PARTITIONS = 8

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number = np.arange(self.BATCH_ROWS)
        values = {name: number.astype(np.float32) for name in ("lat", "lon", "t2m")}
        batch = pa.record_batch({"time": pa.array(number, pa.timestamp("us", tz="UTC")), **values})
        start, stop = (
            self.rows * edge // self.PARTITIONS for edge in (partition.value, partition.value + 1)
        )
        for first in range(start, stop, self.BATCH_ROWS):
            yield batch.slice(0, min(self.BATCH_ROWS, stop - first))
