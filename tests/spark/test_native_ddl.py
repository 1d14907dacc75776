"""CREATE, ALTER and DROP change what frazil and icechunk read, each by one commit, or nothing."""

# ruff: noqa: E501 -- statements are as long as they are

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import frazil
from frazil.engine.session.session import Session
from frazil.errors import ConflictError, InvalidInputError, SessionStateError
from frazil.spark.native.catalog import list_namespaces, list_tables
from frazil.spark.native.names import Settings, parse_settings
from frazil.spark.native.namespaces import create_namespace, drop_namespace
from frazil.spark.native.targets import commit_statement, find_there
from frazil.spark.table.schema import quote_name
from frazil.spark.writing.table_ddl import answer_ddl
from tests.servers.s3 import S3Server
from tests.spark.repositories import fill_weather, make_weather
from tests.unit.spark.test_catalog_names import HOSTILE

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

type Documents = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog `ddl`, with an empty warehouse."""

    spark: SparkSession
    folder: Path

    def sql(self, text: str) -> list[Row]:
        return self.spark.sql(text).collect()

    def error(self, text: str) -> str:
        with pytest.raises(PySparkException) as caught:
            self.spark.sql(text).collect()
        return str(caught.value)

    def open(self, name: str) -> frazil.Repository:
        return frazil.Repository.open(frazil.local_filesystem_storage(self.folder / name))

    def documents(self, name: str, branch: str = "main") -> Documents:
        return documents_of(self.open(name), branch)

    def messages(self, name: str, branch: str = "main") -> list[str]:
        return [each.message for each in self.open(name).ancestry(branch=branch)][::-1]

    def columns(self, table: str) -> dict[str, tuple[str, str | None]]:
        found = self.sql(f"DESCRIBE TABLE {table}")
        return {row["col_name"]: (row["data_type"], row["comment"]) for row in found}

    def properties(self, table: str) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self.sql(f"SHOW TBLPROPERTIES {table}")}

    def files(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(self.folder.rglob("*")) if p.is_file()}


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Catalog:
    spark.conf.set("spark.sql.catalog.ddl", "frazil.spark.Catalog")
    spark.conf.set("spark.sql.catalog.ddl.warehouse", str(tmp_path))
    return Catalog(spark, tmp_path)


def documents_of(repository: frazil.Repository, branch: str = "main") -> Documents:
    session = repository.engine.writable_session(branch)
    return {str(node.path): json.loads(node.user_data) for node in session.nodes()}


def through_icechunk(path: Path, branch: str = "main") -> Any:
    """The root group."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    return zarr.open_group(repository.readonly_session(branch).store, mode="r")


# CREATE TABLE

