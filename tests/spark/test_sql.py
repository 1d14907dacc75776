"""SQL over repositories: pruned queries give what unpruned ones give."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from frazil.api import Repository
from frazil.spark import plan_sql, read, sql
from tests.examples_count import scaled
from tests.spark.repositories import fill_weather, make_weather, put, temperature

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = make_weather(tmp_path_factory.mktemp("repositories") / "weather")
    repository.create_tag("v1", repository.lookup_branch("main"))
    with repository.transaction("main", message="colder, and another group") as store:
        array = zarr.open_array(store, path="t2m")
        array[:, :5, :] = 1.0
        fill_weather(zarr.group(store, path="deep/down"))
        fill_odd(zarr.group(store, path="odd"))
    return repository


@pytest.fixture(scope="module")
def whole(spark: SparkSession, weather: Repository) -> Iterator[DataFrame]:
    """The table of v1 as Spark's own, so that nothing is pruned."""
    frame = read(spark, weather, tag="v1").cache()
    frame.createOrReplaceTempView("whole")
    yield frame
    spark.catalog.dropTempView("whole")
    frame.unpersist()


@pytest.fixture(scope="module")
def odd(spark: SparkSession, weather: Repository) -> Iterator[DataFrame]:
    """Coordinates that descend, repeat themselves, are in no order or missing; packed times."""
    frame = read(spark, weather, group="odd").cache()
    frame.createOrReplaceTempView("odd")
    yield frame
    spark.catalog.dropTempView("odd")
    frame.unpersist()


def fill_odd(group: zarr.Group) -> None:
    hours = {"units": "hours since 2023-12-31", "scale_factor": 0.5, "add_offset": 1.0}
    put(group, "time", np.arange(96, 0, -4, dtype=np.int16), "time", 6, **hours)
    latitudes = np.array([90, 40, 40, -35.5, np.nan, 50, 0, -90, 120])
    put(group, "lat", latitudes, "lat", 9)
    longitudes = np.array([100, 0, 50, 50, 120, 40, 7], dtype=np.int16)
    put(group, "lon", longitudes, "lon", 7, _FillValue=7)
    shape = (24, 9, 7)
    put(group, "t2m", temperature(shape), "time lat lon", (5, 2, 2))
    pressure = (np.arange(np.prod(shape)).reshape(shape) % 997).astype(np.int16)
    attrs = {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": 3}
    put(group, "pressure", pressure - 200, "time lat lon", (5, 2, 2), **attrs)


numbers = st.sampled_from(["-90", "-35.5", "0", "40", "50.0", "120", "1e2", "-0.1"])
moments = st.sampled_from(
    ["'2024-01-01'", "'2024-01-01 13:00:00'", "TIMESTAMP'2024-01-02 06:30:00'", "DATE'2024-01-02'"]
)
days = st.sampled_from(["'2024-01-01'", "'2024-01-02'", "'2024-01-03'"])
operators = st.sampled_from(["=", "<", "<=", ">", ">=", "<=>", "!="])
spatial = st.sampled_from(["lat", "lon", "LAT", "`lon`"])
atoms = st.one_of(
    st.builds("{} {} {}".format, spatial, operators, numbers),
    st.builds("{} {} {}".format, numbers, operators, spatial),
    st.builds("{} BETWEEN {} AND {}".format, spatial, numbers, numbers),
    st.builds("{} IN ({}, {})".format, spatial, numbers, numbers),
    st.builds("time {} {}".format, operators, moments),
    st.builds("date(time) {} {}".format, operators, days),
    st.just("t2m > 280"),
    st.just("pressure IS NULL"),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} AND {} AND {})".format, inner, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)

sources = st.sampled_from(
    ["{}", "{}", "(SELECT * FROM {}) s", "(SELECT * FROM {} x WHERE x.lon < 200) AS s"]
)

_AGGREGATES = "count(*), count(t2m), sum(cast(pressure AS DECIMAL(20, 4))), min(lat), max(time)"


ZONES = ["UTC", "America/New_York", "+05:30", "GMT-2"]


