"""Manifests and packs written by executors: the same numbers, and the same content, as locally."""

import shutil
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import NodeNotFoundError
from frazil.maintenance.pack import pack as pack_here
from frazil.maintenance.pack import plan_pack, plan_unpack
from frazil.maintenance.pack import unpack as unpack_here
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests
from frazil.maintenance.rewrite_manifests import rewrite_manifests as rewrite_here
from frazil.spark.actions.pack import pack, unpack
from frazil.spark.actions.rewrite_manifests import rewrite_manifests
from tests.spark.repositories import make_weather, temperature
from tests.unit.maintenance.contents import contents_of

pytestmark = pytest.mark.spark

SIZES = {"small_bytes": 4000, "pack_bytes": 20_000}


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    repo = make_weather(tmp_path / "here")
    repo.unpack(branch="main")  # what is written at once may be in packs
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    return tmp_path / "here", tmp_path / "there"


def opened(path: Path) -> frazil.Repository:
    config = frazil.RepositoryConfig.default()
    dimensions = frazil.ManifestSplitDimCondition
    config.manifest = frazil.ManifestConfig(
        splitting=frazil.ManifestSplittingConfig.from_dict(
            {frazil.ManifestSplitCondition.AnyArray(): {dimensions.DimensionName("time"): 2}}
        )
    )
    return frazil.Repository.open(frazil.local_filesystem_storage(str(path)), config)


def manifests(path: Path, snapshot: str) -> Any:
    """By path what each manifest covers."""
    storage = icechunk.local_filesystem_storage(str(path))
    found = icechunk.Repository.open(storage).inspect_snapshot(snapshot)
    sizes = {each["id"]: each["num_chunk_refs"] for each in found["manifests"]}
    return {
        node["path"]: [(sizes[ref["id"]], ref["extents"]) for ref in node["manifest_refs"]]
        for node in found["nodes"]
        if "manifest_refs" in node
    }, found["metadata"]


def require_temperature(path: Path) -> None:
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    array = zarr.open_array(repo.readonly_session("main").store, path="t2m", mode="r")
    expected = temperature()
    expected[0, 0, :3] = np.nan
    np.testing.assert_array_equal(np.asarray(array[...]), expected)


@pytest.mark.spark_matrix
def test_manifests_are_rewritten_as_they_are_locally(
    spark: SparkSession, twins: tuple[Path, Path]
) -> None:
    here, there = twins
    before = contents_of(opened(there).engine)
    engine = opened(here).engine
    local = rewrite_here(engine, plan_rewrite_manifests(engine, "main"), "m", metadata={"a": 1})
    told = list[str]()
    done = rewrite_manifests(
        spark, opened(there), "m", metadata={"a": 1}, progress=lambda each: told.append(each.doing)
    )
    numbers = (done.arrays, done.manifests_before, done.manifests, done.references)
    assert numbers == (local.arrays, local.manifests_before, local.manifests, local.references)
    assert manifests(there, done.snapshot) == manifests(here, local.snapshot)
    assert contents_of(opened(there).engine) == before
    assert set(told) == {"Rewriting manifests"}
    rows = done.written.collect()
    assert (len(rows), sum(row["references"] for row in rows)) == (done.manifests, done.references)
    assert {row["path"] for row in rows} == {"/lat", "/lon", "/pressure", "/t2m", "/time"}
    require_temperature(there)


@pytest.mark.spark_matrix
def test_chunks_are_packed_as_they_are_locally(
    spark: SparkSession, twins: tuple[Path, Path]
) -> None:
    here, there = twins
    before = contents_of(opened(there).engine)
    engine = opened(here).engine
    local = pack_here(engine, plan_pack(engine, "main", **SIZES))  # type: ignore[arg-type]  # sizes only
    done = pack(spark, str(there), **SIZES)  # type: ignore[arg-type]  # sizes only
    numbers = (done.chunks, done.packs, done.bytes, done.references, done.manifests)
    assert numbers == (
        local.chunks, local.packs, local.bytes, local.references, local.manifests
    )  # fmt: skip
    assert done.packs > 2
    assert contents_of(opened(there).engine) == before
    rows = done.written.collect()
    assert sum(row["chunks"] for row in rows) == done.chunks
    assert {row["object"] for row in rows} <= {each.name for each in (there / "chunks").iterdir()}
    require_temperature(there)
    again = pack(spark, str(there), **SIZES)  # type: ignore[arg-type]  # sizes only
    assert (again.snapshot, again.packs, again.written.count()) == (None, 0, 0)


@pytest.mark.spark_matrix
def test_chunks_are_unpacked_as_they_are_locally(
    spark: SparkSession, twins: tuple[Path, Path]
) -> None:
    here, there = twins
    for path in twins:
        opened(path).pack(branch="main", **SIZES)  # type: ignore[arg-type]  # sizes only
    before = contents_of(opened(there).engine)
    objects = {each.name for each in (there / "chunks").iterdir()}
    engine = opened(here).engine
    local = unpack_here(engine, plan_unpack(engine, "main"))
    done = unpack(spark, str(there), "apart", metadata={"a": 1})
    numbers = (done.chunks, done.packs, done.bytes, done.references, done.manifests)
    assert numbers == (
        local.chunks, local.packs, local.bytes, local.references, local.manifests
    )  # fmt: skip
    assert done.chunks > done.packs > 2
    assert contents_of(opened(there).engine) == before
    rows = done.written.collect()
    new = {each.name for each in (there / "chunks").iterdir()} - objects
    assert {row["object"] for row in rows} == new
    assert len(new) == done.chunks
    assert {row["pack"] for row in rows} <= objects
    assert sum(row["bytes"] for row in rows) == done.bytes
    require_temperature(there)
    again = unpack(spark, str(there))
    assert (again.snapshot, again.packs, again.written.count()) == (None, 0, 0)


def test_only_some_arrays_are_packed(spark: SparkSession, twins: tuple[Path, Path]) -> None:
    with pytest.raises(NodeNotFoundError):
        pack(spark, twins[1], paths=["/nothing"])
    done = pack(spark, twins[1], paths=["/t2m"], **SIZES)  # type: ignore[arg-type]  # sizes only
    assert (done.chunks, done.manifests) == (48, 1)
    require_temperature(twins[1])


def test_nothing_to_rewrite_is_a_commit_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    done = rewrite_manifests(spark, repo)
    assert (done.manifests, done.written.count()) == (0, 0)
    assert repo.lookup_branch("main") == done.snapshot
