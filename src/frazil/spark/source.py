"""The data source `icechunk`: `spark.read.format("icechunk")`.

The snapshot is pinned when a DataFrame is made, and stays. There is no `pushFilters`: with it,
PySpark 4.3 gives wrong results as soon as a DataFrame is used twice (SPARK.md §1.2). What to
leave out is said by the options `sel` and `columns`; `frazil.spark.read` and `frazil.spark.sql`
find it out from predicates.
"""

from collections.abc import Iterator
from typing import override

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.opened import Opened, Pinned, open_pinned, pin, reuse_pinned
from frazil.spark.options import ReadOptions, parse_options
from frazil.spark.plan import Box
from frazil.spark.scan import Scan, Table, plan_scan, plan_table, read_box
from frazil.spark.schema import spark_schema
from frazil.spark.workers import tame_gc

FORMAT = "icechunk"


class IcechunkSource(DataSource):
    """Spark makes one for each `load()`, and pickles it after `schema()`."""

    _pinned: Pinned | None = None

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> StructType:
        options = parse_options(self.options)
        return spark_schema(plan_table(open_pinned(self._pin(options)), options).columns)

    @override
    def reader(self, schema: StructType) -> "IcechunkReader":
        options = parse_options(self.options)
        pinned = self._pin(options)
        opened = open_pinned(pinned)
        table = _with_schema(plan_table(opened, options), schema)
        return IcechunkReader(pinned, plan_scan(opened, table, options), schema)

    def _pin(self, options: ReadOptions) -> Pinned:
        # also from reader(): with a schema given by the user, Spark never calls schema()
        if self._pinned is None:
            self._pinned = pin(options)
        return self._pinned


class IcechunkReader(DataSourceReader):
    """Planned on the driver; `read` runs on executors."""

    def __init__(self, pinned: Pinned, scan: Scan, schema: StructType) -> None:
        self.pinned = pinned
        self.scan = scan
        self.schema = schema

    @override
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(box) for box in self.scan.boxes]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        box: Box | None = partition.value
        if box is None:  # Spark's stand-in for an empty list of partitions
            return
        tame_gc()
        schema = to_arrow_schema(self.schema, timezone="UTC")
        yield from read_box(self.open(), self.scan, box, schema)

    def open(self) -> Opened:
        return reuse_pinned(self.pinned)


def _with_schema(table: Table, schema: StructType) -> Table:
    """The columns of a schema that the user may have given: some of the table's, in any order."""
    by_name = {column.name: column for column in table.all_columns}
    unknown = [name for name in schema.names if name not in by_name]
    if unknown:
        raise InvalidInputError(
            f"the schema given has {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join(by_name)}"
        )
    columns = tuple(by_name[name] for name in schema.names)
    for given, own in zip(schema, spark_schema(columns), strict=True):
        if given.dataType != own.dataType:
            raise InvalidInputError(
                f"column {given.name!r} is {own.dataType.simpleString()},"
                f" the schema given says {given.dataType.simpleString()}"
            )
    return Table(table.grid, table.all_columns, columns)
