"""Bounds on coordinates that a SQL predicate implies.

A predicate is cut at its top-level ANDs. A part prunes when it compares one coordinate column
with literals: `=`, `<=>`, `<`, `<=`, `>`, `>=`, `BETWEEN`, `IN`, and for times also `date(time)`
or `year(time)` in place of the column. Everything else (OR, NOT, other functions, other columns)
prunes nothing. The predicate itself is always applied by Spark as well, so bounds may be too wide
but never too narrow. All parts that prune are false or NULL where the column is NULL, which is
what makes them safe below an outer join.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from frazil.errors import InvalidInputError
from frazil.spark.table.schema import ColumnPlan
from frazil.spark.table.selection import Bounds, Selection
from frazil.spark.table.timetext import (
    DAY_US,
    Instants,
    find_days,
    find_instants,
    format_micros,
    local_instants,
)


class Kind(Enum):
    """Kind of a coordinate that can prune."""

    NUMBER = "number"
    TIME = "time"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Coordinate:
    dimension: str
    kind: Kind


type Resolve = Callable[[exp.Column], Coordinate | None]  # None: no coordinate of this table

_KINDS = dict.fromkeys("iuf", Kind.NUMBER) | dict.fromkeys("UTO", Kind.TEXT) | {"M": Kind.TIME}


def coordinates_of(columns: tuple[ColumnPlan, ...]) -> Mapping[str, Coordinate]:
    """Coordinates that can prune, by case-folded column name."""
    return {
        c.name.casefold(): Coordinate(c.name, _KINDS[c.dtype.kind])
        for c in columns
        if c.is_dimension and c.dtype.kind in _KINDS
    }


def plan_where(where: str, coordinates: Mapping[str, Coordinate], zone: str) -> Selection:
    """Plans the pruning by the predicate `where`. `zone` is Spark's session time zone."""

    def resolve(column: exp.Column) -> Coordinate | None:
        return None if column.table else coordinates.get(column.name.casefold())

    found = (find_bounds(part, resolve, zone) for part in conjuncts(parse_where(where)))
    return Selection(tuple(pruned for pruned in found if pruned is not None))


def names_in(where: str) -> set[str]:
    """Case-folded names that may be columns."""
    columns = parse_where(where).find_all(exp.Column)
    return {part.name.casefold() for column in columns for part in column.parts}