@settings(
    max_examples=scaled(5),
    phases=[Phase.generate],  # to shrink would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(sources, predicates), min_size=4, max_size=4),
    st.sampled_from(["whole", "odd"]),
    st.sampled_from(ZONES),
)
@pytest.mark.usefixtures("whole", "odd")
def test_pruning_changes_no_result(
    spark: SparkSession,
    weather: Repository,
    where: list[tuple[str, str]],
    unpruned: str,
    zone: str,
) -> None:
    # all in one query: each costs Spark more to plan than to run
    query = " UNION ALL ".join(
        f"SELECT '{table}' AS source, {k} AS k, {_AGGREGATES}"  # noqa: S608  # our own text
        f" FROM {source.format(table)} WHERE {predicate}"
        for k, (source, predicate) in enumerate(where)
        for table in ("weather", unpruned)
    )
    pruned = {"path": weather, "tag": "v1"}
    tables = {"weather": pruned if unpruned == "whole" else {"path": weather, "group": "odd"}}
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = sql(spark, query, tables).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = {(row.source, row.k): tuple(row)[2:] for row in rows}
    for k, predicate in enumerate(where):
        assert found["weather", k] == found[unpruned, k], predicate


def test_each_mention_of_a_table_is_a_load_of_its_own(
    spark: SparkSession, weather: Repository, whole: DataFrame
) -> None:
    """The queries that PySpark's own filter pushdown answers wrongly (docs/spark-facts.md 1)."""
    tables = {"w": {"path": weather, "tag": "v1"}}
    north, south = "lat >= 50", "lat <= -50"
    query = f"""
        SELECT 'a' AS k, count(*) AS n FROM (SELECT * FROM w WHERE {north}
                                             UNION ALL SELECT * FROM w WHERE {south})
        UNION ALL SELECT 'b', count(*) FROM (SELECT * FROM w WHERE {north}
                                             UNION ALL SELECT * FROM w)
        UNION ALL SELECT 'c', (SELECT count(*) FROM w WHERE {north})
                            + (SELECT count(*) FROM w WHERE {south})"""  # noqa: S608  # our own text
    found = {row.k: row.n for row in sql(spark, query, tables).collect()}
    band, everything = 5 * 48 * 36, whole.count()
    assert found == {"a": 2 * band, "b": band + everything, "c": 2 * band}
    frame = read(spark, weather, tag="v1")
    assert [frame.where(north).count(), frame.count()] == [band, everything]
    assert frame.where(north).union(frame.where(south)).count() == 2 * band


def test_outer_joins_lose_no_row(spark: SparkSession, weather: Repository) -> None:
    sel = {"time": "2024-01-01T00:00:00"}
    read(spark, weather, tag="v1", sel=sel).cache().createOrReplaceTempView("hour")
    kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
    on = "a.lat = b.lat AND a.lon = b.lon AND a.lat > 40 AND b.lon < 120"
    query = " UNION ALL ".join(
        f"SELECT '{t} {kind}' AS k, count(*) AS n, count(a.lat) AS l, sum(a.lon) AS s"  # noqa: S608  # our own text
        f" FROM {t} a {kind} {t} b ON {on} WHERE a.lat < 70 OR a.lat IS NULL"
        for kind in kinds
        for t in ("w", "hour")
    )
    tables = {"w": {"path": weather, "tag": "v1", "sel": sel}}
    found = {row.k: tuple(row)[1:] for row in sql(spark, query, tables).collect()}
    assert len(found) == 12
    for kind in kinds:
        assert found[f"w {kind}"] == found[f"hour {kind}"], kind


