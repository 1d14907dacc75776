"""Table functions of SQL, one for each metadata table.

    SELECT * FROM icechunk_history('/data/weather')
    SELECT * FROM icechunk_chunk_refs('s3://bucket/weather', tag => 'v1', variables => 't2m',
                                      storage => map('region', 'eu-central-1'))
    SELECT change, path FROM icechunk_diff('/data/weather', from_version => 'v1')

One task runs a function. Large tables of chunk references are read by many tasks as a view:
`CREATE TEMPORARY VIEW refs USING icechunk OPTIONS (path '..', table 'chunk_refs')`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.spark.runtime.storage_options import PlaceText, with_prefix
from frazil.spark.runtime.workers import limit_gc
from frazil.spark.table.metadata_tables import (
    TABLES,
    MetadataTable,
    Part,
    TableContext,
    TableRequest,
)
from frazil.spark.table.opened import Pinned, open_repository, pin
from frazil.spark.table.options import ReadOptions, parse_options

# Reading a metadata table: planned on the driver, read by executors.


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
    """Plans the read of options that name a table. Opens the repository."""
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


def select_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
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


PREFIX = "icechunk_"
# Arguments by their place; those with a default may be left out or named.
ARGUMENTS = {
    "path": "path",
    "branch": "branch",
    "tag": "tag",
    "snapshot": "snapshot",
    "as_of": "asOf",
    "at_group": "group",  # GROUP and FROM are words of SQL
    "variables": "variables",
    "from_version": "from",
    "to_version": "to",
}


def table_functions() -> Mapping[str, Any]:
    """Table functions to register, by name."""
    return {PREFIX + name: _function(name) for name in TABLES}


def _function(table: str) -> Any:
    class Reads:
        def eval(  # noqa: PLR0917 -- SQL names them
            self,
            path: pa.Array,
            branch: pa.Array = None,
            tag: pa.Array = None,
            snapshot: pa.Array = None,
            as_of: pa.Array = None,
            at_group: pa.Array = None,
            variables: pa.Array = None,
            from_version: pa.Array = None,
            to_version: pa.Array = None,
            storage: pa.Array = None,
        ) -> Iterator[pa.Table]:
            given = (
                path, branch, tag, snapshot, as_of, at_group, variables, from_version, to_version,
            )  # fmt: skip
            yield from read_with_arguments(table, given, storage)

    return arrow_udtf(Reads, returnType=TABLES[table].ddl)


def read_with_arguments(
    table: str, given: tuple[pa.Array | None, ...], storage: pa.Array | None
) -> Iterator[pa.Table]:
    """Reads a table with arguments as Spark passes them: columns of one row."""
    limit_gc()
    values = [None if column is None else column[0].as_py() for column in given]
    told = zip(ARGUMENTS.values(), values, strict=True)
    options = {name: str(value) for name, value in told if value is not None}
    reach = None if storage is None else storage[0].as_py()
    reading = plan_reading(
        parse_options({**options, **with_prefix(dict(reach or {})), "table": table})
    )
    for part in reading.plan():
        for batch in reading.read(part):
            yield pa.Table.from_batches([batch])
