"""The catalog shows what frazil itself shows, in the statements that users of Spark know."""

# ruff: noqa: S608 -- names are what is tested

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import frazil
from frazil.spark import register
from frazil.spark.native.procedures import PROCEDURES
from frazil.spark.table.metadata_tables import TABLES
from frazil.spark.table.schema import quote_name
from tests.spark import iceberg_statements
from tests.spark.repositories import fill_weather, put
from tests.unit.spark.test_catalog_names import HOSTILE

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

type Values = npt.NDArray[np.int64]


@dataclass(slots=True)
class Made:
    """A repository that was made at random, and what its groups hold at each version."""

    repository: frazil.Repository
    versions: dict[str, dict[str, Values]] = field(default_factory=dict)  # by ref or id; by path


@dataclass(frozen=True, slots=True)
class Warehouse:
    folder: Path
    repositories: dict[str, Made]  # by name in the catalog


def set_catalog(spark: SparkSession, name: str, **settings: object) -> None:
    spark.conf.set(f"spark.sql.catalog.{name}", "frazil.spark.Catalog")
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", str(value))


def make_random(place: Path, rng: np.random.Generator) -> Made:
    """Groups with arrays of one dimension, in commits on two branches, with tags."""
    made = Made(frazil.Repository.create(frazil.local_filesystem_storage(place)))
    paths = [
        p for p in ("", "a", "a/b", "a/b/c", "d", "e f", "g.h") if p == "" or rng.random() < 0.7
    ]
    state: dict[str, dict[str, Values]] = {"main": {}}
    for commit in range(int(rng.integers(2, 5))):
        branch = str(rng.choice(list(state)))
        with made.repository.transaction(branch, message=f"commit {commit}") as store:
            for path in paths:
                if rng.random() < 0.8 or not state[branch]:
                    values = rng.integers(0, 1000, 6)
                    group = zarr.open_group(store, path=path, mode="a")
                    group.create_array(
                        "v", data=values, chunks=(2,), dimension_names=["x"], overwrite=True
                    )
                    state[branch] = {**state[branch], path: values}
        tip = made.repository.lookup_branch(branch)
        made.versions[tip] = made.versions[branch] = state[branch]
        made.repository.create_tag(f"v{commit}", tip)
        made.versions[f"v{commit}"] = state[branch]
        if len(state) == 1:
            made.repository.create_branch("dev", tip)
            state["dev"] = made.versions["dev"] = state[branch]
    return made


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Warehouse:
    folder = tmp_path_factory.mktemp("warehouse")
    rng = np.random.default_rng(18)
    names = ["top", "era5.one", "era5.two", "era5.deep.three", "other.x y"]
    places = {name: folder / Path(*name.split(".")) for name in names}
    made = {name: make_random(place, rng) for name, place in places.items()}
    (folder / "empty").mkdir()
    (folder / ".hidden").mkdir()
    set_catalog(spark, "wh", warehouse=folder)
    return Warehouse(folder, made)


def quoted(*parts: str) -> str:
    return ".".join(map(quote_name, parts))


def in_catalog(name: str, path: str = "", *more: str) -> str:
    """Name of a group; groups may have points in their names."""
    return quoted("wh", *name.split("."), *(part for part in path.split("/") if part), *more)


def rows(spark: SparkSession, sql: str) -> list[Row]:
    return spark.sql(sql).collect()


def names(spark: SparkSession, sql: str, column: str) -> list[str]:
    return sorted(row[column] for row in rows(spark, sql))


def values_of(spark: SparkSession, *tables: str) -> list[int]:
    """The values of tables, one after the other; one job reads them all."""
    each = [f"SELECT {number} AS number, x, v FROM {table}" for number, table in enumerate(tables)]
    found = rows(spark, " UNION ALL ".join(each))
    return [row["v"] for row in sorted(found, key=lambda row: (row["number"], row["x"]))]


