"""Questions that every engine can answer: in SQL, with xarray, and by `frazil.spark.reduce`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from benchmarks.spark.data import LAT, LON

type Reduction = Mapping[str, object]  # arguments of `reduce`


@dataclass(frozen=True, slots=True)
class Query:
    """`{cells}` in the text stands for the table, `{stations}` for the one of places."""

    title: str
    sql: str
    arrays: Callable[[xr.Dataset], xr.Dataset] | None
    reduction: Reduction | None = None
    source: str = "repo"  # the part of the sample that the arrays are
    rows: bool = True  # False: Parquet has no such variant
    small: bool = False  # worth more repetitions


def _point(cells: xr.Dataset) -> xr.Dataset:
    return cells.sel(time="2024-01-22T06", lat=50.5, lon=8.5, drop=True)


def _box(cells: xr.Dataset) -> xr.Dataset:
    days = slice("2024-01-21", "2024-01-22")
    return cells[["t2m"]].sel(time=days, lat=slice(55, 45), lon=slice(0, 20))


def _anomaly(cells: xr.Dataset) -> xr.Dataset:
    months = cells[["t2m"]].groupby("time.month")
    return abs(months - months.mean("time")).mean().drop_vars("month", errors="ignore")


def stations() -> dict[str, np.ndarray]:
    """A hundred places on the grid."""
    numbers = np.arange(100)
    return {
        "station": numbers,
        "lat": LAT[(numbers * 37) % LAT.size],
        "lon": LON[(numbers * 101) % LON.size],
    }


def _stations(cells: xr.Dataset) -> xr.Dataset:
    places = {name: ("station", values) for name, values in stations().items() if name != "station"}
    found = cells[["t2m"]].sel({name: xr.DataArray(v[1], dims=v[0]) for name, v in places.items()})
    means = found.mean("time").drop_vars(["lat", "lon"])
    return means.assign_coords(station=stations()["station"])


_MEAN = "SELECT avg(t2m) AS t2m FROM {cells}"
_GLOBAL: Reduction = {"variables": "t2m", "over": ["time", "lat", "lon"]}

QUERIES: dict[str, Query] = {
    "point": Query(
        "a point in time and place, all variables",
        "SELECT t2m, u10, tp FROM {cells}"
        " WHERE time = TIMESTAMP '2024-01-22 06:00:00' AND lat = 50.5 AND lon = 8.5",
        _point,
        small=True,
    ),
    "box": Query(
        "a box: two days, 10 by 20 degrees, as rows",
        "SELECT time, lat, lon, t2m FROM {cells}"
        " WHERE time >= TIMESTAMP '2024-01-21 00:00:00' AND time < TIMESTAMP '2024-01-23 00:00:00'"
        " AND lat BETWEEN 45 AND 55 AND lon BETWEEN 0 AND 20",
        _box,
        small=True,
    ),
    "series": Query(
        "the time series at a point",
        "SELECT time, t2m FROM {cells} WHERE lat = 50.5 AND lon = 8.5 ORDER BY time",
        lambda cells: cells[["t2m"]].sel(lat=50.5, lon=8.5, drop=True),
        small=True,
    ),
    "mean": Query("global mean", _MEAN, lambda cells: cells[["t2m"]].mean(), _GLOBAL),
    "latitude": Query(
        "mean by latitude",
        "SELECT lat, avg(t2m) AS t2m FROM {cells} GROUP BY lat",
        lambda cells: cells[["t2m"]].mean(["time", "lon"]),
        {"variables": "t2m", "over": ["time", "lon"]},
    ),
    "climatology": Query(
        "monthly climatology: mean by month and place",
        "SELECT EXTRACT(MONTH FROM time) AS month, lat, lon, avg(t2m) AS t2m FROM {cells}"
        " GROUP BY EXTRACT(MONTH FROM time), lat, lon",
        lambda cells: cells[["t2m"]].groupby("time.month").mean("time"),
        {"variables": "t2m", "groupby": "time.month"},
    ),
    "anomaly": Query(
        "mean absolute anomaly: a join with the climatology",
        "WITH cell AS (SELECT EXTRACT(MONTH FROM time) AS month, lat, lon, t2m FROM {cells}),"
        " usual AS (SELECT month, lat, lon, avg(t2m) AS mean FROM cell GROUP BY month, lat, lon)"
        " SELECT avg(abs(t2m - mean)) AS t2m FROM cell JOIN usual USING (month, lat, lon)",
        _anomaly,
    ),
    "filter": Query(
        "count of values above a limit",
        "SELECT count(*) AS t2m FROM {cells} WHERE t2m > 300",
        lambda cells: (cells[["t2m"]] > 300).sum(),
    ),
    "stations": Query(
        "mean at 100 stations: a join with their table",
        "SELECT station, avg(t2m) AS t2m FROM {cells} JOIN {stations} USING (lat, lon)"
        " GROUP BY station",
        _stations,
    ),
    "packed": Query(
        "global mean, packed as int16",
        "SELECT avg(tp) AS tp FROM {cells}",
        lambda cells: cells[["tp"]].mean(),
        {"variables": "tp", "over": ["time", "lat", "lon"]},
    ),
    "shards": Query(
        "global mean, sharded",
        _MEAN,
        lambda cells: cells[["t2m"]].mean(),
        _GLOBAL,
        source="shards",
        rows=False,
    ),
    "virtual": Query(
        "global mean, virtual NetCDF",
        _MEAN,
        lambda cells: cells[["t2m"]].mean(),
        _GLOBAL,
        source="virtual",
        rows=False,
    ),
}
