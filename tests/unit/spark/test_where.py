"""What a predicate leaves over. SQLite and pandas judge that nothing is lost."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import Plain, Values, decode
from frazil.spark.table.description import ArrayDescription, Dimension, Grid
from frazil.spark.table.schema import plan_columns
from frazil.spark.table.selection import Bounds, resolve
from frazil.spark.table.timetext import Period, find_instants, find_period, format_micros
from frazil.spark.table.where import Coordinate, Kind, coordinates_of, plan_where
from tests.unit.spark.cf_cases import Encoded, encodings

COORDINATES = {
    "lat": Coordinate("lat", Kind.NUMBER),
    "time": Coordinate("time", Kind.TIME),
    "station": Coordinate("Station", Kind.TEXT),
}


def bounds(where: str, zone: str = "UTC") -> list[tuple[str, Bounds]]:
    found = plan_where(where, COORDINATES, zone).constraints
    return [(name, c) for name, c in found if isinstance(c, Bounds)]


def midnight(day: str) -> str:
    return f"{day}T00:00:00.000000"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("lat > 40", Bounds(gt=40)),
        ("40 <= lat", Bounds(ge=40)),
        ("lat < -4.5e0", Bounds(lt=-4.5)),
        ("(LAT) <= (40L)", Bounds(le=40)),
        ("`lat` = 40.5D", Bounds(among=(40.5,))),
        ("lat <=> 40", Bounds(among=(40,))),
        ("lat BETWEEN 10 AND 20", Bounds(ge=10, le=20)),
        ("lat IN (1, 2.5, -3)", Bounds(among=(1, 2.5, -3))),
    ],
)
def test_comparisons_with_numbers_prune(where: str, expected: Bounds) -> None:
    assert bounds(where) == [("lat", expected)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("time >= '2024-01-02'", Bounds(ge=midnight("2024-01-02"))),
        ("time < TIMESTAMP '2024-01-02 00:00:00'", Bounds(lt=midnight("2024-01-02"))),
        ("time = DATE'2024-01-02'", Bounds(among=(midnight("2024-01-02"),))),
        ("time > CAST('2024-01-02' AS TIMESTAMP)", Bounds(gt=midnight("2024-01-02"))),
        ("time >= '2024-01-02T02:00:00+02:00'", Bounds(ge=midnight("2024-01-02"))),
        (
            "date(time) = '2024-01-02'",
            Bounds(ge=midnight("2024-01-02"), lt=midnight("2024-01-03")),
        ),
        ("to_date(time) > '2024-01-02'", Bounds(ge=midnight("2024-01-03"))),
        ("CAST(time AS DATE) <= '2024-01-02'", Bounds(lt=midnight("2024-01-03"))),
        (
            "date(time) BETWEEN '2024-01-02' AND '2024-01-04'",
            Bounds(ge=midnight("2024-01-02"), lt=midnight("2024-01-05")),
        ),
        ("year(time) = 2023", Bounds(ge=midnight("2023-01-01"), lt=midnight("2024-01-01"))),
        ("2023 < year(time)", Bounds(ge=midnight("2024-01-01"))),
    ],
)
def test_comparisons_with_times_prune(where: str, expected: Bounds) -> None:
    assert bounds(where) == [("time", expected)]


def test_local_times_are_of_the_session_zone() -> None:
    assert bounds("time >= '2024-07-01'", "Europe/Oslo") == [
        ("time", Bounds(ge="2024-06-30T22:00:00.000000"))
    ]


def test_an_hour_that_comes_twice_prunes_neither() -> None:
    where = "time = '2024-10-27 02:30:00'"
    assert bounds(where, "Europe/Oslo") == [
        ("time", Bounds(ge="2024-10-27T00:30:00.000000", le="2024-10-27T01:30:00.000000"))
    ]


def test_text_prunes_text() -> None:
    assert bounds("station IN ('oslo', 'narvik')") == [
        ("Station", Bounds(among=("oslo", "narvik")))
    ]


def test_every_conjunct_prunes_for_itself() -> None:
    assert bounds("lat > 3 AND (t2m < 4 AND lat <= 9) AND (lat = 1 OR lat = 2)") == [
        ("lat", Bounds(gt=3)),
        ("lat", Bounds(le=9)),
    ]


@pytest.mark.parametrize(
    "where",
    [
        "lat > 1 OR lat < 0",
        "NOT lat > 1",
        "lat != 1",
        "lat > t2m",
        "lat + 1 > 3",
        "abs(lat) > 3",
        "lat > '40'",  # Spark casts text to a number by rules of its own
        "lat > CAST(40.7 AS INT)",
        "lat > NULL",
        "lat IN (1, NULL)",
        "lat IN (SELECT 1)",
        "lat IS NULL",
        "lat NOT IN (1, 2)",
        "lat NOT BETWEEN 1 AND 2",
        "time > 5",
        "time > 'yesterday'",
        "time > '2024-02-31'",
        "time > current_timestamp()",
        "date(time) > '2024-1-2 junk'",
        "year(time) = 2023.5",
        "month(time) = 3",
        "station > 5",
        "t.lat > 5",
        "t2m > 5",
        "true",
    ],
)
def test_what_cannot_be_trusted_prunes_nothing(where: str) -> None:
    assert bounds(where) == []


@pytest.mark.parametrize("where", ["lat >", "lat > 1; DROP TABLE t", "lat > 1 ORDER BY lat", ""])
def test_what_is_no_predicate_is_refused(where: str) -> None:
    with pytest.raises(InvalidInputError, match="predicate"):
        bounds(where)


OFFSETS = {
    "Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "UTC+0": 0, "+02:00": 120, "-08:00": -480, "+2": 120,
    "GMT+2": 120, "UTC+02:00": 120, "UT-3": -180, "+5:30": 330, "+0530": 330, "+05:3": 303,
    "-18:00": -1080, "+01:00:00": 60, "+010000": 60,
}  # fmt: skip


@pytest.mark.parametrize("zone", OFFSETS)
def test_a_session_zone_may_be_an_offset(zone: str) -> None:
    ((_, found),) = bounds("time > '2024-01-01 12:00:00'", zone)
    assert found == Bounds(gt=format_micros(1_704_110_400_000_000 - OFFSETS[zone] * 60_000_000))


@pytest.mark.parametrize(
    "zone", ["PST", "EST", "+19:00", "SystemV/PST8", "", "/etc/passwd", "x\0y"]
)
def test_a_zone_that_only_spark_knows_prunes_nothing(zone: str) -> None:
    assert bounds("time > '2024-01-01'", zone) == []
    assert bounds("date(time) > '2024-01-01'", zone) == []
    assert bounds("time > '2024-01-01T00:00:00Z'", zone) == bounds("time > '2024-01-01'")


ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "+18:00", "-18:00")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("time <= '9999-12-31 23:59:59.999999'", ("le", 9999, 12, 31, 86_399_999_999)),
        ("time >= '0001-01-01'", ("ge", 1, 1, 1, 0)),
        ("time > '0000-01-01'", ("gt", 0, 1, 1, 0)),
        ("time < '+010000-01-01'", ("lt", 10_000, 1, 1, 0)),
        ("date(time) <= DATE '9999-12-31'", ("lt", 10_000, 1, 1, 0)),
        ("date(time) >= '0001-01-01'", ("ge", 1, 1, 1, 0)),
        ("year(time) > 9999", ("ge", 10_000, 1, 1, 0)),
        ("year(time) >= 1", ("ge", 1, 1, 1, 0)),
    ],
)
def test_dates_at_the_ends_of_the_calendar_prune_exactly(
    where: str, expected: tuple[str, int, int, int, int], zone: str
) -> None:
    operator, year, month, day, clock_us = expected
    local = int(np.datetime64(f"{year:04}-{month:02}-{day:02}", "us").astype(int)) + clock_us
    # of years that begin on the same days, and are under the same rules
    like = datetime(2800 if year > 5000 else 1200, 1, 1, tzinfo=find_zone(zone))
    offset = (like.utcoffset() or timedelta(0)) // timedelta(microseconds=1)
    ((_, found),) = bounds(where, zone)
    (label,) = (value for value in (found.ge, found.gt, found.le, found.lt) if value is not None)
    assert label == getattr(found, operator)
    period = find_period(str(label))
    assert period is not None
    assert period.start == local - offset
    values = np.array([period.start - 1, period.start, period.start + 1]).view("datetime64[us]")
    kept = {"le": {0, 1}, "lt": {0}, "ge": {1, 2}, "gt": {2}}[operator]
    assert set(resolve("time", Values(values, None), [found])) == kept


def find_zone(name: str) -> tzinfo:
    return timezone(timedelta(hours=int(name[:3]))) if name[0] in "+-" else ZoneInfo(name)


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),  # noqa: DTZ001  # local to a zone
    st.sampled_from(["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
)
def test_local_times_are_those_of_pythons_zones(local: datetime, zone: str) -> None:
    folds = (local.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = sorted((each - epoch) // timedelta(microseconds=1) for each in folds)
    found = find_instants(local.isoformat(" "), zone)
    assert found is not None
    assert [found.earliest, found.latest] == expected


@given(st.integers(-91 * 10**17, 91 * 10**17))
def test_every_microsecond_has_its_text(micros: int) -> None:
    assert find_period(format_micros(micros)) == Period(micros, micros + 1)


numbers = st.sampled_from(["-3", "0", "2", "2.5", "7.25", "-0.1", "1e1", "100"])
operators = st.sampled_from(["=", "<", "<=", ">", ">="])
comparisons = st.one_of(
    st.builds("lat {} {}".format, operators, numbers),
    st.builds("{} {} lat".format, numbers, operators),
    st.builds("lat BETWEEN {} AND {}".format, numbers, numbers),
    st.builds("lat IN ({}, {})".format, numbers, numbers),
    st.builds("lon {} {}".format, operators, numbers),
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=6,
)


POOL = [-3, -0.1, 0, 1, 2, 2.5, 7, 7.25, 10, 99, 100]
orders = st.lists(st.sampled_from([*POOL, np.nan, np.inf, -np.inf]), max_size=12)


@given(predicates, orders, st.sampled_from(["f4", "f8", "i8", "u1"]))
def test_no_row_that_a_predicate_keeps_is_pruned(
    where: str, values: list[float], dtype: str
) -> None:
    """Values in any order, some twice, NaN and infinities among them."""
    if np.dtype(dtype).kind != "f":
        values = [abs(v) if dtype == "u1" else v for v in values if np.isfinite(v)]
    stored = np.array(values).astype(dtype)
    column = decode(Plain(), stored)
    pruned = plan_where(where, COORDINATES, "UTC").on("lat")
    kept = set(resolve("lat", column, pruned))
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE t (i, lat, lon)")
    rows = [(i, v, lon) for i, v in enumerate(stored.tolist()) for lon in (0.0, 5.0)]
    table.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)  # SQLite's NaN is NULL, too
    wanted = {i for (i,) in table.execute(f"SELECT i FROM t WHERE {where}")}  # noqa: S608  # made above
    table.close()
    assert wanted <= kept


@dataclass(frozen=True)
class Predicate:
    """Of times: in SQL, and which of some times make it true and which false; NULL is neither."""

    sql: str
    judge: Callable[["pd.Series[Any]"], tuple[Any, Any]]
    is_exact: bool = False  # whether pruning by it alone leaves over exactly what is true


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq, "<": lt, "<=": le, ">": gt, ">=": ge, "!=": ne,
}  # fmt: skip
_MOMENTS = (
    "2024-03-10 02:30:00",  # an hour that New York has not
    "2024-11-03 01:30:00",  # and one that it has twice
    "2024-01-01", "2024-06-30 23:59:59.999999", "1999-12-31 12:00:00", "1883-11-18 12:00:00",
)  # fmt: skip
_PLACES = ("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "+02:00", "GMT-3:30")


def zoned(name: str) -> tzinfo:
    offsets = {"+02:00": 120, "GMT-3:30": -210}
    return timezone(timedelta(minutes=offsets[name])) if name in offsets else ZoneInfo(name)


def compare(left: Any, operator: str, right: Any, valid: Any) -> tuple[Any, Any]:
    found = _COMPARE[operator](left, right)
    return found & valid, ~found & valid


@st.composite
def time_atoms(draw: st.DrawFn, zone: tzinfo) -> Predicate:
    operator = draw(st.sampled_from(list(_COMPARE)))
    text = draw(st.sampled_from(_MOMENTS))
    moment = datetime.fromisoformat(text).replace(tzinfo=zone)
    twice = moment.utcoffset() != moment.replace(fold=1).utcoffset()
    instant = pd.Timestamp(moment.astimezone(UTC))
    is_exact = operator != "!=" and not twice
    kind = draw(st.sampled_from(["time", "date", "year", "in"]))
    if kind == "time":
        return Predicate(
            f"time {operator} '{text}'",
            lambda times: compare(times, operator, instant, times.notna()),
            is_exact,
        )
    if kind == "in":
        other = pd.Timestamp("2024-01-02T00:00:00", tz=UTC)
        return Predicate(
            f"time IN ('{text}', '2024-01-02T00:00:00Z')",
            lambda times: compare(times.isin([instant, other]), "=", True, times.notna()),
            is_exact and not twice,
        )
    if kind == "date":
        day = pd.Timestamp(text[:10])
        return Predicate(
            f"date(time) {operator} '{text[:10]}'",
            lambda times: compare(
                times.dt.tz_convert(zone).dt.tz_localize(None).dt.normalize(),
                operator,
                day,
                times.notna(),
            ),
            operator != "!=",
        )
    return Predicate(
        f"{text[:4]} {operator} year(time)",
        lambda times: compare(
            int(text[:4]), operator, times.dt.tz_convert(zone).dt.year, times.notna()
        ),
        operator != "!=",
    )


def joined(word: str, one: Predicate, other: Predicate) -> Predicate:
    def judge(times: "pd.Series[Any]") -> tuple[Any, Any]:
        (true, false), (right, wrong) = one.judge(times), other.judge(times)
        return (true & right, false | wrong) if word == "AND" else (true | right, false & wrong)

    return Predicate(f"({one.sql} {word} {other.sql})", judge, False)


def negated(one: Predicate) -> Predicate:
    return Predicate(f"(NOT {one.sql})", lambda times: one.judge(times)[::-1], False)


def time_predicates(zone: tzinfo) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        time_atoms(zone),
        lambda inner: st.one_of(
            st.builds(joined, st.sampled_from(["AND", "OR"]), inner, inner),
            st.builds(negated, inner),
        ),
        max_leaves=4,
    )


@given(st.sampled_from(_PLACES), st.data())
def test_no_time_that_a_predicate_keeps_is_pruned(name: str, data: st.DataObject) -> None:
    """pandas judges: times around midnights and turned clocks, in any order, NaT among them."""
    zone = zoned(name)
    predicate = data.draw(time_predicates(zone))
    near = [datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC) for text in _MOMENTS]
    shifts = st.sampled_from([0, 1, -1, 3_600_000_000, -1_800_000_000, 86_400_000_000])
    moments = st.builds(
        lambda at, us: at + timedelta(microseconds=us), st.sampled_from(near), shifts
    )
    drawn = data.draw(st.lists(moments | st.none(), min_size=1, max_size=12))
    times = pd.Series(pd.DatetimeIndex(drawn, dtype="datetime64[us, UTC]"))
    stored = times.dt.tz_localize(None).to_numpy()
    wanted = set(np.flatnonzero(predicate.judge(times)[0].to_numpy()).tolist())
    pruned = plan_where(predicate.sql, COORDINATES, name).on("time")
    kept = set(resolve("time", decode(Plain(), stored), pruned))
    assert wanted <= kept
    if predicate.is_exact:
        assert kept == wanted


@given(encodings(), st.sampled_from([">=", ">", "<=", "<", "="]), st.integers(0, 5))
def test_encoded_coordinates_are_compared_as_xarray_decodes_them(
    case: Encoded, operator: str, at: int
) -> None:
    expected = case.expected
    pivot = expected[at % len(expected)]
    assume(not pd.isna(pivot))
    literal = f"'{pivot}Z'" if case.is_time else format(float(pivot), ".17g") + "D"
    array = ArrayDescription(
        name="c", path="/c", dims=("c",), shape=expected.shape, chunks=expected.shape,
        dtype=case.stored.dtype, attrs=case.attrs,
    )  # fmt: skip
    grid = Grid("/", (Dimension("c", len(expected), array),), ())
    columns = plan_columns(grid, decode_cf=True)
    (pruned,) = plan_where(f"c {operator} {literal}", coordinates_of(columns), "UTC").on("c")
    kept = resolve("c", decode(columns[0].decoding, case.stored), [pruned])
    with np.errstate(invalid="ignore"):
        apart = (expected - pivot).astype(np.float64)
        # by a microsecond times may differ from those of xarray, which cuts fractions off
        sure = np.abs(apart) > 1 if case.is_time else ~np.isnan(apart)
        found = _COMPARE[operator](expected, pivot) & sure & ~pd.isna(expected)
    assert set(np.flatnonzero(found).tolist()) <= set(kept)
    beyond = set(kept) - set(np.flatnonzero(found).tolist())
    assert all(not sure[k] or pd.isna(expected[k]) or expected.dtype == np.float32 for k in beyond)