def error_of(spark: SparkSession, sql: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(sql).collect()
    return str(caught.value)


# Namespaces and tables


def test_namespaces_are_folders_repositories_and_groups(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    assert names(spark, "SHOW NAMESPACES IN wh", "namespace") == ["empty", "era5", "other", "top"]
    found = names(spark, "SHOW NAMESPACES IN wh.era5", "namespace")
    assert found == ["era5.deep", "era5.one", "era5.two"]
    assert rows(spark, "SHOW NAMESPACES IN wh.empty") == []
    for name, made in warehouse.repositories.items():
        store = made.repository.readonly_session("main").store
        groups = {key for key, _ in zarr.open_group(store, mode="r").groups()}
        shown = names(spark, f"SHOW NAMESPACES IN {in_catalog(name)}", "namespace")
        assert len(shown) == len(groups)
    assert "SCHEMA_NOT_FOUND" in error_of(spark, "SHOW TABLES IN wh.nowhere")


def test_tables_are_repositories_groups_with_arrays_and_arrays(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    assert names(spark, "SHOW TABLES IN wh", "tableName") == ["top"]
    assert names(spark, "SHOW TABLES IN wh.era5", "tableName") == ["one", "two"]
    assert names(spark, "SHOW TABLES IN wh.era5 LIKE 't*'", "tableName") == ["two"]
    for name, made in warehouse.repositories.items():
        root = zarr.open_group(made.repository.readonly_session("main").store, mode="r")
        arrays = [key for key, _ in root.arrays()]
        groups = [key for key, group in root.groups() if list(group.array_keys())]
        shown = names(spark, f"SHOW TABLES IN {in_catalog(name)}", "tableName")
        assert shown == sorted([*arrays, *groups])


def test_every_table_holds_what_the_repository_holds(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    tables, expected = [], []
    for name, made in warehouse.repositories.items():
        for path, values in made.versions["main"].items():
            tables += [in_catalog(name, path), in_catalog(name, path, "v")]
            expected += [*values.tolist(), *values.tolist()]
    assert values_of(spark, *tables) == expected


def test_every_version_by_every_name(spark: SparkSession, warehouse: Warehouse) -> None:
    rng = np.random.default_rng(3)
    tables, expected = [], []
    for name, made in warehouse.repositories.items():
        for version, groups in made.versions.items():
            path = str(rng.choice(list(groups)))
            tables.append(str(rng.choice(names_of_version(made, name, path, version))))
            expected += groups[path].tolist()
    assert values_of(spark, *tables) == expected, tables


def names_of_version(made: Made, name: str, path: str, version: str) -> list[str]:
    group, parts = in_catalog(name, path), [part for part in path.split("/") if part]
    kind = "snapshot_id"
    if version in made.repository.list_branches():
        kind = "branch"
    elif version in made.repository.list_tags():
        kind = "tag"
    last = [*name.split("."), *parts]
    return [
        f"{group} VERSION AS OF '{version}'",
        f"{group} FOR VERSION AS OF '{version}'",
        quoted("wh", *last[:-1], f"{last[-1]}@{version}"),
        f"{group}.{quote_name(f'{kind}_{version}')}",
    ]


def test_a_time_is_the_branch_as_it_was(spark: SparkSession, warehouse: Warehouse) -> None:
    made = warehouse.repositories["era5.one"]
    for snapshot in made.repository.ancestry(branch="main"):
        groups = made.versions.get(snapshot.id)
        if groups is None or "" not in groups:
            continue
        when = snapshot.written_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        found = values_of(spark, f"wh.era5.one TIMESTAMP AS OF '{when}'")
        assert found == groups[""].tolist()
    text = error_of(spark, "SELECT * FROM wh.era5.one TIMESTAMP AS OF '1986-10-26 01:21:00'")
    assert "1986-10-26" in text


def test_versions_in_the_dataframe_api(spark: SparkSession, warehouse: Warehouse) -> None:
    made = warehouse.repositories["top"]
    path = next(iter(made.versions["v0"]))
    table = in_catalog("top", path)

    def found(frame: DataFrame) -> list[int]:
        return [row["v"] for row in frame.orderBy("x").collect()]

    assert found(spark.table(table)) == made.versions["main"][path].tolist()
    first = made.versions["v0"][path].tolist()
    assert found(spark.read.option("versionAsOf", "v0").table(table)) == first
    assert found(spark.read.option("tag", "v0").table(table)) == first
    assert (
        found(spark.read.option("branch", "dev").table(table))
        == made.versions["dev"][path].tolist()
    )
    assert spark.catalog.tableExists(table)
    assert not spark.catalog.tableExists("wh.top.nope")
    assert not spark.catalog.tableExists("wh.nope.nope")


def test_now_and_then_in_one_statement(spark: SparkSession, warehouse: Warehouse) -> None:
    made = warehouse.repositories["era5.two"]
    path = next(p for p in made.versions["v0"] if p in made.versions["main"])
    table = in_catalog("era5.two", path)
    found = rows(
        spark,
        f"SELECT a.v AS now, b.v AS before FROM {table} a JOIN {table} VERSION AS OF 'v0' b"
        " ON a.x = b.x ORDER BY a.x",
    )
    assert [row["now"] for row in found] == made.versions["main"][path].tolist()
    assert [row["before"] for row in found] == made.versions["v0"][path].tolist()
    frame = spark.table(table)
    assert frame.where("x >= 4").count() == 2
    assert frame.count() == 6
    assert frame.where("x < 2").union(frame.where("x = 5")).count() == 3


def test_only_the_chunks_that_match_are_read(
    spark: SparkSession, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(iter(warehouse.repositories["top"].versions["main"]))
    spark.sql(f"SELECT v FROM {in_catalog('top', path)} WHERE x = 3").explain()
    assert "chunks: 1 of 3" in capsys.readouterr().out


# Metadata tables


def test_metadata_tables_are_those_of_the_data_source(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    place = str(warehouse.folder / "era5" / "one")
    for table in TABLES:
        reader = spark.read.format("icechunk").option("table", table)
        for version in ("main", "v0"):
            if version == "v0" and not TABLES[table].of_snapshot:
                continue
            expected = (reader.option("tag", "v0") if version == "v0" else reader).load(place)
            when = f" VERSION AS OF '{version}'" if TABLES[table].of_snapshot else ""
            found = spark.sql(f"SELECT * FROM wh.era5.one.{table}{when}")
            assert found.schema == expected.schema
            assert found.collect() == expected.collect()
    assert "means nothing to table 'refs'" in error_of(
        spark, "SELECT * FROM wh.era5.one.refs VERSION AS OF 'v0'"
    )
    changed = rows(spark, "SELECT * FROM wh.era5.one.diff WITH ('from' = 'v0')")
    assert (
        changed
        == spark.read.format("icechunk")
        .option("table", "diff")
        .option("from", "v0")
        .load(place)
        .collect()
    )


# Descriptions


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> frazil.Repository:
    folder = tmp_path_factory.mktemp("described")
    repository = frazil.Repository.create(frazil.local_filesystem_storage(folder / "weather"))
    with repository.transaction("main", message="weather") as store:
        group = zarr.group(store, attributes={"title": "Weather of the tests"})
        fill_weather(group)
        group["t2m"].attrs["long_name"] = "2 metre temperature"
        mixed = group.create_group("mixed")
        put(mixed, "a", np.arange(3), "x", 3)
        put(mixed, "b", np.arange(4), "y", 4)
    set_catalog(spark, "described", warehouse=folder)
    return repository


def test_describe_tells_columns_and_properties(
    spark: SparkSession, weather: frazil.Repository
) -> None:
    told = {
        row["col_name"]: row for row in rows(spark, "DESCRIBE TABLE EXTENDED described.weather")
    }
    assert told["t2m"]["data_type"] == "float"
    assert told["t2m"]["comment"] == "2 metre temperature (K)"
    assert told["Provider"]["data_type"] == "icechunk"
    assert told["Comment"]["data_type"] == "Weather of the tests"
    assert told["Location"]["data_type"].endswith("/weather")
    properties = {
        row["key"]: row["value"] for row in rows(spark, "SHOW TBLPROPERTIES described.weather")
    }
    assert properties["snapshot"] == weather.lookup_branch("main")
    assert properties["branch"] == "main"
    assert properties["dimensions"] == "time: 48, lat: 19, lon: 36"
    assert properties["dtype.pressure"] == "int16"
    assert json.loads(properties["chunks.t2m"]) == [12, 5, 12]
    assert properties["codecs.t2m"] == "bytes"
    assert json.loads(properties["attributes.pressure"])["scale_factor"] == 0.1
    assert json.loads(properties["attributes"]) == {"title": "Weather of the tests"}
    (one,) = rows(spark, "SHOW TBLPROPERTIES described.weather ('dtype.t2m')")
    assert one["value"] == "float32"
    (made,) = rows(spark, "SHOW CREATE TABLE described.weather")
    assert made[0].startswith("CREATE TABLE described.weather (")
    assert "USING icechunk" in made[0]
    namespace = {row[0]: row[1] for row in rows(spark, "DESCRIBE NAMESPACE described.weather")}
    assert namespace["Location"].endswith("/weather")


def test_variables_of_different_dimensions_are_tables_of_their_own(
    spark: SparkSession, weather: frazil.Repository
) -> None:
    assert "do not share their dimensions" in error_of(
        spark, "SELECT * FROM described.weather.mixed"
    )
    assert len(rows(spark, "SELECT * FROM described.weather.mixed.a")) == 3
    assert len(rows(spark, "SELECT * FROM described.weather.mixed.b")) == 4
    assert weather.list_branches() == {"main"}


# Locations


def test_a_location_needs_no_warehouse(spark: SparkSession, warehouse: Warehouse) -> None:
    made = warehouse.repositories["top"]
    place, path = str(warehouse.folder / "top"), next(iter(made.versions["v0"]))
    inside = "".join(f".{quote_name(part)}" for part in path.split("/") if part)
    for catalog in ("icechunk", "frazil_without"):
        set_catalog(spark, catalog)
        located = f"{catalog}.{quote_name(place)}{inside}"
        assert values_of(spark, located) == made.versions["main"][path].tolist()
        assert (
            values_of(spark, f"{located} VERSION AS OF 'v0'") == made.versions["v0"][path].tolist()
        )
        found = values_of(spark, f"{catalog}.{quote_name(place + '@dev')}{inside}")
        assert found == made.versions["dev"][path].tolist()
        assert rows(spark, f"SHOW TABLES IN {catalog}") == []
    history = rows(spark, f"SELECT * FROM icechunk.{quote_name(place)}.history")
    assert [row["snapshot_id"] for row in history] == [
        each.id for each in made.repository.ancestry(branch="main")
    ]
    for name in ("`/nowhere/at/all`", "`/nowhere/at/all`.surface"):
        assert "no repository at /nowhere" in error_of(spark, f"SELECT * FROM icechunk.{name}")


def test_a_catalog_may_be_one_repository(spark: SparkSession, warehouse: Warehouse) -> None:
    made = warehouse.repositories["top"]
    set_catalog(spark, "single", repository=warehouse.folder / "top")
    path = next(iter(made.versions["main"]))
    table = quoted("single", *(path.split("/") if path else ["/"]))
    assert values_of(spark, table) == made.versions["main"][path].tolist()
    assert len(rows(spark, "SELECT * FROM single.refs")) == len(
        made.repository.list_branches() | made.repository.list_tags()
    )


def test_registering_sets_catalogs_unless_the_user_did(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "spark.sql.catalog.frazil.warehouse"
    before = spark.conf.get(key)
    assert spark.conf.get("spark.sql.catalog.frazil") == "frazil.spark.Catalog"
    assert before is not None
    assert before.startswith("/")
    register(spark)
    assert spark.conf.get(key) == before
    try:
        monkeypatch.chdir(warehouse.folder)
        register(spark, warehouse="era5")
        assert names(spark, "SHOW TABLES IN frazil", "tableName") == ["one", "two"]
        register(spark, warehouse=warehouse.folder)  # also after it was used
        assert names(spark, "SHOW TABLES IN frazil", "tableName") == ["top"]
        register(spark)
        assert spark.conf.get(key) == str(warehouse.folder)
    finally:
        spark.conf.set(key, before)


# Procedures


def call(spark: SparkSession, text: str) -> list[Row]:
    return rows(spark, f"CALL wh.system.{text}")


def files_in(folder: Path) -> dict[str, int]:
    return {str(each): each.stat().st_mtime_ns for each in folder.rglob("*") if each.is_file()}


def test_procedures_say_what_the_repository_says(spark: SparkSession, warehouse: Warehouse) -> None:
    repository = warehouse.repositories["era5.one"].repository
    before = files_in(warehouse.folder)
    ancestry = list(repository.ancestry(branch="main"))
    found = call(spark, "ancestors_of('era5.one')")
    assert [row["snapshot_id"] for row in found] == [each.id for each in ancestry]
    times = [row["written_at"].replace(tzinfo=UTC) for row in found]  # the session is in UTC
    assert times == [each.written_at for each in ancestry]
    assert call(spark, "ancestors_of(table => 'wh.era5.one', version => 'main')") == found
    assert call(spark, f"ancestors_of('era5.one', '{ancestry[1].id}')") == found[1:]
    refs = {
        (row["kind"], row["name"]): row["snapshot_id"] for row in call(spark, "refs('era5.one')")
    }
    assert refs == {
        **{("branch", b): repository.lookup_branch(b) for b in repository.list_branches()},
        **{("tag", t): repository.lookup_tag(t) for t in repository.list_tags()},
    }
    for name in ("snapshots", "nodes", "storage", "diff"):
        table = rows(spark, f"SELECT * FROM wh.era5.one.{name}")
        assert call(spark, f"{name}(table => 'era5.one')") == table
    (found_tag,) = call(spark, "lookup('era5.one', 'v0')")
    assert (found_tag["kind"], found_tag["snapshot_id"]) == ("tag", repository.lookup_tag("v0"))
    stats = {(r["kind"], r["name"]): r for r in call(spark, "stats('era5.one')")}
    total = repository.stats()
    assert {name: row["native_bytes"] for (_, name), row in stats.items()} == {
        each.name: each.total.native_bytes for each in [*total.refs, *total.arrays]
    }
    assert call(spark, "verify('era5.one')") == []
    assert files_in(warehouse.folder) == before


def test_dry_runs_show_what_would_go(spark: SparkSession, tmp_path: Path) -> None:
    set_catalog(spark, "cleaned", warehouse=tmp_path)
    rng = np.random.default_rng(1)
    storage = frazil.local_filesystem_storage(tmp_path / "repo")
    repository = frazil.Repository.create(storage)
    for value in range(3):
        with repository.transaction("main", message=f"commit {value}") as store:
            zarr.open_group(store, mode="a").create_array(
                "v", data=rng.integers(0, 2**60, 4000), chunks=(4000,), overwrite=True
            )
    lost = repository.writable_session("main")
    zarr.open_array(lost.store, path="v")[:] = rng.integers(0, 2**60, 4000)
    lost.flush("reachable from no branch")
    before, later = files_in(tmp_path), datetime.now(UTC) + timedelta(days=1)
    when = f"TIMESTAMP '{later:%Y-%m-%d %H:%M:%S}'"
    text = f"remove_orphan_files(table => 'repo', older_than => {when}, dry_run => true)"
    orphans = rows(spark, f"CALL cleaned.system.{text}")
    summary = repository.garbage_collect(later, dry_run=True, safety_age=timedelta(0))
    assert sum(row["kind"] == "chunks" for row in orphans) == summary.chunks_deleted == 1
    assert sum(row["size_bytes"] for row in orphans) == summary.bytes_deleted
    text = f"expire_snapshots(table => 'repo', older_than => {when}, dry_run => true)"
    expired = {row["snapshot_id"] for row in rows(spark, f"CALL cleaned.system.{text}")}
    assert expired == repository.expire_snapshots(later, dry_run=True) != set()
    text = f"expire_snapshots('repo', {when}, 100, NULL, true)"
    kept = {row["snapshot_id"] for row in rows(spark, f"CALL cleaned.system.{text}")}
    assert kept == repository.expire_snapshots(later, retain_last=100, dry_run=True) < expired
    assert "at least 86400 s ago" in error_of(
        spark, f"CALL cleaned.system.remove_orphan_files('repo', {when})"
    )
    assert files_in(tmp_path) == before
    for name in before:
        if "/chunks/" in name:
            os.truncate(name, 10)
    problems = rows(spark, "CALL cleaned.system.verify('repo')")
    assert {(row["kind"], row["node"]) for row in problems} == {("chunk-out-of-bounds", "/v")}


def test_procedures_are_listed_and_mistakes_told(spark: SparkSession, warehouse: Warehouse) -> None:
    assert warehouse.repositories
    listed = names(spark, "SHOW PROCEDURES IN wh.system", "procedure_name")
    assert listed == sorted(PROCEDURES)
    assert "nope" in error_of(spark, "CALL wh.system.nope('top')")
    assert "no table 'nowhere'" in error_of(spark, "CALL wh.system.refs('nowhere')")
    assert "no table 'era5'" in error_of(spark, "CALL wh.system.refs('era5')")
    assert "no branch, tag or snapshot 'x'" in error_of(spark, "CALL wh.system.nodes('top', 'x')")
    assert "REQUIRED_PARAMETER_NOT_FOUND" in error_of(spark, "CALL wh.system.refs()")


# What must not work


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO wh.top.refs VALUES ('branch', 'x', 'y')",
        "DELETE FROM wh.top.refs WHERE true",
        "UPDATE wh.top.refs SET name = 'x'",
    ],
)
def test_metadata_tables_are_not_written_to(
    spark: SparkSession, warehouse: Warehouse, sql: str
) -> None:
    before = files_in(warehouse.folder)
    assert "Traceback" not in error_of(spark, sql)
    assert files_in(warehouse.folder) == before


@pytest.fixture
def _outside(warehouse: Warehouse) -> None:
    """A repository beside the warehouse, which no name may reach."""
    place = warehouse.folder.parent / "outside"
    if not place.exists():
        frazil.Repository.create(frazil.local_filesystem_storage(place))


@pytest.mark.usefixtures("_outside")
@pytest.mark.parametrize("text", [*HOSTILE, "../outside", "outside", "..`.`outside"])
def test_a_hostile_name_reaches_nothing(
    spark: SparkSession, warehouse: Warehouse, text: str
) -> None:
    made = warehouse.repositories["top"].versions["main"]
    for name in (quoted("wh", text), quoted("wh", "top", text), quoted("wh", text, "outside")):
        told, found = "", list[Row]()
        try:
            found = spark.sql(f"SELECT * FROM {name}").collect()
        except PySparkException as error:
            told = str(error)
        assert "Traceback" not in told, name
        assert told or [row["v"] for row in found] in [each.tolist() for each in made.values()]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_literal_is_no_version(
    spark: SparkSession, warehouse: Warehouse, text: str
) -> None:
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    told = error_of(spark, f"SELECT * FROM wh.top VERSION AS OF '{literal}'")
    assert "no branch, tag or snapshot" in told or "PARSE" in told
    assert "Traceback" not in told
    refused = error_of(spark, f"CALL wh.system.refs('{literal}')")
    assert "Traceback" not in refused
    assert warehouse.repositories


@pytest.mark.parametrize(
    "option",
    ["path", "PATH", "storage.endpointUrl", "Storage.Region", "secretStorage", "authorize",
     "secretAccess", "frazilQuestion", "frazilScan"],
)  # fmt: skip
def test_a_statement_cannot_say_where_data_is(
    spark: SparkSession, warehouse: Warehouse, option: str
) -> None:
    other = str(warehouse.folder / "era5" / "one")
    told = error_of(spark, f"SELECT * FROM wh.top WITH ('{option}' = '{other}')")
    assert "is a matter of the catalog" in told
    with pytest.raises(PySparkException, match="matter of the catalog"):
        spark.read.option(option, other).table("wh.top").collect()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("warehous", "did you mean 'warehouse'"),
        ("path", "unknown setting 'path'"),
        ("storage.region", "unknown option 'storage.region'; those for a folder are none"),
    ],
)
def test_unknown_settings_are_told(
    spark: SparkSession, warehouse: Warehouse, setting: str, message: str
) -> None:
    name = f"unknown{abs(hash(setting))}"
    set_catalog(spark, name, warehouse=warehouse.folder, **{setting: "x"})
    assert message in error_of(spark, f"SHOW NAMESPACES IN {name}")
    assert message in error_of(spark, f"SELECT * FROM {name}.top")


# Iceberg's statements


def test_the_statements_that_iceberg_teaches(spark: SparkSession, tmp_path: Path) -> None:
    facts = iceberg_statements.make_table(tmp_path)
    for key, value in facts.settings.items():
        spark.conf.set(key, value)
    try:
        results = iceberg_statements.run_all(spark, facts)
    finally:
        spark.sql("USE spark_catalog.default")
    wrong = {s.sql: results[s.sql] for s in iceberg_statements.WORKING if results[s.sql]}
    assert wrong == {}
    works = [s.text for s in iceberg_statements.STATEMENTS if s.reason and not results[s.sql]]
    assert works == []  # else the page says that they do not
