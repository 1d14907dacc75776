"""NetCDF4 and other HDF5 files, through h5netcdf."""

from pathlib import Path

import xarray as xr

from frazil.spark.sources.errors import source_errors_as_ours

SUFFIXES = (".nc", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5")


def open_netcdf(path: str, *, group: str | None) -> xr.Dataset:
    """Undecoded and lazy. Dimensions of plain HDF5 datasets are called `phony_dim_0` and so on."""
    with source_errors_as_ours(path):
        Path(path).stat()
        return xr.open_dataset(
            path,
            engine="h5netcdf",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            phony_dims="access",
        )
