"""NetCDF files to ingest, and what they hold."""

from pathlib import Path

import numpy as np
import xarray as xr

FILES = 12
HOURS = 8  # in each
SIDE = 256


def day(number: int) -> xr.Dataset:
    hours = number * HOURS + np.arange(HOURS)
    field = hours[:, None, None] * 1000 + np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    side = np.arange(SIDE)
    return xr.Dataset(
        {"t2m": (("time", "y", "x"), field.astype(np.float64))},
        {"time": ("time", hours), "y": ("y", side), "x": ("x", side)},
    )


def make_files(folder: Path) -> str:
    """4 MiB each, so that there are several tasks."""
    folder.mkdir()
    for number in range(FILES):
        day(number).to_netcdf(folder / f"{number:02d}.nc", engine="h5netcdf")
    return str(folder)


def whole() -> xr.Dataset:
    return xr.concat([day(number) for number in range(FILES)], "time")
