"""DataFrames of repositories, with the chunks that nothing selects left unread.

    plan = plan_read(repo, sel={"lat": slice(40, 50)})
    print(plan.summary)            read 12 of 480 chunks
    df = plan.load(spark)          and df.where(...) leaves more of them unread

`read` does all of it. A plan is pinned to a snapshot, and so is every DataFrame loaded from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.clock import from_datetime
from frazil.errors import InvalidInputError
from frazil.spark.io.change_reader import parse_changes
from frazil.spark.io.chunk_scan import chunk_schema, plan_chunk_scan
from frazil.spark.io.data_source import FORMAT, register_source
from frazil.spark.io.metadata_functions import plan_reading
from frazil.spark.io.stream_reader import parse_stream
from frazil.spark.native.install import install_native
from frazil.spark.table.metadata_tables import TABLES
from frazil.spark.table.opened import (
    Opened,
    Pinned,
    RepositoryLike,
    access_to,
    open_pinned,
    pin,
    place_of,
)
from frazil.spark.table.options import (
    DEFAULT_PARTITION_BYTES,
    ChunkData,
    Mode,
    ReadOptions,
    Version,
    format_options,
    parse_as_of,
    parse_options,
)
from frazil.spark.table.scan import Scan, Table, VariableReads, plan_axes, plan_scan, plan_table
from frazil.spark.table.schema import quote_name, spark_schema
from frazil.spark.table.selection import to_index_selection, to_selection


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A load that is decided but not done: what the options select, before any predicate."""

    options: ReadOptions  # pinned: its version is a snapshot
    table: Table
    reads: tuple[VariableReads, ...]
    partitions: int

    @property
    def chunks_read(self) -> int:
        return sum(one.read for one in self.reads)

    @property
    def chunks_total(self) -> int:
        """Chunks of all variables that are read."""
        return sum(one.total for one in self.reads)

    @property
    def summary(self) -> str:
        return f"read {self.chunks_read} of {self.chunks_total} chunks"

    def load(self, spark: SparkSession) -> DataFrame:
        register_source(spark)
        install_native(spark)
        # the schema is known, so Spark need not start a Python process to ask for it
        reader = spark.read.format(FORMAT).schema(spark_schema(self.table.columns))
        return reader.options(**format_options(self.options)).load()


