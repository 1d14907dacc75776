"""GRIB files, read through cfgrib: the messages of one file must make one grid of fields."""

from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError
from frazil.spark.sources.errors import source_errors_as_ours

if TYPE_CHECKING:
    import xarray as xr


def open_grib(path: str) -> "xr.Dataset":
    """Lazy; times as numbers. No index is left beside the file."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors_as_ours(path):
        Path(path).stat()
        try:
            return xr.open_dataset(
                path,
                engine="cfgrib",
                backend_kwargs={"indexpath": "", "errors": "raise"},
                decode_times=False,
                decode_timedelta=False,
                chunks=None,
                cache=False,
            ).reset_coords()
        except (ModuleNotFoundError, ImportError) as error:
            raise InvalidInputError(
                f"{path}: reading GRIB needs cfgrib: pip install 'frazil[grib]'"
            ) from error
