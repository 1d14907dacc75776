"""Reading a metadata table: planned on the driver, read by executors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.spark.opened import Pinned, open_repository, pin
from frazil.spark.options import ReadOptions
from frazil.spark.place import PlaceText
from frazil.spark.tables.catalog import TABLES, MetadataTable, Part
from frazil.spark.tables.context import TableContext, TableRequest


@dataclass(frozen=True, slots=True)
class TableReading:
    """One table of one version of one repository, asked for in one way."""

    name: str
    pinned: Pinned  # its snapshot is empty if the table is of none
    request: TableRequest

    @property
    def table(self) -> MetadataTable:
        return TABLES[self.name]

    def plan(self) -> Sequence[Part]:
        return self.table.plan(_context(self.pinned, self.request))

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        # A table that is of no snapshot is as it is now: what was opened before is of no use.
        find = _reused_context if self.table.of_snapshot else _context
        return self.table.read(find(self.pinned, self.request), part)


def plan_reading(options: ReadOptions) -> TableReading:
    """Of options that name a table. Opens the repository."""
    name = options.table or ""
    if TABLES[name].of_snapshot:
        pinned = pin(options)
    else:
        place = PlaceText(options.path, options.secret_storage)
        open_repository(place, options.access)  # raises if there is none
        pinned = Pinned(place, "", options.access)
    request = TableRequest(
        group=options.group,
        variables=options.variables,
        as_of_us=options.version.as_of_us,
        start=options.start,
        end=options.end,
        partition_bytes=options.partition_bytes,
        batch_rows=options.batch_rows,
    )
    return TableReading(name, pinned, request)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema, which may be some of the table's, in its order and types."""
    unknown = [name for name in schema.names if name not in batch.schema.names]
    if unknown:
        raise InvalidInputError(
            f"the schema given has {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join(batch.schema.names)}"
        )
    return batch.select(schema.names).cast(schema)


def _context(pinned: Pinned, request: TableRequest) -> TableContext:
    repository = open_repository(pinned.place, pinned.access)
    snapshot = SnapshotId.parse(pinned.snapshot) if pinned.snapshot else None
    return TableContext(repository, snapshot, request)


@lru_cache(maxsize=4)
def _reused_context(pinned: Pinned, request: TableRequest) -> TableContext:
    """A worker's tasks share it, with its cached manifests."""
    return _context(pinned, request)