def read(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    columns: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    where: str | None = None,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """A table of a group: a row per element, a column per dimension and per variable.

    `sel` picks values of coordinates: a value, a list, or a slice with both ends included, as in
    xarray; `isel` picks positions likewise, without the end of a slice. `dims` chooses among
    variables of different dimensions. `where` is a predicate in Spark's SQL, of any columns:
    short for `.where(...)` on the result. `storage` says how a location is reached,
    as in frazil.s3_storage. Options as those of `format("icechunk")`; errors are frazil's own.
    """
    plan = plan_read(
        repository,
        group=group,
        variables=variables,
        columns=columns,
        dims=dims,
        sel=sel,
        isel=isel,
        version=make_version(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        storage=storage,
    )
    if where is None:
        return plan.load(spark)
    # the predicate may be of columns that are not asked for; Spark reads only what is used
    wide = replace(plan.table, columns=plan.table.all_columns)
    whole = replace(plan, options=replace(plan.options, columns=None), table=wide)
    frame = whole.load(spark).where(where)
    return frame.select(*(quote_name(column.name) for column in plan.table.columns))


def plan_read(
    repository: RepositoryLike,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    columns: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    version: Version | None = None,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> ReadPlan:
    """Plans what `read` would load; needs no Spark. Predicates prune when Spark plans: its own
    EXPLAIN tells how many chunks are left, and so does `plan_sql`.
    """
    names = (variables,) if isinstance(variables, str) else variables
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        columns=None if columns is None else tuple(columns),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        version=version or Version(),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        access=access_to(repository),
    )
    opened, options = open_options(options)
    table = plan_table(opened, options)
    scan: Scan = plan_scan(table, plan_axes(opened, table, options), options)
    return ReadPlan(options, table, scan.reads, len(scan.boxes))


def open_options(options: ReadOptions) -> tuple[Opened, ReadOptions]:
    """The version that `options` mean, open, and the same options pinned to it."""
    pinned: Pinned = pin(options)
    return open_pinned(pinned), replace(options, version=Version(snapshot=pinned.snapshot))


def make_version(
    *,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
) -> Version:
    match as_of:
        case None:
            micros = None
        case str():
            micros = parse_as_of(as_of)
        case datetime():
            micros = from_datetime(as_of if as_of.tzinfo else as_of.replace(tzinfo=UTC))
    return Version(branch=branch, tag=tag, snapshot=snapshot, as_of_us=micros)


# DataFrames with a row per chunk.


def read_chunks(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    data: str = ChunkData.DECODED,
    include_missing: bool = False,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """A row per chunk of the arrays in a group: array, chunk, offset, shape, dtype, kind, data.

    `data` is "decoded" (bytes of the values), "encoded" (bytes as they are stored) or "values"
    (lists). Selections pick whole chunks.
    """
    names = (variables,) if isinstance(variables, str) else variables
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        mode=Mode.CHUNKS,
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        chunk_data=ChunkData(data),
        include_missing=include_missing,
        version=make_version(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        partition_bytes=partition_bytes,
        access=access_to(repository),
    )
    opened, options = open_options(options)
    schema = chunk_schema(plan_chunk_scan(opened, options))
    register_source(spark)
    return spark.read.format(FORMAT).schema(schema).options(**format_options(options)).load()


# Streaming DataFrames of what the commits of a branch change.


def read_stream(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    mode: str = Mode.ROWS,
    changes: bool = True,
    start_from: str | None = None,
    starting_snapshot: str | None = None,
    starting_timestamp: datetime | str | None = None,
    max_commits_per_trigger: int | None = None,
    on_rewrite: str | None = None,
    on_removal: str | None = None,
    branch: str | None = None,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    columns: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    data: str = ChunkData.DECODED,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Rows, or chunks, of each commit of a branch, with the columns that say what changed when.

    Options as those of `spark.readStream.format("icechunk")`; the rest as in `read` and
    `read_chunks`. What is wrong is found out at once, and by the executors' errors later.
    """
    names = (variables,) if isinstance(variables, str) else variables
    if mode not in set(Mode):
        raise InvalidInputError(f"mode is {mode!r}, expected 'rows' or 'chunks'")
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        mode=Mode(mode),
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        columns=None if columns is None else tuple(columns),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        version=Version(branch=branch),
        chunk_data=ChunkData(data),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        access=access_to(repository),
    )
    given = {
        "changes": "true" if changes else None,
        "startFrom": start_from,
        "startingSnapshot": starting_snapshot,
        "startingTimestamp": _iso(starting_timestamp),
        "maxCommitsPerTrigger": max_commits_per_trigger,
        "onRewrite": on_rewrite,
        "onRemoval": on_removal,
    }
    said = {name: str(value) for name, value in given.items() if value is not None}
    told = {**format_options(options), **said}
    parse_stream(told)
    register_source(spark)
    return spark.readStream.format(FORMAT).options(**told).load()


def _iso(when: datetime | str | None) -> str | None:
    if not isinstance(when, datetime):
        return when
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_changes(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    from_version: str | None = None,
    to_version: str | None = None,
    net: bool = False,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Changes of the rows of a table by the commits after `from_version` up to `to_version`.

    Versions are branches, tags or snapshots; by default all of `main`. With `net`, only what
    differs between both. The columns `_change_type`, `_commit_version` and `_commit_timestamp`
    come last.
    """
    names = (variables,) if isinstance(variables, str) else variables
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        access=access_to(repository),
        start=from_version,
        end=to_version,
    )
    told = {**format_options(options), "changes": "true", "net": str(net).lower()}
    found = parse_changes(told).range
    told |= {"from": str(found.start), "to": str(found.end)}
    register_source(spark)
    install_native(spark)
    return spark.read.format(FORMAT).options(**told).load()


# DataFrames about a repository rather than of what is in it.


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
