"""Writes through the native table: by executors as by the driver, to tables, branches, streams."""

# ruff: noqa: S608 -- no user's text is in these statements

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil.spark import read

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

ROWS, CHUNKS = "spark.frazil.write.driverRows", "spark.frazil.write.driverChunks"
SIZE = (8, 7, 5)
BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILL = 1 - 2**31  # what NULL is stored as, unless said otherwise


@contextmanager
def rows_on_driver(spark: SparkSession, rows: int, chunks: int = 65_536) -> Iterator[None]:
    """Executors make the chunks of more rows, and write the manifests of more chunks."""
    spark.conf.set(ROWS, str(rows))
    spark.conf.set(CHUNKS, str(chunks))
    try:
        yield
    finally:
        spark.conf.unset(ROWS)
        spark.conf.unset(CHUNKS)


def cells(spark: SparkSession, first: int = 0, last: int = SIZE[0]) -> DataFrame:
    """Every cell in another order than the array's, in several partitions."""
    return spark.sql(
        f"""
        SELECT t, x * 0.5D AS x, concat('s', s) AS s, t * 100 + x * 10 + s AS n,
               CAST(t + x / 8 AS FLOAT) AS v
        FROM (SELECT explode(sequence({first}, {last - 1})) AS t)
        CROSS JOIN (SELECT explode(sequence(0, {SIZE[1] - 1})) AS x)
        CROSS JOIN (SELECT explode(sequence(0, {SIZE[2] - 1})) AS s)
        """
    ).repartition(5)


def make(path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.local_filesystem_storage(str(path)))


def write(frame: DataFrame, path: Path, **options: str) -> None:
    given = {"dims": "t,x,s", "chunks": '{"t": 3, "x": 2, "s": 4}'}
    frame.write.format("icechunk").mode("append").options(**given, **options).save(str(path))


