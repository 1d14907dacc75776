"""Which chunks a query reads, as Spark plans it: every mention of a table is pruned by itself."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from frazil.api.repository import Repository
from frazil.api.storage_functions import local_filesystem_storage
from frazil.errors import InvalidInputError, NodeNotFoundError, RefNotFoundError
from frazil.spark import SqlPlan, plan_sql, read, sql
from tests.spark.repositories import fill_weather, make_weather, put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = make_weather(tmp_path_factory.mktemp("weather"))
    repository.create_tag("v1", repository.lookup_branch("main"))
    with repository.transaction("main", message="more") as store:
        fill_weather(zarr.group(store, path="surface/hourly"))
        root = zarr.open_group(store)
        put(root, "orography", np.ones((19, 36), dtype="f4"), "lat lon", (19, 36))
        put(root, "crs", np.array(0), "", ())
    return repository


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession) -> Iterator[None]:
    """Tables of Spark's own."""
    spark.sql("CREATE TEMPORARY VIEW x AS SELECT DOUBLE(1) AS lat, FLOAT(1) AS t2m")
    spark.sql("CREATE TEMPORARY VIEW z AS SELECT 1 AS q")
    yield
    spark.catalog.dropTempView("x")
    spark.catalog.dropTempView("z")


def planned(spark: SparkSession, weather: Repository, query: str) -> SqlPlan:
    return plan_sql(spark, query, {"weather": weather, "old": {"path": weather, "tag": "v1"}})


def chunks(spark: SparkSession, weather: Repository, query: str) -> list[int]:
    return [scan.chunks_read for scan in planned(spark, weather, query).scans]


# A band of latitudes is a quarter of the 48 chunks of a variable, so is a half of a day.
PREDICATES = {
    "true": 48,
    "lat > 40": 12,  # the first 5 of 19 latitudes: one of four chunks
    "lat >= 40": 24,
    "time < '2024-01-01 12:00:00'": 12,
    "time < '2024-01-01 12:00:00' AND lat > 40 AND lon IN (0, 350)": 2,
    "date(time) = '2024-01-02'": 24,
    "year(time) = 2024 AND hour(time) < 12 AND NOT lat <= 40": 6,
    "lat > 40 OR lon > 300": 24,
    "lat > 40 AND (lat < 50 OR t2m > 3)": 12,
    "lat > 95": 0,
    "W.LAT > 45": 12,
}


def test_predicates_on_coordinates_leave_chunks_unread(
    spark: SparkSession, weather: Repository
) -> None:
    # all in one query, which is sooner planned
    query = " UNION ALL ".join(
        f"SELECT avg(t2m) FROM old w WHERE {predicate}"  # noqa: S608  # our own text
        for predicate in PREDICATES
    )
    plan = planned(spark, weather, query)
    found = [(scan.chunks_read, scan.chunks_total) for scan in plan.scans]
    assert found == [(expected, 48) for expected in PREDICATES.values()]
    assert plan.summary.splitlines()[1].endswith("read 12 of 48 chunks, 8640 of 32832 rows")
    assert plan.chunks_read == sum(PREDICATES.values())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT o.* FROM old o", [96]),
        ("SELECT count(*), max(lat) FROM old", []),  # known without a scan
        ("SELECT to_json(struct(*)) FROM old", [96]),
        ("SELECT s.t2m FROM (SELECT * FROM old) s", [48]),
        (
            "WITH c AS (SELECT o.* FROM old o) SELECT a.t2m FROM c a JOIN c b ON a.lat = b.lat",
            [48, 0],
        ),
        ("SELECT 1 FROM x WHERE EXISTS (SELECT * FROM old WHERE old.lat = x.lat)", [0]),
        ("SELECT count(1) FROM (SELECT DISTINCT * FROM old)", [96]),
        ("SELECT b FROM old AS o(a, b, c, d, e) WHERE b > 40", [0]),
    ],
)
def test_only_variables_that_are_used_are_read(
    spark: SparkSession, weather: Repository, query: str, expected: list[int]
) -> None:
    assert chunks(spark, weather, query) == expected


