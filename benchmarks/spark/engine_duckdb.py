"""DuckDB on the files of the Parquet table."""

from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.spark.data import Sample
from benchmarks.spark.engine import CORES, RESULT, SCAN, Engine, Work, Written
from benchmarks.spark.queries import Query, stations


class DuckDb(Engine):
    def __init__(self, sample: Sample, scratch: Path) -> None:
        super().__init__(sample, scratch)
        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {CORES}; SET TimeZone = 'UTC'")
        self.connection.register("stations", pa.table(stations()))
        self.cells = f"read_parquet('{sample['parquet']}/*.parquet')"

    def query(self, query: Query) -> Work | None:
        text = query.sql.format(cells=self.cells, stations="stations")
        return (lambda _: self.connection.sql(text).df()) if query.rows else None

    def scan(self) -> Work | None:
        text = SCAN.format(cells=self.cells)

        def work(_: int) -> None:
            batches = self.connection.sql(text).to_arrow_reader(1 << 16)
            assert sum(batch.num_rows for batch in batches) == self.sample.cells

        return work

    def write(self) -> Work | None:
        return self._copy(RESULT, "write")

    def export(self) -> Work | None:
        return self._copy(SCAN, "export")

    def _copy(self, text: str, name: str) -> Work:
        query = text.format(cells=self.cells)

        def work(number: int) -> Written:
            folder = self.scratch / f"{name}-{number}"
            folder.mkdir()
            self.connection.execute(f"COPY ({query}) TO '{folder}/all.parquet' (FORMAT parquet)")
            return Written(folder)

        return work
