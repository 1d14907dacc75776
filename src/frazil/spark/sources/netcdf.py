"""NetCDF4 and other HDF5 files: described through h5netcdf, read through h5py."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.dataset import join_characters, normalised, read_slab
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import open_readable
from frazil.spark.sources.source import Source

if TYPE_CHECKING:
    import xarray as xr

_CHARACTER = np.dtype("S1")
SUFFIXES = (".nc", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5")


def open_netcdf(source: Source, *, group: str | None) -> "xr.Dataset":
    """Undecoded and lazy. Dimensions of plain HDF5 datasets are called `phony_dim_0` and so on."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors_as_ours(source.path):
        dataset = xr.open_dataset(
            open_readable(source),  # type: ignore[arg-type]  # any open file will do
            engine="h5netcdf",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            phony_dims="access",
        )
        joined = join_characters(dataset)
        if joined is not dataset:
            joined.set_close(dataset.close)
        return joined


class NetcdfReader:
    """Slabs of one file. Opens in 0.2 ms where `open_netcdf` takes 38 (a file of the demo, CPU)."""

    def __init__(
        self, source: Source, *, group: str | None, otherwise: "Callable[[], xr.Dataset]"
    ) -> None:
        """`otherwise` opens the file for what is not as it is stored."""
        import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

        self._path = source.path
        self._group = group
        self._otherwise = otherwise
        with source_errors_as_ours(source.path):
            self._file = h5py.File(open_readable(source), "r")

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]:
        with source_errors_as_ours(self._path):
            stored = self._file[self._group or "/"][name]
            if stored.dtype != _CHARACTER and _covers(stored.shape, selection):
                return normalised(np.asarray(stored[selection]))
        # Characters have one dimension more than the text they make (and may lack one that they are
        # stacked along: the number of dimensions does not tell), a step of what is stacked has one
        # less, and along an unlimited dimension a variable may be stored shorter than it is.
        with self._otherwise() as dataset:
            return read_slab(dataset, name, selection)

    def close(self) -> None:
        self._file.close()


def _covers(shape: tuple[int, ...], selection: tuple[slice, ...]) -> bool:
    return len(shape) == len(selection) and all(
        part.stop <= length for part, length in zip(selection, shape, strict=True)
    )
