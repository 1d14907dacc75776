"""Writing DataFrames with Spark: rows and chunk rows, one commit, whatever happens."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import frazil.spark
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.spark.writing import commit
from tests.examples_count import scaled
from tests.spark.writing_cases import Case, cases, make_repository, ordered, table_of

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

DIMS = ["time", "lat", "lon"]
SHAPE = (6, 4, 5)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The first two latitudes, in one commit."""
    repository = make_repository(tmp_path_factory.mktemp("written") / "repo")
    frazil.spark.write(make_rows(spark).where("lat < 20"), repository, dims=DIMS)
    return repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "repo")


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return make_rows(spark)


def make_rows(spark: SparkSession) -> DataFrame:
    """A row per cell of SHAPE, in three partitions, in no order."""
    return (
        spark.range(6 * 4 * 5)
        .selectExpr(
            "timestamp_seconds(1704067200 + 3600 * (id div 20)) AS time",
            "10.0D * (id div 5 % 4) AS lat",
            "CAST(id % 5 AS FLOAT) AS lon",
            "CAST(id AS DOUBLE) AS t2m",
            "CASE WHEN id % 7 = 3 THEN NULL ELSE CAST(id AS INT) END AS n",
        )
        .repartition(3)
    )


def expected() -> Any:
    return np.arange(120.0).reshape(SHAPE)


def location(repository: Repository) -> str:
    return repository.store.root  # type: ignore[attr-defined, no-any-return]  # a folder


def array(repository: Repository, path: str) -> Any:
    """As the reference sees it."""
    storage = icechunk.local_filesystem_storage(location(repository))
    session = icechunk.Repository.open(storage).readonly_session("main")
    return zarr.open_array(session.store, path=path, mode="r")[...]


def commits(repository: Repository) -> list[Any]:
    return list(repository.ancestry(Branch("main")))[:-1]


def saved(df: DataFrame, repository: Repository, **options: str) -> None:
    """By the data source; `mode` is its own option, of which Spark's is a part."""
    spark_mode = "overwrite" if options.get("mode") == "overwrite" else "append"
    writer = df.write.format("icechunk").mode(spark_mode).option("path", location(repository))
    for name, text in options.items():
        writer = writer.option(name, text)
    writer.save()


@settings(
    max_examples=scaled(2),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(), partitions=st.integers(1, 3))
def test_a_data_frame_becomes_arrays_becomes_the_same_data_frame(
    spark: SparkSession, case: Case, partitions: int
) -> None:
    with TemporaryDirectory() as folder:
        repository = make_repository(Path(folder))
        made = spark.createDataFrame(table_of(case.schema, case.rows), schema=case.schema)
        made = made.repartition(partitions)
        frazil.spark.write(made, repository, group="a", dims=case.dims, chunks=case.chunks)
        saved(made, repository, group="b", **case.options)
        wanted = table_of(case.schema, ordered(case.rows, case.dims)).to_pylist()
        for group in "ab":
            back = frazil.spark.read(spark, repository, group=group).select(*case.schema.names)
            assert ordered(back.toArrow().to_pylist(), case.dims) == wanted
            for name in case.schema.names[len(case.dims) :]:
                one, other = (array(repository, f"{g}/{name}") for g in (group, "a"))
                assert np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def test_what_a_write_tells(df: DataFrame, repository: Repository) -> None:
    told: list[Any] = []
    done = frazil.spark.write(
        df,
        repository,
        group="weather",
        dims=DIMS,
        chunks={"time": 4, "lat": 2},
        units={"time": "hours since 2024-01-01"},
        attrs={"t2m": {"units": "K"}},
        message="first",
        metadata={"source": "test"},
        progress=told.append,
    )
    assert (done.rows, done.chunks, done.committed) == (120, 8, True)
    assert array(repository, "weather/t2m").tolist() == expected().tolist()
    assert array(repository, "weather/time").tolist() == [0, 1, 2, 3, 4, 5]
    record = commits(repository)[0]
    assert (str(record.id), record.message) == (done.snapshot_id, "first")
    assert record.metadata["source"] == "test"
    note = record.metadata["frazil"]
    assert (note["operation"], note["rows"], note["mode"]) == ("write", 120, "create")
    assert told[-1].finished


