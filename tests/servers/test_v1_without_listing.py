"""A version 1 repository is read without listing: refs are read by their names, one at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import DenyPermission
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server

TAGS = 40
both = pytest.mark.parametrize("module", [frazil, icechunk], ids=lambda module: module.__name__)


def fill(storage: Any) -> tuple[str, str]:
    """Two commits, and a tag for each of many names; the ids of the commits."""
    repo = frazil.Repository.create(storage, spec_version=1)
    ids = []
    for value in (1, 2):
        session = repo.writable_session("main")
        zarr.create_array(session.store, name=f"a{value}", shape=(4,), dtype="i4")[...] = value
        ids.append(session.commit(f"commit {value}"))
    for number in range(TAGS):
        repo.create_tag(f"v{number}", ids[0])
    repo.create_tag("gone", ids[0])
    repo.delete_tag("gone")
    repo.create_branch("dev", ids[0])
    return ids[0], ids[1]


def read_everything(module: Any, storage: Any, ids: tuple[str, str], *, writable: bool) -> None:
    """All that reads single refs."""
    repo = module.Repository.open(storage)
    for session in (
        repo.readonly_session("main"),
        *([repo.writable_session("main")] if writable else []),
        repo.readonly_session(tag="v3"),
        repo.readonly_session(snapshot_id=ids[0]),
    ):
        assert np.array_equal(zarr.open_array(session.store, path="a1", mode="r")[:], [1] * 4)
    assert (repo.lookup_branch("main"), repo.lookup_branch("dev")) == ids[::-1]
    assert repo.lookup_tag("v7") == ids[0]
    for missing in ("gone", "never"):
        with pytest.raises(module.RefNotFoundError, match=missing):
            repo.lookup_tag(missing)
    with pytest.raises(module.RefNotFoundError, match="never"):
        repo.lookup_branch("never")
    assert [info.id for info in repo.ancestry(branch="main")][:2] == list(ids[::-1])
    assert repo.diff(from_tag="v0", to_branch="main").new_arrays == {"/a2"}
    for listing in (repo.list_branches, repo.list_tags):
        with pytest.raises(module.StorageError) as caught:
            listing()
        assert caught.value.kind == "object-store"


@both
def test_from_a_web_server(
    module: Any, tmp_path: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    ids = fill(frazil.local_filesystem_storage(str(tmp_path)))
    read_everything(module, module.http_storage(http_server(tmp_path).url), ids, writable=False)


@both
def test_with_credentials_that_may_not_list(
    module: Any, s3_server: S3Server, fault_proxy: Callable[[str], FaultProxy]
) -> None:
    prefix = s3_server.new_prefix()
    ids = fill(s3_server.storage(frazil, prefix))
    proxy = fault_proxy(s3_server.endpoint)
    proxy.choose = lambda _, path: DenyPermission() if "list-type" in path else None
    storage = s3_server.at(proxy.url).storage(module, prefix)
    read_everything(module, storage, ids, writable=True)
    with pytest.raises(module.StorageError, match="by a fault proxy"):  # the server's own words
        module.Repository.open(storage).list_tags()


def test_a_session_takes_two_requests_however_many_refs_there_are(
    tmp_path: Path, http_server: Callable[[Path], HttpServer]
) -> None:
    fill(frazil.local_filesystem_storage(str(tmp_path)))
    server = http_server(tmp_path)
    repo = frazil.Repository.open(frazil.http_storage(server.url))
    server.asked.clear()
    repo.readonly_session(branch="main")
    assert [one.path.split("/")[1] for one in server.asked] == ["refs", "snapshots"]


def test_a_commit_reads_only_the_branch_it_is_for(tmp_path: Path) -> None:
    """Reading all refs would make a commit as expensive as there are tags."""
    storage = frazil.local_filesystem_storage(str(tmp_path))
    fill(storage)
    session = frazil.Repository.open(storage).writable_session("dev")
    zarr.create_array(session.store, name="new", shape=(4,), dtype="i4")[...] = 5
    for tag in (tmp_path / "refs").glob("tag.*/ref.json"):
        tag.write_text("not to be read")
    snapshot = session.commit("on dev")
    assert frazil.Repository.open(storage).lookup_branch("dev") == snapshot
