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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from sqlglot import Token, TokenType, exp, parse, tokenize
from sqlglot.errors import SqlglotError

from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.paths import NodePath
from frazil.spark.io.read import (
    ReadPlan,
    decide,
    make_version,
    open_options,
    require_text_quotes,
    session_zone,
)
from frazil.spark.runtime.access import AccessText
from frazil.spark.table.description import GroupDescription
from frazil.spark.table.opened import Opened, RepositoryLike, access_to, place_of
from frazil.spark.table.options import ReadOptions, Version, parse_as_of
from frazil.spark.table.scan import Table, plan_table
from frazil.spark.table.schema import quote_name
from frazil.spark.table.selection import Selection, to_index_selection, to_selection
from frazil.spark.table.where import Coordinate, conjuncts, coordinates_of, find_bounds

# Subqueries and CTEs: what is named where, and which of them predicates can pass through.
#
#     SELECT * FROM (SELECT lat AS y, t2m FROM weather) AS s WHERE s.y > 40       passes: lat > 40
#     WITH s AS (SELECT * FROM weather) SELECT avg(t2m) FROM s WHERE lat > 40     passes: lat > 40
#
# A SELECT is transparent if each of its rows comes from one row of its sources, for any other
# rows are: no grouping, aggregate, window, DISTINCT or LIMIT. A CTE must be used in one place only,
# because its rows serve all its uses.

_TRANSPARENT = {"with_", "kind", "hint", "expressions", "from_", "joins", "where", "order"}


def find_cte(node: exp.Table) -> exp.CTE | None:
    """The CTE that a table's name means there, None if it is no CTE."""
    if len(node.parts) > 1:
        return None
    name = node.name.casefold()
    below: exp.Expr = node
    above = node.parent
    while above is not None:
        for cte in reversed(_visible(above, below)):
            if cte.alias.casefold() == name:
                return cte
        below, above = above, above.parent
    return None


def _visible(above: exp.Expr, below: exp.Expr) -> list[exp.CTE]:
    """CTEs that `above` defines and its child `below` can name."""
    if isinstance(above, exp.With):
        place = above.expressions.index(below)
        return list(above.expressions[: place + 1 if above.recursive else place])
    if isinstance(above, exp.Query) and not isinstance(below, exp.With):
        return list(above.ctes)
    return []


def find_holder(select: exp.Select) -> exp.Expr | None:
    """Returns the only place that uses the rows of `select`, if there is one."""
    holders = find_holders(select)
    return holders[0] if len(holders) == 1 else None


def find_holders(select: exp.Select) -> list[exp.Expr]:
    """Returns the places that use the rows of `select`: its subquery, or every mention of its CTE.

    None if columns get other names there, or the rows are used in any other way.
    """
    around = select.parent
    if not isinstance(around, exp.Subquery | exp.CTE) or _renames(around):
        return []
    mentions: list[exp.Expr] = [around]
    if isinstance(around, exp.CTE):
        tables = around.root().find_all(exp.Table)
        mentions = [table for table in tables if find_cte(table) is around]
    plain = all({k for k, v in one.args.items() if v} <= _PLAIN_DERIVED for one in mentions)
    return mentions if plain and not any(map(_renames, mentions)) else []


_PLAIN_DERIVED = {"this", "alias"}


def _renames(named: exp.Expr) -> bool:
    alias = named.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))


def is_transparent(select: exp.Select) -> bool:
    given = {key for key, value in select.args.items() if value}
    return given <= _TRANSPARENT and not any(
        projection.find(exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Anonymous)
        for projection in select.expressions
    )


