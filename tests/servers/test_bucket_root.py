"""Repositories in the root of a bucket, which early releases of the reference kept at `/repo`."""

import itertools
import pickle
import urllib.request
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from tests.servers.s3 import S3Server

_buckets = itertools.count()


def put(server: S3Server, path: str, data: bytes | None = None) -> None:
    request = urllib.request.Request(f"{server.endpoint}/{path}", data=data, method="PUT")  # noqa: S310 - http
    urllib.request.urlopen(request).close()  # noqa: S310 - same


@pytest.fixture
def bucket(hot_s3_server: S3Server) -> str:
    """An empty one: its root is all of it."""
    name = f"root-{next(_buckets)}"
    put(hot_s3_server, name)
    return name


def fill(server: S3Server, bucket: str, slash: str) -> None:
    """A new repository with an array, in the root of the bucket, under keys that begin so."""
    prefix = server.new_prefix()
    repository = frazil.Repository.create(server.storage(frazil, prefix))
    with repository.transaction("main", message="data") as store:
        zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    for info in (found := server.store(prefix)).list():
        put(server, f"{bucket}/{slash}{info.key}", bytes(found.get(info.key).data))


def root(server: S3Server, engine: Any, bucket: str, **options: Any) -> Any:
    return server.storage(engine, "", bucket=bucket, **options)


@pytest.mark.parametrize("slash", ["", "/"], ids=["modern", "rooted"])
def test_a_repository_in_the_root_is_found_and_written(
    hot_s3_server: S3Server, bucket: str, slash: str
) -> None:
    server = hot_s3_server
    fill(server, bucket, slash)
    explicit = root(server, frazil, bucket, legacy_rooted_keys=bool(slash))
    for turn, storage in enumerate([root(server, frazil, bucket), explicit]):
        repository = pickle.loads(pickle.dumps(frazil.Repository.open(storage)))
        with repository.transaction("main", message=f"turn {turn}") as store:
            zarr.open_array(store, path="a")[turn] = 10 + turn
        theirs = icechunk.Repository.open(root(server, icechunk, bucket))
        session = theirs.readonly_session("main")
        found = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:])
        assert found[turn] == 10 + turn
    assert [info.message for info in repository.ancestry(branch="main")][:2] == ["turn 1", "turn 0"]


def test_keys_of_a_rooted_store_are_listed_and_deleted(
    hot_s3_server: S3Server, bucket: str
) -> None:
    fill(hot_s3_server, bucket, "/")
    store = root(hot_s3_server, frazil, bucket).store
    snapshots = [info.key for info in store.list("snapshots/")]
    assert len(snapshots) == 2
    store.copy(snapshots[0], "snapshots/copy")
    store.delete(["snapshots/copy", snapshots[0]])
    assert [info.key for info in store.list("snapshots/")] == snapshots[1:]


def test_the_other_layout_is_not_looked_at_if_one_is_said(
    hot_s3_server: S3Server, bucket: str
) -> None:
    fill(hot_s3_server, bucket, "/")
    with pytest.raises(frazil.RepositoryNotFoundError):
        frazil.Repository.open(root(hot_s3_server, frazil, bucket, legacy_rooted_keys=False))


def test_both_layouts_at_once_are_refused(hot_s3_server: S3Server, bucket: str) -> None:
    fill(hot_s3_server, bucket, "/")
    fill(hot_s3_server, bucket, "")
    for engine in (frazil, icechunk):
        with pytest.raises(engine.StorageError) as caught:
            engine.Repository.open(root(hot_s3_server, engine, bucket))
        assert caught.value.kind == "storage-other"


def test_none_is_created_there(hot_s3_server: S3Server, bucket: str) -> None:
    for engine in (frazil, icechunk):
        with pytest.raises(engine.InvalidInputError) as caught:
            engine.Repository.create(root(hot_s3_server, engine, bucket))
        assert caught.value.kind == "empty-prefix-creation"
    assert not frazil.Repository.exists(root(hot_s3_server, frazil, bucket))
