"""Hourly NetCDF4 files of a made-up atmosphere, one per day, as a weather service sends them."""

import argparse
import datetime as dt
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import h5netcdf
import numpy as np

from demo.weather import Planet

EPOCH = dt.date(2024, 3, 1)
HOURS = 24
RAIN_SCALE = 1e-6
RAIN_FILL = np.int16(-32768)

ATTRS = {
    "t2m": {"standard_name": "air_temperature", "long_name": "2 metre temperature", "units": "K"},
    "msl": {
        "standard_name": "air_pressure_at_mean_sea_level",
        "long_name": "Mean sea level pressure",
        "units": "Pa",
    },
    "u10": {"standard_name": "eastward_wind", "long_name": "10 metre U wind", "units": "m s-1"},
    "v10": {"standard_name": "northward_wind", "long_name": "10 metre V wind", "units": "m s-1"},
    "tp": {
        "standard_name": "lwe_thickness_of_precipitation_amount",
        "long_name": "Total precipitation in the last hour",
        "units": "m",
        "scale_factor": RAIN_SCALE,
        "add_offset": 0.0,
    },
}


@dataclass(frozen=True)
class DayFile:
    """One file to make: `day` counts from EPOCH."""

    path: Path
    day: int
    planet: Planet


def make_days(
    directory: Path, days: Sequence[int], *, lats: int, lons: int, processes: int
) -> list[Path]:
    """The files, in order; existing ones are overwritten."""
    directory.mkdir(parents=True, exist_ok=True)
    planet = Planet(lats, lons)
    wanted = [
        DayFile(directory / f"weather-{EPOCH + dt.timedelta(days=day):%Y%m%d}.nc", day, planet)
        for day in days
    ]
    if processes < 2 or len(wanted) < 2:
        return [write_day(day) for day in wanted]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(write_day, wanted))


def write_day(wanted: DayFile) -> Path:
    """24 hours, times counted from midnight of the file's own day, rain packed into int16."""
    planet = wanted.planet
    date = EPOCH + dt.timedelta(days=wanted.day)
    hours = [planet.hour(wanted.day * HOURS + hour) for hour in range(HOURS)]
    with h5netcdf.File(wanted.path, "w") as file:
        file.attrs["Conventions"] = "CF-1.11"
        file.attrs["title"] = "Hourly analysis of an imaginary atmosphere"
        file.attrs["institution"] = "frazil demo"
        file.dimensions = {"time": HOURS, "latitude": planet.lats, "longitude": planet.lons}
        _coordinates(file, planet, date)
        for name, attrs in ATTRS.items():
            stack = np.stack([hour[name] for hour in hours])
            packed = name == "tp"
            variable = file.create_variable(
                name,
                ("time", "latitude", "longitude"),
                np.int16 if packed else np.float32,
                chunks=(1, planet.lats, planet.lons),
                compression="gzip",
                compression_opts=1,
                shuffle=True,
                fillvalue=RAIN_FILL if packed else None,
            )
            variable.attrs.update(attrs)
            # Instruments do not know the last bits, and they compress badly.
            variable[...] = (
                np.rint(np.minimum(stack / RAIN_SCALE, 32_767)).astype(np.int16)
                if packed
                else _rounded(stack, 12)
            )
    return wanted.path


def _coordinates(file: h5netcdf.File, planet: Planet, date: dt.date) -> None:
    time = file.create_variable("time", ("time",), np.int32, data=np.arange(HOURS))
    time.attrs.update(
        {
            "standard_name": "time",
            "axis": "T",
            "units": f"hours since {date:%Y-%m-%d} 00:00:00",
            "calendar": "standard",
        }
    )
    lat = file.create_variable("latitude", ("latitude",), np.float32, data=planet.lat)
    lat.attrs.update({"standard_name": "latitude", "units": "degrees_north", "axis": "Y"})
    lon = file.create_variable("longitude", ("longitude",), np.float32, data=planet.lon)
    lon.attrs.update({"standard_name": "longitude", "units": "degrees_east", "axis": "X"})
    land = file.create_variable(
        "lsm", ("latitude", "longitude"), np.int8, data=planet.land.astype(np.int8)
    )
    land.attrs.update({"long_name": "Land-sea mask", "flag_values": np.array([0, 1], np.int8)})
    land.attrs["flag_meanings"] = "sea land"


def _rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """`values` with only the first `bits` bits of the mantissa."""
    drop = 23 - bits
    raw = values.astype(np.float32).view(np.uint32)
    half = np.uint32(1 << (drop - 1))
    return ((raw + half) & np.uint32(0xFFFFFFFF ^ ((1 << drop) - 1))).view(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--lats", type=int, default=180)
    parser.add_argument("--lons", type=int, default=360)
    chosen = parser.parse_args()
    make_days(chosen.directory, range(chosen.days), lats=chosen.lats, lons=chosen.lons, processes=2)


if __name__ == "__main__":
    main()
