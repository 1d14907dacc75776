"""GRIB files, read through cfgrib: the messages of one file must make one grid of fields."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidInputError
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import mark_of, on_disk
from frazil.spark.sources.source import Source

if TYPE_CHECKING:
    import xarray as xr

COORDINATES = ("latitude", "longitude")  # in the dimensions of the grid, all or some
OPTIONS: dict[str, Any] = {"indexpath": "", "errors": "raise"}  # no index is left beside the file


def open_grib(source: Source) -> "xr.Dataset":
    """Lazy; times as numbers."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    require_cfgrib(source)
    with ExitStack() as stack, source_errors_as_ours(source.path):
        mark_of(source)
        dataset = xr.open_dataset(
            stack.enter_context(on_disk(source)),
            engine="cfgrib",
            backend_kwargs=OPTIONS,
            decode_times=False,
            decode_timedelta=False,
            chunks=None,
            cache=False,
        ).reset_coords()
        dataset.set_close(stack.pop_all().close)
        return dataset


def require_cfgrib(source: Source) -> Any:
    """The library."""
    try:
        import cfgrib  # noqa: PLC0415 -- of the extra `grib`, and slow to load
    except (ModuleNotFoundError, ImportError, RuntimeError) as error:
        raise InvalidInputError(
            f"{source.path}: reading GRIB needs cfgrib: pip install 'frazil[grib]'"
        ) from error
    return cfgrib
