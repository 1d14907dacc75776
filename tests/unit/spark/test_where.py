"""What a predicate leaves over. SQLite judges that nothing is lost."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.cf import Values
from frazil.spark.positions import resolve
from frazil.spark.selection import Bounds
from frazil.spark.where import Coordinate, Kind, plan_where

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


@settings(max_examples=300)
@given(predicates, st.sampled_from(["f4", "f8", "i8"]))
def test_no_row_that_a_predicate_keeps_is_pruned(where: str, dtype: str) -> None:
    stored = np.array([-3, -0.1, 0, 1, 2, 2.5, 7, 7.25, 10, 99, 100]).astype(dtype)
    pruned = plan_where(where, COORDINATES, "UTC").on("lat")
    kept = set(resolve("lat", Values(stored, None), pruned))
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE t (i, lat, lon)")
    rows = [(i, v, lon) for i, v in enumerate(stored.tolist()) for lon in (0.0, 5.0)]
    table.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    wanted = {i for (i,) in table.execute(f"SELECT i FROM t WHERE {where}")}  # noqa: S608  # made above
    table.close()
    assert wanted <= kept
