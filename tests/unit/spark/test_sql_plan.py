"""Which chunks a query reads, planned without Spark."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.api.repository import Repository
from frazil.api.storage_functions import local_filesystem_storage
from frazil.errors import InvalidInputError, NodeNotFoundError, SnapshotNotFoundError
from frazil.spark.io.sql import SqlPlan, plan_sql
from tests.spark.repositories import fill_weather, make_weather, put


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = make_weather(tmp_path_factory.mktemp("weather"))
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    with repository.transaction("main", message="more") as store:
        fill_weather(zarr.group(store, path="surface/hourly"))
        root = zarr.open_group(store)
        put(root, "orography", np.ones((19, 36), dtype="f4"), "lat lon", (19, 36))
        put(root, "crs", np.array(0), "", ())
    return repository


NESTED = """
    WITH a AS (SELECT lat y, lon, t2m FROM old WHERE lon < 100), b AS (SELECT * FROM a)
    SELECT avg(t2m) FROM b JOIN other ON b.y > 40"""


def planned(weather: Repository, query: str) -> SqlPlan:
    return plan_sql(query, {"weather": weather, "old": {"path": weather, "tag": "v1"}})


def chunks(weather: Repository, query: str) -> list[int]:
    return [one.load.chunks_read for one in planned(weather, query).references]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("true", 48),
        ("lat > 40", 12),  # the first 5 of 19 latitudes: one of four chunks
        ("lat >= 40", 24),
        ("time < '2024-01-01 12:00:00'", 12),
        ("time < '2024-01-01 12:00:00' AND lat > 40 AND lon IN (0, 350)", 2),
        ("date(time) = '2024-01-02'", 24),
        ("lat > 40 OR lon > 300", 48),
        ("lat > 40 AND (lat < 50 OR t2m > 3)", 12),
        ("lat > 95", 0),
        ("w.lat > 40", 12),
        ("W.LAT > 40", 12),
        ("other.lat > 40", 48),
    ],
)
def test_predicates_on_coordinates_leave_chunks_unread(
    weather: Repository, where: str, expected: int
) -> None:
    plan = planned(weather, f"SELECT avg(t2m) FROM weather w WHERE {where}")  # noqa: S608  # our own text
    assert plan.chunks_read == expected
    assert plan.chunks_total == 48
    assert plan.summary == (f"weather: read {expected} of 48 chunks (t2m {expected} of 48)")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT avg(t2m), avg(pressure) FROM weather", 96),
        ("SELECT * FROM old", 96),
        ("SELECT o.* FROM old o", 96),
        ("SELECT count(*), max(lat) FROM old", 0),
        ("SELECT count(t2m) FROM old", 48),
        ("SELECT to_json(struct(*)) FROM old", 96),
        ("SELECT s.t2m FROM (SELECT * FROM old) s", 48),
        ("WITH c AS (SELECT o.* FROM old o) SELECT a.t2m FROM c a JOIN c b ON a.lat = b.lat", 48),
        ("WITH c AS (SELECT * FROM old) SELECT b.* FROM c a JOIN c b ON a.lat = b.lat", 96),
        ("WITH c AS (SELECT * FROM old), d AS (SELECT * FROM c) SELECT lat FROM d", 0),
        ("SELECT 1 FROM x WHERE EXISTS (SELECT * FROM old WHERE old.lat = x.lat)", 0),
        ("SELECT count(1) FROM (SELECT DISTINCT * FROM old)", 96),
        ("SELECT lat FROM (SELECT * FROM old ORDER BY 5 LIMIT 9)", 96),
        ("SELECT lat FROM (SELECT * FROM old UNION SELECT * FROM old)", 192),
        ("SELECT lat FROM (SELECT * FROM old) NATURAL JOIN x", 96),
        ("INSERT INTO x SELECT * FROM old", 96),
        ("SELECT s.* FROM (SELECT t2m FROM old) s", 48),
        ("SELECT t2m FROM old TABLESAMPLE (10 ROWS) WHERE lat > 40", 96),
        ("SELECT b FROM old AS o(a, b, c, d, e) WHERE b > 40", 96),
    ],
)
def test_only_variables_that_are_used_are_read(
    weather: Repository, query: str, expected: int
) -> None:
    assert planned(weather, query).chunks_read == expected


@pytest.mark.parametrize(
    ("join", "left", "right"),
    [
        ("a JOIN old b ON a.lat = b.lat AND a.lat > 40 AND b.lat < -40", 12, 24),
        ("a LEFT JOIN old b ON a.lat > 40 AND b.lat > 40", 48, 12),
        ("a RIGHT JOIN old b ON a.lat > 40 AND b.lat > 40", 12, 48),
        ("a FULL JOIN old b ON a.lat > 40 AND b.lat > 40", 48, 48),
        ("a LEFT SEMI JOIN old b ON a.lat > 40 AND b.lat > 40", 12, 12),
        ("a LEFT ANTI JOIN old b ON a.lat > 40 AND b.lat > 40", 48, 12),
        ("a CROSS JOIN old b WHERE a.lat > 40 AND b.lat > 40", 12, 12),
        ("a LEFT JOIN old b ON a.t2m = b.t2m WHERE b.lat > 40", 48, 12),
        ("a FULL JOIN old b ON a.t2m = b.t2m WHERE a.lat > 40", 12, 48),
        ("a, old b WHERE a.lat > 40 AND lat > 40", 12, 48),
        ("a LEFT SEMI JOIN old b ON a.t2m = b.t2m WHERE lat > 40", 48, 48),
        ("a JOIN old b USING (time) WHERE time < '2024-01-01 12:00:00'", 48, 48),
        ("a JOIN old b USING (time) WHERE a.time < '2024-01-01 12:00:00'", 12, 48),
    ],
)
def test_joins_are_pruned_on_the_side_where_that_is_right(
    weather: Repository, join: str, left: int, right: int
) -> None:
    query = f"SELECT a.t2m, b.t2m FROM old {join}"  # noqa: S608  # our own text
    assert chunks(weather, query) == [left, right]


def test_a_semi_join_hides_its_right_side_from_where(weather: Repository) -> None:
    query = "SELECT x FROM spark_view v LEFT SEMI JOIN old ON v.t2m = old.t2m WHERE lat > 40"
    assert chunks(weather, query) == [48]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH c AS (SELECT t2m FROM old WHERE lat > 40) SELECT * FROM c", [12]),
        ("WITH old AS (SELECT t2m FROM old WHERE lat > 40) SELECT * FROM old", [12]),
        ("WITH a AS (SELECT 1 AS lat), old AS (SELECT * FROM a) SELECT * FROM old", []),
        ("SELECT t2m FROM old WHERE lat > 40 UNION ALL SELECT t2m FROM old", [12, 48]),
        ("SELECT t2m FROM x WHERE lat IN (SELECT lat FROM old WHERE lat > 40)", [0]),
        ("SELECT t2m FROM x WHERE 3 IN (SELECT t2m FROM old WHERE lat > 40)", [12]),
        ("SELECT (SELECT max(t2m) FROM old i WHERE i.lat = o.lat) FROM old o WHERE lat > 40", None),
        ("SELECT * FROM (SELECT lat FROM spark_view) WHERE lat > 40", []),
    ],
)
def test_names_are_resolved_as_sql_does(
    weather: Repository, query: str, expected: list[int] | None
) -> None:
    found = chunks(weather, query)
    assert sorted(found) == (sorted(expected) if expected is not None else [12, 48])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT t2m FROM (SELECT lat AS y, t2m FROM old) s WHERE s.y > 40", 12),
        ("SELECT t2m FROM (SELECT o.lat, t2m FROM old o) WHERE lat > 40", 12),
        ("WITH c AS (SELECT o.* FROM old o) SELECT pressure FROM c WHERE lat > 40", 12),
        ("WITH old AS (SELECT * FROM old) SELECT t2m FROM old WHERE lat > 40", 12),
        (NESTED, 4),
        # what is computed from several rows is not what it was without some of them
        ("SELECT * FROM (SELECT lat, avg(t2m) FROM old GROUP BY lat) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, t2m FROM old LIMIT 5) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT DISTINCT lat, t2m FROM old) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, sum(t2m) OVER () FROM old) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, my_udf(t2m) FROM old) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT -lat AS lat, t2m FROM old) WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s(lon, t2m) WHERE lon > 40", 48),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s JOIN z ON true WHERE lat > 40", 48),
        ("SELECT * FROM (SELECT lat, t2m FROM old) s FULL JOIN z ON s.lat > 40", 48),
        ("WITH c AS (SELECT lat, t2m FROM old) SELECT 1 FROM c a, c b WHERE a.lat > 40", 48),
        ("WITH c AS (SELECT lat, t2m FROM old) SELECT 1 FROM c s(a, b) WHERE a > 40", 48),
    ],
)
def test_predicates_pass_through_what_only_filters_and_picks(
    weather: Repository, query: str, expected: int
) -> None:
    assert planned(weather, query).chunks_read == expected


def test_only_the_names_of_tables_are_rewritten(weather: Repository) -> None:
    before = "-- old { } stays\nSELECT old.lat, '{x}' AS `old`, o.t2m\n"
    query = f"{before} FROM old JOIN Old AS o ON true /* FROM old */"
    escaped = before.replace("{", "{{").replace("}", "}}")
    assert planned(weather, query).text == (
        f"{escaped} FROM {{frazil_0}} AS `old` JOIN {{frazil_1}} AS o ON true /* FROM old */"
    )


def test_groups_and_arrays_are_parts_of_a_name(weather: Repository) -> None:
    for name in ("weather.`surface/hourly`", "weather.surface.hourly"):
        plan = planned(weather, f"SELECT t2m FROM {name} WHERE hourly.lat > 1")  # noqa: S608  # our own text
        assert plan.references[0].load.options.group == "/surface/hourly"
    plan = planned(weather, "SELECT * FROM weather.surface.`hourly/t2m`")
    assert plan.references[0].load.options.variables == ("t2m",)
    text = planned(weather, "SELECT weather.surface.hourly.lat FROM weather.surface.hourly").text
    assert text == "SELECT hourly.lat FROM {frazil_0} AS `hourly`"
    with pytest.raises(NodeNotFoundError):
        planned(weather, "SELECT * FROM weather.depths")


def test_old_versions_are_named_in_sql(weather: Repository) -> None:
    first = weather.lookup_tag("v1")
    for version in ("VERSION AS OF 'v1'", f"VERSION AS OF '{first}'"):
        plan = planned(weather, f"SELECT * FROM weather {version} AS w WHERE w.lat > 40")  # noqa: S608  # our own text
        assert plan.references[0].load.options.version.snapshot == first
        assert plan.text == "SELECT * FROM {frazil_0} AS w WHERE w.lat > 40"
    branch = planned(weather, "SELECT t2m FROM weather VERSION AS OF 'main'")
    assert branch.references[0].load.options.version.snapshot == weather.lookup_branch("main")
    now = planned(weather, "SELECT t2m FROM weather TIMESTAMP AS OF '2999-01-01'")
    assert now.text == "SELECT t2m FROM {frazil_0} AS `weather`"
    with pytest.raises(InvalidInputError, match="id"):
        planned(weather, "SELECT t2m FROM weather VERSION AS OF 'v2'")
    with pytest.raises(SnapshotNotFoundError):
        planned(weather, "SELECT t2m FROM weather VERSION AS OF '00000000000000000000'")


def test_a_group_of_several_grids_is_one_table_per_grid(weather: Repository) -> None:
    assert chunks(weather, "SELECT avg(orography) FROM weather WHERE lat > 40") == [1]
    with pytest.raises(InvalidInputError, match=r"orography .*t2m .*`variables`"):
        planned(weather, "SELECT * FROM weather")


@pytest.mark.parametrize("query", ["SELECT FROM WHERE", "SELECT 1; SELECT 2", ""])
def test_what_is_not_one_query_is_refused(weather: Repository, query: str) -> None:
    with pytest.raises(InvalidInputError, match="query"):
        planned(weather, query)


def test_steps_of_a_pipe_are_not_looked_into(weather: Repository) -> None:
    assert chunks(weather, "FROM old |> LIMIT 5 |> WHERE lat > 40 |> SELECT t2m") == [96]


@pytest.mark.parametrize("statement", ["CREATE TEMPORARY VIEW v AS", "CACHE TABLE v AS"])
def test_what_outlives_the_statement_is_refused(weather: Repository, statement: str) -> None:
    with pytest.raises(InvalidInputError, match="createOrReplaceTempView"):
        planned(weather, f"{statement} SELECT t2m FROM old")  # noqa: S608  # our own text
    with_as = planned(weather, "CREATE TABLE v AS SELECT t2m FROM old WHERE lat > 40")
    assert with_as.chunks_read == 12


def test_positions_in_the_text_survive_other_alphabets(weather: Repository) -> None:
    text = planned(weather, "SELECT 'é☃😀' AS x,\r\n t2m FROM old -- ☃\r\n WHERE lat > 40").text
    assert text == "SELECT 'é☃😀' AS x,\r\n t2m FROM {frazil_0} AS `old` -- ☃\r\n WHERE lat > 40"


def test_an_unknown_option_of_a_table_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"'brnch'.*branch"):
        plan_sql("SELECT 1", {"w": {"path": "x", "brnch": "main"}})


def test_the_target_of_an_insert_is_not_ours(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="x") as store:
        put(zarr.group(store), "v", np.arange(3), "x", 3)
    plan = plan_sql("INSERT INTO t SELECT v FROM t", {"t": repository})
    assert plan.text == "INSERT INTO t SELECT v FROM {frazil_0} AS `t`"
