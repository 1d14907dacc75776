"""Garbage collected in a bucket: many files, in batches, and listed by parts."""

from datetime import UTC, datetime, timedelta

import icechunk
import numpy as np
import pytest
import zarr

from frazil import Repository, RepositoryConfig, Storage
from frazil.ids import ALPHABET, format_ids
from frazil.maintenance import inventory
from frazil.maintenance.inventory import (
    FileKind,
    Listing,
    StoredInventory,
    iter_listings,
    list_files,
)
from frazil.maintenance.verify import stored_objects as listing
from frazil.objectstore.listing import list_range
from tests.servers.s3 import S3Server

ORPHANS = 1100  # more than one batch, and more than one page of a listing


def test_a_bucket_is_collected_and_both_can_read_what_is_left(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = s3_server.new_prefix()
    store = s3_server.store(prefix)
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(Storage(store), config)
    for number in range(3):
        with repository.transaction("main", message=f"{number}") as zarr_store:
            array = zarr.create_array(
                zarr_store, name="a", shape=(4,), chunks=(4,), dtype="i4", overwrite=True
            )
            array[:] = number + 1
    first = [each.id for each in repository.ancestry(branch="main")][2]
    repository.create_branch("old", first)
    raw = np.random.default_rng(0).integers(0, 256, (ORPHANS, 12), np.uint8)
    keys = [f"chunks/{name}" for name in format_ids(raw)]
    repository.engine.files.pool.map(lambda key: store.put(key, b"orphan"), keys)

    whole = list_files(StoredInventory(store), FileKind.CHUNK)
    parts = [each for letter in ALPHABET for each in store.list(f"chunks/{letter}")]
    by_letters = Listing.concat(FileKind.CHUNK, iter_listings(parts, FileKind.CHUNK))
    assert sorted(by_letters.keys()) == sorted(whole.keys())

    # listed from the middle on, and at the same time: the same files
    monkeypatch.setattr(inventory, "PIECE", 100)
    together = list_files(StoredInventory(store, 4), FileKind.CHUNK)
    assert together.keys() == whole.keys()
    store.put("chunks/odd", b"?")
    counted = [
        info.key for part in listing.listing_ranges(store) for info in list_range(store, part)
    ]
    assert len(listing.listing_ranges(store)) > 100
    assert sorted(counted) == sorted(info.key for info in store.list())
    store.delete(["chunks/odd"])

    later = datetime.now(UTC) + timedelta(hours=1)
    repository.expire_snapshots(later)
    foreseen = repository.garbage_collect(later, dry_run=True)
    summary = repository.garbage_collect(later)
    assert summary == foreseen
    assert summary.chunks_deleted == ORPHANS + 1
    assert summary.snapshots_deleted == 1
    assert len(list_files(StoredInventory(store), FileKind.CHUNK)) == 2
    reference = icechunk.Repository.open(icechunk.s3_storage(**s3_server.arguments(prefix)))
    for branch, value in (("main", 3), ("old", 1)):
        found = reference.readonly_session(branch).store
        assert np.asarray(zarr.open_array(found, path="a", mode="r")[:]).tolist() == [value] * 4
