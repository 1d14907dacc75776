"""DataFrames about a repository rather than of what is in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import InvalidInputError
from frazil.spark.opened import RepositoryLike, access_to, place_of
from frazil.spark.options import (
    DEFAULT_PARTITION_BYTES,
    ReadOptions,
    Version,
    format_options,
    parse_options,
)
from frazil.spark.read import make_version
from frazil.spark.register import register_source
from frazil.spark.source import FORMAT
from frazil.spark.tables.catalog import TABLES
from frazil.spark.tables.reading import plan_reading


def read_table(
    spark: SparkSession,
    repository: RepositoryLike,
    table: str,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    from_version: str | None = None,
    to_version: str | None = None,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """A metadata table: history, snapshots, refs, nodes, manifests, chunk_refs, ops_log, diff or
    storage. Those of a version are pinned to it; the others are as they are when they are read.
    """
    if table not in TABLES:
        raise InvalidInputError(f"no table {table!r}; the tables are {', '.join(TABLES)}")
    names = (variables,) if isinstance(variables, str) else variables
    place = place_of(repository, storage)
    asked = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        table=table,
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        version=make_version(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        start=from_version,
        end=to_version,
        access=access_to(repository),
    )
    checked = parse_options(format_options(asked))  # an option that means nothing is an error
    pinned = plan_reading(checked).pinned.snapshot
    if pinned:
        checked = replace(checked, version=Version(snapshot=pinned))
    options = format_options(checked)
    if "partitionBytes" in TABLES[table].takes:
        options["partitionBytes"] = str(partition_bytes)
    register_source(spark)
    return spark.read.format(FORMAT).schema(TABLES[table].ddl).options(**options).load()
