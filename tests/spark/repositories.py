"""Repositories for the tests of Spark."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frazil.api.repository import Repository
from frazil.api.storage_functions import local_filesystem_storage

TIMES = 48
LATITUDES = np.linspace(90, -90, 19)
LONGITUDES = np.arange(0, 360, 10, dtype=np.float32)
SHAPE = (TIMES, len(LATITUDES), len(LONGITUDES))
CHUNKS = (12, 5, 12)  # 4 x 4 x 3 = 48 chunks


def put(
    group: "zarr.Group", name: str, data: npt.NDArray[Any], dims: str, chunks: Any, **attrs: Any
) -> None:
    array = group.create_array(
        name, data=data, chunks=chunks, dimension_names=dims.split() or None, compressors=None
    )
    array.attrs.update(attrs)


def temperature(shape: tuple[int, ...] = SHAPE) -> npt.NDArray[np.float32]:
    values = np.random.default_rng(7).normal(280, 15, shape)
    return np.round(values, 2).astype(np.float32)


def fill_weather(group: "zarr.Group") -> None:
    """Hourly fields on a globe, two variables on one grid, with gaps."""
    put(group, "time", np.arange(TIMES), "time", TIMES, units="hours since 2024-01-01")
    put(group, "lat", LATITUDES, "lat", len(LATITUDES))
    put(group, "lon", LONGITUDES, "lon", len(LONGITUDES))
    t2m = temperature()
    t2m[0, 0, :3] = np.nan
    put(group, "t2m", t2m, "time lat lon", CHUNKS, units="K")
    packed = (np.arange(np.prod(SHAPE)).reshape(SHAPE) % 1000).astype(np.int16)
    attrs = {"scale_factor": 0.1, "add_offset": 900.0, "_FillValue": 7}
    put(group, "pressure", packed, "time lat lon", CHUNKS, **attrs)


def make_weather(path: Path) -> Repository:
    repository = Repository.create(local_filesystem_storage(path))
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    return repository