TYPES = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "TIMESTAMP",
    "TIMESTAMP_NTZ", "DATE", "DECIMAL(18, 0)", "STRUCT<re: DOUBLE, im: DOUBLE>",
]  # fmt: skip
COORDINATES = ["INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "TIMESTAMP", "DATE"]


@pytest.mark.parametrize("seed", range(4))
def test_a_new_table_is_an_empty_dataframe(catalog: Catalog, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dims = [f"d{i}" for i in range(rng.integers(1, 4))]
    types = {name: str(rng.choice(COORDINATES)) for name in dims}
    types |= {f"v{i}": str(rng.choice(TYPES)) for i in range(rng.integers(1, 5))}
    names = [str(name) for name in rng.permutation(list(types))]
    options: dict[str, str] = {"dims": json.dumps(dims)}
    if rng.random() < 0.7:
        options["chunks"] = json.dumps({dim: int(rng.integers(1, 50)) for dim in dims[:2]})
    if rng.random() < 0.7:
        options["attrs"] = json.dumps({"v0": {"standard_name": "x", "levels": [1, 2.5]}})
        options["groupAttrs"] = json.dumps({"title": "it's", "n": 3})
    if rng.random() < 0.5:
        options["codecs"] = '[{"name": "bytes"}]' if "STRING" not in types.values() else "{}"
    if rng.random() < 0.5:
        options["appendDim"] = dims[-1]
    ddl = ", ".join(f"{name} {types[name]}" for name in names)
    there = frazil.Repository.create(frazil.local_filesystem_storage(catalog.folder / "written"))
    frame = catalog.spark.createDataFrame([], ddl)
    writer = frame.write.format("icechunk").options(**options).option("group", "a/b")
    writer.option("mode", "create").mode("append").save(str(catalog.folder / "written"))
    catalog.sql("CREATE NAMESPACE ddl.made")
    given = {name: text for name, text in options.items() if name != "dims" or seed % 2}
    listed = ", ".join(f"'{k}' = '{quote(v)}'" for k, v in given.items())
    partitioned = "" if seed % 2 else f"PARTITIONED BY ({', '.join(dims)})"
    properties = f"TBLPROPERTIES ({listed})" if listed else ""
    catalog.sql(f"CREATE TABLE ddl.made.a.b ({ddl}) USING icechunk {partitioned} {properties}")
    assert catalog.documents("made") == documents_of(there)
    assert catalog.messages("made")[-1] == "CREATE TABLE made.a.b"
    found = {name: kind for name, (kind, _) in catalog.columns("ddl.made.a.b").items()}
    assert found.keys() == types.keys()
    assert catalog.sql("SELECT * FROM ddl.made.a.b") == []


def quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def test_comments_are_read_back(catalog: Catalog) -> None:
    catalog.sql("""
        CREATE TABLE ddl.weather (
            time TIMESTAMP COMMENT 'valid time (hours since 2024-01-01)', lat DOUBLE COMMENT 'latitude',
            t2m FLOAT COMMENT 'temperature (K)', rain FLOAT)
        PARTITIONED BY (time, lat) COMMENT 'it''s "hourly"'
        TBLPROPERTIES ('attrs' = '{"t2m": {"units": "K"}}', 'message' = 'begin', 'metadata' = '{"by": 1}',
            'units' = '{"time": "hours since 2024-01-01"}', 'fill' = '{"rain": -1}')""")
    assert catalog.columns("ddl.weather") == {
        "time": ("timestamp", "valid time (hours since 2024-01-01)"),
        "lat": ("double", "latitude"),
        "rain": ("float", None),
        "t2m": ("float", "temperature (K)"),
    }
    extended = {row["col_name"]: row["data_type"]
                for row in catalog.sql("DESCRIBE TABLE EXTENDED ddl.weather")}  # fmt: skip
    assert extended["Comment"] == 'it\'s "hourly"'
    statement = catalog.sql("SHOW CREATE TABLE ddl.weather")[0][0]
    assert "t2m FLOAT COMMENT 'temperature (K)'" in statement
    group = through_icechunk(catalog.folder / "weather")
    assert group.attrs.asdict() == {"comment": 'it\'s "hourly"'}
    array = group["t2m"]
    assert array.attrs.asdict() == {"units": "K", "long_name": "temperature"}
    assert array.metadata.dimension_names == ("time", "lat")
    assert group["rain"].fill_value == -1
    last = next(iter(catalog.open("weather").ancestry(branch="main")))
    assert (last.message, last.metadata["by"]) == ("begin", 1)
    assert catalog.open("weather").verify().problems == ()


def test_rows_go_into_a_created_table(catalog: Catalog) -> None:
    catalog.sql("CREATE TABLE ddl.w (x INT, v DOUBLE) PARTITIONED BY (x)")
    frame = catalog.spark.createDataFrame([(1, 1.5), (2, 2.5)], "x INT, v DOUBLE")
    target = str(catalog.folder / "w")
    frame.write.format("icechunk").mode("append").save(target)
    catalog.sql("ALTER TABLE ddl.w ADD COLUMNS (n BIGINT COMMENT 'count', s STRING)")
    expected = [(1, None, "", 1.5), (2, None, "", 2.5)]
    found = sorted(tuple(row) for row in catalog.sql("SELECT x, n, s, v FROM ddl.w"))
    assert found == expected
    more = catalog.spark.createDataFrame([(3, 3.5, 7, "t")], "x INT, v DOUBLE, n BIGINT, s STRING")
    more.write.format("icechunk").mode("append").save(target)
    found = sorted(tuple(row) for row in catalog.sql("SELECT x, n, s, v FROM ddl.w"))
    assert found == [*expected, (3, 7, "t", 3.5)]
    group = through_icechunk(catalog.folder / "w")
    assert group["n"].chunks == group["v"].chunks
    assert group["n"].attrs["long_name"] == "count"


def test_a_new_column_is_like_the_others(catalog: Catalog) -> None:
    make_weather(catalog.folder / "weather")
    catalog.sql("ALTER TABLE ddl.weather ADD COLUMN rain DOUBLE")
    group = through_icechunk(catalog.folder / "weather")
    assert group["rain"].shape == group["t2m"].shape
    assert group["rain"].chunks == group["t2m"].chunks
    assert group["rain"].metadata.dimension_names == group["t2m"].metadata.dimension_names
    (row,) = catalog.sql("SELECT count(*), count(rain), count(lat) FROM ddl.weather")
    assert tuple(row) == (group["t2m"].size, 0, group["t2m"].size)


# Random statements


type Model = dict[str, dict[str, str | None]]  # tables: variables and their comments


def test_random_statements_against_a_model(catalog: Catalog) -> None:
    """After each statement, the arrays are those that a dictionary says."""
    rng, fresh = np.random.default_rng(19), iter(range(100))
    catalog.sql("CREATE NAMESPACE ddl.r")
    tables: Model = {}
    for _ in range(25):
        catalog.sql(next_statement(rng, tables, f"n{next(fresh)}"))
        expected = {f"/{t}/{c}": text for t, each in tables.items() for c, text in each.items()}
        expected |= {f"/{t}/x": None for t in tables}
        arrays = {path: each.get("attributes", {}).get("long_name")
                  for path, each in catalog.documents("r").items()
                  if each["node_type"] == "array"}  # fmt: skip
        assert arrays == expected
    shown = {row["tableName"] for row in catalog.sql("SHOW TABLES IN ddl.r")}
    assert shown == tables.keys()
    for table, columns in tables.items():
        described = {n: text for n, (_, text) in catalog.columns(f"ddl.r.{table}").items()}
        assert described == {"x": None, **columns}
    assert catalog.open("r").verify().problems == ()
    assert set(through_icechunk(catalog.folder / "r").group_keys()) == tables.keys()


def next_statement(  # noqa: PLR0911 -- one for each kind of statement
    rng: np.random.Generator, tables: Model, new: str
) -> str:
    """A statement, after which the tables are as the model says from now on."""
    action = str(rng.choice(["create", "add", "drop", "rename", "comment", "move", "go"]))
    if not tables or (action == "create" and len(tables) < 3):
        tables[new] = {"v": None}
        return f"CREATE TABLE ddl.r.{new} (x INT, v INT) PARTITIONED BY (x)"
    table = str(rng.choice(list(tables)))
    columns, sql = tables[table], f"ALTER TABLE ddl.r.{table}"
    column = str(rng.choice(list(columns)))
    match action:
        case "drop" if len(columns) > 1:
            del columns[column]
            return f"{sql} DROP COLUMN {column}"
        case "rename":
            columns[new] = columns.pop(column)
            return f"{sql} RENAME COLUMN {column} TO {new}"
        case "comment":
            columns[column] = new
            return f"{sql} ALTER COLUMN {column} COMMENT '{new}'"
        case "move":
            tables[new] = tables.pop(table)
            return f"{sql} RENAME TO {new}"
        case "go" if len(tables) > 1:
            del tables[table]
            return f"DROP TABLE ddl.r.{table}"
    columns[new] = "c"
    return f"{sql} ADD COLUMN {new} DOUBLE COMMENT 'c'"


# ALTER TABLE


def test_properties_are_attributes(catalog: Catalog) -> None:
    make_weather(catalog.folder / "weather")
    hostile = ["it's", 'a "q"', "\\", "{", "[1, 2]", "null", "NaN", "1e400", "日本", " ", "x\ty"]
    given = {f"p {i} é'`": text for i, text in enumerate(hostile)}
    listed = ", ".join(f"'{quote(k)}' = '{quote(v)}'" for k, v in given.items())
    catalog.sql(f"ALTER TABLE ddl.weather SET TBLPROPERTIES ({listed}, 'title' = 'Weather')")
    found = through_icechunk(catalog.folder / "weather").attrs.asdict()
    texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in found.items()}
    assert texts == {**given, "title": "Weather"}
    assert found["p 4 é'`"] == [1, 2]
    shown = catalog.properties("ddl.weather")
    assert {name: shown[name] for name in given} == given
    catalog.sql("ALTER TABLE ddl.weather UNSET TBLPROPERTIES ('title', 'never there')")
    assert "title" not in catalog.documents("weather")["/"]["attributes"]
    before = catalog.messages("weather")
    catalog.sql("ALTER TABLE ddl.weather UNSET TBLPROPERTIES IF EXISTS ('title')")
    assert catalog.messages("weather") == before  # nothing to commit
    catalog.sql(
        "ALTER TABLE ddl.weather.t2m SET TBLPROPERTIES ('standard_name' = 'air_temperature')"
    )
    document = catalog.documents("weather")["/t2m"]
    assert document["attributes"] == {"units": "K", "standard_name": "air_temperature"}
    catalog.sql("COMMENT ON TABLE ddl.weather IS 'new'")
    assert catalog.documents("weather")["/"]["attributes"]["comment"] == "new"
    catalog.sql("COMMENT ON TABLE ddl.weather IS NULL")
    assert "comment" not in catalog.documents("weather")["/"]["attributes"]


def test_a_comment_replaces_the_name_and_keeps_the_units(catalog: Catalog) -> None:
    make_weather(catalog.folder / "weather")
    for comment, shown in (("2 m", "2 m (K)"), ("above (K)", "above (K)"), ("K", "K"), ("", "K")):
        catalog.sql(f"ALTER TABLE ddl.weather ALTER COLUMN t2m COMMENT '{comment}'")
        assert catalog.columns("ddl.weather")["t2m"][1] == shown
    assert catalog.documents("weather")["/t2m"]["attributes"] == {"units": "K"}


def test_a_table_moves_with_what_is_below_it(catalog: Catalog) -> None:
    repository = make_weather(catalog.folder / "weather")
    with repository.transaction("main", message="groups") as store:
        fill_weather(zarr.open_group(store, path="a/b"))
        fill_weather(zarr.open_group(store, path="a/b/c"))
    catalog.sql("ALTER TABLE ddl.weather.a.b RENAME TO weather.a.z")
    catalog.sql("ALTER TABLE ddl.weather.a.z.c.t2m RENAME TO t2")
    catalog.sql("ALTER TABLE ddl.weather.a.z RENAME TO ddl.weather.y")
    group = through_icechunk(catalog.folder / "weather")
    assert sorted(group["y/c"].array_keys()) == ["lat", "lon", "pressure", "t2", "time"]
    assert "b" not in group["a"]
    np.testing.assert_array_equal(group["y/c/t2"][:], group["t2m"][:])
    assert catalog.messages("weather")[-1] == "ALTER TABLE weather.a.z RENAME TO weather.y"
    assert "already exists" in catalog.error("ALTER TABLE ddl.weather.y RENAME TO a")


def test_drop_takes_the_arrays_and_leaves_groups_below(catalog: Catalog) -> None:
    repository = make_weather(catalog.folder / "weather")
    with repository.transaction("main", message="groups") as store:
        fill_weather(zarr.open_group(store, path="a"))
        fill_weather(zarr.open_group(store, path="a/b"))
    catalog.sql("DROP TABLE ddl.weather.a.t2m")
    assert "/a/t2m" not in catalog.documents("weather")
    catalog.sql("DROP TABLE ddl.weather.a")
    catalog.sql("DROP TABLE ddl.weather")
    catalog.sql("DROP TABLE IF EXISTS ddl.weather")
    assert "TABLE_OR_VIEW_NOT_FOUND" in catalog.error("DROP TABLE ddl.weather")
    found = catalog.documents("weather")
    assert {p for p, each in found.items() if each["node_type"] == "group"} == {"/", "/a", "/a/b"}
    assert {p.rpartition("/")[0] for p, each in found.items() if each["node_type"] == "array"} == {
        "/a/b"
    }
    catalog.sql("DROP TABLE ddl.weather.a.b")
    assert catalog.documents("weather").keys() == {"/", "/a"}
    catalog.sql("CREATE TABLE ddl.weather (x INT, v INT) PARTITIONED BY (x)")
    assert catalog.columns("ddl.weather").keys() == {"x", "v"}


# Namespaces


def test_namespaces_are_made_and_dropped(catalog: Catalog) -> None:
    catalog.sql("CREATE NAMESPACE ddl.era5 WITH DBPROPERTIES ('kind' = 'folder')")
    assert (catalog.folder / "era5").is_dir()
    catalog.sql(
        "CREATE NAMESPACE ddl.era5.w COMMENT 'it''s' WITH DBPROPERTIES ('n' = '[1]', 't' = 'a')"
    )
    attributes = {"comment": "it's", "n": [1], "t": "a"}
    assert through_icechunk(catalog.folder / "era5" / "w").attrs.asdict() == attributes
    catalog.sql("CREATE NAMESPACE IF NOT EXISTS ddl.era5.w")
    assert "SCHEMA_ALREADY_EXISTS" in catalog.error("CREATE NAMESPACE ddl.era5.w")
    catalog.sql("CREATE NAMESPACE ddl.era5.w.a.b COMMENT 'below'")
    catalog.sql("ALTER NAMESPACE ddl.era5.w.a SET PROPERTIES ('title' = 'A')")
    catalog.sql("COMMENT ON NAMESPACE ddl.era5.w IS 'other'")
    found = catalog.documents("era5/w")
    assert found["/"]["attributes"]["comment"] == "other"
    assert found["/a"]["attributes"] == {"title": "A"}
    assert found["/a/b"]["attributes"] == {"comment": "below"}
    told = {row[0]: row[1] for row in catalog.sql("DESCRIBE NAMESPACE EXTENDED ddl.era5.w.a.b")}
    assert told["Comment"] == "below"
    assert "SCHEMA_NOT_EMPTY" in catalog.error("DROP NAMESPACE ddl.era5.w.a")
    catalog.sql("DROP NAMESPACE ddl.era5.w.a CASCADE")
    assert catalog.documents("era5/w").keys() == {"/"}
    before = catalog.files()
    assert "SCHEMA_NOT_EMPTY" in catalog.error("DROP NAMESPACE ddl.era5.w")
    assert "with a history" in catalog.error("DROP NAMESPACE ddl.era5.w CASCADE")
    assert "something in it" in catalog.error("DROP NAMESPACE ddl.era5 CASCADE")
    assert catalog.files() == before


def test_only_a_repository_that_never_held_anything_is_dropped(catalog: Catalog) -> None:
    catalog.sql("CREATE NAMESPACE ddl.new")
    (catalog.folder / "new" / "notes.txt").write_text("mine")
    assert "notes.txt" in catalog.error("DROP NAMESPACE ddl.new")
    (catalog.folder / "new" / "notes.txt").unlink()
    catalog.sql("DROP NAMESPACE ddl.new")
    assert list(catalog.folder.iterdir()) == []
    catalog.sql("CREATE NAMESPACE ddl.f WITH DBPROPERTIES ('kind' = 'folder')")
    catalog.sql("DROP NAMESPACE ddl.f")
    assert list(catalog.folder.iterdir()) == []
    repository = make_weather(catalog.folder / "emptied")
    with repository.transaction("main", message="empty") as store:
        for name in ("time", "lat", "lon", "t2m", "pressure"):
            del zarr.open_group(store)[name]
    assert "SCHEMA_NOT_EMPTY" in catalog.error("DROP NAMESPACE ddl.emptied")
    catalog.sql("CREATE NAMESPACE ddl.deep.er.one WITH DBPROPERTIES ('kind' = 'repository')")
    assert catalog.messages("deep/er/one")[-1] == "CREATE NAMESPACE one"


def test_statements_in_a_catalog_of_locations_and_of_one_repository(
    catalog: Catalog, spark: SparkSession
) -> None:
    place = catalog.folder / "here"
    spark.conf.set("spark.sql.catalog.locations", "frazil.spark.Catalog")
    catalog.sql(f"CREATE TABLE locations.`{place}` (x INT, v INT) PARTITIONED BY (x)")
    catalog.sql(f"CREATE TABLE locations.`{place}`.g (x INT, w INT) PARTITIONED BY (x)")
    assert "CREATE NAMESPACE" in catalog.error(
        f"CREATE TABLE locations.`{place}2`.g (x INT, w INT) PARTITIONED BY (x)"
    )
    spark.conf.set("spark.sql.catalog.single", "frazil.spark.Catalog")
    spark.conf.set("spark.sql.catalog.single.repository", str(place))
    catalog.sql("ALTER TABLE single.`/` ADD COLUMN n INT")
    catalog.sql("ALTER TABLE single.g RENAME TO h")
    catalog.sql("CREATE NAMESPACE single.i")
    assert catalog.documents("here").keys() == {
        "/", "/x", "/v", "/n", "/h", "/h/x", "/h/w", "/i",
    }  # fmt: skip


# Branches


def test_a_statement_is_a_commit_of_the_branch_in_the_name(catalog: Catalog) -> None:
    repository = make_weather(catalog.folder / "weather")
    repository.create_branch("dev", repository.lookup_branch("main"))
    repository.create_tag("v1", repository.lookup_branch("main"))
    tip = repository.lookup_branch("main")
    catalog.sql("ALTER TABLE ddl.`weather@dev` ADD COLUMN a INT")
    catalog.sql("CREATE TABLE ddl.weather.`g@dev` (x INT, v INT) PARTITIONED BY (x)")
    catalog.sql("CREATE TABLE ddl.weather.branch_dev.h (x INT, v INT) PARTITIONED BY (x)")
    catalog.sql("ALTER TABLE ddl.weather.branch_dev.h RENAME TO i")
    catalog.sql("CREATE NAMESPACE ddl.weather.branch_dev.j")
    catalog.sql("DROP TABLE ddl.weather.g.branch_dev")
    assert repository.lookup_branch("main") == tip
    assert {"/a", "/i", "/i/x", "/i/v", "/j"} == (
        catalog.documents("weather", "dev").keys() - catalog.documents("weather").keys()
    )
    before = catalog.files()
    for sql, text in (
        ("ALTER TABLE ddl.`weather@v1` ADD COLUMN b INT", "never change"),
        (f"ALTER TABLE ddl.weather.snapshot_id_{tip} ADD COLUMN b INT", "never change"),
        ("DROP TABLE ddl.weather.tag_v1", "never change"),
        ("CREATE TABLE ddl.weather.`g@v1` (x INT, v INT) PARTITIONED BY (x)", "never change"),
        ("CREATE TABLE ddl.weather.`g@dve` (x INT, v INT) PARTITIONED BY (x)", "dve"),
        ("CREATE TABLE ddl.weather.branch_dve.g (x INT, v INT) PARTITIONED BY (x)", "dve"),
        ("CREATE NAMESPACE ddl.weather.`k@dve`", "dve"),
        ("ALTER TABLE ddl.weather.`i@dev` RENAME TO weather.`z@main`", "on its branch"),
    ):
        assert text in catalog.error(sql)
    assert catalog.files() == before


# Errors


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("CREATE TABLE ddl.w.n (x INT, v INT)", "PARTITIONED BY (time, lat)"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (bucket(4, x))", "only columns"),
        ("CREATE TABLE ddl.w.n (x TIMESTAMP, v INT) PARTITIONED BY (days(x))", "only columns"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('dims' = 'v')", "'dims'"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) TBLPROPERTIES ('dims' = 'y')", "names 'y'"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('chunk' = '1')", "did you mean 'chunks'"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('order' = '{}')", "first write"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('path' = '/etc')", "unknown property"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('branch' = 'x')", "unknown property"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('storage.secretAccessKey' = 'hush')", "unknown property"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('chunks' = '{')", "not JSON"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) TBLPROPERTIES ('chunks' = '{\"x\": 0}')", "at least 1"),
        ("CREATE TABLE ddl.w.n (x INT, v MAP<INT, INT>) PARTITIONED BY (x)", "no Zarr array"),
        ("CREATE TABLE ddl.w.n (x INT, v INT NOT NULL) PARTITIONED BY (x)", "NOT NULL"),
        ("CREATE TABLE ddl.w.n (x INT, v INT DEFAULT 3) PARTITIONED BY (x)", "default"),
        ("CREATE TABLE ddl.w.n (x INT, `a/b` INT) PARTITIONED BY (x)", "name of an array"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) USING parquet PARTITIONED BY (x)", "icechunk"),
        ("CREATE TABLE ddl.w.n (x INT, v INT) PARTITIONED BY (x) LOCATION '/tmp/x'", "leave out LOCATION"),
        ("CREATE TABLE ddl.w (x INT, v INT) PARTITIONED BY (x)", "already exists"),
        ("CREATE TABLE ddl.w.t2m (x INT, v INT) PARTITIONED BY (x)", "already exists"),
        ("CREATE TABLE ddl.w.t2m.n (x INT, v INT) PARTITIONED BY (x)", "array"),
        ("CREATE TABLE ddl.w.nodes.n (x INT, v INT) PARTITIONED BY (x)", "metadata table"),
        ("CREATE TABLE ddl.none.n (x INT, v INT) PARTITIONED BY (x)", "CREATE NAMESPACE"),
        ("CREATE NAMESPACE ddl.none.n", "no repository and no folder"),
        ("CREATE NAMESPACE ddl.n LOCATION '/tmp/x'", "leave out LOCATION"),
        ("CREATE NAMESPACE ddl.n WITH DBPROPERTIES ('kind' = 'table')", "'table'"),
        ("CREATE NAMESPACE ddl.`n@x`", "cannot be the name"),
        ("CREATE NAMESPACE ddl.`.n`", "cannot be the name"),
        ("CREATE NAMESPACE ddl.w.t2m.n", "array"),
        ("ALTER TABLE ddl.w ADD COLUMN time INT", "already exists"),
        ("ALTER TABLE ddl.w ADD COLUMN n INT FIRST", "position"),
        ("ALTER TABLE ddl.w ADD COLUMN n ARRAY<INT>", "no Zarr array"),
        ("ALTER TABLE ddl.w ADD COLUMN `a/b` INT", "name of an array"),
        ("ALTER TABLE ddl.w.t2m ADD COLUMN n INT", "name its group"),
        ("ALTER TABLE ddl.w DROP COLUMN time", "dimension"),
        ("ALTER TABLE ddl.w DROP COLUMN nothing", "nothing"),
        ("ALTER TABLE ddl.w DROP COLUMNS (t2m, pressure)", "last variable"),
        ("ALTER TABLE ddl.w RENAME COLUMN time TO t", "dimension"),
        ("ALTER TABLE ddl.w RENAME COLUMN t2m TO pressure", "already exists"),
        ("ALTER TABLE ddl.w RENAME COLUMN t2m TO `a/b`", "name of an array"),
        ("ALTER TABLE ddl.w ALTER COLUMN t2m TYPE DOUBLE", "type of an array stays"),
        ("ALTER TABLE ddl.w ALTER COLUMN t2m AFTER time", "not possible"),
        ("ALTER TABLE ddl.w SET TBLPROPERTIES ('snapshot' = 'x')", "cannot be set"),
        ("ALTER TABLE ddl.w SET TBLPROPERTIES ('chunks.t2m' = '[1]')", "cannot be set"),
        ("ALTER TABLE ddl.w SET TBLPROPERTIES ('chunks' = '{}')", "CREATE TABLE"),
        ("ALTER TABLE ddl.w RENAME TO x", "name of a repository"),
        ("ALTER TABLE ddl.w.time RENAME TO t", "coordinate"),
        ("ALTER TABLE ddl.w.t2m RENAME TO nowhere.t2m", "no repository"),
        ("ALTER TABLE ddl.w.t2m RENAME TO w.none.t2m", "does not exist"),
        ("ALTER TABLE ddl.w.t2m RENAME TO `a/b`", "cannot be the name"),
        ("DROP TABLE ddl.w.time", "coordinate"),
        ("DROP TABLE ddl.w PURGE", "no PURGE"),
        ("DROP TABLE ddl.w.history", "metadata table"),
        ("DROP NAMESPACE ddl.w", "SCHEMA_NOT_EMPTY"),
        ("ALTER NAMESPACE ddl.w SET PROPERTIES ('kind' = 'x')", "cannot be set"),
    ],
)  # fmt: skip
def test_a_statement_that_fails_changes_nothing(catalog: Catalog, sql: str, text: str) -> None:
    make_weather(catalog.folder / "w")
    before = catalog.files()
    told = catalog.error(sql)
    assert text in told
    assert "hush" not in told
    assert catalog.files() == before
    assert [path.name for path in catalog.folder.iterdir()] == ["w"]


