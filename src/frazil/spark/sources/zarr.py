"""Zarr stores in a directory, format 2 or 3, through xarray."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.dataset import read_slab
from frazil.spark.sources.errors import source_errors_as_ours

if TYPE_CHECKING:
    import xarray as xr

MARKERS = ("zarr.json", ".zgroup", ".zmetadata")


def is_zarr(directory: Path) -> bool:
    return any((directory / marker).is_file() for marker in MARKERS)


def open_zarr(path: str, *, group: str | None) -> "xr.Dataset":
    """Undecoded and lazy."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors_as_ours(path):
        Path(path).stat()
        # Metadata is read as it is: a stale consolidated copy would win otherwise.
        return xr.open_dataset(
            path,
            engine="zarr",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            consolidated=False,
        )


class ZarrReader:
    """Slabs of one store."""

    def __init__(self, path: str, *, group: str | None) -> None:
        self._path = path
        self._dataset = open_zarr(path, group=group)

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]:
        with source_errors_as_ours(self._path):
            return read_slab(self._dataset, name, selection)

    def close(self) -> None:
        self._dataset.close()
