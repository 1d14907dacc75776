"""Zarr stores in a directory or a bucket, format 2 or 3, through xarray."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.source import Source
from frazil.zarrstore.bucket import BucketStore

if TYPE_CHECKING:
    import xarray as xr

MARKERS = ("zarr.json", ".zgroup", ".zmetadata")


def is_zarr(directory: Path) -> bool:
    return any((directory / marker).is_file() for marker in MARKERS)


def open_zarr(source: Source, *, group: str | None) -> "xr.Dataset":
    """Undecoded and lazy."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors_as_ours(source.path):
        store: Any = source.path
        if source.remote is None:
            Path(source.path).stat()
        else:
            store = BucketStore(source.remote.store, source.remote.key)
        # Metadata is read as it is: a stale consolidated copy would win otherwise.
        return xr.open_dataset(
            store,
            engine="zarr",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            consolidated=False,
        )
