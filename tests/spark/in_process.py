"""A reader whose executor is the test's own process, over a store that counts."""

from typing import override

import pyarrow as pa

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.objectstore.wrappers import Counting
from frazil.spark.io.data_source import IcechunkReader
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.table.opened import Opened, Pinned
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan import Scan, plan_axes, plan_scan, plan_table
from frazil.spark.table.schema import arrow_schema, spark_schema


class InProcessReader(IcechunkReader):
    def __init__(self, opened: Opened, scan: Scan) -> None:
        super().__init__(Pinned(PlaceText(""), ""), (scan,), spark_schema(scan.table.columns))
        self.opened = opened

    @override
    def open(self) -> Opened:
        return self.opened

    def table(self) -> pa.Table:
        batches = [batch for part in self.partitions() for batch in self.read(part)]
        return pa.Table.from_batches(batches, arrow_schema(self.schema))


def counted(path: str, options: ReadOptions) -> tuple[Counting, InProcessReader]:
    store = Counting(LocalStore(path))
    opened = Opened(Repository.open(store).readonly_session(Branch("main")))
    table = plan_table(opened, options)
    scan = plan_scan(table, plan_axes(opened, table, options), options)
    reader = InProcessReader(opened, scan)
    return store, reader
