"""SQL over repositories, by the names that a call gives them.

    sql(spark, "SELECT avg(t2m) FROM weather WHERE lat > 40", {"weather": "/data/weather"})

In a query

    weather                          is the root group, or the group its table was given
    weather.`surface/hourly`         is a group in it; weather.surface.hourly is the same
    weather.`surface/t2m`            is one array of a group
    weather VERSION AS OF 'v1'       is a tag, a branch or a snapshot id
    weather TIMESTAMP AS OF '2024-03-01 06:00:00'

Other names are Spark's own tables and views. Spark parses the query: a name that it does not find
it reports with its position, and there the name gets a catalog in front, in which Spark finds the
table of the repository. So nothing about the session changes, and threads do not see each other's
names.
"""

import hashlib
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, SessionStateError
from frazil.spark.io.data_source import FORMAT, register_source
from frazil.spark.io.read import make_version, open_options
from frazil.spark.native.answers import node_path
from frazil.spark.native.install import install_native
from frazil.spark.runtime.access import AccessText
from frazil.spark.runtime.workers import errors_carried
from frazil.spark.table.opened import Opened, RepositoryLike, access_to, place_of
from frazil.spark.table.options import ReadOptions, Version, format_options
from frazil.spark.table.schema import quote_name
from frazil.spark.table.selection import to_index_selection, to_selection

type TableSpec = RepositoryLike | Mapping[str, object]

_CATALOG = "frazil.spark.QueryCatalog"
_SALT = secrets.token_bytes(16)  # names of catalogs are digests of what may have secrets
# Comments, too. Once passed over for good (`*+`): there are many ways to read many of them.
_BLANK = r"(?:\s|--.*\n|/\*(?s:.*?)\*/)*+"
_EXPLAIN = re.compile(
    rf"{_BLANK}EXPLAIN\b(?:{_BLANK}(?:EXTENDED|CODEGEN|COST|FORMATTED)\b)?", re.IGNORECASE
)
_DESCRIBE = "DESCRIBE QUERY "  # analyses a query without running it


def sql(spark: SparkSession, query: str, tables: Mapping[str, TableSpec]) -> DataFrame:
    """The result of `query`, in Spark's SQL. EXPLAIN may come before it.

    A table is a repository or its path, or a mapping with `path` and what else `read` takes:
    group, variables, dims, sel, isel, branch, tag, snapshot, as_of, storage. It is pinned to the
    snapshot that it has now.
    """
    options = parse_tables(tables)
    register_source(spark)
    if not install_native(spark):
        return _sql_of_views(spark, query, options)
    explain, text = split_explain(query)
    names = _Names(spark, options)
    names.require_free(query)
    with names.named():
        if explain and text.strip():
            return spark.sql(explain + names.analyse(_DESCRIBE, text)[0])
        return names.analyse("", query)[1]


def split_explain(query: str) -> tuple[str, str]:
    """EXPLAIN with its mode, if the query begins so, and the rest."""
    found = _EXPLAIN.match(query)
    end = 0 if found is None else found.end()
    return query[:end], query[end:]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan of a table in Spark's plan: what is read, and what there is."""

    table: str
    chunks_read: int
    chunks_total: int
    rows_read: int
    rows_total: int

    @property
    def summary(self) -> str:
        chunks = f"{self.chunks_read} of {self.chunks_total} chunks"
        return f"{self.table}: read {chunks}, {self.rows_read} of {self.rows_total} rows"


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """A query that Spark has planned but not run. `text` names tables in a catalog of this session.

    `plan` is Spark's own description.
    """

    text: str
    plan: str
    scans: tuple[ScanPlan, ...]

    @property
    def chunks_read(self) -> int:
        return sum(one.chunks_read for one in self.scans)

    @property
    def chunks_total(self) -> int:
        return sum(one.chunks_total for one in self.scans)

    @property
    def summary(self) -> str:
        """One line per scan: chunks read of chunks there are."""
        return "\n".join(one.summary for one in self.scans)

    def run(self, spark: SparkSession) -> DataFrame:
        return spark.sql(self.text)

    @classmethod
    def of(cls, spark: SparkSession, text: str) -> Self:
        """The plan of a query whose names Spark finds. Raises what is wrong with it."""
        spark.sql(_DESCRIBE + text)  # an EXPLAIN has errors as its result
        plan = str(spark.sql(f"EXPLAIN {text}").collect()[0][0])
        return cls(text, plan, tuple(find_scans(plan)))


