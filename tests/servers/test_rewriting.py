"""Packed, rewritten and purged in a bucket, and read there by the reference."""

from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

CHUNK = 200  # float64: 1600 bytes, so that chunks are objects


@pytest.fixture(params=["s3_server", "azure_server"])
def server(request: pytest.FixtureRequest) -> S3Server | AzureServer:
    found: S3Server | AzureServer = request.getfixturevalue(request.param)
    return found


def arrays(repo: Any, snapshot_id: str) -> dict[str, Any]:
    store = repo.readonly_session(snapshot_id=snapshot_id).store
    members = zarr.open_group(store, mode="r").arrays()
    return {name: np.asarray(array[...]).tolist() for name, array in members}


def test_a_bucket_is_packed_rewritten_and_purged(server: S3Server | AzureServer) -> None:
    prefix = server.new_prefix()
    repo = frazil.Repository.create(server.storage(frazil, prefix))
    with repo.transaction("main", message="arrays") as store:
        group = zarr.group(store)
        for name in ("kept", "gone"):
            array = group.create_array(
                name, shape=(6 * CHUNK,), chunks=(CHUNK,), dtype="f8", compressors=None
            )
            for start in range(0, 6 * CHUNK, CHUNK):
                array[start : start + CHUNK] = start + 1
    first = repo.lookup_branch("main")
    before = arrays(repo, first)
    done = repo.pack(branch="main", small_bytes=5_000, pack_bytes=20_000)
    assert (done.chunks, done.packs) == (12, 1)
    rewritten = repo.rewrite_manifests("again", branch="main")
    purged = repo.purge_path("/gone")
    repo.purge_messages([first], replacement="-")
    theirs = icechunk.Repository.open(server.storage(icechunk, prefix))
    for snapshot in (first, done.snapshot_id, rewritten, purged.commits["main"]):
        assert snapshot is not None
        assert arrays(theirs, snapshot) == {"kept": before["kept"]}
    assert theirs.lookup_snapshot(first).message == "-"
    assert repo.verify().problems == ()