@dataclass(frozen=True, slots=True)
class Outputs:
    """Columns that a SELECT gives out: by case-folded name, or all of a source by a star."""

    named: dict[str, exp.Expr]
    star: exp.Expr | None  # None if there is none, or not one alone

    @classmethod
    def of(cls, select: exp.Select) -> Self:
        stars = [one for one in select.expressions if one.is_star]
        plain = len(stars) == 1 and not any(
            star.args.get("except_") for star in _unwrap_stars(stars)
        )
        named = {
            one.alias_or_name.casefold(): one.unalias()
            for one in select.expressions
            if not one.is_star
        }
        return cls(named, stars[0] if plain else None)

    def translate(self, condition: exp.Expr, alias: str, *, alone: bool) -> exp.Expr | None:
        """The condition in the SELECT's own columns; None if it has others, or computed ones.

        `alias` is what the SELECT is called outside; `alone` if there is no other source there.
        """
        found: dict[int, exp.Expr] = {}
        for column in condition.find_all(exp.Column):
            ours = column.table.casefold() == alias.casefold() if column.table else alone
            inner = self._column(column) if ours and len(column.parts) <= 2 else None
            if inner is None:
                return None
            found[id(column)] = inner
        return _replace(condition, found)

    def _column(self, column: exp.Column) -> exp.Expr | None:
        inner = self.named.get(column.name.casefold())
        if inner is not None:
            return inner.copy() if isinstance(inner, exp.Column) else None
        if self.star is None:
            return None
        table = self.star.args.get("table") if isinstance(self.star, exp.Column) else None
        return exp.column(column.this.copy(), table=table.copy() if table else None)


def _unwrap_stars(stars: list[exp.Expr]) -> list[exp.Expr]:
    return [star.this if isinstance(star, exp.Column) else star for star in stars]


def _replace(condition: exp.Expr, found: dict[int, exp.Expr]) -> exp.Expr:
    """A copy with columns, by identity, replaced."""
    copy = condition.copy()
    pairs = zip(copy.find_all(exp.Column), condition.find_all(exp.Column), strict=True)
    for column, original in list(pairs):
        if column is copy:
            return found[id(original)]
        column.replace(found[id(original)])
    return copy


# References of a SQL query to our tables: used columns, and predicates on rows.
#
# A demand on a reference is a conjunct that may be applied to it before anything else happens:
#
#     WHERE                       to every source of the SELECT (conjuncts that prune are false on
#                                 NULL, so it does not matter on which side of an outer join it is)
#     ON of an INNER, SEMI join   to both sides          of a LEFT, ANTI join     to the right side
#     ON of a RIGHT join          to the left side       of a FULL join           to none
#
# The right side of a SEMI or ANTI join is invisible outside its ON. What is demanded of a subquery
# or a CTE is demanded of its sources as well, where it only filters and picks columns (derived.py).
# A reference that is sampled, pivoted, or given other column names keeps all its rows and columns,
# and so does every reference in a query with pipes (|>), whose steps sqlglot does not keep in
# order.


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """One mention of a table, as in FROM weather.`surface` AS w."""

    node: exp.Table
    sources: tuple["Source", ...]  # of its SELECT, in order; empty if that is not a plain one
    place: int  # among the sources

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.node.parts)

    @property
    def alias(self) -> str:
        """Name that qualifies columns."""
        return self.node.alias or self.parts[-1]

    @property
    def is_plain(self) -> bool:
        given = {key for key, value in self.node.args.items() if value}
        names = self.node.args.get("alias")
        renamed = bool(names is not None and names.args.get("columns"))
        return bool(self.sources) and not renamed and given <= _PLAIN


