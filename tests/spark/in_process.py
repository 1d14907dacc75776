"""A reader whose executor is the test's own process, over a store that counts."""

from typing import override

import pyarrow as pa

from frazil.objectstore.local import LocalStore
from frazil.objectstore.wrappers import Counting
from frazil.repo.repository import Repository
from frazil.repo.version import Branch
from frazil.spark.arrow_schema import arrow_schema
from frazil.spark.opened import Opened, Pinned
from frazil.spark.options import ReadOptions
from frazil.spark.place import PlaceText
from frazil.spark.scan import Scan, plan_scan, plan_table
from frazil.spark.schema import spark_schema
from frazil.spark.source import IcechunkReader


class InProcessReader(IcechunkReader):
    def __init__(self, opened: Opened, scan: Scan) -> None:
        super().__init__(Pinned(PlaceText(""), ""), scan, spark_schema(scan.table.columns))
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
    reader = InProcessReader(opened, plan_scan(opened, plan_table(opened, options), options))
    return store, reader
