"""Clones on real Spark, compared with their sources by content and history, and by icechunk."""

import os
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.api import Repository, local_filesystem_storage
from frazil.errors import ConflictError, ObjectNotFoundError, RefNotFoundError
from frazil.maintenance.copying import shallow
from frazil.maintenance.copying.clone import plan_clone
from frazil.maintenance.copying.transfer import transfer
from frazil.maintenance.executor import ThreadExecutor
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.objectstore.local import LocalStore
from frazil.spark.pipelines.clone import clone
from tests.spark.repositories import fill_weather, make_weather

pytestmark = pytest.mark.spark


def opened(path: Path, **options: Any) -> Repository:
    return Repository.open(local_filesystem_storage(path), **options)


def change(repo: Repository, value: float, branch: str = "main") -> str:
    with repo.transaction(branch, message=f"all {value}") as store:
        array = zarr.open_array(store, path="t2m", mode="r+")
        array[:12] = value
    return repo.lookup_branch(branch)


def t2m(repo: Any, **version: str) -> npt.NDArray[Any]:
    session = repo.readonly_session(**(version or {"branch": "main"}))
    return np.asarray(zarr.open_array(session.store, path="t2m", mode="r")[...])


def history(repo: Repository, branch: str = "main") -> list[tuple[str, str]]:
    return [(one.id, one.message) for one in repo.ancestry(branch=branch)]


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    repo = make_weather(tmp_path / "source")
    repo.create_tag("v1", repo.lookup_branch("main"))
    repo.create_branch("dev", repo.lookup_branch("main"))
    change(repo, 1.0)
    change(repo, 7.0, "dev")
    return repo


@pytest.mark.spark_matrix
def test_a_deep_clone_is_the_same_repository_and_grows_with_it(
    spark: SparkSession, source: Repository, tmp_path: Path
) -> None:
    first = clone(spark, source, tmp_path / "target")
    made = opened(tmp_path / "target")
    assert history(made) == history(source)
    assert history(made, "dev") == history(source, "dev")
    for version in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        np.testing.assert_array_equal(t2m(made, **version), t2m(source, **version))
    log = [type(one.kind).__name__ for one in made.ops_log()]
    assert log == [type(one.kind).__name__ for one in source.ops_log()]
    assert first.copied == first.objects - 1  # all but the entry point
    by_icechunk = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "target"))
    )
    np.testing.assert_array_equal(t2m(by_icechunk, tag="v1"), t2m(source, tag="v1"))

    again = clone(spark, source, tmp_path / "target")
    assert (again.copied, again.bytes) == (0, 0)
    change(source, 2.0)
    damaged = max((tmp_path / "target" / "chunks").iterdir(), key=lambda one: one.stat().st_size)
    damaged.write_bytes(b"cut off")
    more = clone(spark, source, tmp_path / "target")
    assert 0 < more.copied < first.copied
    np.testing.assert_array_equal(t2m(opened(tmp_path / "target")), t2m(source))
    assert damaged.read_bytes() == (tmp_path / "source" / "chunks" / damaged.name).read_bytes()

    change(made, 9.0)
    with pytest.raises(ConflictError, match="commits of its own"):
        clone(spark, source, tmp_path / "target")
    np.testing.assert_array_equal(t2m(opened(tmp_path / "target"))[:12], 9.0)


def test_a_clone_of_some_refs_has_only_what_they_lead_to(
    spark: SparkSession, source: Repository, tmp_path: Path
) -> None:
    result = clone(spark, source, tmp_path / "target", refs=["v1"])
    made = opened(tmp_path / "target")
    assert (made.list_tags(), made.list_branches()) == ({"v1"}, {"main"})
    assert made.lookup_branch("main") == source.lookup_tag("v1")
    np.testing.assert_array_equal(t2m(made, tag="v1"), t2m(source, tag="v1"))
    assert result.snapshots == 2
    snapshots = [one.name for one in (tmp_path / "target" / "snapshots").iterdir()]
    assert len(snapshots) == 2
    by_icechunk = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "target"))
    )
    np.testing.assert_array_equal(t2m(by_icechunk, tag="v1"), t2m(source, tag="v1"))
    change(made, 3.0)  # and it is a repository like any other
    with pytest.raises(RefNotFoundError, match="nope"):
        clone(spark, source, tmp_path / "other", refs=["nope"])


def test_a_clone_that_lacks_an_object_is_no_repository(
    spark: SparkSession, source: Repository, tmp_path: Path
) -> None:
    lost = next(iter(sorted((tmp_path / "source" / "chunks").iterdir())))
    lost.unlink()
    with pytest.raises(ObjectNotFoundError, match=lost.name):
        clone(spark, source, tmp_path / "target")
    assert not Repository.exists(local_filesystem_storage(tmp_path / "target"))