JOINED = """
    SELECT a.t2m - b.t2m FROM old a JOIN old b ON a.lat = b.lat AND a.lon = b.lon
    WHERE a.time = '2024-01-01 00:00:00' AND b.time = '2024-01-02 00:00:00' AND a.lat >= 50"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM old WHERE pressure > 950 AND lon < 120", [16]),
        (
            "SELECT * FROM old WHERE lat >= 50 AND time < '2024-01-01 12:00:00' AND lon = 0",
            [2],
        ),
        (JOINED, [3, 3]),  # Spark knows that b.lat is at least 50, too
        (
            (
                "SELECT a.t2m, b.pressure FROM old a JOIN old b USING (time, lat, lon)"
                " WHERE a.lat >= 50"
            ),
            [12, 12],
        ),
        (
            (
                "SELECT t2m FROM old WHERE lat >= 50"
                " UNION ALL SELECT pressure FROM old WHERE lat <= -70"
            ),
            [12, 12],
        ),
        ("SELECT (SELECT max(t2m) FROM old WHERE lat >= 50), (SELECT max(t2m) FROM old)", [12, 48]),
        ("SELECT t2m FROM old WHERE lat >= 50 OR lon < 10", [24]),
        (
            (
                "SELECT t2m FROM old WHERE lat IN (90, -90)"
                " AND EXISTS (SELECT 1 FROM old i WHERE i.lon = 0)"
            ),
            [0, 24],
        ),
    ],
)
def test_a_mention_of_a_table_reads_its_own_chunks(
    spark: SparkSession, weather: Repository, query: str, expected: list[int]
) -> None:
    assert chunks(spark, weather, query) == expected


@pytest.mark.parametrize(
    ("where", "expected"), [("lat >= 50", 12), ("lat >= 50 AND pressure > 0", 24), ("t2m > 3", 48)]
)
def test_a_predicate_reads_what_it_mentions_and_no_more(
    spark: SparkSession, weather: Repository, where: str, expected: int
) -> None:
    frame = read(spark, weather, tag="v1", columns=["t2m"], where=where)
    frame.createOrReplaceTempView("some")
    try:
        (scan,) = SqlPlan.of(spark, "SELECT * FROM some").scans
    finally:
        spark.catalog.dropTempView("some")
    assert scan.chunks_read == expected


@pytest.mark.parametrize(
    ("join", "left", "right"),
    [
        ("a JOIN old b ON a.lon = b.lon AND a.lat > 40 AND b.lat < -40", 12, 24),
        ("a LEFT JOIN old b ON a.lat > 40 AND b.lat > 40", 48, 12),
        ("a RIGHT JOIN old b ON a.lat > 40 AND b.lat > 40", 12, 48),
        ("a FULL JOIN old b ON a.lat > 40 AND b.lat > 40", 48, 48),
        ("a CROSS JOIN old b WHERE a.lat > 40 AND b.lat > 40", 12, 12),
        ("a LEFT JOIN old b ON a.t2m = b.t2m WHERE b.lat > 40", 48, 12),
        ("a FULL JOIN old b ON a.t2m = b.t2m WHERE a.lat > 40", 12, 48),
        ("a JOIN old b USING (time) WHERE time < '2024-01-01 12:00:00'", 12, 12),
    ],
)
def test_joins_are_pruned_on_the_side_where_that_is_right(
    spark: SparkSession, weather: Repository, join: str, left: int, right: int
) -> None:
    query = f"SELECT a.t2m, b.t2m FROM old {join}"  # noqa: S608  # our own text
    assert chunks(spark, weather, query) == [left, right]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH old AS (SELECT t2m FROM old WHERE lat > 40) SELECT * FROM old", [12]),
        ("WITH a AS (SELECT 1 AS lat), old AS (SELECT * FROM a) SELECT * FROM old", []),
        ("SELECT t2m FROM old WHERE lat > 40 UNION ALL SELECT t2m FROM Old", [12, 48]),
        ("SELECT t2m FROM x WHERE lat IN (SELECT lat FROM old WHERE lat > 40)", [0]),
        ("SELECT t2m FROM x WHERE 3 IN (SELECT t2m FROM old WHERE lat > 40)", [12]),
        ("SELECT (SELECT max(t2m) FROM old i WHERE i.lat = o.lat) FROM old o", [0, 48]),
        ("SELECT 'é☃😀' AS x,\r\n t2m FROM old -- ☃ old\r\n WHERE lat > 40", [12]),
        ("SELECT old.t2m, '{x}' AS `old` FROM old /* FROM old */ WHERE lat > 40", [12]),
        ("SELECT t2m FROM IDENTIFIER('o' || 'ld') WHERE lat > 40", [12]),
        ("FROM old |> WHERE lat > 40 |> SELECT t2m", [12]),
        ("EXPLAIN FORMATTED SELECT t2m FROM old WHERE lat > 40", [12]),
    ],
)
def test_spark_resolves_the_names(
    spark: SparkSession, weather: Repository, query: str, expected: list[int]
) -> None:
    assert chunks(spark, weather, query) == expected


NESTED = """
    WITH a AS (SELECT lat y, lon, t2m FROM old WHERE lon < 100), b AS (SELECT * FROM a)
    SELECT avg(t2m) FROM b JOIN z ON b.y > 40"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (NESTED, 4),
        ("SELECT * FROM (SELECT lat, avg(t2m) FROM old GROUP BY lat) WHERE lat > 40", 12),
        ("SELECT * FROM (SELECT -lat AS lat, t2m FROM old) WHERE lat > 40", 24),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s(lon, t2m) WHERE lon > 40", 12),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s JOIN z ON true WHERE lat > 40", 12),
        # what is computed from several rows is not what it was without some of them
        ("SELECT * FROM (SELECT lat, sum(t2m) OVER () FROM old) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s FULL JOIN z ON s.lat > 40", 48),
    ],
)
def test_predicates_pass_through_subqueries(
    spark: SparkSession, weather: Repository, query: str, expected: int
) -> None:
    assert planned(spark, weather, query).chunks_read == expected


