"""Where a SQL query names our tables, what it uses of them, and what it demands of their rows.

A demand on a reference is a conjunct that may be applied to it before anything else happens:

    WHERE                       to every source of the SELECT (conjuncts that prune are false on
                                NULL, so it does not matter on which side of an outer join it is)
    ON of an INNER, SEMI join   to both sides          of a LEFT, ANTI join     to the right side
    ON of a RIGHT join          to the left side       of a FULL join           to none

The right side of a SEMI or ANTI join is invisible outside its ON. What is demanded of a subquery
or a CTE is demanded of its sources as well, where it only filters and picks columns (derived.py).
A reference that is sampled, pivoted, or given other column names keeps all its rows and columns,
and so does every reference in a query with pipes (|>), whose steps sqlglot does not keep in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from frazil.spark.derived import Outputs, find_cte, find_holder, find_holders, is_transparent
from frazil.spark.where import conjuncts


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
        """What columns are qualified with."""
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
        yield from _inherited(select)
    for number, source in enumerate(sources):
        condition = source.join.args.get("on") if source.join is not None else None
        if condition is not None and _reaches(source.kind, number, place, hidden=hidden):
            yield from conjuncts(condition)


def _inherited(select: exp.Select) -> Iterator[exp.Expr]:
    """What a query around demands of the rows of `select`, said in the columns of `select`."""
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
    """Whether the ON of the source at `join` may be applied to the source at `place`."""
    if place > join or (hidden and place != join):
        return False
    if kind in {"INNER", "SEMI"}:
        return True
    if kind in {"LEFT", "ANTI"}:
        return place == join
    return kind == "RIGHT" and place < join


def belongs(column: exp.Column, reference: Reference, others: list[set[str]]) -> bool:
    """Whether `column`, in a demand on `reference`, is a column of it.

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
    return not any(name in _using(source) for source in reference.sources)


def _is_same_table(column: exp.Column, reference: Reference) -> bool:
    before = tuple(part.name.casefold() for part in column.parts[:-2])
    own = tuple(part.casefold() for part in reference.parts[:-1])
    aliased = bool(reference.node.alias)
    alike = sum(s.alias.casefold() == reference.alias.casefold() for s in reference.sources)
    return alike == 1 and (before == () or (not aliased and before == own))


def _using(source: Source) -> set[str]:
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
    using = {name for source in reference.sources for name in _using(source)}
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
    """Whether a star gives out all columns of the source `alias` of `select`, and they matter."""
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