@pytest.fixture
def old(tmp_path: Path) -> Repository:
    """Of version 1, with a tag that was deleted."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=16)
    storage = local_filesystem_storage(tmp_path / "source")
    source = Repository.create(storage, config, spec_version=1)
    with source.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    for tag in ("v1", "gone"):
        source.create_tag(tag, source.lookup_branch("main"))
    source.delete_tag("gone")
    source.create_branch("dev", source.lookup_branch("main"))
    change(source, 7.0, "dev")
    return source


def test_a_clone_of_version_1_is_of_version_1_and_grows_with_it(
    spark: SparkSession, old: Repository, tmp_path: Path
) -> None:
    source, first = old, clone(spark, old, tmp_path / "target")
    made = opened(tmp_path / "target")
    assert made.spec_version == 1
    assert made.config.inline_chunk_threshold_bytes == 16
    assert history(made, "dev") == history(source, "dev")
    assert (made.list_tags(), made.list_branches()) == ({"v1"}, {"main", "dev"})
    for version in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        np.testing.assert_array_equal(t2m(made, **version), t2m(source, **version))
    by_icechunk = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "target"))
    )
    np.testing.assert_array_equal(t2m(by_icechunk, branch="dev"), t2m(source, branch="dev"))
    with pytest.raises(frazil.IcechunkError):
        made.create_tag("gone", made.lookup_branch("main"))  # its name is used up, as there

    change(source, 1.0)
    source.delete_branch("dev")
    more = clone(spark, source, tmp_path / "target")
    assert 0 < more.copied < first.copied
    assert opened(tmp_path / "target").list_branches() == {"main", "dev"}  # deleted only there
    np.testing.assert_array_equal(t2m(opened(tmp_path / "target")), t2m(source))
    change(made, 9.0)
    with pytest.raises(ConflictError, match="commits of its own"):
        clone(spark, source, tmp_path / "target")


def test_clones_of_version_1_with_some_refs_and_with_no_chunks(
    spark: SparkSession, old: Repository, tmp_path: Path
) -> None:
    source = old
    only = clone(spark, source, tmp_path / "tagged", refs=["v1"])
    assert only.snapshots == 2
    assert opened(tmp_path / "tagged").lookup_branch("main") == source.lookup_tag("v1")
    with pytest.raises(RefNotFoundError, match="nope"):
        clone(spark, source, tmp_path / "other", refs=["nope"])
    make_weather(tmp_path / "newer")
    with pytest.raises(ConflictError, match="of version 2"):
        clone(spark, source, tmp_path / "newer")
    with pytest.raises(ConflictError, match="of version 1"):
        clone(spark, tmp_path / "newer", tmp_path / "source")

    clone(spark, source, tmp_path / "view", deep=False)
    prefix = f"file://{tmp_path}/source/chunks/"
    seen = opened(
        tmp_path / "view", authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()}
    )
    assert seen.spec_version == 1
    for version in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        np.testing.assert_array_equal(t2m(seen, **version), t2m(source, **version))


def test_a_shallow_clone_cuts_manifests_as_its_source_and_is_taken_up_when_interrupted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splitting = frazil.ManifestSplittingConfig.from_dict(
        {
            frazil.ManifestSplitCondition.AnyArray(): {
                frazil.ManifestSplitDimCondition.DimensionName("time"): 2
            }
        }
    )
    config = frazil.RepositoryConfig(
        inline_chunk_threshold_bytes=16, manifest=frazil.ManifestConfig(splitting=splitting)
    )
    source = Repository.create(local_filesystem_storage(tmp_path / "source"), config)
    with source.transaction("main", message="weather") as store:
        group = zarr.group(store)
        fill_weather(group)
        group.create_array("scalar", data=np.array(3.5))
        group.create_array("never", shape=(4, 4), chunks=(1, 1), dtype="i2")
    source.create_tag("same", source.lookup_branch("main"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shallow, "_publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clone(spark, source, tmp_path / "target", deep=False)
    result = clone(spark, source, tmp_path / "target", deep=False)
    prefix = f"file://{tmp_path}/source/chunks/"
    made = opened(
        tmp_path / "target", authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()}
    )
    assert made.lookup_tag("same") == made.lookup_branch("main")
    ours = made.list_manifest_files(made.lookup_branch("main"))
    theirs = source.list_manifest_files(source.lookup_branch("main"))
    assert result.snapshots == 1
    assert result.objects == len(ours)
    assert sorted(one.num_chunk_refs for one in ours) == sorted(
        one.num_chunk_refs for one in theirs
    )
    found = zarr.open_group(made.readonly_session("main").store, mode="r")
    wanted = zarr.open_group(source.readonly_session("main").store, mode="r")
    assert sorted(found.array_keys()) == sorted(wanted.array_keys())
    for name, array in wanted.arrays():
        np.testing.assert_array_equal(found[name], array[...])
    by_icechunk = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "target")),
        authorize_virtual_chunk_access=icechunk.containers_credentials(
            {prefix: icechunk.credentials.LocalFileSystemAccess}
        ),
    )
    np.testing.assert_array_equal(t2m(by_icechunk, tag="same"), t2m(source))
    stored = zarr.open_array(source.readonly_session("main").store, path="t2m", mode="r")
    tip = next(iter(made.ancestry(branch="main")))
    assert tip.parent_id is not None
    diff = made.diff(from_snapshot_id=tip.parent_id, to_branch="main")
    assert len(diff.updated_chunks["/t2m"]) == stored.nchunks_initialized


def test_a_shallow_clone_refers_to_the_chunks_of_its_source(
    spark: SparkSession, source: Repository, tmp_path: Path
) -> None:
    result = clone(spark, source, tmp_path / "target", deep=False)
    prefix = f"file://{tmp_path}/source/chunks/"
    made = opened(
        tmp_path / "target", authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()}
    )
    for version in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        np.testing.assert_array_equal(t2m(made, **version), t2m(source, **version))
    assert result.snapshots == 3
    assert made.list_branches() == source.list_branches()
    chunks = tmp_path / "target" / "chunks"
    assert not chunks.exists() or not list(chunks.iterdir())
    credentials = icechunk.containers_credentials(
        {prefix: icechunk.credentials.LocalFileSystemAccess}
    )
    by_icechunk = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "target")),
        authorize_virtual_chunk_access=credentials,
    )
    np.testing.assert_array_equal(t2m(by_icechunk, tag="v1"), t2m(source, tag="v1"))
    with pytest.raises(frazil.InvalidInputError):
        clone(spark, source, tmp_path / "target", deep=False)


def test_branches_and_tags_of_one_name_are_two_refs_in_a_shallow_clone(tmp_path: Path) -> None:
    """Groups only: there is nothing for executors to do."""
    source = Repository.create(local_filesystem_storage(tmp_path / "source"))
    for name in ("one", "two"):
        with source.transaction("main", message=name) as store:
            zarr.create_group(store, path=name)
        if name == "one":
            for tag in ("main", "dev"):
                source.create_tag(tag, source.lookup_branch("main"))
    source.create_branch("dev", source.lookup_branch("main"))
    shallow.clone_shallow(shallow.plan_shallow(source.engine, LocalStore(tmp_path / "view")))
    view = opened(tmp_path / "view")
    assert (view.list_branches(), view.list_tags()) == ({"main", "dev"}, {"main", "dev"})
    versions: list[dict[str, Any]] = [
        {kind: n} for kind in ("branch", "tag") for n in ("main", "dev")
    ]
    for version in versions:
        groups = [
            sorted(zarr.open_group(repo.readonly_session(**version).store, mode="r").group_keys())
            for repo in (source, view)
        ]
        assert groups[0] == groups[1]


def test_files_of_an_interrupted_clone_are_refreshed_and_refs_of_the_target_stay(
    spark: SparkSession, source: Repository, tmp_path: Path
) -> None:
    clone(spark, source, tmp_path / "target")
    made = opened(tmp_path / "target")
    made.create_tag("mine", made.lookup_branch("main"))
    made.create_tag("main", made.lookup_branch("main"))
    old = {path: path.stat().st_mtime_ns for path in (tmp_path / "target").rglob("*")}
    change(source, 2.0)
    plan = plan_clone(source.engine, made.engine.store)
    transfer(ThreadExecutor(source.engine.files), made.engine.store, plan.missing)
    left = [one for one in (tmp_path / "target").rglob("*") if one.is_file() and one not in old]
    left = [one for one in left if one.parent.name != "overwritten"]
    for one in left:
        os.utime(one, (1_700_000_000,) * 2)

    result = clone(spark, source, tmp_path / "target")

    assert result.copied == 0
    assert len(left) == plan.objects > 0
    assert all(one.stat().st_mtime > 1_700_000_000 + 86_400 for one in left)
    touched = {
        path.name
        for path, at in old.items()
        if path.parent.name in ("chunks", "manifests", "snapshots", "transactions")
        and path.stat().st_mtime_ns != at
    }
    assert touched == set()
    made = opened(tmp_path / "target")
    assert made.list_tags() == {"v1", "mine", "main"}
    np.testing.assert_array_equal(t2m(made), t2m(source))
    assert made.verify().ok
