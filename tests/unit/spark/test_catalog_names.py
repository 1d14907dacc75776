"""Names of a catalog stand for what is written here, and for nothing outside of the warehouse."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zarr
from pyspark.sql.types import StructType

import frazil
from frazil.errors import IcechunkError, InvalidInputError, RefNotFoundError
from frazil.objectstore.wrappers import Counting
from frazil.spark.io.data_source import IcechunkSource
from frazil.spark.native.answers import answer_in
from frazil.spark.native.catalog import answer_catalog, list_namespaces, list_tables
from frazil.spark.native.names import (
    Asked,
    NoSuchNameError,
    Settings,
    find_named,
    join_location,
    parse_settings,
    possible_readings,
)
from frazil.spark.native.procedures import split_name


@dataclass(frozen=True, slots=True)
class Warehouse:
    folder: Path
    settings: Settings
    snapshots: Mapping[str, str]  # by message

    def find(self, *parts: str, **asked: Any) -> dict[str, str]:
        return find_named(self.settings, parts, Asked(**asked)).named.options


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """era5/weather with groups, a branch, a tag, and names that could be mistaken."""
    folder = tmp_path_factory.mktemp("warehouse")
    (folder / "empty").mkdir()
    (folder / "a file").write_text("nothing")
    storage = frazil.local_filesystem_storage(folder / "era5" / "weather")
    repository = frazil.Repository.create(storage)

    def add(branch: str, *paths: str) -> str:
        with repository.transaction(branch, message=f"add {paths}") as store:
            for path in paths:
                zarr.create_array(store, name=path, shape=(2,), chunks=(2,), dtype="i4")
        return repository.lookup_branch(branch)

    first = add("main", "t2m", "surface/wind", "surface/deep/u")
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    repository.create_branch("same", first)
    dev = add("dev", "only_dev")
    main = add("main", "history/x", "branch_dev/x", "at@dev/x", "refs")
    repository.create_tag("same", main)
    settings = parse_settings("frazil", {"warehouse": str(folder)})
    return Warehouse(folder, settings, {"first": first, "dev": dev, "main": main})


HERE = "era5/weather"
FOUND: list[tuple[str, dict[str, str]]] = [
    ("era5.weather", {}),
    ("era5.weather.t2m", {"variables": '["t2m"]'}),
    ("era5.weather.surface", {"group": "/surface"}),
    ("era5.weather.surface.wind", {"group": "/surface", "variables": '["wind"]'}),
    ("era5.weather.surface.deep.u", {"group": "/surface/deep", "variables": '["u"]'}),
    # metadata tables
    ("era5.weather.snapshots", {"table": "snapshots"}),
    ("era5.weather.surface.snapshots", {"table": "snapshots"}),
    ("era5.weather.surface.nodes", {"table": "nodes", "group": "/surface"}),
    ("era5.weather.t2m.nodes", {"table": "nodes", "group": "/t2m"}),
    ("era5.weather.t2m.storage", {"table": "storage", "variables": '["t2m"]'}),
    # a node hides what its name could also mean
    ("era5.weather.history", {"group": "/history"}),
    ("era5.weather.$history", {"table": "history"}),
    ("era5.weather.history.history", {"table": "history"}),
    ("era5.weather.refs", {"variables": '["refs"]'}),
    ("era5.weather.$refs", {"table": "refs"}),
    ("era5.weather.branch_dev", {"group": "/branch_dev"}),
    ("era5.weather.at@dev", {"group": "/at@dev"}),
    # versions
    ("era5.weather@dev", {"branch": "dev"}),
    ("era5.weather@v1", {"tag": "v1"}),
    ("era5.weather@{first}", {"snapshot": "{first}"}),
    ("era5.weather@dev.surface", {"branch": "dev", "group": "/surface"}),
    ("era5.weather.surface@dev", {"branch": "dev", "group": "/surface"}),
    ("era5.weather.surface.wind@v1", {"tag": "v1", "group": "/surface", "variables": '["wind"]'}),
    ("era5.weather.only_dev@dev", {"branch": "dev", "variables": '["only_dev"]'}),
    ("era5.weather.@dev", {"branch": "dev"}),
    ("era5.weather@branch:same", {"branch": "same"}),
    ("era5.weather@tag:same", {"tag": "same"}),
    ("era5.weather.branch_same", {"branch": "same"}),
    ("era5.weather.tag_v1", {"tag": "v1"}),
    ("era5.weather.surface.branch_dev", {"branch": "dev", "group": "/surface"}),
    ("era5.weather.tag_v1.surface", {"tag": "v1", "group": "/surface"}),
    ("era5.weather.snapshot_id_{dev}", {"snapshot": "{dev}"}),
    ("era5.weather.tag_v1.history", {"tag": "v1", "table": "history"}),
    ("era5.weather.nodes@v1", {"tag": "v1", "table": "nodes"}),
    ("era5.weather.surface@v1.nodes", {"tag": "v1", "table": "nodes", "group": "/surface"}),
    ("era5.weather.at_timestamp_4102444800000", {"asOf": "2100-01-01T00:00:00.000000Z"}),
    ("era5.weather.nodes.branch_dev", {"branch": "dev", "table": "nodes"}),
]


@pytest.mark.parametrize(("name", "options"), FOUND)
def test_a_name_stands_for(warehouse: Warehouse, name: str, options: dict[str, str]) -> None:
    ids = warehouse.snapshots
    parts = name.format(**ids).split(".")
    expected = {
        key: text.format(**ids) if key == "snapshot" else text for key, text in options.items()
    }
    assert warehouse.find(*parts) == {"path": str(warehouse.folder / HERE), **expected}


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"version": "v1"}, {"tag": "v1"}),
        ({"version": "dev"}, {"branch": "dev"}),
        ({"version": "tag:same"}, {"tag": "same"}),
        ({"version": "{main}"}, {"snapshot": "{main}"}),
        ({"as_of_us": 4102444800000000}, {"asOf": "2100-01-01T00:00:00.000000Z"}),
    ],
)
def test_a_statement_says_which_version(
    warehouse: Warehouse, asked: dict[str, Any], options: dict[str, str]
) -> None:
    ids = warehouse.snapshots
    given = {k: v.format(**ids) if isinstance(v, str) else v for k, v in asked.items()}
    expected = {key: text.format(**ids) for key, text in options.items()}
    found = warehouse.find("era5", "weather", "surface", **given)
    assert found == {"path": str(warehouse.folder / HERE), "group": "/surface", **expected}


def test_a_time_goes_with_a_branch_in_the_name(warehouse: Warehouse) -> None:
    for name in (["weather@dev"], ["weather", "branch_same"], ["weather", "surface@dev"]):
        found = warehouse.find("era5", *name, as_of_us=4102444800000000)
        assert found["asOf"].startswith("2100")
        assert found["branch"] in {"dev", "same"}
    with pytest.raises(InvalidInputError, match="asOf goes with a branch"):
        warehouse.find("era5", "weather@v1", as_of_us=4102444800000000)


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("era5.weather", {"version": "nope"}, "no branch, tag or snapshot 'nope'"),
        ("era5.weather", {"version": "same"}, "is a branch and a tag: write 'branch:same' or"),
        ("era5.weather@same", {}, "is a branch and a tag: write 'branch:same' or"),
        ("era5.weather@nope", {}, "no branch, tag or snapshot 'nope'"),
        ("era5.weather.surface@nope", {}, "no branch, tag or snapshot 'nope'"),
        ("era5.weather.branch_nope", {}, "nope"),
        ("era5.weather.at_timestamp_soon", {}, "'soon' is no number of milliseconds"),
        ("era5.weather@dev", {"version": "v1"}, "both say which version"),
        ("era5.weather.tag_v1", {"version": "v1"}, "both say which version"),
        ("era5.weather.files", {}, "'files' of Iceberg is 'chunk_refs' here"),
        ("era5.weather.surface.partitions", {}, "'partitions' of Iceberg is 'storage' here"),
    ],
)
def test_a_mistake_is_told(
    warehouse: Warehouse, name: str, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidInputError, RefNotFoundError), match=message):
        warehouse.find(*name.split("."), **asked)


@pytest.mark.parametrize(
    "name",
    ["nope", "era5", "empty", "a file", "era5.nope", "era5.weather.nope", "era5.weather.t2m.nope",
     "era5.weather.only_dev", "era5.weather.surface.wind.deep", "era5.weather.a/b", "ERA5.weather",
     "era5.weather.surface/wind"],
)  # fmt: skip
def test_there_is_no_such_table(warehouse: Warehouse, name: str) -> None:
    with pytest.raises(NoSuchNameError):
        warehouse.find(*name.split("."))


HOSTILE = [
    "..", ".", "", "/", "../era5", "era5/weather", "\0", "era5\0", "/etc", "a/../b", "~", "$", "@",
    "'; DROP TABLE x; --", '{"path": "/etc"}', "x' OR '1'='1", "`", "``.``", "s3://bucket/x",
    "file:///etc", "%2e%2e", "..%2f", "path=/etc", "storage.endpointUrl", "\n", "\ud7ff", "é" * 300,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_part_stays_in_the_warehouse(warehouse: Warehouse, text: str) -> None:
    for parts in ((text,), ("era5", text), (text, "era5", "weather"), ("era5", "weather", text)):
        try:
            found = warehouse.find(*parts)
        except IcechunkError:
            continue
        assert found["path"] == str(warehouse.folder / HERE)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_version_is_none(warehouse: Warehouse, text: str) -> None:
    with pytest.raises(IcechunkError):
        warehouse.find("era5", "weather", version=text)


def test_names_are_quoted_in_locations() -> None:
    assert join_location("s3://bucket/p", "a?b#c%2e d") == "s3://bucket/p/a%3Fb%23c%252e d"
    assert join_location("/data/", "a?b#c%2e") == "/data/a?b#c%2e"
    for name in ("", ".", "..", "a/b", "a\0"):
        with pytest.raises(InvalidInputError, match="no name of a folder"):
            join_location("/data", name)


def test_namespaces_and_tables(warehouse: Warehouse) -> None:
    def both(*parts: str) -> tuple[list[str], list[str]]:
        return list_namespaces(warehouse.settings, parts), list_tables(warehouse.settings, parts)

    assert both() == (["empty", "era5"], [])
    assert both("empty") == ([], [])
    assert both("era5") == (["weather"], ["weather"])
    groups = ["at@dev", "branch_dev", "history", "surface"]
    assert both("era5", "weather") == (groups, sorted([*groups, "refs", "t2m"]))
    assert both("era5", "weather@dev") == (["surface"], ["only_dev", "surface", "t2m"])
    assert both("era5", "weather", "surface") == (["deep"], ["deep", "wind"])
    for missing in (("nope",), ("era5", "weather", "nope"), ("era5", "weather", "t2m")):
        with pytest.raises(NoSuchNameError):
            both(*missing)


def test_a_catalog_of_one_repository(warehouse: Warehouse) -> None:
    place = str(warehouse.folder / HERE)
    settings = parse_settings("one", {"repository": place})
    assert find_named(settings, ["/"]).named.options == {"path": place}
    assert find_named(settings, ["t2m"]).named.options == {"path": place, "variables": '["t2m"]'}
    assert find_named(settings, ["snapshots"]).named.options["table"] == "snapshots"
    assert list_tables(settings, ())[:1] == ["/"]
    nowhere = parse_settings("one", {"repository": place + "/nowhere"})
    with pytest.raises(IcechunkError, match="repository"):
        find_named(nowhere, ["t2m"])


def test_a_catalog_of_locations(warehouse: Warehouse) -> None:
    settings, place = parse_settings("icechunk", {}), str(warehouse.folder / HERE)
    assert find_named(settings, [place]).named.options == {"path": place}
    assert find_named(settings, [f"file://{place}", "surface"]).named.path == "/surface"
    assert find_named(settings, [f"{place}@dev"]).named.options == {"path": place, "branch": "dev"}
    above = str(warehouse.folder)
    assert find_named(settings, [above, "era5", "weather"]).named.options == {"path": place}
    assert list_tables(settings, ()) == []
    assert list_tables(settings, (above, "era5")) == ["weather"]
    for nothing in ("/", "", "\0", "nope://x/y"):
        with pytest.raises(IcechunkError):
            find_named(settings, [nothing])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"warehous": "/x"}, "unknown setting 'warehous' .did you mean 'warehouse'"),
        ({"path": "/x"}, "unknown setting 'path'"),
        ({"warehouse": "/x", "repository": "/y"}, "exclude each other"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_settings("frazil", given)


def test_settings_show_no_secret() -> None:
    settings = parse_settings("frazil", {"warehouse": "s3://b/p", "storage.secretAccessKey": "XYZ"})
    assert settings.storage == {"storage.secretaccesskey": "XYZ"}
    assert "XYZ" not in repr(settings)
    with pytest.raises(InvalidInputError, match="holds a secret") as caught:
        parse_settings("frazil", {"storage.access_key": "XYZ"}).store("az://c/p")
    assert "XYZ" not in str(caught.value)


def test_a_folder_is_listed_once_and_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repositories are recognised by their names alone."""
    frazil.Repository.create(frazil.local_filesystem_storage(tmp_path / "one"))
    for k in range(20):
        (tmp_path / f"other{k}" / "deep" / "deeper").mkdir(parents=True)
    stores: list[Counting] = []

    def counted(self: Settings, location: str, given: Any = Settings.store) -> Counting:
        stores.append(Counting(given(self, location)))
        return stores[-1]

    settings = parse_settings("frazil", {"warehouse": str(tmp_path)})
    names = list_namespaces(settings, ())
    monkeypatch.setattr("frazil.spark.native.names.require_shared", lambda store: store.inner)
    monkeypatch.setattr(Settings, "store", counted)
    assert list_tables(settings, ()) == ["one"]
    assert len(names) == 21
    asked = [request for store in stores for request in store.requests]
    assert {request.verb for request in asked} <= {"head", "get", "list"}
    assert {request.key for request in asked if request.verb == "list"} <= {"refs/", "r/"}
    assert len(asked) < 7 * 23


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("weather", ["weather"]),
        ("era5.weather.surface", ["era5", "weather", "surface"]),
        ("era5.`a.b`.c", ["era5", "a.b", "c"]),
        ("`a``b`.c", ["a`b", "c"]),
        ("/data/weather.v2", ["/data/weather.v2"]),
        ("s3://bucket/weather", ["s3://bucket/weather"]),
        ("`s3://bucket/weather`.surface", ["s3://bucket/weather", "surface"]),
    ],
)
def test_a_name_in_an_argument(text: str, parts: list[str]) -> None:
    assert split_name(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`", "`a`b", "``"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a name"):
        split_name(text)


def test_the_plainest_reading_comes_first() -> None:
    found = [(r.nodes, r.selector, r.table) for r in possible_readings(("a", "branch_b", "refs"))]
    assert found == [
        (("a", "branch_b", "refs"), None, None),
        (("a", "branch_b"), None, "refs"),
        (("a", "refs"), "branch:b", None),
        (("a",), "branch:b", "refs"),
    ]


def test_questions_that_nobody_asks(warehouse: Warehouse) -> None:
    def ask(question: dict[str, Any]) -> dict[str, Any]:
        given = {"warehouse": str(warehouse.folder)}
        return answer_in(answer_catalog({"as": "frazil", **question}, given, _unused))

    for question in (
        {"catalog": "nothing"}, {"catalog": "table", "in": "x", "name": "y"}, {"catalog": None},
        {"catalog": "call", "name": "verify", "arguments": []},
    ):  # fmt: skip
        assert ask(question) == {"error": "the catalog asks nothing that is known"}
    assert (
        "did you mean 'verify'"
        in ask({"catalog": "call", "name": "verfy", "arguments": {}})["error"]
    )
    lost = ask({"catalog": "call", "name": "verify", "arguments": {}})
    assert lost == {"error": "the argument 'table' is missing: a table of the catalog"}
    gone = ask({"catalog": "tables", "in": ["nope"]})
    assert gone["missing"] is True


def _unused(question: dict[str, Any], options: dict[str, str]) -> StructType:
    raise AssertionError((question, options))


def test_a_description_has_what_the_metadata_say(warehouse: Warehouse) -> None:
    question = {"catalog": "table", "as": "frazil", "in": ["era5", "weather"], "name": "surface"}
    options = {"warehouse": str(warehouse.folder), "frazilQuestion": json.dumps(question)}
    schema = IcechunkSource(options).schema()
    assert isinstance(schema, StructType)
    told = answer_in(schema)
    assert told["options"] == {"path": str(warehouse.folder / HERE), "group": "/surface"}
    assert told["properties"]["dtype.wind"] == "int32"
    assert told["properties"]["chunks.wind"] == "[2]"
    assert told["properties"]["snapshot"] == warehouse.snapshots["main"]
