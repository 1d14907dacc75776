"""Rechunk through scratch objects: the same arrays as in one pass, and nothing left behind."""

from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from frazil.api import Repository, in_memory_storage, local_filesystem_storage
from frazil.engine.refs.version import Branch
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.paths import NodePath
from frazil.spark.pipelines import rechunk_plan
from frazil.spark.pipelines.clone import clone
from frazil.spark.pipelines.rechunk import (
    PREFIX,
    ReadJob,
    RechunkJob,
    _read_sources,
    explain_rechunk,
    rechunk,
)
from frazil.spark.pipelines.rechunk_plan import RechunkPlan, plan_rechunk
from frazil.spark.pipelines.relayout import Wanted
from frazil.spark.pipelines.scratch import Exchange, scratch_objects
from frazil.spark.runtime import jobs
from frazil.spark.runtime.jobs import Cut
from tests.spark.repositories import fill_weather, make_weather

KINDS = ["u1", "i2", "f4", "f8", "c8", "bool", "M8[s]", "U3", "S4"]


def random_array(random: Random, store: Any, name: str) -> npt.NDArray[Any]:
    """An array of some shape, chunks, shards and type, parts of it never written."""
    shape = tuple(random.randint(1, 12) for _ in range(random.randint(1, 3)))
    chunks = tuple(random.randint(1, n) for n in shape)
    shards = (
        tuple(size * random.randint(1, 3) for size in chunks) if random.random() < 0.4 else None
    )
    data = np.frombuffer(random.randbytes(prod(shape)), np.uint8).reshape(shape)
    dtype = np.dtype(random.choice(KINDS))
    array = zarr.create_array(
        store, name=name, shape=shape, chunks=chunks, shards=shards, dtype=dtype
    )
    written = tuple(slice(0, random.randint(1, n)) for n in shape)
    array[written] = data.astype(dtype)[written]
    return np.asarray(array[...])


def random_cut(random: Random, shape: tuple[int, ...], unit: tuple[int, ...]) -> Cut:
    return Cut(shape, tuple(size * random.randint(1, 3) for size in unit))