def plan_sql(spark: SparkSession, query: str, tables: Mapping[str, TableSpec]) -> SqlPlan:
    """Plans what `sql` would read, by Spark's own planning."""
    options = parse_tables(tables)
    register_source(spark)
    if not install_native(spark):
        raise SessionStateError("this Spark has no native table of frazil, and plans no chunks")
    names = _Names(spark, options)
    names.require_free(query)
    with names.named():
        text, _ = names.analyse(_DESCRIBE, split_explain(query)[1])
        return SqlPlan.of(spark, text)


_SCAN = re.compile(
    rf"BatchScan (?P<table>.*?)\[.*?\] {FORMAT} .*? at [0-9A-Z]{{20}},"
    r" chunks: (?P<chunks_read>\d+) of (?P<chunks_total>\d+),"
    r" rows: (?P<rows_read>\d+) of (?P<rows_total>\d+)"
)


def find_scans(plan: str) -> Iterator[ScanPlan]:
    """The scans of frazil's tables in the text of a physical plan."""
    for found in _SCAN.finditer(plan):
        table, *counts = found.groups()
        yield ScanPlan(table, *map(int, counts))


def query_catalog(
    spark: SparkSession, options: Mapping[str, ReadOptions], query: str, below: Sequence[str] = ()
) -> str:
    """Makes a catalog with these tables, pinned, and returns its name; it stays with the session.

    `below` are parts of a name after that of a table: see `_choose_variables`. Its settings, which
    may have secrets, are gone before any query runs: Spark writes the settings of a session into
    the events of each job as they are.
    """
    told = json.dumps(_pinned_tables(options, query, below), sort_keys=True)
    digest = hashlib.blake2b(told.encode(), key=_SALT, digest_size=8).hexdigest()
    name = f"frazil_{digest}"
    with _settings(spark, name, {"": _CATALOG, ".secretTables": told}):
        spark.sql(f"SHOW TABLES IN {name}")  # loads it, and needs no job
    return name


@contextmanager
def current_catalog(
    spark: SparkSession, tables: Mapping[str, TableSpec], query: str
) -> Iterator[str]:
    """Makes a catalog of these tables the current one, so that SHOW and DESCRIBE know them, too.

    Gives the name of the catalog. Errors of frazil are raised as what they are.
    """
    with errors_carried():
        name = query_catalog(spark, parse_tables(tables), query)
        before = spark.catalog.currentCatalog()
        spark.catalog.setCurrentCatalog(name)
        try:
            yield name
        finally:
            spark.catalog.setCurrentCatalog(before)


def group_tables(session: Session, root: Mapping[str, str]) -> dict[str, str]:
    """Names of tables and the groups they stand for: those of `root`, then those of all groups
    below the root of the repository that have arrays. `a_b` is /a/b.
    """
    names = {name: group for name, group in root.items() if name}
    parents = {node.path.parent for node in session.nodes() if node.array is not None}
    for path in sorted(parent.text for parent in parents if parent is not None and parent.name):
        names.setdefault("_".join(path.strip("/").split("/")), path)
    return names


def times_as_text(frame: DataFrame) -> DataFrame:
    """The frame with times as ISO text in UTC: Python has no years before 1 or after 9999."""
    if not {kind for _, kind in frame.dtypes} & _TIMES:
        return frame
    return _with_columns(frame, lambda name, kind: _time_text(name) if kind in _TIMES else name)


def cells_as_text(frame: DataFrame, longest: int) -> DataFrame:
    """The frame with everything but numbers and booleans as text of at most `longest` letters."""

    def text(name: str, kind: str) -> str:
        if kind in _TIMES:
            return _time_text(name)
        if kind.partition("(")[0] in NUMBERS or kind == "boolean":
            return name
        shown = f"hex({name})" if kind == "binary" else f"cast({name} as string)"
        return f"left({shown}, {longest})"

    return _with_columns(frame, text)


_TIMES = {"timestamp", "timestamp_ntz", "date"}
NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}  # Spark's types