def test_append_and_region_and_transactions(df: DataFrame, repository: Repository) -> None:
    cells = {"chunks": {"time": 4, "lat": 3}, "dims": DIMS}
    late = df.time >= f.timestamp_seconds(f.lit(1704067200 + 3 * 3600))
    frazil.spark.write(df.where(~late), repository, **cells)  # type: ignore[arg-type]  # of several types
    first = frazil.spark.write(df.where(late), repository, mode="append", txn=("job", 1))
    again = frazil.spark.write(df.where(late), repository, mode="append", txn=("job", 1))
    assert (first.committed, again.committed) == (True, False)
    assert again.snapshot_id == first.snapshot_id
    assert array(repository, "t2m").tolist() == expected().tolist()
    part = df.where("lat = 10 AND lon > 2").withColumn("t2m", -f.col("t2m"))
    frazil.spark.write(part, repository, mode="region")
    wanted = expected()
    wanted[:, 1, 3:] *= -1
    assert array(repository, "t2m").tolist() == wanted.tolist()
    assert len(commits(repository)) == 3


def test_the_data_source_appends_and_overwrites(df: DataFrame, repository: Repository) -> None:
    options = {"group": "g", "dims": "time,lat,lon", "chunks": '{"time": 4}'}
    saved(df.where("lat < 20"), repository, **options)
    saved(df.where("lat >= 20"), repository, appendDim="lat", **options)
    assert array(repository, "g/t2m").tolist() == expected().tolist()
    saved(df.where("lat < 20"), repository, mode="overwrite", **options)
    assert array(repository, "g/t2m").shape == (6, 2, 5)
    with pytest.raises(PySparkException, match="has arrays already"):
        saved(df, repository, mode="errorifexists", **options)
    assert len(commits(repository)) == 3


def test_sql_inserts(spark: SparkSession, df: DataFrame, repository: Repository) -> None:
    frazil.spark.write(df.where("lat < 20"), repository, dims=["lat", "time", "lon"])
    frazil.spark.register(spark)
    where = location(repository)
    spark.sql(f"CREATE TEMPORARY VIEW grown USING icechunk OPTIONS (path '{where}')")
    df.createOrReplaceTempView("fresh")
    spark.sql("INSERT INTO grown SELECT lat, time, lon, n, t2m FROM fresh WHERE lat >= 20")
    wanted = expected().transpose(1, 0, 2)
    assert array(repository, "t2m").tolist() == wanted.tolist()
    spark.sql("DROP VIEW grown")


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (lambda df: df, {"dmis": "time"}, "unknown option 'dmis' .did you mean 'dims'"),
        (lambda df: df, {"dims": "time,q"}, "'dims' names 'q'"),
        (lambda df: df.withColumn("t2m", f.lit("x")), {}, "'t2m' is string, but the array is"),
        (lambda df: df.drop("n"), {}, "the rows lack 'n'"),
        (lambda df: df.withColumn("time", f.lit(None).cast("timestamp")), {}, "'time' is NULL"),
        (lambda df: df.withColumn("lon", df.lon + 0.5), {}, "is double"),
        (lambda df: df.withColumn("lat", df.lat + 1), {"mode": "region"}, "outside the grid"),
        (lambda df: df.withColumn("lat", f.lit(0.0)), {"mode": "region"}, "two rows are for one"),
        (lambda df: df, {"mode": "append"}, "which the array has already"),
    ],
)
def test_bad_input_is_told_and_nothing_is_committed(
    df: DataFrame,
    written: Repository,
    spoil: Callable[[DataFrame], DataFrame],
    options: dict[str, str],
    message: str,
) -> None:
    few = spoil(df.where("lat < 20"))
    with pytest.raises(PySparkException, match=message):
        saved(few, written, **options)
    if not options.keys() - {"mode"}:  # there are no other options to misspell
        with pytest.raises(InvalidInputError, match=message):
            frazil.spark.write(few, written, mode=options.get("mode", "append"))
    assert len(commits(written)) == 1
    assert array(written, "t2m").tolist() == expected()[:, :2].tolist()


def test_existing_arrays_are_not_created_again(df: DataFrame, repository: Repository) -> None:
    frazil.spark.write(df.limit(0), repository, dims=DIMS)
    with pytest.raises(AlreadyExistsError, match="has arrays already"):
        frazil.spark.write(df, repository, dims=DIMS)


