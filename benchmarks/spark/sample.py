"""The data of the workloads: hourly fields, smooth in space as those of a weather model are."""

import os
from pathlib import Path

import numpy as np
import xarray as xr
from pyspark.sql import SparkSession

import frazil
from frazil.spark.spark_session import session

QUICK = "FRAZIL_BENCH_QUICK"  # in the environment: little data, to see that all of it runs
CORES = 2
LATITUDES = np.linspace(89.5, -89.5, 180, dtype=np.float32)
LONGITUDES = np.arange(0, 360, 2, dtype=np.float32)
CHUNKS = {"time": 24, "lat": 90, "lon": 90}
ROWS_PER_HOUR = len(LATITUDES) * len(LONGITUDES)
VALUE_BYTES = 4


def amount(usual: int, quick: int) -> int:
    return quick if os.environ.get(QUICK) else usual


def fields(start_hour: int, hours: int) -> xr.Dataset:
    hour = start_hour + np.arange(hours)
    noise = np.random.default_rng(start_hour).normal(0, 0.3, (hours, 180, 180))
    wave = 10 * np.sin(np.deg2rad(LONGITUDES) + hour[:, None, None] / 12)
    t2m = 288 - np.abs(LATITUDES[:, None]) / 2 + wave + noise
    return xr.Dataset(
        {"t2m": (("time", "lat", "lon"), np.round(t2m, 2).astype(np.float32), {"units": "K"})},
        {
            "time": ("time", np.datetime64("2024-01-01", "ns") + hour * np.timedelta64(1, "h")),
            "lat": ("lat", LATITUDES),
            "lon": ("lon", LONGITUDES),
        },
    )


def start_spark() -> SparkSession:
    return session(app_name="benchmark", master=f"local[{CORES}]")


def create_repository(path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
