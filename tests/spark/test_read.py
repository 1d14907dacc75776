"""Reading repositories with Spark. What is counted here is counted exactly."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from frazil.api import Repository, local_filesystem_storage
from frazil.engine.repository import Repository as Engine
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.format.chunk_refs import Native
from frazil.objectstore.local import LocalStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from frazil.spark import plan_read, read
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan_plan import list_chunks
from frazil.spark.table.selection import to_selection
from tests.spark.in_process import InProcessReader, counted
from tests.spark.repositories import (
    LATITUDES,
    LONGITUDES,
    SHAPE,
    TIMES,
    make_weather,
    put,
    temperature,
)

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_weather(tmp_path_factory.mktemp("repositories") / "weather")


def path_of(repository: Repository) -> str:
    store = repository.storage.store
    assert isinstance(store, LocalStore)
    return store.root


def load(spark: SparkSession, repository: Repository | str, **options: str) -> DataFrame:
    path = repository if isinstance(repository, str) else path_of(repository)
    return spark.read.format("icechunk").options(path=path, **options).load()


def chunk_objects(reader: InProcessReader) -> set[str]:
    """Objects that hold the chunks that a scan should read."""
    found = set()
    for variable in reader.scans[0].table.variables:
        for index in list_chunks(reader.scans[0].axes, variable):
            payload = reader.opened.session.chunk_payload(NodePath(variable.path), index)
            assert isinstance(payload, Native)
            found.add(f"chunks/{payload.chunk_id}")
    return found


SELECTIONS: list[tuple[dict[str, Any], int]] = [
    ({}, 48),
    ({"lat": 90.0, "time": "2024-01-01T05:00:00"}, 3),
    ({"lat": slice(50, 90), "lon": slice(0, 110)}, 4),
    ({"time": "2024-01-02", "lon": [0, 350]}, 16),
    ({"lat": [90, -90], "lon": 0}, 8),
    ({"time": slice("2024-01-01T12:00:00", "2024-01-01T23:00:00")}, 12),
]


@pytest.mark.parametrize(("sel", "chunks"), SELECTIONS)
def test_a_selection_fetches_its_chunks_once_and_no_others(
    weather: Repository, sel: dict[str, Any], chunks: int
) -> None:
    options = ReadOptions(
        path="", variables=("t2m",), selection=to_selection(sel), partition_bytes=10_000
    )
    store, reader = counted(path_of(weather), options)
    expected = chunk_objects(reader)
    store.clear()
    rows = reader.table()
    fetched = [request.key for request in store.reads if request.key.startswith("chunks/")]
    assert sorted(fetched) == sorted(expected)
    assert len(fetched) == chunks == reader.scans[0].reads[0].read
    assert rows.num_rows == np.prod([len(axis) for axis in reader.scans[0].axes])


def test_a_chunk_is_never_read_by_two_tasks(weather: Repository) -> None:
    options = ReadOptions(path="", partition_bytes=1)
    store, reader = counted(path_of(weather), options)
    assert len(reader.partitions()) == 48
    reader.table()
    fetched = [r.key for r in store.reads if r.key.startswith("chunks/")]
    assert len(fetched) == len(set(fetched)) == 96  # two variables


def test_a_query_needs_nothing_but_the_chunks_it_was_planned_to_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = make_weather(tmp_path / "weather")
    sel = {"lat": slice(50, 90), "time": "2024-01-01T05"}
    options = ReadOptions(path="", variables=("t2m",), selection=to_selection(sel))
    store, reader = counted(path_of(repository), options)
    needed = chunk_objects(reader)
    chunks = {info.key for info in store.list("chunks/")}
    assert store.delete(chunks - needed) > 80

    where = "lat >= 50 AND time = '2024-01-01 05:00:00'"
    whole = read(spark, repository, variables="t2m")
    for kept in (read(spark, repository, variables="t2m", where=where), whole.where(where)):
        assert len(kept.collect()) == 5 * len(LONGITUDES)
    with pytest.raises(PySparkException, match="ObjectNotFoundError"):
        whole.collect()
    assert whole.count() == np.prod(SHAPE)  # needs no chunk at all


def test_rows_are_the_elements_of_the_arrays(spark: SparkSession, weather: Repository) -> None:
    frame = load(spark, weather, sel='{"time": {"start": "2024-01-01", "stop": "2024-01-01T01"}}')
    assert frame.dtypes == [
        ("time", "timestamp"),
        ("lat", "double"),
        ("lon", "float"),
        ("pressure", "double"),
        ("t2m", "float"),
    ]
    rows = frame.toArrow()
    assert rows.num_rows == 2 * SHAPE[1] * SHAPE[2]
    start = datetime(2024, 1, 1)  # noqa: DTZ001  # compared with naive UTC below
    times = rows["time"].cast(pa.timestamp("us")).to_pylist()
    keys = zip(times, rows["lat"].to_pylist(), rows["lon"].to_pylist(), strict=True)
    order = {key: row for row, key in enumerate(keys)}
    t2m, pressure = rows["t2m"].to_pylist(), rows["pressure"].to_pylist()
    for h, i, j in [(0, 0, 3), (1, 18, 35), (1, 5, 5)]:
        at = order[start + timedelta(hours=h), LATITUDES[i], float(LONGITUDES[j])]
        assert t2m[at] == temperature()[h, i, j]
        flat = (h * SHAPE[1] + i) * SHAPE[2] + j
        assert pressure[at] == pytest.approx(900 + 0.1 * (flat % 1000))
    assert t2m[order[start, 90.0, 0.0]] is None  # NaN
    assert pressure[order[start, 90.0, 70.0]] is None  # _FillValue, as stored
    assert rows["t2m"].null_count == 3


def test_a_dataframe_stays_at_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="one") as store:
        put(zarr.group(store), "v", np.arange(4, dtype="i8"), "x", 2)
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    inferred, helped = load(spark, repository), read(spark, repository)
    with repository.transaction("main", message="two") as store:
        zarr.open_array(store, path="v")[:] = 100

    def total(frame: DataFrame) -> int:
        (row,) = frame.selectExpr("sum(v)").collect()
        return int(row[0])

    assert [total(f) for f in (inferred, helped)] == [6, 6]
    assert total(load(spark, repository)) == 400
    assert total(load(spark, repository, tag="v1")) == 6
    assert total(load(spark, repository, snapshot=first)) == 6
    then = next(iter(repository.ancestry(tag="v1"))).written_at
    assert total(read(spark, repository, as_of=then)) == 6
    assert total(read(spark, repository, snapshot=first, where="x > 1")) == 5  # by position


def test_a_schema_given_by_hand_picks_columns(spark: SparkSession, weather: Repository) -> None:
    reader = spark.read.format("icechunk").option("path", path_of(weather))
    frame = reader.schema(StructType([StructField("time", TimestampType())])).load()
    assert frame.distinct().count() == TIMES
    with pytest.raises(PySparkException, match="'time' is timestamp, the schema given says int"):
        reader.schema("time INT").load().count()


def test_columns_of_a_predicate_need_not_be_kept(spark: SparkSession, weather: Repository) -> None:
    frame = read(spark, weather, columns=["t2m"], where="lat > 40 AND pressure > 950")
    assert frame.columns == ["t2m"]
    expected = load(spark, weather).where("lat > 40 AND pressure > 950")
    assert frame.count() == expected.count() > 0


def test_empty_selections_are_empty_dataframes(spark: SparkSession, weather: Repository) -> None:
    assert read(spark, weather, where="lat > 95").collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vriables": "t2m"},
            "unknown option 'vriables' .did you mean 'variables'.*partitionBytes",
        ),
        ({"branch": "dev"}, "RefNotFoundError.*dev"),
        ({"branch": "dev", "tag": "v1"}, "branch and tag exclude each other"),
        ({"group": "surface"}, "NodeNotFoundError.*surface"),
        ({"group": "t2m"}, "'/t2m' is an array, not a group; use group '/' and variables 't2m'"),
        ({"variables": "rain"}, "NodeNotFoundError: no array 'rain'.*pressure, t2m"),
        ({"columns": "rain"}, "no column 'rain'"),
        ({"sel": "lat=4"}, "`sel` is not JSON"),
        ({"sel": '{"depth": 4}'}, "'depth', but the dimensions are time, lat, lon"),
        ({"sel": '{"lat": 41}'}, "coordinate 'lat' has no value 41"),
        ({"asOf": "yesterday"}, "asOf is 'yesterday'"),
        ({"partitionBytes": "-1"}, "'partitionBytes' is '-1'"),
        ({"path": "/nowhere/at/all"}, "RepositoryNotFoundError"),
    ],
)
def test_mistakes_are_told_as_frazil_tells_them(
    spark: SparkSession, weather: Repository, options: dict[str, str], message: str
) -> None:
    given = {"path": path_of(weather), **options}
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        spark.read.format("icechunk").options(**given).load().rdd.getNumPartitions()


def test_the_helpers_raise_the_errors_themselves(weather: Repository, tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError):
        plan_read(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="other processes"):
        plan_read(Engine.create(Counting(LocalStore(tmp_path / "r"))))
    assert plan_read(weather, sel={"lat": slice(50, 90)}).summary == "read 24 of 96 chunks"
    assert plan_read(path_of(weather), columns=["lat"]).summary == "read 0 of 0 chunks"


def test_every_dtype_arrives(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    columns = {
        "b": np.array([True, False, True]),
        **{f"i{n}": np.array([-1, 0, 1], dtype=f"i{n}") for n in (1, 2, 4, 8)},
        **{f"u{n}": np.array([1, 0, 2 ** (8 * n) - 1], dtype=f"u{n}") for n in (1, 2, 4, 8)},
        **{f"f{n}": np.array([0.5, -2, 1], dtype=f"f{n}") for n in (2, 4, 8)},
        "c8": np.array([1 + 2j, 0, -1j], dtype="c8"),
        "c16": np.array([1 + 2j, 0, -1j], dtype="c16"),
        "text": np.array(["a", "", "løv"], dtype=np.dtypes.StringDType()),
        "fixed": np.array(["ab", "c", ""], dtype="U2"),
        "when": np.array(["2024-01-01", "NaT", "1969-12-31T23"], dtype="datetime64[s]"),
        "lasting": np.array([1, 2, 3], dtype="timedelta64[h]"),
    }
    with repository.transaction("main", message="types") as store:
        for name, values in columns.items():
            put(zarr.group(store), name, values, "x", 2)
    rows = load(spark, repository).orderBy("x").collect()
    last = rows[2].asDict()
    assert [row["x"] for row in rows] == [0, 1, 2]
    assert [last[f"u{n}"] for n in (1, 2, 4, 8)] == [2 ** (8 * n) - 1 for n in (1, 2, 4, 8)]
    assert [last[f"i{n}"] for n in (1, 2, 4, 8)] == [1, 1, 1, 1]
    assert [rows[0][f"f{n}"] for n in (2, 4, 8)] == [0.5, 0.5, 0.5]
    assert rows[0]["c8"].asDict() == rows[0]["c16"].asDict() == {"re": 1.0, "im": 2.0}
    assert [row["text"] for row in rows] == ["a", "", "løv"]
    assert [row["fixed"] for row in rows] == ["ab", "c", ""]
    assert [row["when"] for row in rows][1] is None
    assert rows[1]["lasting"] == timedelta(hours=2)


def test_axes_in_another_order_scalars_and_missing_coordinates(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    values = np.arange(24, dtype="f4").reshape(4, 6)
    with repository.transaction("main", message="x") as store:
        group = zarr.group(store)
        put(group, "a", values, "x y", (2, 3))
        put(group, "b", values.T.copy(), "y x", (4, 2))
        put(group, "crs", np.array(3), "", ())
    frame = load(spark, repository, partitionBytes="1", batchRows="2")
    assert frame.columns == ["x", "y", "a", "b"]
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows == [(x, y, values[x, y], values[x, y]) for x in range(4) for y in range(6)]
    assert [tuple(r) for r in load(spark, repository, variables="crs").collect()] == [(3,)]
