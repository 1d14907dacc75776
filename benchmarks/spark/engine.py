"""Engines: classes with a method for each workload, each in a process of its own."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import xarray as xr

from benchmarks.spark.data import LAT, LON, Sample, open_dataset
from benchmarks.spark.queries import Query

CORES = 2
SCAN = "SELECT time, lat, lon, t2m FROM {cells}"
RESULT = "SELECT time, lat, lon, CAST(t2m - 273.15 AS FLOAT) AS t2m FROM {cells}"

type Work = Callable[[int], Any]  # by the number of the repetition


@dataclass(slots=True)
class Engine:
    """Methods return the work that is measured, or None if the engine has no way to do it.

    The result of work is what a query returned, or what was written to `scratch`.
    """

    sample: Sample
    scratch: Path

    def query(self, query: Query) -> Work | None:
        raise NotImplementedError

    def scan(self) -> Work | None:
        """Passes all rows of one variable and its coordinates to a sink that keeps nothing."""
        return None

    def write(self) -> Work | None:
        """Writes the result of a computation on the whole table in the engine's own format."""
        return None

    def load(self) -> Work | None:
        """Writes a Parquet table in the engine's own format."""
        return None

    def append(self) -> Work | None:
        """Adds a day to what is there."""
        return None

    def ingest(self) -> Work | None:
        """Copies a hundred files to one array in other chunks."""
        return None

    def virtual_ingest(self) -> Work | None:
        """Refers to the chunks of a hundred files."""
        return None

    def references(self) -> Work | None:
        """Refers to files of ten thousand tiny chunks each."""
        return None

    def rechunk(self) -> Work | None:
        """Rewrites maps as time series."""
        return None

    def export(self) -> Work | None:
        """Writes one variable with its coordinates to Parquet."""
        return None


@dataclass(frozen=True, slots=True)
class Known:
    module: str
    cls: str
    package: str  # without which it cannot run
    only: str = ""  # a workload, if it is there for no other

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def start(self, sample: Sample, scratch: Path) -> Engine:
        module = importlib.import_module(f"benchmarks.spark.{self.module}")
        engine: Engine = getattr(module, self.cls)(sample, scratch)
        return engine


ENGINES = {
    "frazil": Known("engine_spark", "Frazil", "pyspark"),
    "frazil jobs": Known("engine_spark", "Jobs", "pyspark"),
    "Parquet": Known("engine_spark", "Parquet", "pyspark"),
    "dask": Known("engine_dask", "Dask", "dask"),
    "xarray-sql": Known("engine_xarray_sql", "XarraySql", "xarray_sql"),
    "DuckDB": Known("engine_duckdb", "DuckDb", "duckdb"),
    "constant rows": Known("engine_spark", "ConstantRows", "pyspark", only="scan"),
    "range": Known("engine_spark", "Range", "pyspark", only="scan"),
}


class Written(NamedTuple):
    """The place of a result: a folder of Parquet files, or a group of a repository."""

    folder: Path
    group: str = "/"
    variable: str = "t2m"


def as_frame(answer: Any) -> pd.DataFrame:
    """Rows to be compared: those of an answer, or some of what was written."""
    if isinstance(answer, Written):
        return _some_rows(answer)
    if isinstance(answer, xr.Dataset):
        return answer.expand_dims("only").to_dataframe().reset_index().drop(columns="only")
    rows: pd.DataFrame = pd.DataFrame(answer)  # of None, an empty one
    return rows


def _some_rows(written: Written) -> pd.DataFrame:
    """All times at a hundred places, and how many values there are."""
    lat, lon = LAT[::18], LON[::36]
    if list(written.folder.glob("*.parquet")):
        cells = duckdb.read_parquet(f"{written.folder}/*.parquet")
        places = f"lat IN {tuple(lat.tolist())} AND lon IN {tuple(lon.tolist())}"
        chosen: pd.DataFrame = cells.filter(places).select("time", "lat", "lon", "t2m").df()
        return chosen.assign(n=cells.aggregate("count(t2m)").fetchall()[0][0])
    found = open_dataset(written.folder, written.group)[[written.variable]]
    found = found.rename({written.variable: "t2m"})
    rows = found.sel(lat=lat, lon=lon).to_dataframe().reset_index()
    return rows.assign(n=int(found["t2m"].count()))
