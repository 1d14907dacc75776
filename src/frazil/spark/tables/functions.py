"""Table functions of SQL, one for each metadata table.

    SELECT * FROM icechunk_history('/data/weather')
    SELECT * FROM icechunk_chunk_refs('s3://bucket/weather', tag => 'v1', variables => 't2m',
                                      storage => map('region', 'eu-central-1'))
    SELECT change, path FROM icechunk_diff('/data/weather', from_version => 'v1')

One task runs a function. Large tables of chunk references are read by many tasks as a view:
`CREATE TEMPORARY VIEW refs USING icechunk OPTIONS (path '..', table 'chunk_refs')`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf

from frazil.spark.options import parse_options
from frazil.spark.storage_options import with_prefix
from frazil.spark.tables.catalog import TABLES
from frazil.spark.tables.reading import plan_reading
from frazil.spark.workers import tame_gc

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
    """To be registered, by name."""
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
    """Of arguments as Spark hands them over: columns of one row."""
    tame_gc()
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