def run(repository: Repository, plan: RechunkPlan) -> npt.NDArray[Any]:
    """The result of the tasks of a plan, run in this process and not committed."""
    engine = repository.engine
    base, session = engine.readonly_session(Branch("main")), engine.writable_session("main")
    (one,) = plan.rewrites
    session.set_node(one.target, one.document)
    with scratch_objects(engine.store, plan.scratch_objects) as scratch:
        ReadJob(base, plan.staged, scratch)(engine.files, range(plan.scratch_objects))
        job = RechunkJob(base, plan.rewrites, session.chunk_writer(), scratch)
        for written in job(engine.files, range(plan.tasks)):
            session.set_chunk_refs(one.target, written.refs)
    session.commit("rechunked")
    store = repository.readonly_session("main").store
    return np.asarray(zarr.open_array(store, path=one.target.text, mode="r")[...])


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@given(st.randoms(use_true_random=False))
def test_both_plans_make_the_arrays_of_numpy(random: Random) -> None:
    repository = Repository.create(in_memory_storage())
    with repository.transaction("main", message="source") as store:
        values = random_array(random, store, "a")
    chunks = [random.randint(1, n) for n in values.shape]
    shards = [size * random.randint(1, 3) for size in chunks] if random.random() < 0.4 else []
    wanted = Wanted(chunks=chunks, shards=shards, codecs=("gzip",))
    for number, passes in enumerate((1, 2)):
        session = repository.engine.readonly_session(Branch("main"))
        target = NodePath(f"/new-{number}")
        plan = plan_rechunk(session, NodePath("/a"), target, wanted, parallelism=2)
        (one,) = plan.rewrites
        cut = random_cut(random, values.shape, tuple(shards or chunks))
        first = random_cut(random, values.shape, one.decoded)
        exchange = Exchange(first, cut, values.dtype) if passes == 2 else None
        plan = replace(plan, rewrites=(replace(one, cut=cut, exchange=exchange),))
        before = set(repository.engine.store.list("chunks/"))
        np.testing.assert_array_equal(run(repository, plan), values)
        made = len(set(repository.engine.store.list("chunks/")) - before)
        assert made <= len(Cut(values.shape, tuple(shards or chunks)))  # scratch is gone


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks hold so little that a map is read again and again by a plan of one pass."""
    monkeypatch.setattr(jobs, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(jobs, "MAX_TASK_BYTES", 1000)
    monkeypatch.setattr(rechunk_plan, "MOST_BOX_BYTES", 3000)
    monkeypatch.setattr(rechunk_plan, "REQUEST_BYTES", 0)


def chunk_objects(path: Path) -> set[str]:
    return {each.name for each in path.glob("chunks/*")}


SERIES = {"time": -1, "lat": 1, "lon": 2}


@pytest.mark.spark
@pytest.mark.spark_matrix
@pytest.mark.usefixtures("small_tasks")
@pytest.mark.long
def test_virtual_and_packed_maps_become_series_in_two_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = make_weather(tmp_path / "source")
    with source.transaction("main", message="more") as store:
        fill_weather(zarr.create_group(store, path="more"))
    clone(spark, source, tmp_path / "repo", deep=False)
    prefix = f"file://{tmp_path}/source/chunks/"
    storage = local_filesystem_storage(tmp_path / "repo")
    access = {prefix: LocalFileSystemAccess()}
    repo = Repository.open(storage, authorize_virtual_chunk_access=access)
    plan = explain_rechunk(spark, repo, chunks=SERIES)
    maps = [one for one in plan.rewrites if one.source.name == "t2m"]
    assert set(maps) <= set(plan.staged)
    assert all(one.read_bytes == one.scratch_bytes == one.size_bytes for one in plan.staged)
    result = rechunk(spark, repo, chunks=SERIES)
    after, before = repo.readonly_session("main").store, source.readonly_session("main").store
    for name in ("t2m", "pressure", "more/t2m", "more/pressure"):
        np.testing.assert_array_equal(
            zarr.open_array(after, path=name, mode="r"),
            zarr.open_array(before, path=name, mode="r")[...],
        )
    assert result.chunks == 4 * 19 * 18
    assert chunk_objects(tmp_path / "repo") == set()  # the new ones are inline


@pytest.mark.spark
@pytest.mark.usefixtures("small_tasks")
def test_a_job_that_fails_in_either_pass_leaves_no_scratch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_weather(tmp_path / "repo")
    before, tip = chunk_objects(tmp_path / "repo"), repo.lookup_branch("main")
    lost = max((tmp_path / "repo" / "chunks").iterdir(), key=lambda each: each.stat().st_size)
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(Exception, match=lost.name):
        rechunk(spark, repo, chunks=SERIES)
    assert chunk_objects(tmp_path / "repo") == before - {lost.name}
    lost.write_bytes(content)

    def lose_one(*arguments: Any) -> None:
        _read_sources(*arguments)
        scratch = sorted(chunk_objects(tmp_path / "repo") - before)
        assert len(scratch) == 1 + explain_rechunk(spark, repo, chunks=SERIES).scratch_objects
        largest = max(scratch, key=lambda name: (lost.parent / name).stat().st_size)
        (lost.parent / largest).unlink()

    with monkeypatch.context() as patch:
        patch.setattr("frazil.spark.pipelines.rechunk._read_sources", lose_one)
        with pytest.raises(Exception, match="object not found"):
            rechunk(spark, repo, chunks=SERIES)
    assert chunk_objects(tmp_path / "repo") == before
    assert repo.lookup_branch("main") == tip
    assert not [name for name in repo.list_branches() if name.startswith(PREFIX)]
    assert rechunk(spark, repo, chunks=SERIES).committed
