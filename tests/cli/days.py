"""Days of weather, in files."""

from pathlib import Path

import numpy as np
import xarray as xr


def write_day(folder: Path, day: int) -> Path:
    """24 hours at four latitudes; t2m counts up from 100 * day."""
    data = xr.Dataset(
        {"t2m": (("time", "lat"), np.arange(96, dtype="f4").reshape(24, 4) + 100 * day)},
        coords={
            "time": ("time", np.arange(24) + 24 * day, {"units": "hours since 2024-01-01"}),
            "lat": ("lat", np.array([10.0, 20.0, 30.0, 40.0])),
        },
    )
    path = folder / f"day{day}.nc"
    data.to_netcdf(path, engine="h5netcdf")
    return path
