"""What a job left in a repository."""

from pathlib import Path

import numpy as np
import xarray as xr
import zarr

import frazil
from tests.spark.cluster import work
from tests.spark.cluster.files import whole


def create(path: Path) -> work.Folder:
    """An empty repository."""
    frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    return work.Folder(str(path))


def history(place: work.Place) -> list[str]:
    """Snapshots of main, without the first, which every repository has."""
    return [record.id for record in place.open().ancestry(branch="main")][:-1]


def assert_written(place: work.Place) -> None:
    """`work.rows`, all of them, once, in one commit."""
    group = zarr.open_group(place.open().readonly_session("main").store, path="g", mode="r")
    np.testing.assert_array_equal(np.asarray(group["value"][:]), work.values())  # type: ignore[index]
    assert sorted(group.array_keys()) == ["t", "value", "x", "y"]
    assert len(history(place)) == 1


def assert_ingested(place: work.Place) -> None:
    store = place.open().readonly_session("main").store
    with xr.open_zarr(store, group="g", consolidated=False, chunks=None) as found:
        xr.testing.assert_equal(found.load(), whole())
    assert len(history(place)) == 1
