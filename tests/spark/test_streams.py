"""Streams with Spark: commits in, commits out, once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark.io.stream_reader import HAS_LIMITS
from tests.spark.repositories import put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture
def source(tmp_path: Path) -> frazil.Repository:
    """Three commits: four hours, two more, one value."""
    made = make_repository(tmp_path / "source")
    for change in CHANGES:
        commit(made, change)
    return made


def make_repository(path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.local_filesystem_storage(path))


def commit(repository: frazil.Repository, change: Any) -> str:
    with repository.transaction("main", message="changed") as store:
        change(zarr.group(store))
    return repository.lookup_branch("main")


def fill(group: Any) -> None:
    put(group, "time", np.arange(4), "time", 64, units="hours since 2024-01-01")
    put(group, "x", np.arange(3.0), "x", 3)
    put(group, "t", np.arange(12.0).reshape(4, 3), "time x", (3, 3))


def append(group: Any) -> None:
    group["t"].resize((6, 3))
    group["t"][4:] = 9
    group["time"].resize((6,))
    group["time"][4:] = [4, 5]


def correct(group: Any) -> None:
    group["t"][0, 0] = 77


CHANGES = (fill, append, correct)


def snapshots(repository: frazil.Repository) -> list[str]:
    """Oldest first, without the first, which is empty."""
    return [info.id for info in repository.ancestry(branch="main")][-2::-1]


def limit(commits: int) -> int | None:
    """Of a batch, if the running PySpark can be told."""
    return commits if HAS_LIMITS else None


def run(frame: DataFrame, checkpoint: Path) -> list[list[dict[str, Any]]]:
    """The rows of each batch until there is no more."""
    found: list[list[dict[str, Any]]] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.append(batch.toArrow().to_pylist()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def test_commits_are_read_once_across_restarts_some_at_a_time(
    spark: SparkSession, source: frazil.Repository, tmp_path: Path
) -> None:
    frame = frazil.spark.read_stream(spark, source, max_commits_per_trigger=limit(2))
    assert frame.isStreaming
    found = run(frame, tmp_path / "checkpoint")
    made = snapshots(source)
    expected = [made[:2], made[2:]] if HAS_LIMITS else [made]
    assert [{row["_commit_version"] for row in batch} for batch in found] == [
        set(each) for each in expected
    ]
    assert [len(batch) for batch in found] == ([12 + 6, 2] if HAS_LIMITS else [12 + 6 + 2])
    assert run(frame, tmp_path / "checkpoint") == []
    commit(source, lambda group: group["t"].set_basic_selection((5, 0), 1))
    (rest,) = run(frame, tmp_path / "checkpoint")
    assert [(row["t"], row["_change_type"]) for row in rest] == [
        (9, "update_preimage"),
        (1, "update_postimage"),
    ]

    # amended under the stream: told, and not read past
    session = source.writable_session("main")
    zarr.open_array(session.store, path="t")[5, 0] = 2
    session.amend("amended")
    with pytest.raises(PySparkException, match=r"reset or amended"):
        run(frame, tmp_path / "checkpoint")
    again = frazil.spark.read_stream(spark, source, on_rewrite="restart")
    (amended,) = run(again, tmp_path / "checkpoint")
    assert {row["_commit_version"] for row in amended} == {source.lookup_branch("main")}
    assert [row["t"] for row in amended] == [9, 2]


def test_a_limit_is_refused_where_there_are_none(
    spark: SparkSession, source: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.spark.io.stream_reader.HAS_LIMITS", False)  # as with PySpark 4.1
    with pytest.raises(InvalidInputError, match=r"needs PySpark 4.2"):
        frazil.spark.read_stream(spark, source, max_commits_per_trigger=2)


def test_chunks_by_the_name_of_the_format(
    spark: SparkSession, source: frazil.Repository, tmp_path: Path
) -> None:
    reader = spark.readStream.format("icechunk").option("path", str(tmp_path / "source"))
    options = {"mode": "chunks", "changes": "true", "startingSnapshot": snapshots(source)[0]}
    (rows,) = run(reader.options(**options).load(), tmp_path / "checkpoint")
    assert {(row["array"], *row["chunk"], row["_change_type"]) for row in rows} == {
        ("t", 1, 0, "update"),
        ("time", 0, "update"),
        ("t", 0, 0, "update"),
    }
    last = next(row for row in rows if row["chunk"] == [0, 0])
    assert np.frombuffer(last["data"], last["dtype"]).tolist() == [77, *range(1, 9)]
    batch = spark.read.format("icechunk").options(startFrom="latest")
    with pytest.raises(PySparkException, match=r"is of streams: use spark.readStream"):
        batch.load(str(tmp_path / "source")).count()


def copy(spark: SparkSession, source: frazil.Repository, target: Path, checkpoint: Path) -> None:
    frame = frazil.spark.read_stream(spark, source, max_commits_per_trigger=limit(1), changes=False)
    query = (
        frame.writeStream.format("icechunk")
        .options(mode="upsert", dims="time,x", path=str(target))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_one_repository_follows_another_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    source, target = (make_repository(tmp_path / name) for name in ("source", "target"))
    checkpoint = tmp_path / "checkpoint"
    for change in CHANGES:
        commit(source, change)
        if not HAS_LIMITS:  # a batch takes all there is, and a cell that changed twice comes twice
            copy(spark, source, tmp_path / "target", checkpoint)
    copy(spark, source, tmp_path / "target", checkpoint)
    made = snapshots(target)
    assert len(made) == 3  # one for each commit
    assert values(target) == values(source)
    notes = [target.lookup_snapshot(each).metadata["frazil"] for each in made]
    assert [note["batch"] for note in notes] == [0, 1, 2]

    # Spark failed after the last commit, and before it noted so: it does that batch again
    for file in (checkpoint / "commits").glob("*2*"):
        file.unlink()
    # meanwhile a commit that changes no value: its batch is empty
    commit(source, lambda group: group["t"].attrs.update(units="K"))
    for _run in range(1 if HAS_LIMITS else 2):  # PySpark 4.1 takes one batch at a time
        copy(spark, source, tmp_path / "target", checkpoint)
    assert snapshots(target) == made
    assert (checkpoint / "commits" / "2").exists()  # done again
    assert (checkpoint / "commits" / "3").exists()

    commit(source, lambda group: group["t"].set_basic_selection((1, 1), -5))
    copy(spark, source, tmp_path / "target", checkpoint)
    assert len(snapshots(target)) == 4
    assert values(target) == values(source)


def values(repository: frazil.Repository) -> list[Any]:
    store = repository.readonly_session("main").store
    found: list[Any] = np.asarray(zarr.open_array(store, path="t", mode="r")[:]).tolist()
    return found
