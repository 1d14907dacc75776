"""The reader of the native table hands on columns; what it counts is in Spark's UI."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from frazil.api import Repository, local_filesystem_storage
from frazil.config import CachingConfig, RepositoryConfig
from frazil.objectstore.local import LocalStore
from frazil.spark.io.data_source import IcechunkSource
from tests.spark.repositories import CHUNKS, LATITUDES, LONGITUDES, SHAPE, make_weather, put
from tests.spark.test_dtypes import DTYPES
from tests.spark.test_native_aggregates import configured

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

PLAIN = "icechunk_plain"
ROWS, CHUNK, BATCH = 600, 100, 32  # several batches in every chunk
MICROSECONDS = 2**52  # a hundred years


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> str:
    """The name of the plain Python source, whose rows Spark makes itself."""

    class Plain(IcechunkSource):
        @classmethod
        def name(cls) -> str:
            return PLAIN

    spark.dataSource.register(Plain)
    return PLAIN


def random_values(rng: np.random.Generator, dtype: np.dtype[Any], rows: int) -> npt.NDArray[Any]:
    if dtype.names is not None:
        values = np.empty(rows, dtype)
        for name in dtype.names:
            values[name] = random_values(rng, dtype[name], rows)
        return values
    if dtype.kind in "mM":
        unit = {"s": 10**6, "ms": 10**3}[np.datetime_data(dtype)[0]]
        values = rng.integers(-MICROSECONDS // unit, MICROSECONDS // unit, rows).astype(dtype)
        values[rng.random(rows) < 0.2] = "NaT"
        return values
    if dtype.kind in "UT":
        texts = [
            "".join(map(chr, rng.integers(32, 0x2FF, rng.integers(0, 4)))) for _ in range(rows)
        ]
        return np.array(texts, dtype)
    if dtype.kind in "fc":
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
        values = rng.normal(size=rows).astype(dtype)
        return np.where(rng.random(rows) < 0.3, rng.choice(odd, rows), values).astype(dtype)
    return (
        np.frombuffer(rng.bytes(rows * dtype.itemsize), np.uint8).view(dtype)
        if (dtype.kind != "b")
        else rng.random(rows) < 0.5
    )


def make_types(path: Path, rows: int, chunk: int) -> str:
    rng = np.random.default_rng()
    repository = Repository.create(local_filesystem_storage(path))
    with repository.transaction("main", message="types") as store:
        group = zarr.group(store)
        for name, (dtype, _, _) in DTYPES.items():
            values = random_values(rng, np.dtype(dtype), rows)
            put(group, name.replace(" ", "_"), values, "x", chunk)
    return str(path)


@pytest.fixture(scope="module")
def all_types(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_types(tmp_path_factory.mktemp("types") / "r", ROWS, CHUNK)


def load(spark: SparkSession, source: str, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format(source).options(**options).load(str(path))


def is_columnar(frame: DataFrame) -> bool:
    return "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()


def rows_of(frame: DataFrame) -> list[str]:
    """As text: NaN is not equal to itself, and -0.0 is to 0.0."""
    return [repr(row) for row in frame.collect()]


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("batch_rows", [1, BATCH, 10_000])
def test_every_dtype_is_as_the_plain_source_reads_it(
    spark: SparkSession, plain: str, all_types: str, batch_rows: int
) -> None:
    native = load(spark, "icechunk", all_types, batchRows=batch_rows)
    assert is_columnar(native.where("int8 > 3"))
    expected = rows_of(load(spark, plain, all_types).orderBy("x"))
    assert len(expected) == ROWS
    assert rows_of(native.orderBy("x")) == expected


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_large_batches_are_cut(
    spark: SparkSession, plain: str, tmp_path: Path, compiled: str
) -> None:
    """Interpreted, Spark has all parts of a batch until the end of a task."""
    before = allocated_bytes(spark)
    path, rows = make_types(tmp_path / "r", 9001, 9001), []
    with configured(spark, "spark.sql.codegen.wholeStage", compiled):
        for source in ("icechunk", plain):
            frame = load(spark, source, path)
            assert frame.count() == 9001
            rows.append(sorted(rows_of(frame)))
    assert rows[0] == rows[1]
    assert allocated_bytes(spark) <= before


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize(
    "query",
    [
        # values that an operator keeps while the vectors are filled with the next batch
        "SELECT min(text), max(text), min(raw_bytes), max(uint64), min(timedelta64) FROM t",
        "SELECT max(if(x < 0, NULL, text)), min(if(x < 0, NULL, raw_bytes)) FROM t",
        "SELECT max(`fixed-length_text`), max_by(text, int32), min_by(complex64.im, int64) FROM t",
        "SELECT text, count(*), sum(uint64), max(structured.t) FROM t GROUP BY text ORDER BY text",
        "SELECT collect_list(x), bool FROM t GROUP BY bool ORDER BY bool",
        "SELECT a.x, b.text FROM t a JOIN t b ON a.text = b.text AND a.x <= b.x ORDER BY 1, 2, b.x",
        "SELECT * FROM t WHERE datetime64 IS NULL OR structured.`in`.d > INTERVAL 1 DAY ORDER BY x",
        "SELECT x, lag(text) OVER (ORDER BY x), sum(float64) OVER (ORDER BY x) FROM t ORDER BY x",
        "SELECT count(*) FROM t",
    ],
)
def test_queries_give_the_same_on_columns_as_on_rows(
    spark: SparkSession, plain: str, all_types: str, query: str
) -> None:
    found = []
    for source in ("icechunk", plain):
        load(spark, source, all_types, batchRows=BATCH).createOrReplaceTempView("t")
        found.append(rows_of(spark.sql(query)))
    assert found[0] == found[1]


def test_columns_that_are_cached_stay(spark: SparkSession, weather: Path) -> None:
    frame = load(spark, "icechunk", weather, batchRows=BATCH).select("lat", "t2m")
    expected = frame.groupBy("lat").count().orderBy("lat").collect()
    cached = frame.cache()
    try:
        assert cached.groupBy("lat").count().orderBy("lat").collect() == expected
        assert cached.groupBy("lat").count().orderBy("lat").collect() == expected
    finally:
        cached.unpersist()


# Metrics


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("native") / "weather"
    make_weather(path)
    return path


def wait_for(condition: Callable[[], bool]) -> None:
    stop = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < stop, "waited for a minute"
        time.sleep(0.05)


def metrics_of(spark: SparkSession, run: Callable[[], Any]) -> dict[str, str]:
    """The metrics that the UI shows of the scan in the query that `run` makes."""
    session: Any = spark._jsparkSession
    store = session.sharedState().statusStore()

    def last() -> int:  # not their number, which Spark limits
        found = store.executionsList()
        return -1 if found.isEmpty() else int(found.last().executionId())

    before = last()
    run()
    wait_for(lambda: last() > before)
    execution = store.executionsList().last()
    wait_for(lambda: store.execution(execution.executionId()).get().completionTime().isDefined())
    found = store.executionsList().last()
    values = store.executionMetrics(found.executionId())
    shown = {}
    for i in range(found.metrics().size()):
        metric = found.metrics().apply(i)
        if "v2Custom" in metric.metricType():
            shown[metric.name()] = values.apply(metric.accumulatorId())
    return shown


def counts_in(metrics: dict[str, str]) -> dict[str, int]:
    plain = re.compile(r"[\d,]+")
    return {k: int(v.replace(",", "")) for k, v in metrics.items() if plain.fullmatch(v)}


def size(spark: SparkSession, size_bytes: int) -> str:
    """As Spark writes it."""
    return str(spark.sparkContext._jvm.org.apache.spark.util.Utils.bytesToString(size_bytes))  # type: ignore[union-attr]  # there is one


def chunk_bytes(path: Path) -> int:
    return sum(info.size_bytes for info in LocalStore(str(path)).list("chunks/"))


def test_metrics_tell_what_was_read(spark: SparkSession, weather: Path) -> None:
    frame = load(spark, "icechunk", weather, partitionBytes=1).selectExpr(
        "sum(t2m)", "sum(pressure)"
    )
    metrics = metrics_of(spark, frame.collect)
    assert counts_in(metrics) == {
        "chunks planned": 96, "chunks pruned": 0, "rows planned": int(np.prod(SHAPE)),
        "chunks read": 96, "chunks from cache": 0,
    }  # fmt: skip
    assert metrics["bytes of chunks fetched"] == size(spark, chunk_bytes(weather))
    # at the edges of the array, chunks are decoded whole
    assert metrics["bytes of chunks decoded"] == size(spark, 48 * int(np.prod(CHUNKS)) * (4 + 2))
    assert re.fullmatch(r"[\d.]+ m?s", metrics["time waiting for storage"])


def test_metrics_tell_what_was_pruned(spark: SparkSession, weather: Path) -> None:
    frame = load(spark, "icechunk", weather)
    few = frame.where("lat > 70 AND lon < 100").selectExpr("sum(t2m)")
    rows = SHAPE[0] * int((LATITUDES > 70).sum()) * int((LONGITUDES < 100).sum())
    assert counts_in(metrics_of(spark, few.collect)) == {
        "chunks planned": 4, "chunks pruned": 44, "rows planned": rows,
        "chunks read": 4, "chunks from cache": 0,
    }  # fmt: skip


def test_chunks_from_the_cache_of_a_worker_are_told(spark: SparkSession, tmp_path: Path) -> None:
    make_weather(tmp_path / "r")
    config = RepositoryConfig(caching=CachingConfig(num_bytes_chunks=10_000_000))
    Repository.open(local_filesystem_storage(tmp_path / "r"), config=config).save_config()

    def run() -> object:  # a new query each time: Spark keeps results of stages of one that it ran
        few = load(spark, "icechunk", tmp_path / "r").where("lat > 70")
        return few.selectExpr("sum(t2m)").collect()

    first = counts_in(metrics_of(spark, run))
    assert first["chunks read"] == 12
    assert first["chunks from cache"] == 0

    def is_cached() -> bool:  # soon: Spark has a few workers
        metrics = metrics_of(spark, run)
        counts = counts_in(metrics)
        assert counts["chunks read"] == 12
        fetched = metrics["bytes of chunks fetched"]
        assert (fetched == "0.0 B") == (counts["chunks from cache"] == 12)
        return counts["chunks from cache"] == 12

    wait_for(is_cached)


def test_metrics_of_a_shard_count_what_is_decoded_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    values = np.random.default_rng(1).normal(size=(64, 64))
    with repository.transaction("main", message="shards") as store:
        zarr.group(store).create_array(
            "v", data=values, shards=(32, 32), chunks=(8, 8), dimension_names=("y", "x")
        )
    frame = load(spark, "icechunk", tmp_path / "r").where("y < 8 AND x < 40").selectExpr("sum(v)")
    metrics = metrics_of(spark, frame.collect)
    assert counts_in(metrics)["chunks read"] == counts_in(metrics)["chunks planned"] == 2
    assert metrics["bytes of chunks decoded"] == size(spark, 5 * 8 * 8 * 8)


def test_a_name_like_that_of_the_counters_is_a_column(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="names") as store:
        for name in ("counters", "counters_"):
            put(zarr.group(store), name, np.arange(5), "x", 5)
    frame = load(spark, "icechunk", tmp_path / "r").orderBy("x")
    assert [tuple(row) for row in frame.collect()] == [(i, i, i) for i in range(5)]


# Coordinates, which executors make without Python

COORDINATES: dict[str, tuple[str, list[Any]]] = {
    "bools": ("b1", [True, False]),
    "bytes": ("i1", [-128, 127]),
    "shorts": ("i2", [-(2**15), 7]),
    "ints": ("i4", [2**31 - 1, -1]),
    "longs": ("i8", [-(2**63), 2**63 - 1, 0]),
    "large": ("u8", [2**64 - 1, 0]),
    "halves": ("f2", [0.1, np.nan]),
    "floats": ("f4", [np.nan, -0.0, np.inf]),
    "doubles": ("f8", [0.1, np.nan, -0.0]),
    "texts": ("U3", ["äöü", "", "x"]),
    "times": ("M8[s]", ["1969-12-31T23:59:59", "NaT"]),
    "spans": ("m8[ms]", [-1, "NaT"]),
}


@pytest.fixture(scope="module")
def coordinates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with a dimension of each type; the last varies fastest, the first slowest."""
    path = tmp_path_factory.mktemp("coordinates") / "r"
    repository = Repository.create(local_filesystem_storage(path))
    values = {name: np.array(given, dtype) for name, (dtype, given) in COORDINATES.items()}
    shape = [len(each) for each in values.values()]
    with repository.transaction("main", message="coordinates") as store:
        group = zarr.group(store)
        for name, each in values.items():
            put(group, name, each, name, len(each))
        group.create_array(
            "v",
            data=np.arange(np.prod(shape), dtype="i4").reshape(shape),
            chunks=[2 if name in ("longs", "doubles") else len(values[name]) for name in values],
            dimension_names=list(values),
        )
    return str(path)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize(
    "options",
    [{}, {"batchRows": 100, "partitionBytes": 10_000}, {"decodeCf": "false", "batchRows": 5000}],
)
def test_coordinates_of_every_type_are_as_the_plain_source_reads_them(
    spark: SparkSession, plain: str, coordinates: str, options: dict[str, Any]
) -> None:
    few = "v % 7 = 3 AND shorts = 7"
    native = load(spark, "icechunk", coordinates, **options).where(few)
    expected = load(spark, plain, coordinates, **options).where(few)
    assert sorted(rows_of(native)) == sorted(rows_of(expected))
    some = ["texts", "v", "longs", "large", "times"]  # in another order than that of the table
    assert sorted(rows_of(native.select(some))) == sorted(rows_of(expected.select(some)))


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_coordinates_alone_are_read_without_python(
    spark: SparkSession, plain: str, coordinates: str, tmp_path: Path
) -> None:
    copy = shutil.copytree(coordinates, tmp_path / "copy")
    native = load(spark, "icechunk", copy).where("texts >= 'x' OR ints < 0").drop("v")
    expected = load(spark, plain, copy).where("texts >= 'x' OR ints < 0").drop("v")
    wanted = sorted(rows_of(expected.where("bytes > 0")))
    shutil.rmtree(copy)
    metrics = counts_in(metrics_of(spark, native.where("bytes > 0").collect))
    assert metrics["chunks read"] == metrics["chunks planned"] == 0
    assert metrics["rows planned"] == len(wanted)
    assert sorted(rows_of(native.where("bytes > 0"))) == wanted


