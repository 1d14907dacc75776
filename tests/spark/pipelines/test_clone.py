"""Clones on real Spark, compared with their sources by content and history, and by icechunk."""

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
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.spark.pipelines.clone import clone
from tests.spark.repositories import make_weather

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
    with pytest.raises(ConflictError, match="another repository"):
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
