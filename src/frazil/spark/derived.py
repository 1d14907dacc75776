"""Subqueries and CTEs: what is named where, and which of them predicates can pass through.

    SELECT * FROM (SELECT lat AS y, t2m FROM weather) AS s WHERE s.y > 40       passes: lat > 40
    WITH s AS (SELECT * FROM weather) SELECT avg(t2m) FROM s WHERE lat > 40     passes: lat > 40

A SELECT is transparent if each of its rows comes from one row of its sources, whatever the other
rows are: no grouping, aggregate, window, DISTINCT or LIMIT. A CTE must be used in one place only,
because its rows serve all its uses.
"""

from dataclasses import dataclass
from typing import Self

from sqlglot import exp

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
    """Where the rows of `select` are used, if that is one place."""
    holders = find_holders(select)
    return holders[0] if len(holders) == 1 else None


def find_holders(select: exp.Select) -> list[exp.Expr]:
    """Where the rows of `select` are used: its subquery, or every mention of its CTE.

    None if columns get other names there, or the rows are used in any other way.
    """
    around = select.parent
    if not isinstance(around, exp.Subquery | exp.CTE) or _renames(around):
        return []
    mentions: list[exp.Expr] = [around]
    if isinstance(around, exp.CTE):
        tables = around.root().find_all(exp.Table)
        mentions = [table for table in tables if find_cte(table) is around]
    plain = all({k for k, v in one.args.items() if v} <= _PLAIN for one in mentions)
    return mentions if plain and not any(map(_renames, mentions)) else []


_PLAIN = {"this", "alias"}


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
        plain = len(stars) == 1 and not any(star.args.get("except_") for star in _bare(stars))
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
        return _replaced(condition, found)

    def _column(self, column: exp.Column) -> exp.Expr | None:
        inner = self.named.get(column.name.casefold())
        if inner is not None:
            return inner.copy() if isinstance(inner, exp.Column) else None
        if self.star is None:
            return None
        table = self.star.args.get("table") if isinstance(self.star, exp.Column) else None
        return exp.column(column.this.copy(), table=table.copy() if table else None)


def _bare(stars: list[exp.Expr]) -> list[exp.Expr]:
    return [star.this if isinstance(star, exp.Column) else star for star in stars]


def _replaced(condition: exp.Expr, found: dict[int, exp.Expr]) -> exp.Expr:
    """A copy with columns, by identity, replaced."""
    copy = condition.copy()
    pairs = zip(copy.find_all(exp.Column), condition.find_all(exp.Column), strict=True)
    for column, original in list(pairs):
        if column is copy:
            return found[id(original)]
        column.replace(found[id(original)])
    return copy
