"""The picture at the end of the demo: a weather map, and one place before and after the append."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib import dates, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

type Place = tuple[float, float]  # latitude, longitude

KELVIN = 273.15
INK = "#22313f"
OLD, NEW = "#2471a3", "#d35400"

STYLE: Any = {  # the keys are a Literal of 300 names
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": "#7f8c8d",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
}


def draw(
    new: xr.Dataset, old: xr.Dataset, path: Path, *, place: Place, versions: tuple[str, str]
) -> None:
    """`old` and `new` are two versions of one data set; `versions` are their snapshots."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 9.2), dpi=140, layout="constrained")
        rows = figure.subplots(2, 1, height_ratios=[2.35, 1])
        _map(figure, rows[0], new, place)
        _series(rows[1], new, old, place, versions)
        figure.savefig(path, facecolor="white")


def _map(figure: Figure, axes: Axes, data: xr.Dataset, place: Place) -> None:
    hour = data.isel(time=-1)
    lat, lon = data.latitude.values, data.longitude.values
    celsius = hour.t2m.values - KELVIN
    image = axes.pcolormesh(
        lon, lat, celsius, cmap="RdYlBu_r", vmin=-40, vmax=40, shading="nearest", rasterized=True
    )
    axes.contour(lon, lat, data.lsm.values, levels=[0.5], colors=INK, linewidths=0.9)
    lines = axes.contour(
        lon,
        lat,
        hour.msl.values / 100,
        levels=np.arange(940, 1060, 6),
        colors="#34495e",
        linewidths=0.55,
        alpha=0.75,
    )
    axes.clabel(lines, levels=np.asarray(lines.levels)[::2], fontsize=6.5, fmt="%d")
    _arrows(axes, hour, lat, lon)
    axes.plot(place[1], place[0], marker="o", ms=7, mfc="white", mec=INK, mew=1.6)
    bar = figure.colorbar(image, ax=axes, shrink=0.86, pad=0.015, extend="both")
    bar.set_label("2 metre temperature (°C)")
    bar.outline.set_visible(False)
    when = np.datetime_as_string(hour.time.values, unit="m").replace("T", " ")
    axes.set_title(f"{when} UTC on an imaginary planet: temperature, pressure (hPa), wind")
    axes.set_aspect("equal")
    axes.set(xlim=(-180, 180), ylim=(-90, 90), xlabel="longitude", ylabel="latitude")
    axes.xaxis.set_major_locator(ticker.MultipleLocator(60))
    axes.yaxis.set_major_locator(ticker.MultipleLocator(30))
    axes.xaxis.set_major_formatter(lambda x, _: _degrees(x, "E", "W"))
    axes.yaxis.set_major_formatter(lambda y, _: _degrees(y, "N", "S"))


def _arrows(axes: Axes, hour: xr.Dataset, lat: np.ndarray, lon: np.ndarray) -> None:
    step = max(1, len(lat) // 22)
    rows, columns = slice(step // 2, None, step), slice(step // 2, None, step)
    key = axes.quiver(
        lon[columns],
        lat[rows],
        hour.u10.values[rows, columns],
        hour.v10.values[rows, columns],
        color=INK,
        alpha=0.7,
        scale=620,
        width=0.0013,
        headwidth=3.5,
    )
    axes.quiverkey(key, 0.955, 1.035, 20, "20 m/s", labelpos="E", fontproperties={"size": 8})


def _series(
    axes: Axes, new: xr.Dataset, old: xr.Dataset, place: Place, versions: tuple[str, str]
) -> None:
    where = {"latitude": place[0], "longitude": place[1]}
    before, after = ((data.t2m.sel(where, method="nearest") - KELVIN) for data in (old, new))
    start, end = old.time.values[-1], new.time.values[-1]
    axes.axvspan(start, end, color=NEW, alpha=0.09, lw=0)
    axes.plot(after.time, after, color=NEW, lw=2.2, label=f"after the append, {versions[1][:8]}…")
    axes.plot(before.time, before, color=OLD, lw=2.2, label=f"time travel to {versions[0][:8]}…")
    axes.annotate(
        "appended",
        xy=(start + (end - start) / 2, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, -13),
        textcoords="offset points",
        ha="center",
        color=NEW,
        fontsize=9,
    )
    name = f"{_degrees(place[0], 'N', 'S')}, {_degrees(place[1], 'E', 'W')}"
    axes.set_title(f"Temperature at {name} in two versions")
    axes.set_ylabel("°C")
    axes.margins(x=0.01)
    axes.grid(axis="y", color="#d5dbdb", lw=0.8)
    axes.xaxis.set_major_locator(dates.DayLocator())  # type: ignore[no-untyped-call]  # matplotlib
    axes.xaxis.set_major_formatter(dates.DateFormatter("%-d %b"))  # type: ignore[no-untyped-call]  # same
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8.5)


def _degrees(value: float, positive: str, negative: str) -> str:
    side = positive if value > 0 else negative if value < 0 else ""
    return f"{abs(value):g}°{side}"
