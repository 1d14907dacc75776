"""Rechunk on real Spark, read back by icechunk and zarr."""

from itertools import count
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.sql import SparkSession

from frazil.api import Repository, in_memory_storage, local_filesystem_storage
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NodeNotFoundError,
)
from frazil.spark.pipelines.rechunk import PREFIX, Staging, explain_rechunk, rechunk
from frazil.spark.runtime.progress import JobProgress
from tests.spark.repositories import make_weather

pytestmark = pytest.mark.spark


@pytest.fixture
def weather(tmp_path: Path) -> Repository:
    return make_weather(tmp_path / "repo")


def by_icechunk(tmp_path: Path) -> "zarr.Group":
    """The group as the reference reads it."""
    found = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    return zarr.open_group(found.readonly_session("main").store, mode="r")


def array(group: "zarr.Group", name: str) -> "zarr.Array[Any]":
    found = group[name]
    assert isinstance(found, zarr.Array)
    return found


def values(group: "zarr.Group", name: str) -> npt.NDArray[Any]:
    return np.asarray(array(group, name)[...])


def staging_branches(repo: Repository) -> list[str]:
    return [name for name in repo.list_branches() if name.startswith(PREFIX)]


@pytest.mark.spark_matrix
def test_values_stay_and_chunks_codecs_and_shards_change(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    before = by_icechunk(tmp_path)
    told: list[JobProgress] = []
    result = rechunk(
        spark,
        weather,
        chunks={"time": -1, "lat": 3, "lon": 4},
        shards={"time": -1, "lat": 6, "lon": 12},
        codecs=["zstd"],
        progress=told.append,
    )
    after = by_icechunk(tmp_path)
    for name in ("t2m", "pressure"):
        assert array(after, name).chunks == (48, 3, 4)
        assert array(after, name).shards == (48, 6, 12)
        assert [type(c).__name__ for c in array(after, name).compressors] == ["ZstdCodec"]
        assert dict(array(after, name).attrs) == dict(array(before, name).attrs)
        np.testing.assert_array_equal(values(after, name), values(before, name))
    assert array(after, "time").metadata == array(before, "time").metadata
    assert result.committed
    assert (result.arrays, result.chunks) == (2, 2 * 4 * 3)
    assert weather.lookup_branch("main") == result.snapshot_id
    assert staging_branches(weather) == []
    assert told[-1].finished

    # and back again, without shards; what is there already is not written again
    back = rechunk(spark, weather, "t2m", chunks=[12, 5, 12], shards={})
    assert back.arrays == 1
    final = by_icechunk(tmp_path)
    assert (array(final, "t2m").chunks, array(final, "t2m").shards) == ((12, 5, 12), None)
    np.testing.assert_array_equal(values(final, "t2m"), values(before, "t2m"))
    assert not rechunk(spark, weather, "t2m", chunks=[12, 5, 12]).committed
    assert weather.lookup_branch("main") == back.snapshot_id


def test_a_copy_elsewhere_leaves_the_original_and_shares_what_is_unchanged(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    rechunk(spark, weather, "/", chunks={"time": 5}, into="other/place", idempotency_key="k")
    after = by_icechunk(tmp_path)
    for name in ("t2m", "pressure", "time", "lat", "lon"):
        np.testing.assert_array_equal(values(after, f"other/place/{name}"), values(after, name))
    assert array(after, "other/place/t2m").chunks == (5, 5, 12)
    assert array(after, "t2m").chunks == (12, 5, 12)
    with pytest.raises(AlreadyExistsError, match="other/place"):
        rechunk(spark, weather, "/", chunks={"time": 5}, into="other/place")
    tip = weather.lookup_branch("main")
    assert not rechunk(spark, weather, "/", chunks={"time": 9}, idempotency_key="k").committed
    assert weather.lookup_branch("main") == tip


def test_text_empty_and_scalar_arrays(spark: SparkSession, tmp_path: Path) -> None:
    repo = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    names = np.array(["a", "", "Zürich", "d" * 50, "e"], dtype=object)
    with repo.transaction("main", message="odd ones") as store:
        group = zarr.group(store)
        text = group.create_array("text", shape=5, chunks=2, dtype=str, dimension_names=["x"])
        text[:] = names
        group.create_array("empty", shape=(0, 3), chunks=(1, 3), dtype="i4")
        group.create_array("scalar", shape=(), dtype="f8")[...] = 2.5
    rechunk(spark, repo, codecs=["gzip"])
    after = by_icechunk(tmp_path)
    assert values(after, "text").tolist() == names.tolist()
    assert values(after, "scalar") == 2.5
    assert array(after, "empty").shape == (0, 3)


def test_a_task_that_fails_leaves_the_branch_as_it_was(
    spark: SparkSession, weather: Repository, tmp_path: Path
) -> None:
    tip = weather.lookup_branch("main")
    largest = max((tmp_path / "repo" / "chunks").iterdir(), key=lambda one: one.stat().st_size)
    largest.unlink()
    with pytest.raises(Exception, match=largest.name):
        rechunk(spark, weather, chunks={"time": 7})
    assert weather.lookup_branch("main") == tip
    assert staging_branches(weather) == []


@pytest.mark.spark_matrix
def test_a_rerun_takes_up_or_clears_away_what_a_killed_run_left(
    spark: SparkSession, weather: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = weather.lookup_branch("main")
    with monkeypatch.context() as patch:  # as if killed: nothing after the commit happens
        patch.setattr(Staging, "publish", _killed)
        patch.setattr("frazil.spark.pipelines.rechunk.remove", _nothing)
        with pytest.raises(SystemExit):
            rechunk(spark, weather, chunks={"time": 7})
    (left,) = staging_branches(weather)
    finished = weather.lookup_branch(left)
    assert weather.lookup_branch("main") == tip

    assert rechunk(spark, weather, chunks={"time": 7}).snapshot_id == finished
    assert weather.lookup_branch("main") == finished
    assert staging_branches(weather) == []

    weather.create_branch(left, tip)  # of a run that was killed early
    rechunk(spark, weather, chunks={"time": 6})
    assert staging_branches(weather) == []


def test_a_branch_that_moves_meanwhile_is_a_conflict(
    spark: SparkSession, weather: Repository
) -> None:
    times = count()

    def interfere(progress: JobProgress) -> None:
        if progress.finished:  # which may be told more than once
            with weather.transaction("main", message="meanwhile") as store:
                zarr.open_group(store).attrs["touched"] = next(times)

    with pytest.raises(ConflictError):
        rechunk(spark, weather, chunks={"time": 7}, progress=interfere)
    assert next(weather.ancestry(branch="main")).message == "meanwhile"
    assert staging_branches(weather) == []


def test_what_cannot_be_is_refused_before_anything_is_done(
    spark: SparkSession, weather: Repository
) -> None:
    tip = weather.lookup_branch("main")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "nothing to change"),
        ({"chunks": {"tiem": 3}}, "no dimension 'tiem'"),
        ({"chunks": {"time": 0}}, "at least 1"),
        ({"chunks": {"time": 5}, "shards": {"time": 12}}, "not whole chunks"),
        ({"codecs": ["lzma9000"]}, "no codec 'lzma9000'"),
        ({"path": "t2m", "chunks": [1, 2]}, "has shape"),
    ]
    for arguments, said in wrong:
        with pytest.raises(InvalidInputError, match=said):
            rechunk(spark, weather, **arguments)
    with pytest.raises(NodeNotFoundError):
        rechunk(spark, weather, "nope", chunks={"time": 3})
    with pytest.raises(InvalidInputError, match="other processes"):
        rechunk(spark, Repository.create(in_memory_storage()), chunks={"time": 3})
    assert weather.lookup_branch("main") == tip


def test_the_plan_needs_no_spark(weather: Repository) -> None:
    plan = explain_rechunk(None, weather, "t2m", chunks={"time": 24})
    assert [one.layout.chunks for one in plan.rewrites] == [(24, 5, 12)]
    assert plan.size_bytes == 48 * 19 * 36 * 4


def _killed(*_: object) -> None:
    raise SystemExit


def _nothing(*_: object) -> None:
    pass
