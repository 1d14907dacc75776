"""xarray-sql: DataFusion over xarray and the reference."""

import importlib
from typing import Any

import pandas as pd

from benchmarks.spark.data import open_dataset
from benchmarks.spark.engine import CORES, SCAN, Engine, Work
from benchmarks.spark.queries import Query, stations

# packages that may be missing, also where types are checked
xarray_sql: Any = importlib.import_module("xarray_sql")
datafusion: Any = importlib.import_module("datafusion")


class XarraySql(Engine):
    def _context(self, part: str) -> Any:
        """A context, which has to live as long as its results; partitioned by the chunks."""
        context = xarray_sql.Context(datafusion.SessionConfig().with_target_partitions(CORES))
        context.from_dataset("cells", open_dataset(self.sample[part]))
        context.from_pandas(pd.DataFrame(stations()), "stations")
        return context

    def query(self, query: Query) -> Work | None:
        text = query.sql.format(cells="cells", stations="stations")

        def work(_: int) -> pd.DataFrame:
            context = self._context(query.source)
            rows: pd.DataFrame = context.sql(text).to_pandas()
            return rows

        return work

    def scan(self) -> Work | None:
        def work(_: int) -> None:
            context = self._context("repo")
            batches = context.sql(SCAN.format(cells="cells")).execute_stream()
            assert sum(batch.to_pyarrow().num_rows for batch in batches) == self.sample.cells

        return work