def arrays(path: Path) -> dict[str, np.ndarray]:
    """As the reference reads them."""
    storage = icechunk.local_filesystem_storage(str(path))
    session = icechunk.Repository.open(storage).readonly_session("main")
    group = zarr.open_group(session.store, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def messages(path: Path) -> list[str]:
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    return [info.message for info in repository.ancestry(branch="main")]


def objects(path: Path) -> int:
    return sum(1 for each in (path / "chunks").rglob("*") if each.is_file())


def test_rows_of_fixed_width_are_written_as_all_others(spark: SparkSession, tmp_path: Path) -> None:
    """They go to Python packed, 64 in one value or less; with a text beside them they do not."""
    frame = spark.sql(
        """
        SELECT CAST(id AS INT) AS i, id % 3 = 0 AS flag, CAST(id % 100 AS TINYINT) AS tiny,
               IF(id % 7 = 0, NULL, CAST(id * 30 AS SMALLINT)) AS small,
               IF(id % 5 = 1, NULL, CAST(id * 70000 AS INT)) AS n,
               IF(id % 64 = 63, NULL, id * 5000000000) AS long,
               IF(id > 900, NULL, CAST(IF(id % 2 = 0, 'NaN', id / 7) AS FLOAT)) AS single,
               IF(id % 11 = 3, NULL, CAST(id AS DOUBLE) / -7) AS double,
               IF(id % 13 = 2, NULL, date_add(DATE'2024-01-01', CAST(id AS INT))) AS day,
               IF(id % 17 = 0, NULL, TIMESTAMP'2024-01-01' + id * INTERVAL '1' SECOND) AS at,
               IF(id = 996, NULL, TIMESTAMP_NTZ'2024-01-01' + id * INTERVAL '1' HOUR) AS local
        FROM range(0, 997, 1, 3)
        """
    )
    wide = frame.select("i", *[(frame.n + k).alias(f"n{k}") for k in range(40)])
    # with batches of as many values the second are packed in fours, the last one by one
    for number, (each, batch) in enumerate(((frame, 7), (frame, 300_000), (wide, 5_000_000))):
        found = []
        for name, rows in (("packed", each), ("plain", each.selectExpr("*", "'x' AS text"))):
            path = tmp_path / f"{name}{number}"
            make(path)
            spark.conf.set(BATCH, str(batch))
            rows.write.format("icechunk").mode("append").option("dims", "i").save(str(path))
            spark.conf.unset(BATCH)
            found.append(arrays(path))
        packed, plain = found
        assert set(packed) == set(plain) - {"text"} == set(each.columns)
        for name in packed:
            np.testing.assert_array_equal(packed[name], plain[name], name)
    assert len(np.unique(packed["n1"])) == 997 - len(range(1, 997, 5)) + 1


def test_executors_make_the_chunks_that_the_driver_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing of what was staged is left."""
    ways = {"driver": (10_000, 10_000), "chunks": (0, 10_000), "manifests": (10_000, 20)}
    found = {}
    for name, (rows, chunks) in ways.items():
        make(tmp_path / name)
        with rows_on_driver(spark, rows, chunks):
            write(cells(spark), tmp_path / name)
            write(cells(spark, 8, 12), tmp_path / name)
        found[name] = (
            {k: v.tolist() for k, v in arrays(tmp_path / name).items()},
            messages(tmp_path / name),
            objects(tmp_path / name),
            _changed(tmp_path / name),
        )
    assert found["driver"][0].keys() == {"t", "x", "s", "n", "v"}
    assert np.shape(found["driver"][0]["n"]) == (12, *SIZE[1:])
    assert found["driver"] == found["chunks"]
    assert found["driver"] == found["manifests"]


def _changed(path: Path) -> dict[str, int]:
    """Chunks that the last commit changed."""
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    diff = repository.diff(from_snapshot_id=_parent(repository), to_branch="main")
    return {path: len(chunks) for path, chunks in diff.updated_chunks.items()}


@pytest.mark.parametrize("chunks", [65_536, 0])
def test_statements_change_rows_by_executors(
    spark: SparkSession, tmp_path: Path, chunks: int
) -> None:
    make(tmp_path / "r")
    table = f"icechunk.`{tmp_path / 'r'}`"
    with rows_on_driver(spark, 0, chunks):
        write(cells(spark), tmp_path / "r")
        spark.sql(f"UPDATE {table} SET n = -n WHERE t >= 4 AND s = 's1'")
        spark.sql(f"DELETE FROM {table} WHERE x > 1 AND t < 2")
        cells(spark, 6, 9).createOrReplaceTempView("more")
        spark.sql(
            f"""MERGE INTO {table} r USING more m ON r.t = m.t AND r.x = m.x AND r.s = m.s
            WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT *"""
        )
    found = arrays(tmp_path / "r")
    t, x, s = np.meshgrid(np.arange(9), np.arange(7), np.arange(5), indexing="ij")
    n = t * 100 + x * 10 + s
    n[(t >= 4) & (t < 8) & (s == 1)] *= -1
    v = (t + x / 8).astype("f4")
    v[(t >= 6) & (t < 8)] = 0
    gone = (x > 2) & (t < 2)
    assert np.array_equal(found["n"], np.where(gone, FILL, n))
    assert np.array_equal(found["v"], np.where(gone, np.nan, v), equal_nan=True)
    assert messages(tmp_path / "r")[:3] == ["Merge /", "Delete /", "Update /"]


def test_a_delete_by_coordinates_removes_chunks_and_reads_those_at_the_border(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = make(tmp_path / "r")
    write(cells(spark), tmp_path / "r")
    spark.sql(f"DELETE FROM icechunk.`{tmp_path / 'r'}` WHERE t < 4 OR (x = 3 AND s > 's2')")
    t, x, s = np.meshgrid(np.arange(8), np.arange(7), np.arange(5), indexing="ij")
    gone = (t < 4) | ((x == 6) & (s > 2))
    found = arrays(tmp_path / "r")
    assert np.array_equal(found["n"], np.where(gone, FILL, t * 100 + x * 10 + s))
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path / "r")))
    assert next(iter(repository.ancestry(branch="main"))).metadata["frazil"]["rows"] == 0
    diff = repository.diff(from_snapshot_id=_parent(repository), to_branch="main")
    changed = {tuple(index) for index in diff.updated_chunks["/n"]}
    assert changed == {tuple(each) for each in np.argwhere(_any_in_chunk(gone))}
    spark.sql(f"TRUNCATE TABLE icechunk.`{tmp_path / 'r'}`")
    assert np.isnan(arrays(tmp_path / "r")["v"]).all()


def _any_in_chunk(mask: np.ndarray) -> np.ndarray:
    padded = np.zeros((9, 8, 8), dtype=bool)
    padded[:8, :7, :5] = mask
    return padded.reshape(3, 3, 4, 2, 2, 4).any(axis=(1, 3, 5))


def test_rows_that_do_not_fit_commit_nothing(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "r")
    write(cells(spark), tmp_path / "r")
    table, before = f"icechunk.`{tmp_path / 'r'}`", objects(tmp_path / "r")
    for rows, chunks in ((10_000, 10_000), (0, 10_000), (0, 0)):
        with rows_on_driver(spark, rows, chunks):
            cells(spark, 8, 9).union(cells(spark, 8, 9)).createOrReplaceTempView("twice")
            with pytest.raises(PySparkException, match="two rows are for one cell"):
                spark.sql(f"INSERT INTO {table} SELECT t, x, s, n, v FROM twice")
            with pytest.raises(PySparkException, match="NULL"):
                spark.sql(f"INSERT INTO {table} SELECT NULL, x, s, n, v FROM twice")
            with pytest.raises(PySparkException, match="outside the grid"):
                spark.sql(f"UPDATE {table} SET t = t + 100")
            with pytest.raises(PySparkException, match="no longer be in order"):
                spark.sql(f"INSERT INTO {table} SELECT t - 20, x, s, n, v FROM twice")
    assert messages(tmp_path / "r")[0] == "Append to /"
    assert objects(tmp_path / "r") == before


def test_a_table_is_written_to_on_the_branch_that_its_name_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    repository = make(tmp_path / "r")
    write(cells(spark), tmp_path / "r")
    tip = repository.lookup_branch("main")
    repository.create_branch("dev", tip)
    repository.create_tag("v1", tip)
    spark.sql(f"DELETE FROM icechunk.`{tmp_path / 'r'}@dev` WHERE t = 0")
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path / "r")))
    assert repository.lookup_branch("main") == tip
    assert repository.lookup_branch("dev") != tip
    with pytest.raises(Exception, match="never changes"):
        spark.sql(f"DELETE FROM icechunk.`{tmp_path / 'r'}@v1` WHERE t = 0")


@pytest.mark.parametrize(("rows", "chunks"), [(10_000, 10_000), (0, 10_000), (0, 0)])
def test_insert_overwrite_keeps_the_arrays_and_replaces_their_cells(
    spark: SparkSession, tmp_path: Path, rows: int, chunks: int
) -> None:
    make(tmp_path / "r")
    write(cells(spark), tmp_path / "r", attrs='{"v": {"units": "K"}}')
    table = f"icechunk.`{tmp_path / 'r'}`"
    cells(spark, 20, 22).createOrReplaceTempView("other")
    with rows_on_driver(spark, rows, chunks):
        spark.sql(f"INSERT OVERWRITE {table} SELECT t, x, s, n, v FROM other")
    found = arrays(tmp_path / "r")
    assert found["t"].tolist() == [20, 21]
    assert found["n"][1, 2, 3] == 2123
    storage = icechunk.local_filesystem_storage(str(tmp_path / "r"))
    session = icechunk.Repository.open(storage).readonly_session("main")
    array = zarr.open_array(session.store, path="v", mode="r")
    assert array.chunks == (3, 2, 4)
    assert array.attrs["units"] == "K"


def test_data_frames_are_written_to_tables(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "r")
    write(cells(spark), tmp_path / "r")
    table = f"icechunk.`{tmp_path / 'r'}`"
    cells(spark, 8, 9).writeTo(table).append()
    cells(spark, 8, 10).writeTo(table).option("mode", "upsert").append()
    assert arrays(tmp_path / "r")["t"].tolist() == list(range(10))
    with pytest.raises(Exception, match="a matter of the catalog"):
        cells(spark, 10, 11).writeTo(table).option("path", "/elsewhere").append()


def test_an_update_leaves_other_columns_as_they_are_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nanoseconds are more than Spark has; chunks in which nothing changes are not stored again."""
    repository = make(tmp_path / "r")
    times = np.arange(6).astype("M8[ns]") + np.timedelta64(123, "ns")
    with repository.transaction("main", message="x") as store:
        group = zarr.open_group(store)
        columns: dict[str, np.ndarray] = {"x": np.arange(6), "a": times, "b": np.arange(6) * 1.5}
        for name, values in columns.items():
            group.create_array(name, data=values, chunks=(2,), dimension_names=("x",))
    spark.sql(f"UPDATE icechunk.`{tmp_path / 'r'}` SET b = b + 1 WHERE x = 3")
    found = arrays(tmp_path / "r")
    assert np.array_equal(found["a"].view("i8"), times.view("i8"))
    assert found["b"].tolist() == [0, 1.5, 3, 5.5, 6, 7.5]
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path / "r")))
    diff = repository.diff(from_snapshot_id=_parent(repository), to_branch="main")
    assert {path: len(chunks) for path, chunks in diff.updated_chunks.items()} == {"/b": 1}


def _parent(repository: frazil.Repository) -> str:
    found = list(repository.ancestry(branch="main"))[1].id
    return str(found)


@pytest.mark.parametrize("chunks", [65_536, 0])
def test_a_stream_of_many_rows_is_committed_once_a_batch(
    spark: SparkSession, tmp_path: Path, chunks: int
) -> None:
    make(tmp_path / "r")
    for k in range(3):
        cells(spark, 4 * k, 4 * k + 4).coalesce(1).write.parquet(str(tmp_path / "in" / f"{k}"))
    source = (
        spark.readStream.schema(cells(spark).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in" / "*"))
    )
    with rows_on_driver(spark, 0, chunks):
        query = (
            source.writeStream.format("icechunk")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .options(dims="t,x,s", chunks='{"t": 3, "x": 2, "s": 4}')
            .trigger(availableNow=True)
            .start(str(tmp_path / "r"))
        )
        query.awaitTermination()
    assert arrays(tmp_path / "r")["t"].tolist() == list(range(12))
    assert len(messages(tmp_path / "r")) == 4
    rows = read(spark, str(tmp_path / "r")).where("n = t * 100 + x * 20 + int(substr(s, 2))")
    assert rows.count() == 12 * 7 * 5