def test_hostile_names_stay_in_the_warehouse(catalog: Catalog) -> None:
    inside = catalog.folder / "in"
    catalog.spark.conf.set("spark.sql.catalog.ddl.warehouse", str(inside))
    make_weather(inside / "w")
    for name in HOSTILE:
        quoted = quote_name(name)
        for sql in (
            f"CREATE NAMESPACE ddl.{quoted}",
            f"CREATE NAMESPACE ddl.w.{quoted}",
            f"DROP NAMESPACE ddl.{quoted} CASCADE",
            f"ALTER TABLE ddl.w.t2m RENAME TO {quoted}",
            f"ALTER TABLE ddl.w.{quoted} RENAME TO t2m",
        ):
            try:
                catalog.spark.sql(sql)
            except PySparkException:
                continue
    assert [path.name for path in catalog.folder.iterdir()] == ["in"]
    assert catalog.open("in/w").verify().problems == ()


def test_version_1_has_no_moves(catalog: Catalog) -> None:
    storage = frazil.local_filesystem_storage(catalog.folder / "old")
    repository = frazil.Repository.create(storage, spec_version=1)
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    assert "version" in catalog.error("ALTER TABLE ddl.old RENAME COLUMN t2m TO t")
    catalog.sql("ALTER TABLE ddl.old ADD COLUMN n INT")
    catalog.sql("ALTER TABLE ddl.old DROP COLUMN t2m")
    assert catalog.columns("ddl.old").keys() == {"time", "lat", "lon", "n", "pressure"}


