"""Mode `chunks`: a row per chunk."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.objectstore.local import LocalStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from frazil.spark import read_chunks
from frazil.spark.io.chunk_scan import chunk_schema, plan_chunk_scan, read_chunk_part
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import parse_options
from tests.spark.repositories import CHUNKS, SHAPE, make_weather, put, temperature

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

type Row = dict[str, Any]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chunks") / "weather"
    make_weather(path)
    return path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chunks") / "mixed"
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=20)
    repository = frazil.Repository.create(frazil.local_filesystem_storage(path), config)
    with repository.transaction("main", message="mixed") as store:
        group = zarr.group(store)
        put(group, "x", np.arange(5, dtype="i2"), "x", 5)
        put(group, "big", np.arange(20, dtype=">f8").reshape(5, 4), "x y", (2, 3))
        put(group, "one", np.array(7, dtype="i4"), "", ())
        put(group, "text", np.array(["a", "", "løv"], dtype=np.dtypes.StringDType()), "z", 2)
        gaps = group.create_array("gaps", shape=(6,), chunks=(2,), dtype="i8", fill_value=0)
        gaps[2:4] = [1, 2]
        group.create_array(
            "sharded", shape=(8,), chunks=(2,), shards=(4,), dtype="i4", fill_value=-1
        )[:] = np.arange(8)
    return path


def rows(path: Path, **options: str) -> tuple[Counting, list[Row]]:
    """What executors read, here; and through what."""
    store = Counting(LocalStore(path))
    opened = Opened(Repository.open(store).readonly_session(Branch("main")))
    parsed = parse_options({"path": str(path), "mode": "chunks", **options})
    scan = plan_chunk_scan(opened, parsed)
    found = [
        row
        for part in scan.parts
        for batch in read_chunk_part(opened, scan, part)
        for row in batch.to_pylist()
    ]
    return store, found


def values(row: Row) -> npt.NDArray[Any]:
    return np.frombuffer(row["data"], dtype=row["dtype"]).reshape(row["shape"])


def assembled(found: list[Row], shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    whole = np.zeros(shape, dtype=dtype)
    for row in found:
        place = tuple(slice(o, o + n) for o, n in zip(row["offset"], row["shape"], strict=True))
        whole[place] = values(row)
    return whole


def test_chunks_make_up_their_array(spark: SparkSession, weather: Path) -> None:
    frame = read_chunks(spark, weather, variables="t2m", partition_bytes=20_000)
    assert frame.dtypes == [
        ("array", "string"),
        ("chunk", "array<bigint>"),
        ("offset", "array<bigint>"),
        ("shape", "array<bigint>"),
        ("dtype", "string"),
        ("kind", "string"),
        ("data", "binary"),
    ]
    found = frame.toArrow().to_pylist()
    expected = temperature()
    expected[0, 0, :3] = np.nan
    assert len(found) == 48
    assert np.array_equal(assembled(found, SHAPE, "f4"), expected, equal_nan=True)
    first = next(row for row in found if row["chunk"] == [1, 0, 2])
    assert first["offset"] == [CHUNKS[0], 0, 2 * CHUNKS[2]]


def test_lists_instead_of_bytes(spark: SparkSession, mixed: Path) -> None:
    options = {"path": str(mixed), "mode": "chunks", "values": "true"}
    reader = spark.read.format("icechunk").options(**options)
    frame = reader.option("variables", "text").load()
    assert dict(frame.dtypes)["data"] == "array<string>"
    assert [row.data for row in frame.orderBy("chunk").collect()] == [["a", ""], ["løv"]]
    frame = reader.options(variables="x,big,gaps", includeMissing="true").load()
    assert dict(frame.dtypes)["data"] == "array<double>"
    found = {(row.array, tuple(row.chunk)): row.data for row in frame.collect()}
    assert found["x", (0,)] == [0, 1, 2, 3, 4]
    assert found["big", (2, 1)] == [19]
    assert found["gaps", (1,)] == [1, 2]
    assert found["gaps", (0,)] is None
    with pytest.raises(PySparkException, match="no type in common"):
        reader.option("variables", "text,x").load()


def test_every_kind_of_array_arrives(mixed: Path) -> None:
    _, found = rows(mixed, variables="x,big,one,gaps,sharded")
    by_array = {name: [r for r in found if r["array"] == name] for name in ("x", "big", "one")}
    assert values(by_array["one"][0]) == 7
    assert by_array["one"][0]["chunk"] == []
    assert np.array_equal(assembled(by_array["big"], (5, 4), "f8"), np.arange(20).reshape(5, 4))
    assert {row["dtype"] for row in by_array["big"]} == {"<f8"}
    assert [row["chunk"] for row in found if row["array"] == "gaps"] == [[1]]
    sharded = [row for row in found if row["array"] == "sharded"]
    assert [row["shape"] for row in sharded] == [[4], [4]]
    assert np.array_equal(assembled(sharded, (8,), "i4"), np.arange(8))
    assert {row["kind"] for row in found} == {"native", "inline"}


def test_bytes_as_they_are_stored(mixed: Path) -> None:
    repository = frazil.Repository.open(frazil.local_filesystem_storage(mixed))
    session = repository.readonly_session("main").engine
    _, found = rows(mixed, decode="false")
    assert {row["array"] for row in found} == {"x", "big", "one", "text", "gaps", "sharded"}
    for row in found:
        path = NodePath(f"/{row['array']}")
        stored = session.fetch_chunk(path, tuple(row["chunk"]))
        assert stored is not None
        assert row["data"] == bytes(stored)


def test_missing_chunks_are_told_if_wanted(mixed: Path) -> None:
    _, found = rows(mixed, variables="gaps", includeMissing="true")
    assert [(row["chunk"], row["kind"]) for row in found] == [
        ([0], "missing"),
        ([1], "native"),
        ([2], "missing"),
    ]
    assert [row["data"] is None for row in found] == [True, False, True]


@pytest.mark.parametrize(
    ("options", "chunks"),
    [
        ({"sel": '{"lat": 90.0, "time": "2024-01-01T05:00:00"}'}, 3),
        ({"sel": '{"lat": {"start": 50, "stop": 90}, "lon": {"start": 0, "stop": 110}}'}, 4),
        ({"isel": '{"time": {"stop": 12}, "lat": [0, -1], "lon": 35}'}, 2),
        ({"isel": '{"time": {"start": 13}}', "sel": '{"time": "2024-01-01"}'}, 12),
        ({"isel": '{"time": {"start": 24}}', "sel": '{"time": "2024-01-01"}'}, 0),
    ],
)
def test_only_selected_chunks_are_fetched(
    weather: Path, options: dict[str, str], chunks: int
) -> None:
    for size in ("1", "30000", "1000000000"):
        store, found = rows(weather, variables="t2m", partitionBytes=size, **options)
        fetched = [each.key for each in store.reads if each.key.startswith("chunks/")]
        coordinates = 2 if chunks and "sel" in options else 0
        assert len(found) == chunks
        assert len(set(fetched)) <= chunks + coordinates


def test_arrays_without_the_dimension_come_whole(weather: Path) -> None:
    _, found = rows(weather, sel='{"lat": 90.0}')
    counts = {name: sum(row["array"] == name for row in found) for name in ("t2m", "lat", "lon")}
    assert counts == {"t2m": 12, "lat": 1, "lon": 1}
    _, grids = rows(weather, dims="lon,lat,time")
    assert {row["array"] for row in grids} == {"t2m", "pressure"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "chunk"}, "mode is 'chunk', expected 'rows' or 'chunks'"),
        ({"columns": "data"}, "option 'columns' means nothing to mode 'chunks'"),
        ({"decode": "false", "values": "true"}, "exclude each other"),
        ({"sel": '{"depth": 1}'}, "`sel` names 'depth', but the dimensions are"),
        ({"isel": '{"x": 5}', "variables": "big"}, "which has 5 positions"),
        ({"isel": "x"}, "`isel` is not JSON"),
        ({"variables": "text"}, "is of text.*values=true"),
        ({"variables": "nix"}, "no array 'nix'"),
        ({"dims": "q"}, r"has the dimensions \(q\); there are: "),
    ],
)
def test_mistakes_are_told(mixed: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError if "nix" not in message else KeyError, match=message):
        rows(mixed, **options)


def test_the_schema_says_what_lists_are_of(mixed: Path) -> None:
    opened = Opened(Repository.open(LocalStore(mixed)).readonly_session(Branch("main")))
    for name, element in {"x": "smallint", "one": "int", "big": "double"}.items():
        options = {"path": "x", "mode": "chunks", "values": "true", "variables": name}
        scan = plan_chunk_scan(opened, parse_options(options))
        assert chunk_schema(scan).endswith(f"data ARRAY<{element}>")