_PLAIN = {"this", "db", "catalog", "alias", "version"}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One item of FROM; `join` is how it was joined to those before, None for the first."""

    node: exp.Expr
    join: exp.Join | None

    @property
    def alias(self) -> str:
        return str(self.node.alias_or_name)

    @property
    def kind(self) -> str:
        """INNER, LEFT, RIGHT, FULL, SEMI, ANTI, or what else the dialect has."""
        if self.join is None:
            return "INNER"
        kind = self.join.kind.upper()
        if kind in {"SEMI", "ANTI"}:
            return kind
        return self.join.side.upper() or ("INNER" if kind in {"", "CROSS"} else kind)

    @property
    def is_hidden(self) -> bool:
        return self.kind in {"SEMI", "ANTI"}

    @property
    def shares_columns(self) -> bool:
        """NATURAL: columns are joined that the query does not name."""
        return self.join is not None and bool(self.join.method)


def find_references(query: exp.Expr, names: set[str], *, opaque: bool) -> Iterator[Reference]:
    """Mentions of the tables `names` (case-folded), but for those that a CTE hides.

    `opaque` if the query is not to be looked into.
    """
    for node in query.find_all(exp.Table):
        first = node.parts[0].name.casefold() if node.parts else ""
        if first not in names or not _is_read(node) or find_cte(node) is not None:
            continue
        sources = () if opaque else _sources(node)
        place = next((k for k, source in enumerate(sources) if source.node is node), 0)
        yield Reference(node, sources, place)


def _is_read(node: exp.Table) -> bool:
    """Not the target of an INSERT or CREATE."""
    return node.find_ancestor(exp.From, exp.Join) is not None


def _sources(node: exp.Expr) -> tuple[Source, ...]:
    """All sources of the SELECT that has `node` as one; none if it is not as plain as that."""
    clause = node.parent
    select = clause.parent if isinstance(clause, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select):
        return ()
    first = select.args.get("from_")
    joins = select.args.get("joins") or []
    if not isinstance(first, exp.From):
        return ()
    return (Source(first.this, None), *(Source(join.this, join) for join in joins))


def demands(reference: Reference) -> Iterator[exp.Expr]:
    """Conjuncts that every row of the reference must fulfil to have any effect."""
    if reference.is_plain:
        yield from _demands(reference.sources, reference.place)


def _demands(sources: tuple[Source, ...], place: int) -> Iterator[exp.Expr]:
    select = sources[place].node.find_ancestor(exp.Select)
    hidden = sources[place].is_hidden
    if select is not None and not hidden:
        where = select.args.get("where")
        yield from conjuncts(where.this) if where is not None else ()
        yield from _outer_predicates(select)
    for number, source in enumerate(sources):
        condition = source.join.args.get("on") if source.join is not None else None
        if condition is not None and _reaches(source.kind, number, place, hidden=hidden):
            yield from conjuncts(condition)


def _outer_predicates(select: exp.Select) -> Iterator[exp.Expr]:
    """Returns the predicates of an outer query on `select`, in the columns of `select`."""
    holder = find_holder(select)
    sources = _sources(holder) if holder is not None else ()
    if holder is None or not sources or not is_transparent(select):
        return
    place = next(k for k, source in enumerate(sources) if source.node is holder)
    outputs = Outputs.of(select)
    alone = len(sources) == 1
    for conjunct in _demands(sources, place):
        inner = outputs.translate(conjunct, holder.alias_or_name, alone=alone)
        if inner is not None:
            yield inner


def _reaches(kind: str, join: int, place: int, *, hidden: bool) -> bool:
    """True if the ON of the source at `join` may be applied to the source at `place`."""
    if place > join or (hidden and place != join):
        return False
    if kind in {"INNER", "SEMI"}:
        return True
    if kind in {"LEFT", "ANTI"}:
        return place == join
    return kind == "RIGHT" and place < join


def belongs(column: exp.Column, reference: Reference, others: list[set[str]]) -> bool:
    """True if `column`, in a predicate on `reference`, is a column of it.

    `others` are the columns of the other sources of the SELECT that are known. If a source that
    is not known has the column as well, Spark refuses the query as ambiguous.
    """
    if column.table:
        return column.table.casefold() == reference.alias.casefold() and _is_same_table(
            column, reference
        )
    name = column.name.casefold()
    if any(name in columns for columns in others):
        return False
    # a column that joins USING is neither side's alone
    return not any(name in _using_columns(source) for source in reference.sources)


def _is_same_table(column: exp.Column, reference: Reference) -> bool:
    before = tuple(part.name.casefold() for part in column.parts[:-2])
    own = tuple(part.casefold() for part in reference.parts[:-1])
    aliased = bool(reference.node.alias)
    alike = sum(s.alias.casefold() == reference.alias.casefold() for s in reference.sources)
    return alike == 1 and (before == () or (not aliased and before == own))


def _using_columns(source: Source) -> set[str]:
    given = (source.join.args.get("using") or []) if source.join is not None else []
    return {column.name.casefold() for column in given}


def used_names(query: exp.Expr, reference: Reference) -> set[str] | None:
    """Case-folded names the query uses that may be columns of the reference; None for all.

    Names of other tables' columns are among them: too much is harmless.
    """
    if not reference.is_plain or any(source.shares_columns for source in reference.sources):
        return None
    if _gives_out_all(query, reference.alias, reference.node.find_ancestor(exp.Select)):
        return None
    select = reference.node.find_ancestor(exp.Select)
    stars = query.find_all(exp.Star)
    if select is None or any(_covers(star, reference.alias, select) for star in stars):
        columns = {part.name for column in query.find_all(exp.Column) for part in column.parts}
    else:
        # outside of its SELECT nothing can name its columns
        own = select.find_all(exp.Column)
        columns = {name for column in own for name in _may_name(column, reference.alias)}
    using = {name for source in reference.sources for name in _using_columns(source)}
    return {name.casefold() for name in columns | using}


def _may_name(column: exp.Column, alias: str) -> list[str]:
    """Parts of a column's name that may be a column of the source `alias`.

    The last part of a.b.c is not, unless one before it is the alias: it is a column of another
    source, or a field of a column.
    """
    names = [part.name for part in column.parts]
    ours = len(names) == 1 or alias.casefold() in [name.casefold() for name in names[:-1]]
    return names if ours else names[:-1]


def _gives_out_all(query: exp.Expr, alias: str, select: exp.Select | None) -> bool:
    """True if a star returns all columns of the source `alias` of `select`, and they matter."""
    stars = [star for star in query.find_all(exp.Star) if _covers(star, alias, select)]
    return any(_matters(query, star) for star in stars)


def _covers(star: exp.Star, alias: str, select: exp.Select | None) -> bool:
    holder = star.parent
    if isinstance(holder, exp.Column) and holder.table:
        return holder.table.casefold() == alias.casefold()
    return not isinstance(holder, exp.Count) and star.find_ancestor(exp.Select) is select


def _matters(query: exp.Expr, star: exp.Star) -> bool:
    """Not if it is in EXISTS, or in a subquery of whose columns only some are used by name."""
    select = star.find_ancestor(exp.Select)
    item = star.parent if isinstance(star.parent, exp.Column) else star
    if select is None or item.parent is not select:
        return True
    if isinstance(select.parent, exp.Exists):
        return False
    if not {key for key, value in select.args.items() if value} <= _NAMES_ONLY:
        return True
    holders = find_holders(select)
    return not holders or any(_passes_on(query, holder) for holder in holders)


# Clauses in which columns have names. ORDER BY 4 counts them, DISTINCT compares all.
_NAMES_ONLY = {"with_", "hint", "expressions", "from_", "joins", "where"}


def _passes_on(query: exp.Expr, holder: exp.Expr) -> bool:
    sources = _sources(holder)
    if not sources or any(source.shares_columns for source in sources):
        return True
    return _gives_out_all(query, holder.alias_or_name, holder.find_ancestor(exp.Select))


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
    """Plans what `sql` would load and run. Opens the repositories, reads coordinates, needs no
    Spark.
    """
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


def _open(
    query: exp.Expr, reference: Reference, specs: Mapping[str, ReadOptions]
) -> _OpenReference:
    name, *below = reference.parts
    options = specs[name.casefold()]
    opened, options = _open_version(options, reference)
    options = _at_group(opened, options, below)
    names = used_names(query, reference)
    if names is not None:
        options = _select_used(opened.describe(options.group), options, names)
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
    """The group that the rest of a table's name stands for; an array is a group and a variable."""
    segments = [s for part in (options.group, *below) for s in part.split("/") if s]
    path = NodePath("/" + "/".join(segments))
    node = opened.session.find_node(path)
    if node is not None and node.array is not None:
        return replace(options, group=str(path.parent), variables=(path.name,))
    return replace(options, group=str(path))


def _select_used(group: GroupDescription, options: ReadOptions, names: set[str]) -> ReadOptions:
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
        pieces += [_escape(query[at:start]), text]
        at = stop
    return "".join([*pieces, _escape(query[at:])])


def _escape(text: str) -> str:
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
    alias = "" if reference.node.alias else f" AS {quote_name(reference.alias)}"
    edits: list[_Edit] = [(start, stop, f"{{frazil_{number}}}{_escape(alias)}")]
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