def test_namespaces_and_tables_in_a_bucket(hot_s3_server: S3Server) -> None:
    prefix = hot_s3_server.new_prefix()
    reach = {
        "storage.region": hot_s3_server.region,
        "storage.endpointUrl": hot_s3_server.endpoint,
        "storage.allowHttp": "true",
        "storage.forcePathStyle": "true",
        "storage.accessKeyId": hot_s3_server.access_key,
        "storage.secretAccessKey": hot_s3_server.secret_key,
    }
    settings = parse_settings("c", {"warehouse": f"s3://{hot_s3_server.bucket}/{prefix}", **reach})
    create_namespace(settings, ("new",), {"comment": "mine"})
    create_namespace(settings, ("deep", "er"), {"kind": "repository"})
    with pytest.raises(InvalidInputError, match="folders of a bucket"):
        create_namespace(settings, ("folder",), {"kind": "folder"})
    with pytest.raises(InvalidInputError, match="no repository and no folder"):
        create_namespace(settings, ("none", "x"), {})
    assert list_namespaces(settings, ()) == ["deep", "new"]
    schema = StructType([StructField("x", LongType()), StructField("v", LongType())])
    question: dict[str, Any] = {
        "ddl": "create table",
        "in": ["new"],
        "name": "t",
        "schema": schema.json(),
    }
    question |= {"properties": {"dims": "x", "owner": "me"}, "partitions": []}
    answer_ddl(question, settings)
    answer_ddl({**question, "in": [], "name": "direct"}, settings)
    assert list_tables(settings, ("new",)) == ["t"]
    assert list_tables(settings, ()) == ["direct", "new"]
    drop_namespace(settings, ("deep", "er"), cascade=False)
    assert list_namespaces(settings, ()) == ["direct", "new"]
    with pytest.raises(SessionStateError, match="not empty"):
        drop_namespace(settings, ("new",), cascade=False)
    assert hot_s3_server.secret_key not in repr(settings)