def shortest_digits(value: object, kind: str) -> object:
    """A value of a column as Python has it, but FLOAT without digits that it does not have: 0.1
    rather than 0.10000000149011612, the nearest DOUBLE.
    """
    if kind == "float" and isinstance(value, float):
        return float(str(np.float32(value)))
    return value


def _time_text(name: str) -> str:
    return f"replace(cast({name} as string), ' ', 'T')"


def _with_columns(frame: DataFrame, make: Callable[[str, str], str]) -> DataFrame:
    """The frame with an expression for each column, made of its name and type."""
    kinds = [kind for _, kind in frame.dtypes]
    names = [f"_{number}" for number in range(len(kinds))]  # names may repeat
    expressions = map(make, names, kinds)
    return frame.toDF(*names).selectExpr(*expressions).toDF(*frame.columns)


@contextmanager
def _settings(spark: SparkSession, catalog: str, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of a catalog, until Spark has loaded it."""
    keys = {f"spark.sql.catalog.{catalog}{key}": value for key, value in values.items()}
    try:
        for key, value in keys.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


def _pinned_tables(
    options: Mapping[str, ReadOptions], query: str, below: Sequence[str]
) -> dict[str, Any]:
    """The setting of the catalog, as QueryCatalog.java has it."""
    versions: dict[tuple[object, ...], Opened] = {}
    tables = {}
    for name, one in options.items():
        key = (one.path, one.secret_storage, one.access, one.version)
        if key not in versions:
            versions[key] = open_options(one)[0]
        opened = versions[key]
        chosen = _choose_variables(opened, one, query, below) if _mentions(query, name) else one
        branch = one.version.branch
        tables[name] = {
            "options": format_options(replace(chosen, version=Version())),
            "pinned": {"snapshot": str(opened.session.snapshot_id)},
            "branch": {} if branch is None else {"branch": branch},
        }
    return tables


def _choose_variables(
    opened: Opened, options: ReadOptions, query: str, below: Sequence[str]
) -> ReadOptions:
    """Chooses the variables that the query mentions, in a group of arrays of several grids."""
    path = node_path(options.group, below)
    node = opened.session.find_node(path)
    if options.variables is not None or options.dims is not None or node is None or node.array:
        return options
    arrays = [a for a in opened.describe(str(path)).arrays.values() if not a.is_coordinate]
    if len({frozenset(array.dims) for array in arrays}) <= 1:
        return options
    used = tuple(array.name for array in arrays if _mentions(query, array.name))
    return replace(options, variables=used) if used else options


def _mentions(query: str, name: str) -> bool:
    """True if the name is a word of the query; whether it is a column there, Spark finds out."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query, re.IGNORECASE) is not None


class _Names:
    """Names that a call gives to tables, and the catalogs that have been made for them."""

    def __init__(self, spark: SparkSession, options: Mapping[str, ReadOptions]) -> None:
        self._spark = spark
        self._options = {name.casefold(): (name, one) for name, one in options.items()}
        self._catalogs: dict[tuple[str, ...], str] = {}
        self._beginnings = set[str]()
        self._exits = ExitStack()

    @contextmanager
    def named(self) -> Iterator[None]:
        """While catalogs are made, and Spark complains about names it does not find."""
        with self._exits, errors_carried(), _unlogged():
            yield

    def require_free(self, query: str) -> None:
        """Spark finds its own tables and views first: one that is meant to be another is none."""
        for name, _ in self._options.values():
            if _mentions(query, name) and self._spark.catalog.tableExists(quote_name(name)):
                raise InvalidInputError(
                    f"{name!r} is a table or view of this Spark session, too: give another name"
                )

    def analyse(self, prefix: str, text: str) -> tuple[str, DataFrame]:
        """The text with catalogs in front of names, and what Spark makes of prefix and text."""
        while True:
            try:
                return text, self._spark.sql(prefix + text)
            except AnalysisException as error:
                parts = _find_name(error)
                if not parts or parts[0].casefold() not in self._options:
                    raise
                place = _find_place(error, prefix + text, parts[0])
                if place is None:
                    self._begin(parts[0], error)
                    continue
                start, stop = (at - len(prefix) for at in place)
                name = ".".join(map(quote_name, (self._catalog(text, tuple(parts)), *parts)))
                text = text[:start] + name + text[stop:]

    def _catalog(self, query: str, parts: tuple[str, ...]) -> str:
        if parts not in self._catalogs:
            name, options = self._options[parts[0].casefold()]
            self._catalogs[parts] = query_catalog(self._spark, {name: options}, query, parts[1:])
        return self._catalogs[parts]

    def _begin(self, name: str, error: AnalysisException) -> None:
        """Makes `name` a catalog without tables, for a name of three parts and more begins with
        one: if there is none, Spark says that this is wrong, but not where it is.
        """
        if name in self._beginnings or self._spark.catalog.databaseExists(quote_name(name)):
            raise error
        self._beginnings.add(name)
        self._exits.enter_context(_settings(self._spark, name, {"": _CATALOG}))


def _find_name(error: AnalysisException) -> list[str]:
    """Parts of the name of the table that Spark does not find; empty for other errors."""
    if error.getCondition() not in {"TABLE_OR_VIEW_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE"}:
        return []
    told = error.getMessageParameters() or {}
    # of the second, Spark 4.1 tells the name without its last part
    name = told.get("relationName") or told.get("identifier") or told.get("namespace", "")
    quoted = re.findall(r"`((?:[^`]|``)*)`", name)
    return [part.replace("``", "`") for part in quoted]


def _find_place(error: AnalysisException, text: str, name: str) -> tuple[int, int] | None:
    """Returns where the name is in the text, None if Spark does not say."""
    contexts = error.getQueryContext() or []
    if not contexts:
        return None
    start, stop = contexts[0].startIndex(), contexts[0].stopIndex() + 1
    written = text[start:stop].casefold()
    if name.casefold() not in written and not written.startswith("identifier"):
        raise error  # Spark replaced variables before it parsed: this is another text
    return start, stop


@contextmanager
def _unlogged() -> Iterator[None]:
    """Errors of this thread that PySpark would print, although they are raised as well."""
    thread = threading.get_ident()

    def is_other(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def _sql_of_views(spark: SparkSession, query: str, options: Mapping[str, ReadOptions]) -> DataFrame:
    """Runs a query without the native table: names are temporary views of all rows."""
    for name, one in options.items():
        loaded = spark.read.format(FORMAT).options(**format_options(one)).load()
        loaded.createOrReplaceTempView(quote_name(name))
    return spark.sql(query)


def parse_tables(tables: Mapping[str, TableSpec]) -> dict[str, ReadOptions]:
    """Options of tables by name. Raises InvalidInputError for what is no option."""
    return {name: _table_options(name, spec) for name, spec in tables.items()}


def _table_options(name: str, spec: TableSpec) -> ReadOptions:
    if not isinstance(spec, Mapping):
        place = place_of(spec)
        return ReadOptions(path=place.path, secret_storage=place.secret, access=access_to(spec))
    given: dict[str, Any] = {_key(name, key): value for key, value in spec.items()}
    if "path" not in given:
        raise InvalidInputError(f"table {name!r} has no path")
    names = given.get("variables")
    version = {k: given.get(k) for k in ("branch", "tag", "snapshot", "as_of")}
    place = place_of(given["path"], given.get("storage"))
    return ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        group="/" + str(given.get("group", "/")).strip("/"),
        variables=(names,) if isinstance(names, str) else None if names is None else tuple(names),
        dims=None if given.get("dims") is None else tuple(given["dims"]),
        selection=to_selection(given.get("sel", {})),
        isel=to_index_selection(given.get("isel", {})),
        version=make_version(**version),
        decode_cf=bool(given.get("decode_cf", True)),
        access=_access(given),
    )


def _access(given: Mapping[str, Any]) -> AccessText:
    """Returns the access as text, or that of the open repository."""
    words = given.get("authorize")
    return AccessText(json.dumps(words)) if words else access_to(given["path"])


_KEYS = (
    *("path", "group", "variables", "sel", "branch", "tag", "snapshot", "as_of", "decode_cf"),
    *("authorize", "dims", "isel", "storage"),
)


def _key(table: str, key: str) -> str:
    folded = {name.replace("_", ""): name for name in _KEYS}
    found = folded.get(key.lower().replace("_", ""))
    if found is None:
        raise InvalidInputError(
            f"table {table!r} has the unknown option {key!r}; the options are {', '.join(_KEYS)}"
        )
    return found