def test_groups_and_arrays_are_parts_of_a_name(spark: SparkSession, weather: Repository) -> None:
    query = """
        SELECT h.t2m FROM deep.`surface/hourly` h WHERE h.lat > 40
        UNION ALL SELECT hourly.t2m FROM deep.surface.hourly WHERE deep.surface.hourly.lat > 9
        UNION ALL SELECT t2m FROM deep.surface.`hourly/t2m`
        UNION ALL SELECT orography FROM deep.orography WHERE lat > 40"""
    # a name of three parts stays in the session, as a catalog
    plan = plan_sql(spark, query, {"deep": weather})
    assert [(one.chunks_read, one.table) for one in plan.scans[:3]] == [
        (12, "deep.surface/hourly"),
        (24, "deep.surface.hourly"),
        (48, "deep.surface.hourly/t2m"),
    ]
    assert plan.scans[3].chunks_read == 1
    with pytest.raises(NodeNotFoundError, match="depths"):
        planned(spark, weather, "SELECT * FROM weather.depths")


def test_old_versions_are_named_in_sql(spark: SparkSession, weather: Repository) -> None:
    first = weather.lookup_tag("v1")
    query = " UNION ALL ".join(
        f"SELECT t2m FROM weather {version} AS w WHERE w.lat > 40"  # noqa: S608  # our own text
        for version in (
            "VERSION AS OF 'v1'",
            f"VERSION AS OF '{first}'",
            "VERSION AS OF 'main'",
            "TIMESTAMP AS OF '2999-01-01'",
        )
    )
    plan = planned(spark, weather, query)
    assert [scan.chunks_read for scan in plan.scans] == [12, 12, 12, 12]
    tip = weather.lookup_branch("main")
    assert [plan.plan.count(f" at {snapshot},") for snapshot in (first, tip)] == [2, 2]
    for unknown in ("v2", "00000000000000000000"):
        with pytest.raises(RefNotFoundError, match=f"no branch, tag or snapshot '{unknown}'"):
            planned(spark, weather, f"SELECT t2m FROM weather VERSION AS OF '{unknown}'")  # noqa: S608  # our own text
    with pytest.raises(AnalysisException, match="TIME_TRAVEL"):
        planned(spark, weather, "SELECT t2m FROM x VERSION AS OF 'v1'")