def test_joins_across_versions_groups_and_tables_of_spark(
    spark: SparkSession, weather: Repository
) -> None:
    cities = "VALUES ('north', 60.0), ('south', -60.0) AS cities(name, lat)"
    query = f"""
        WITH places AS (SELECT * FROM {cities})
        SELECT p.name, round(avg(new.t2m - old.t2m)) AS change, count(deep.t2m) AS n
        FROM weather new
        JOIN weather VERSION AS OF 'v1' AS old
          ON new.time = old.time AND new.lat = old.lat AND new.lon = old.lon AND old.lon < 20
        LEFT JOIN weather.`deep/down` deep
          ON deep.time = new.time AND deep.lat = new.lat AND deep.lon = new.lon AND deep.lon = 10
        JOIN places p ON p.lat = new.lat
        WHERE new.time < '2024-01-01 06:00:00' AND new.lon < 30
        GROUP BY p.name ORDER BY p.name"""  # noqa: S608  # our own text
    plan = plan_sql(spark, query, {"weather": {"path": weather, "variables": ["t2m"]}})
    rows = {row.name: (row.change, row.n) for row in plan.run(spark).collect()}
    # one chunk of time, one of longitude, all four of latitude: Spark hands on what is equal
    assert [one.chunks_read for one in plan.scans] == [4, 4, 4]
    assert rows["south"] == (0.0, 6)
    assert rows["north"][0] < -200
    assert rows["north"][1] == 6


def test_quotes_that_mean_a_name_to_spark_prune(spark: SparkSession, weather: Repository) -> None:
    query = 'SELECT count("t2m") AS n FROM "weather" WHERE "lat" > 40'
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert plan_sql(spark, query, {"weather": weather}).chunks_read == 12
        assert read(spark, weather, where='"lat" > 40').count() == 5 * 48 * 36
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_errors_of_the_query_are_sparks_own(spark: SparkSession, weather: Repository) -> None:
    with pytest.raises(AnalysisException, match="altitude"):
        sql(spark, "SELECT altitude FROM w", {"w": {"path": weather, "tag": "v1"}})


def test_many_comments_before_a_query_are_soon_passed_over(
    spark: SparkSession, weather: Repository
) -> None:
    """By what looks for EXPLAIN: if it tried every way to pair their ends, it would never end."""
    comments, query = "/* so */" * 200, "SELECT lat FROM weather WHERE lat > 40"
    assert sql(spark, comments + query, {"weather": weather}).columns == ["lat"]
    assert sql(spark, f"{comments}explain {query}", {"weather": weather}).columns == ["plan"]


def test_threads_do_not_see_the_names_of_others(spark: SparkSession, weather: Repository) -> None:
    """Each gives the same name to another table of the same session."""

    def count(sel: dict[str, object]) -> int:
        tables = {"mine": {"path": weather, "sel": sel}}
        (row,) = sql(spark, "SELECT count(*) AS n FROM mine WHERE lat > 40", tables).collect()
        return int(row.n)

    hours = [{"time": [f"2024-01-01T{hour:02}" for hour in range(k)]} for k in range(1, 5)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, hours)) == [k * 5 * 36 for k in range(1, 5)]
    with pytest.raises(AnalysisException, match="mine"):
        spark.table("mine")


def test_settings_of_the_session_stay_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    """Also what is secret is in none of them, nor in a plan."""
    path = tmp_path / "r"
    make_weather(path)
    access = {"authorize": {"s3://somewhere/": "environment"}}
    before = {(row.key, row.value) for row in spark.sql("SET").collect()}
    frame = sql(spark, "SELECT max(lat) AS m FROM r", {"r": {"path": path, **access}})
    assert frame.collect()[0].m == 90
    assert {(row.key, row.value) for row in spark.sql("SET").collect()} == before
    assert spark.catalog.currentCatalog() == "spark_catalog"
    tables = {"r": {"path": path, **access}}
    ((told,),) = sql(spark, "EXPLAIN EXTENDED SELECT lat FROM r", tables).collect()
    assert "somewhere" not in told


def test_explain_shows_the_plan_of_the_pruned_query(
    spark: SparkSession, weather: Repository
) -> None:
    query = "SELECT lat FROM weather WHERE lat > 40"
    for mode in ("", "FORMATTED ", "-- and what it costs\n EXTENDED "):
        ((told,),) = sql(spark, f"EXPLAIN {mode}{query}", {"weather": weather}).collect()
        assert "== Physical Plan ==" in told
        assert "chunks: 0 of 0, rows: 8640 of 32832" in told
