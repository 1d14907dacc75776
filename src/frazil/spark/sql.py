"""SQL over repositories, reading only the chunks that the query's predicates leave over.

    sql(spark, "SELECT avg(t2m) FROM weather WHERE lat > 40", {"weather": "/data/weather"})

In a query

    weather                          is the root group, or the group its table was given
    weather.`surface/hourly`         is a group in it; weather.surface.hourly is the same
    weather.`surface/t2m`            is one array of a group
    weather VERSION AS OF 'v1'       is a tag, else a branch, else a snapshot id
    weather TIMESTAMP AS OF '2024-03-01 06:00:00'

Every mention of a table becomes a load of its own, with the coordinate bounds and the columns
that this mention needs; Spark still applies the query as it is written. Other names are Spark's
own tables and views. The text is changed only where a table is named. EXPLAIN may come before it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlglot import Token, TokenType, exp, parse, tokenize
from sqlglot.errors import SqlglotError

from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.paths import NodePath
from frazil.spark.access import AccessText
from frazil.spark.description import GroupDescription
from frazil.spark.index_selection import to_index_selection
from frazil.spark.opened import Opened, RepositoryLike, access_to, place_of
from frazil.spark.options import ReadOptions, Version, parse_as_of
from frazil.spark.read import (
    ReadPlan,
    decide,
    make_version,
    open_options,
    require_text_quotes,
    session_zone,
)
from frazil.spark.references import Reference, belongs, demands, find_references, used_names
from frazil.spark.scan import Table, plan_table
from frazil.spark.selection import Selection, to_selection
from frazil.spark.where import Coordinate, coordinates_of, find_bounds

# And comments. Once passed over for good (`*+`): there are many ways to read many of them.
BLANK = r"(?:\s|--.*\n|/\*(?s:.*?)\*/)*+"
_EXPLAIN = re.compile(
    rf"{BLANK}EXPLAIN\b(?:{BLANK}(EXTENDED|CODEGEN|COST|FORMATTED)\b)?", re.IGNORECASE
)

type TableSpec = RepositoryLike | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PlannedReference:
    """A mention of a table and how it will be loaded."""

    name: str
    load: ReadPlan

    @property
    def summary(self) -> str:
        each = ", ".join(f"{one.variable} {one.read} of {one.total}" for one in self.load.reads)
        return f"{self.name}: {self.load.summary}" + (f" ({each})" if each else "")


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """A query that is decided but not run. `text` has {frazil_0}, ... where tables were named."""

    text: str
    references: tuple[PlannedReference, ...]
    explains: str = ""  # EXPLAIN, or EXPLAIN FORMATTED, ...: then Spark's plan is the result

    @property
    def chunks_read(self) -> int:
        return sum(one.load.chunks_read for one in self.references)

    @property
    def chunks_total(self) -> int:
        return sum(one.load.chunks_total for one in self.references)

    @property
    def summary(self) -> str:
        """One line per mention of a table: chunks read of chunks there are."""
        return "\n".join(one.summary for one in self.references)

    def run(self, spark: SparkSession) -> DataFrame:
        frames: dict[str, Any] = {
            f"frazil_{k}": one.load.load(spark) for k, one in enumerate(self.references)
        }
        return spark.sql(f"{self.explains} {self.text}".lstrip(), **frames)


def sql(spark: SparkSession, query: str, tables: Mapping[str, TableSpec]) -> DataFrame:
    """The result of `query`, in Spark's SQL.

    A table is a repository or its path, or a mapping with `path` and what else `read` takes:
    group, variables, dims, sel, isel, branch, tag, snapshot, as_of, storage.
    """
    require_text_quotes(spark, query)
    return plan_sql(query, tables, session_zone=session_zone(spark)).run(spark)


def plan_sql(query: str, tables: Mapping[str, TableSpec], *, session_zone: str = "UTC") -> SqlPlan:
    """What `sql` would load and run. Opens the repositories, reads coordinates, needs no Spark."""
    asked = _EXPLAIN.match(query)
    if asked is not None:
        explains = f"EXPLAIN {asked[1] or ''}".rstrip()
        return replace(
            plan_sql(query[asked.end() :], tables, session_zone=session_zone), explains=explains
        )
    parsed = _parse(query)
    specs = {name.casefold(): _table_options(name, spec) for name, spec in tables.items()}
    tokens = tokenize(query, dialect="spark")
    pipes = any(token.token_type is TokenType.PIPE_GT for token in tokens)
    found = list(find_references(parsed, set(specs), opaque=pipes))
    _require_lasting(parsed, found)
    opened = [_open(parsed, reference, specs) for reference in found]
    planned = tuple(
        PlannedReference(".".join(one.reference.parts), _plan(one, opened, session_zone))
        for one in opened
    )
    return SqlPlan(_rewrite(query, parsed, found, tokens), planned)


@dataclass(frozen=True, slots=True, eq=False)
class _OpenReference:
    reference: Reference
    opened: Opened
    options: ReadOptions
    table: Table


def _parse(query: str) -> exp.Expr:
    try:
        statements = [one for one in parse(query, dialect="spark") if one is not None]
    except SqlglotError as error:
        raise InvalidInputError(f"cannot parse the query: {error}") from error
    if len(statements) != 1:
        raise InvalidInputError(f"expected one query, found {len(statements)}")
    return statements[0]


def _require_lasting(parsed: exp.Expr, references: Sequence[Reference]) -> None:
    """A view would refer to loads that exist only while the statement runs."""
    table = isinstance(parsed, exp.Create) and parsed.kind == "TABLE"
    if references and not (table or isinstance(parsed, exp.Query | exp.Insert)):
        raise InvalidInputError(
            f"{parsed.key.upper()} cannot use table {references[0].parts[0]!r}: only queries,"
            " INSERT and CREATE TABLE AS can; for a view, call createOrReplaceTempView on a result"
        )


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
    """In words, or what the repository was opened with."""
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


def _open(
    query: exp.Expr, reference: Reference, specs: Mapping[str, ReadOptions]
) -> _OpenReference:
    name, *below = reference.parts
    options = specs[name.casefold()]
    opened, options = _open_version(options, reference)
    options = _at_group(opened, options, below)
    names = used_names(query, reference)
    if names is not None:
        options = _with_used(opened.describe(options.group), options, names)
    table = plan_table(opened, options)
    if names is not None:
        used = tuple(c.name for c in table.all_columns if c.name.casefold() in names)
        options = replace(options, columns=used)
        table = plan_table(opened, options)
    return _OpenReference(reference, opened, options, table)


def _open_version(options: ReadOptions, reference: Reference) -> tuple[Opened, ReadOptions]:
    version = reference.node.args.get("version")
    if version is None:
        return open_options(options)
    literal = version.expression
    if version.args.get("kind") != "AS OF" or not isinstance(literal, exp.Literal):
        raise InvalidInputError(
            f"{version.sql(dialect='spark')} of table {reference.parts[0]!r}:"
            " expected VERSION AS OF 'name' or TIMESTAMP AS OF 'time'"
        )
    text = str(literal.this)
    if version.name.upper() == "TIMESTAMP":
        branch = options.version.branch
        return open_options(
            replace(options, version=Version(branch=branch, as_of_us=parse_as_of(text)))
        )
    for candidate in (Version(tag=text), Version(branch=text)):
        try:
            return open_options(replace(options, version=candidate))
        except RefNotFoundError:
            continue
    return open_options(replace(options, version=Version(snapshot=text)))


def _at_group(opened: Opened, options: ReadOptions, below: Sequence[str]) -> ReadOptions:
    """The group that the rest of a table's name leads to; an array is a group and a variable."""
    segments = [s for part in (options.group, *below) for s in part.split("/") if s]
    path = NodePath("/" + "/".join(segments))
    node = opened.session.find_node(path)
    if node is not None and node.array is not None:
        return replace(options, group=str(path.parent), variables=(path.name,))
    return replace(options, group=str(path))


