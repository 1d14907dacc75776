"""What a job left in a repository."""

from pathlib import Path

import numpy as np
import xarray as xr
import zarr

import frazil
from frazil.engine.files.object_keys import CHUNKS
from frazil.objectstore.local import LocalStore
from tests.spark.cluster import work
from tests.spark.cluster.files import whole


def create(path: Path) -> work.Folder:
    """An empty repository."""
    frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    return work.Folder(str(path))


def history(place: work.Folder | work.Bucket) -> list[str]:
    """Snapshots of main, without the first, which every repository has."""
    return [record.id for record in place.open().ancestry(branch="main")][:-1]


def stored(path: str) -> int:
    """Chunks in the folder of a repository, whether anything refers to them or not."""
    return sum(1 for _ in LocalStore(path).list(CHUNKS))


def assert_written(place: work.Folder | work.Bucket) -> None:
    """`work.rows`, all of them, once, in one commit."""
    group = zarr.open_group(place.open().readonly_session("main").store, path="g", mode="r")
    np.testing.assert_array_equal(np.asarray(group["value"][:]), work.values())  # type: ignore[index]
    assert sorted(group.array_keys()) == ["t", "value", "x", "y"]
    assert len(history(place)) == 1


def assert_ingested(place: work.Folder | work.Bucket) -> None:
    store = place.open().readonly_session("main").store
    with xr.open_zarr(store, group="g", consolidated=False, chunks=None) as found:
        xr.testing.assert_equal(found.load(), whole())
    assert len(history(place)) == 1