def parse_where(where: str) -> exp.Expr:
    try:
        # a whole query, so that a trailing ORDER BY or a second statement is an error
        parsed = parse(f"SELECT 1 FROM t WHERE {where}", dialect="spark")  # noqa: S608  # parsed, never run
    except SqlglotError as error:
        raise InvalidInputError(f"cannot parse the predicate {where!r}: {error}") from error
    query = parsed[0]
    clauses = {name for name, value in query.args.items() if value} if query else set()
    if len(parsed) > 1 or query is None or clauses != {"expressions", "from_", "where"}:
        raise InvalidInputError(f"{where!r} is not one predicate")
    predicate: exp.Expr = query.args["where"].this
    return predicate


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that must all hold."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def find_bounds(part: exp.Expr, resolve: Resolve, zone: str) -> tuple[str, Bounds] | None:
    """Dimension and bounds of one conjunct, None if it prunes nothing."""
    if isinstance(part, exp.Between):
        return _find_between(part, resolve, zone)
    if isinstance(part, exp.In):
        return _find_in(part, resolve, zone)
    if not isinstance(part, exp.Binary) or type(part) not in _FLIPPED:
        return None
    operator: type[exp.Expr] = type(part)
    left, right = part.left.unnest(), part.right.unnest()
    if _match_coordinate(right, resolve) is not None:
        left, right, operator = right, left, _FLIPPED[operator]
    return _find_comparison(left, operator, right, resolve, zone)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A coordinate, or the date or year of one."""

    coordinate: Coordinate
    part: str | None  # None, "date" or "year"


@dataclass(frozen=True, slots=True)
class _Reading:
    """Meaning of a literal: the least and the greatest value it may stand for.

    Of a date or a year, `stop` is where the next one begins.
    """

    low: float | str
    high: float | str
    stop: str | None = None


def _match_coordinate(side: exp.Expr, resolve: Resolve) -> _Measured | None:
    part, inner = _time_part(side)
    found = resolve(inner) if isinstance(inner, exp.Column) else None
    if found is None or (part is not None and found.kind is not Kind.TIME):
        return None
    return _Measured(found, part)


def _time_part(side: exp.Expr) -> tuple[str | None, exp.Expr]:
    """Returns the argument of a date or year function, if `side` is one."""
    if isinstance(side, exp.Year):  # sqlglot reads year(time) as year(date(time))
        return "year", _date_argument(side.this) or side.this
    dated = _date_argument(side)
    return (None, side) if dated is None else ("date", dated)


def _date_argument(side: exp.Expr) -> exp.Expr | None:
    is_cast = isinstance(side, exp.Cast) and side.to.is_type(exp.DType.DATE)
    is_call = (
        isinstance(side, exp.Date | exp.TsOrDsToDate)
        and _present_arguments(side).keys() <= _ONE_ARGUMENT
    )
    inner: exp.Expr | None = side.this if is_cast or is_call else None
    return inner


_ONE_ARGUMENT = {"this", "safe"}


def _present_arguments(node: exp.Expr) -> dict[str, object]:
    return {key: value for key, value in node.args.items() if value}


def _find_between(part: exp.Between, resolve: Resolve, zone: str) -> tuple[str, Bounds] | None:
    if not _present_arguments(part).keys() <= {"this", "low", "high"}:  # BETWEEN SYMMETRIC
        return None
    measured = _match_coordinate(part.this.unnest(), resolve)
    low = _find_comparison(part.this.unnest(), exp.GTE, part.args["low"], resolve, zone)
    high = _find_comparison(part.this.unnest(), exp.LTE, part.args["high"], resolve, zone)
    if measured is None or low is None or high is None:
        return None
    return measured.coordinate.dimension, Bounds(ge=low[1].ge, le=high[1].le, lt=high[1].lt)


def _find_in(part: exp.In, resolve: Resolve, zone: str) -> tuple[str, Bounds] | None:
    measured = _match_coordinate(part.this.unnest(), resolve)
    if (
        measured is None
        or measured.part
        or not _present_arguments(part).keys() <= {"this", "expressions"}
    ):
        return None
    readings = [_read(literal, measured, zone) for literal in part.expressions]
    if not readings or any(r is None or r.low != r.high for r in readings):
        return None
    return measured.coordinate.dimension, Bounds(among=tuple(r.low for r in readings if r))


def _find_comparison(
    side: exp.Expr,
    operator: type[exp.Expr],
    literal: exp.Expr,
    resolve: Resolve,
    zone: str,
) -> tuple[str, Bounds] | None:
    measured = _match_coordinate(side, resolve)
    reading = None if measured is None else _read(literal.unnest(), measured, zone)
    if measured is None or reading is None:
        return None
    return measured.coordinate.dimension, _bounds(operator, reading)


def _bounds(operator: type[exp.Expr], reading: _Reading) -> Bounds:
    low, high, stop = reading.low, reading.high, reading.stop
    if operator is exp.GT:
        return Bounds(gt=low) if stop is None else Bounds(ge=stop)
    if operator is exp.GTE:
        return Bounds(ge=low)
    if operator is exp.LT:
        return Bounds(lt=high)
    if operator is exp.LTE:
        return Bounds(le=high) if stop is None else Bounds(lt=stop)
    if stop is not None:
        return Bounds(ge=low, lt=stop)
    return Bounds(among=(low,)) if low == high else Bounds(ge=low, le=high)


def _read(literal: exp.Expr, measured: _Measured, zone: str) -> _Reading | None:
    literal = literal.unnest()
    if measured.part == "year":
        return _read_year(literal, zone)
    if measured.part == "date":
        return _read_date(literal, zone)
    match measured.coordinate.kind:
        case Kind.NUMBER:
            number = _number(literal)
            return None if number is None else _Reading(number, number)
        case Kind.TEXT:
            return _Reading(literal.this, literal.this) if literal.is_string else None
        case Kind.TIME:
            return _read_time(literal, zone)


_INTEGERS = {exp.DType.BIGINT: 2**63, exp.DType.INT: 2**31}


def _number(literal: exp.Expr) -> int | float | None:
    if isinstance(literal, exp.Neg):
        positive = _number(literal.this.unnest())
        return None if positive is None else -positive
    if isinstance(literal, exp.Cast):  # the suffixes of 40L and 40D, and casts that change nothing
        inner = _number(literal.this.unnest())
        if isinstance(inner, int) and abs(inner) < _INTEGERS.get(literal.to.this, 0):
            return inner
        return inner if literal.to.is_type(exp.DType.DOUBLE) else None
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    text = str(literal.this)
    try:
        return int(text) if re.fullmatch(r"\d+", text) else float(text)
    except ValueError:
        return None


def _read_time(literal: exp.Expr, zone: str) -> _Reading | None:
    text = _text(literal, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMP)
    if text is None and _date(literal) is not None:
        text = _text(literal, exp.DType.DATE)
    instants = None if text is None else find_instants(text, zone)
    return None if instants is None else _make_reading(instants)


def _read_date(literal: exp.Expr, zone: str) -> _Reading | None:
    day = _date(literal)
    return None if day is None else _read_days(day, day + 1, zone)


def _read_year(literal: exp.Expr, zone: str) -> _Reading | None:
    year = _number(literal)
    if not isinstance(year, int):
        return None
    start, stop = find_days(year), find_days(year + 1)
    return None if start is None or stop is None else _read_days(start, stop, zone)


def _read_days(start: int, stop: int, zone: str) -> _Reading | None:
    begins = local_instants(start * DAY_US, zone)
    ends = local_instants(stop * DAY_US, zone)
    if begins is None or ends is None or begins.earliest != begins.latest:
        return None
    if ends.earliest != ends.latest:  # midnight comes twice: leave it to Spark
        return None
    return _Reading(*_texts(begins), stop=format_micros(ends.latest))


def _make_reading(instants: Instants) -> _Reading:
    return _Reading(*_texts(instants))


def _texts(instants: Instants) -> tuple[str, str]:
    return format_micros(instants.earliest), format_micros(instants.latest)


def _date(literal: exp.Expr) -> int | None:
    """Days since 1970."""
    text = _text(literal, exp.DType.DATE)
    match = None if text is None else re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", text.strip())
    return None if match is None else find_days(*map(int, match.groups()))


def _text(literal: exp.Expr, *casts: exp.DType) -> str | None:
    """Returns a string literal, bare or cast to one of `casts`, as in DATE '2024-01-01'."""
    if isinstance(literal, exp.Cast) and literal.to.is_type(*casts):
        literal = literal.this
    return str(literal.this) if literal.is_string else None