def test_long_coordinates_come_from_python(spark: SparkSession, tmp_path: Path) -> None:
    size = 2**20 + 1  # more than executors are given
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="long") as store:
        put(zarr.group(store), "x", np.arange(size) * 2, "x", 2**18)
        put(zarr.group(store), "v", np.arange(size), "x", 2**18)
    frame = load(spark, "icechunk", tmp_path / "r")
    (row,) = frame.selectExpr("count_if(x = 2 * v)", "count(x)").collect()
    assert tuple(row) == (size, size)


# Ends of tasks


def test_errors_of_a_worker_reach_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    make_weather(tmp_path / "r")
    store = LocalStore(str(tmp_path / "r"))
    store.delete([info.key for info in store.list("chunks/")])
    with pytest.raises(PySparkException, match="ObjectNotFoundError"):
        load(spark, "icechunk", tmp_path / "r").selectExpr("sum(t2m)").collect()


def allocated_bytes(spark: SparkSession) -> int:
    """Of Arrow, by all tasks: rows that fail on their way to Python leave some, by Spark itself."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


def writers(spark: SparkSession) -> Iterator[str]:
    """Threads that feed Python workers."""
    jvm: Any = spark.sparkContext._jvm
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if "writer for" in thread.getName().lower():
            yield thread.getName()


def test_a_limit_leaves_nothing_behind(spark: SparkSession, weather: Path) -> None:
    before, feeding = allocated_bytes(spark), set(writers(spark))
    frame = load(spark, "icechunk", weather, batchRows=7, partitionBytes=1)
    for _ in range(3):
        assert len(frame.where("t2m > 0").limit(5).collect()) == 5
        assert len(frame.where("t2m > 0").take(1)) == 1
    wait_for(lambda: allocated_bytes(spark) <= before and set(writers(spark)) <= feeding)
    assert frame.where("t2m > 0").count() == int(np.prod(SHAPE)) - 3


def test_a_query_for_nothing_reads_nothing(spark: SparkSession, weather: Path) -> None:
    frame = load(spark, "icechunk", weather).where("lat > 1000")
    metrics = counts_in(metrics_of(spark, frame.collect))
    assert metrics["chunks planned"] == 0
    assert metrics["chunks pruned"] == 96
    assert frame.collect() == []