# Concurrent commits


def racing(repository: frazil.Repository, act: Callable[[Session], None], path: str) -> Any:
    """A statement during which another client writes to an array, the first time it is tried."""
    tries: list[int] = []

    def statement(session: Session) -> None:
        tries.append(1)
        act(session)
        if len(tries) == 1:
            with repository.transaction("main", message="faster") as store:
                zarr.open_array(store, path=path)[:] = 0

    return statement, tries


def test_a_statement_is_repeated_on_commits_that_have_nothing_to_do_with_it(tmp_path: Path) -> None:
    repository = make_weather(tmp_path / "w")
    target = find_there(Settings("c", str(tmp_path)), ["w", "t2m"])
    statement, tries = racing(repository, lambda s: s.delete_node(target.path), "pressure")
    made = commit_statement(target, "DROP TABLE", statement)
    assert len(tries) == 2
    messages = [each.message for each in repository.ancestry(branch="main")]
    assert messages[:2] == ["DROP TABLE w.t2m", "faster"]
    assert made == repository.lookup_branch("main")


def test_a_column_is_as_long_as_the_table_when_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebase alone would not see that the other arrays have grown meanwhile."""
    repository = frazil.Repository.create(frazil.local_filesystem_storage(tmp_path / "w"))
    with repository.transaction("main", message="four") as store:
        zarr.group(store).create_array("v", data=np.arange(4), dimension_names=["x"], chunks=(2,))
    commit, beaten = Session.commit, list[int]()

    def slower(session: Session, *args: Any, **options: Any) -> Any:
        if not beaten:
            beaten.append(1)
            with repository.transaction("main", message="six") as store:
                zarr.open_array(store, path="v").resize((6,))
        return commit(session, *args, **options)

    monkeypatch.setattr(Session, "commit", slower)
    change = {"change": "add column", "column": ["w"], "type": '"long"', "nullable": True}
    question = {"ddl": "alter table", "in": [], "name": "w", "changes": [change]}
    answer_ddl(question, Settings("c", str(tmp_path)))
    assert [each.message for each in repository.ancestry(branch="main")][:2] == [
        "ALTER TABLE w ADD COLUMN w", "six",
    ]  # fmt: skip
    found = documents_of(repository)
    assert found["/w"]["shape"] == found["/v"]["shape"] == [6]


def test_a_statement_on_what_another_commit_changed_is_a_conflict(tmp_path: Path) -> None:
    repository = make_weather(tmp_path / "w")
    target = find_there(Settings("c", str(tmp_path)), ["w", "t2m"])
    statement, tries = racing(repository, lambda s: s.delete_node(target.path), "t2m")
    with pytest.raises(ConflictError, match=r"changed nothing: another commit .* changed /t2m"):
        commit_statement(target, "DROP TABLE", statement)
    assert len(tries) == 1
    assert next(iter(repository.ancestry(branch="main"))).message == "faster"


def test_a_table_is_made_or_replaced_with_its_rows_by_one_commit(catalog: Catalog) -> None:
    new = "PARTITIONED BY (t, x) TBLPROPERTIES ('chunks' = '{\"t\": 2}') COMMENT 'made'"
    rows = "SELECT id div 3 AS t, id % 3 AS x, id * 0.5D AS v FROM range(12)"
    catalog.sql("CREATE NAMESPACE ddl.r")
    catalog.sql(f"CREATE TABLE ddl.r.a {new} AS {rows}")
    assert catalog.messages("r")[2:] == ["CREATE TABLE r.a AS SELECT"]
    assert [tuple(row) for row in catalog.sql("SELECT count(*), sum(v), max(t) FROM ddl.r.a")] == [
        (12, 33.0, 3)
    ]
    documents = catalog.documents("r")
    assert documents["/a/v"]["chunk_grid"]["configuration"]["chunk_shape"][0] == 2
    assert documents["/a"]["attributes"]["comment"] == "made"
    assert "already exists" in catalog.error(f"CREATE TABLE ddl.r.a {new} AS {rows}")
    catalog.sql(f"REPLACE TABLE ddl.r.a PARTITIONED BY (t, x) AS {rows} WHERE id < 6")
    catalog.sql(f"CREATE OR REPLACE TABLE ddl.r.b {new} AS {rows}")
    catalog.sql("CREATE OR REPLACE TABLE ddl.r.b (k INT, w DOUBLE) PARTITIONED BY (k)")
    assert catalog.sql("SELECT count(*) AS n FROM ddl.r.a")[0]["n"] == 6
    assert catalog.sql("SELECT * FROM ddl.r.b") == []
    assert catalog.messages("r")[3:] == [
        "REPLACE TABLE r.a AS SELECT",
        "REPLACE TABLE r.b AS SELECT",
        "REPLACE TABLE r.b",
    ]
    catalog.sql("INSERT INTO ddl.r.b VALUES (1, 2.5), (2, NULL)")
    assert [tuple(row) for row in catalog.sql("SELECT * FROM ddl.r.b")] == [(1, 2.5), (2, None)]


def test_rows_that_fail_leave_the_table_that_there_was(catalog: Catalog) -> None:
    rows = "SELECT id AS t, id * 0.5D AS v FROM range(4)"
    catalog.sql(f"CREATE TABLE ddl.r PARTITIONED BY (t) AS {rows}")
    failing = "SELECT id AS t, double(raise_error('no')) AS v FROM range(4)"
    assert "no" in catalog.error(f"REPLACE TABLE ddl.r PARTITIONED BY (t) AS {failing}")
    assert "two rows" in catalog.error(
        f"REPLACE TABLE ddl.r PARTITIONED BY (t) AS {rows} UNION ALL {rows}"
    )
    assert catalog.sql("SELECT sum(v) AS v FROM ddl.r")[0]["v"] == 3
    assert len(catalog.messages("r")) == 2
    assert catalog.error("REPLACE TABLE ddl.other PARTITIONED BY (t) AS " + rows)