def test_rows_are_evaluated_once(spark: SparkSession, repository: Repository) -> None:
    clock = f.udf(lambda x: x + time.time_ns(), "long").asNondeterministic()
    fickle = spark.range(5).select(clock("id").alias("x"), "id")
    frazil.spark.write(fickle, repository, dims=["x"])
    assert sorted(array(repository, "id").tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("sort", [True, False])
def test_rows_for_chunks_that_lie_across_them_are_cut_first(
    df: DataFrame, repository: Repository, monkeypatch: pytest.MonkeyPatch, *, sort: bool
) -> None:
    """Maps to time series."""
    monkeypatch.setattr(commit, "MOST_READS", 0)
    told: list[str] = []
    made = frazil.spark.write(
        df.orderBy(*DIMS) if sort else df,
        repository,
        dims=DIMS,
        chunks={"time": -1, "lat": 1, "lon": 2},
        progress=lambda progress: told.append(progress.doing),
    )
    assert list(dict.fromkeys(told)) == ["Reading rows", "Cutting rows", "Writing rows"]
    assert array(repository, "t2m").tolist() == expected().tolist()
    assert (made.rows, made.chunks) == (120, 24)


@pytest.mark.parametrize("reads", [0, 9])
def test_staged_rows_are_deleted(
    spark: SparkSession, repository: Repository, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    monkeypatch.setattr(commit, "MOST_READS", reads)
    rows = spark.range(0, 20_000, 1, 2).selectExpr(
        "id DIV 100 AS t", "id % 100 AS x", "rand() AS v"
    )
    made = frazil.spark.write(rows, repository, dims=["t", "x"], chunks={"t": 100, "x": 50})
    assert made.chunks == 4
    files = sum(1 for each in repository.store.list("chunks/"))
    assert files <= 4 + 2  # those of the array, and of its coordinates


def test_chunk_rows_are_copied_as_they_are_read(
    spark: SparkSession, df: DataFrame, repository: Repository
) -> None:
    frazil.spark.write(df, repository, group="a", dims=DIMS, chunks={"time": 4, "lat": 3})
    arrays = (
        '{"t2m": {"shape": [6, 4, 5], "chunks": [4, 3, 5], "dtype": "float64", "dims":'
        ' ["time", "lat", "lon"], "fill_value": "NaN", "attrs": {"units": "K"}}}'
    )
    for group, data, encode in (("b", "decoded", "true"), ("c", "encoded", "false")):
        chunks = frazil.spark.read_chunks(spark, repository, group="a", variables="t2m", data=data)
        saved(
            chunks.repartition(3), repository, input="chunks", group=group, arrays=arrays,
            encode=encode,
        )  # fmt: skip
        assert array(repository, f"{group}/t2m").tolist() == expected().tolist()
    rows = frazil.spark.read_chunks(spark, repository, group="b")
    with pytest.raises(PySparkException, match="two rows are for one chunk of 't2m'"):
        saved(rows.union(rows), repository, input="chunks", group="b")
    gone = rows.where("chunk = array(0L, 0L, 0L)").withColumn("data", f.lit(None).cast("binary"))
    saved(gone, repository, input="chunks", group="b")
    found = array(repository, "b/t2m")
    assert np.isnan(found[:4, :3]).all()
    assert (found[4:] == expected()[4:]).all()


def test_other_threads_write_too(spark: SparkSession, tmp_path: Path) -> None:
    """Spark looks the data source up in the session that is active in the thread."""
    paths = [tmp_path / name for name in ("source", "function")]
    made = [make_repository(path) for path in paths]
    df = spark.range(2).selectExpr("id AS t", "CAST(id AS DECIMAL(10, 0)) AS v")
    later = df.selectExpr("t + 2 AS t", "v")

    def by_source() -> None:
        frazil.spark.register(spark)
        for each in (df, later):
            each.write.format("icechunk").mode("append").option("dims", "t").save(str(paths[0]))

    def by_function() -> None:
        for each in (df, later):
            frazil.spark.write(each, made[1], dims=["t"], mode="append", progress=False)

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for done in (one.submit(by_source), other.submit(by_function)):
            done.result()
    for repository in made:
        assert array(repository, "t").tolist() == [0, 1, 2, 3]
        assert array(repository, "v").tolist() == [0, 1, 0, 1]
