"""DataFrames of repositories, with the chunks that a predicate rules out left unread.

    plan = plan_read(repo, where="lat > 40 AND time >= '2024-01-01'", session_zone="UTC")
    print(plan.summary)            read 12 of 480 chunks
    df = plan.load(spark)

`read` does both. A plan is pinned to a snapshot, and so is every DataFrame loaded from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.clock import from_datetime
from frazil.errors import InvalidInputError
from frazil.spark.index_selection import to_index_selection
from frazil.spark.opened import (
    Opened,
    Pinned,
    RepositoryLike,
    access_to,
    open_pinned,
    pin,
    place_of,
)
from frazil.spark.options import (
    DEFAULT_PARTITION_BYTES,
    ReadOptions,
    Version,
    format_options,
    parse_as_of,
)
from frazil.spark.register import register_source
from frazil.spark.scan import Scan, Table, VariableReads, plan_scan, plan_table
from frazil.spark.schema import spark_schema
from frazil.spark.selection import Selection, to_selection
from frazil.spark.source import FORMAT
from frazil.spark.where import coordinates_of, names_in, plan_where

_ZONE = "spark.sql.session.timeZone"
_QUOTES_ARE_NAMES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A load that is decided but not done.

    Spark applies `where` to what is loaded, then keeps the columns `select`; None for all.
    """

    options: ReadOptions  # pinned: its version is a snapshot
    table: Table
    reads: tuple[VariableReads, ...]
    partitions: int
    where: str | None = None
    select: tuple[str, ...] | None = None

    @property
    def chunks_read(self) -> int:
        return sum(one.read for one in self.reads)

    @property
    def chunks_total(self) -> int:
        """Of the variables that are read at all."""
        return sum(one.total for one in self.reads)

    @property
    def summary(self) -> str:
        return f"read {self.chunks_read} of {self.chunks_total} chunks"

    def load(self, spark: SparkSession) -> DataFrame:
        register_source(spark)
        # the schema is known, so Spark need not start a Python process to ask for it
        reader = spark.read.format(FORMAT).schema(spark_schema(self.table.columns))
        frame = reader.options(**format_options(self.options)).load()
        if self.where is not None:
            frame = frame.where(self.where)
        return frame if self.select is None else frame.select(*map(_quoted, self.select))


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
    variables of different dimensions. `where` is a predicate in SQL, of any columns; where it
    bounds coordinates, only the chunks within are read. `storage` says how a location is reached,
    as in frazil.s3_storage. Options as those of `format("icechunk")`; errors are frazil's own.
    """
    require_text_quotes(spark, where or "")
    plan = plan_read(
        repository,
        group=group,
        variables=variables,
        columns=columns,
        dims=dims,
        sel=sel,
        isel=isel,
        where=where,
        version=make_version(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        session_zone=session_zone(spark),
        storage=storage,
    )
    return plan.load(spark)


def plan_read(
    repository: RepositoryLike,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    columns: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    where: str | None = None,
    version: Version | None = None,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    session_zone: str = "UTC",
    storage: Mapping[str, object] | None = None,
) -> ReadPlan:
    """What `read` would load. `session_zone` is Spark's: the zone of times written in `where`."""
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
    if where is None:
        return decide(opened, table, options, Selection())
    select = tuple(c.name for c in table.columns) if columns is not None else None
    if select is not None:
        options = replace(options, columns=_with_names(table, select, where))
        table = plan_table(opened, options)
    pruned = plan_where(where, coordinates_of(table.all_columns), session_zone)
    return replace(decide(opened, table, options, pruned), where=where, select=select)


def _with_names(table: Table, select: Sequence[str], where: str) -> tuple[str, ...]:
    """`select`, and the columns that `where` mentions."""
    mentioned = names_in(where)
    there = (c.name for c in table.all_columns)
    return (*select, *(name for name in there if name.casefold() in mentioned))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def open_options(options: ReadOptions) -> tuple[Opened, ReadOptions]:
    """The version that `options` mean, open, and the same options pinned to it."""
    pinned: Pinned = pin(options)
    return open_pinned(pinned), replace(options, version=Version(snapshot=pinned.snapshot))


def decide(opened: Opened, table: Table, options: ReadOptions, pruned: Selection) -> ReadPlan:
    """The plan of a load with `pruned` on top of the selection of `options`."""
    options = replace(options, selection=options.selection & pruned)
    scan: Scan = plan_scan(opened, table, options)
    return ReadPlan(options, table, scan.reads, len(scan.boxes))


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


def session_zone(spark: SparkSession) -> str:
    return str(spark.conf.get(_ZONE))


def require_text_quotes(spark: SparkSession, sql: str) -> None:
    """Raises if `sql` has double quotes and the session takes them for names.

    Bounds are found by a parser that takes them for text, as Spark does unless told otherwise:
    it would compare a coordinate with the name of another column.
    """
    if '"' in sql and all(spark.conf.get(key) == "true" for key in _QUOTES_ARE_NAMES):
        raise InvalidInputError(
            f"double quotes are names in this session ({_QUOTES_ARE_NAMES[1]}), but text to"
            " frazil: write names in backquotes and text in single quotes"
        )