def _with_used(group: GroupDescription, options: ReadOptions, names: set[str]) -> ReadOptions:
    """Only the variables that are used, so that others may have other dimensions."""
    if options.variables is not None:
        return options
    used = [
        a.name for a in group.arrays.values() if not a.is_coordinate and a.name.casefold() in names
    ]
    return replace(options, variables=tuple(used)) if used else options


def _plan(one: _OpenReference, everyone: Sequence[_OpenReference], zone: str) -> ReadPlan:
    coordinates = coordinates_of(one.table.all_columns)
    beside = [
        {c.name.casefold() for c in other.table.all_columns}
        for other in everyone
        if other is not one and _is_visible_beside(other.reference, one.reference)
    ]

    def resolve(column: exp.Column) -> Coordinate | None:
        if not belongs(column, one.reference, beside):
            return None
        return coordinates.get(column.name.casefold())

    bounds = (find_bounds(part, resolve, zone) for part in demands(one.reference))
    pruned = Selection(tuple(found for found in bounds if found is not None))
    return decide(one.opened, one.table, one.options, pruned)


def _is_visible_beside(other: Reference, reference: Reference) -> bool:
    return any(source.node is other.node for source in reference.sources)


def _rewrite(
    query: str, parsed: exp.Expr, references: Sequence[Reference], tokens: Sequence[Token]
) -> str:
    """The query with a placeholder where each reference is; all else as it was written."""
    edits = [
        edit
        for number, reference in enumerate(references)
        for edit in _edits(parsed, reference, number, tokens)
    ]
    pieces, at = [], 0
    for start, stop, text in sorted(set(edits)):
        pieces += [_escaped(query[at:start]), text]
        at = stop
    return "".join([*pieces, _escaped(query[at:])])


def _escaped(text: str) -> str:
    """Braces are spark.sql's placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


type _Edit = tuple[int, int, str]  # start, stop, replacement


def _edits(
    parsed: exp.Expr, reference: Reference, number: int, tokens: Sequence[Token]
) -> list[_Edit]:
    first, last = reference.node.parts[0], reference.node.parts[-1]
    start, stop = _start(first), _stop(last)
    if reference.node.args.get("version") is not None:
        # VERSION AS OF literal: four tokens after the name
        after = next(k for k, token in enumerate(tokens) if token.start >= stop)
        stop = tokens[after + 3].end + 1
    alias = "" if reference.node.alias else f" AS {_quoted(reference.alias)}"
    edits: list[_Edit] = [(start, stop, f"{{frazil_{number}}}{_escaped(alias)}")]
    if len(reference.parts) > 1 and not reference.node.alias:
        # the view has one name: weather.`surface`.lat becomes `surface`.lat
        edits += [
            (_start(column.parts[0]), _start(column.parts[-2]), "")
            for column in parsed.find_all(exp.Column)
            if [p.name for p in column.parts[:-1]] == list(reference.parts)
        ]
    return edits


def _start(part: exp.Expr) -> int:
    return int(part.meta["start"])


def _stop(part: exp.Expr) -> int:
    return int(part.meta["end"]) + 1


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