def test_a_version_that_is_a_branch_and_a_tag_is_refused(
    spark: SparkSession, weather: Repository
) -> None:
    """Its prefix says which of the two is meant."""
    tip, first = weather.lookup_branch("main"), weather.lookup_tag("v1")
    weather.create_branch("both", tip)
    weather.create_tag("both", first)
    with pytest.raises(InvalidInputError, match=r"branch:both.*tag:both|tag:both.*branch:both"):
        planned(spark, weather, "SELECT t2m FROM weather VERSION AS OF 'both'")
    for name, snapshot in (("branch:both", tip), ("tag:both", first)):
        plan = planned(spark, weather, f"SELECT t2m FROM weather VERSION AS OF '{name}'")  # noqa: S608  # our own text
        assert f" at {snapshot}," in plan.plan


def test_a_group_of_several_grids_is_one_table_per_grid(
    spark: SparkSession, weather: Repository
) -> None:
    """The variables that the query mentions must share their dimensions."""
    assert chunks(spark, weather, "SELECT avg(orography) FROM weather WHERE lat > 40") == [1]
    both = "SELECT avg(t2m), avg(pressure) FROM weather WHERE lat > 40"
    assert chunks(spark, weather, both) == [24]
    for query in ("SELECT * FROM weather", "SELECT avg(t2m * orography) FROM weather"):
        with pytest.raises(InvalidInputError, match=r"orography .*t2m .*`variables`"):
            planned(spark, weather, query)


def test_what_is_not_one_query_is_refused(spark: SparkSession, weather: Repository) -> None:
    for query in ("SELECT FROM (", "SELECT 1; SELECT 2", "DROP TABLE old"):
        with pytest.raises(ParseException):
            planned(spark, weather, query)


def test_an_unknown_option_of_a_table_is_named(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match=r"'brnch'.*branch"):
        sql(spark, "SELECT 1", {"w": {"path": "x", "brnch": "main"}})


def test_a_name_of_the_session_is_not_taken_for_a_repository(
    spark: SparkSession, weather: Repository
) -> None:
    with pytest.raises(InvalidInputError, match="give another name"):
        sql(spark, "SELECT * FROM x", {"x": weather})


def test_tables_of_a_query_can_only_be_read(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="x") as store:
        put(zarr.group(store), "v", np.arange(3), "x", 3)
    before = repository.lookup_branch("main")
    for statement in (
        "INSERT INTO t SELECT * FROM t",
        "INSERT OVERWRITE t SELECT * FROM t",
        "DELETE FROM t",
        "ALTER TABLE t ADD COLUMN w INT",
        "TRUNCATE TABLE t",
    ):
        with pytest.raises(PySparkException):
            sql(spark, statement, {"t": repository})
    assert repository.lookup_branch("main") == before
    rows = sql(spark, "CREATE TABLE copied AS SELECT v FROM t WHERE x > 0", {"t": repository})
    try:
        assert rows.collect() == []
        assert sorted(row.v for row in spark.table("copied").collect()) == [1, 2]
    finally:
        spark.sql("DROP TABLE copied")
