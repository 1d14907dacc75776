"""Axes of an array: what each dimension means, and the coordinates along it.

Meaning comes from CF attributes of the coordinate array (`axis`, `standard_name`, `units`,
`positive`), else from usual names. It decides which way up a picture is.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.session.session import Session
from frazil.errors import IcechunkError, InvalidInputError, StorageError
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.spark.table.cf import Time, count_decoding, decode, plan_decoding, with_nan
from frazil.web.explored import Explored
from frazil.web.http import readable_document
from frazil.web.slices import Ints, parse_grid, selection_of, touched_chunks
from frazil.zarrstore.arrays import open_array, read_region

UNREADABLE = "unreadable-slice"
_WHOLE = 4096  # values of a coordinate that are read at once
_MAX_CHUNKS = 256  # of a coordinate that are read for one picture

_NORTH = {"degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"}
_EAST = {"degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"}
_STANDARD_NAMES = {
    "latitude": "latitude",
    "longitude": "longitude",
    "grid_latitude": "y",
    "grid_longitude": "x",
    "projection_y_coordinate": "y",
    "projection_x_coordinate": "x",
    "time": "time",
    "air_pressure": "vertical",
    "altitude": "vertical",
    "depth": "vertical",
    "height": "vertical",
    "model_level_number": "vertical",
}
_AXIS = {"X": "x", "Y": "y", "Z": "vertical", "T": "time"}
_NAMES = {
    "latitude": re.compile(r"(nav_?)?lat(itude)?s?([_-]?\w?\d*)?|ylat|yt?_?lat"),
    "longitude": re.compile(r"(nav_?)?lon(gitude)?s?([_-]?\w?\d*)?|xlon|xt?_?lon"),
    "time": re.compile(r"time\d*|valid_time|date|t"),
    "vertical": re.compile(
        r"depth\w*|z\w?|lev\w*|plev\d*|pressure\w*|pfull|phalf|isobaric\w*|height\w*|altitude"
    ),
    "y": re.compile(r"y[ct]?|northing|rlat|south_north"),
    "x": re.compile(r"x[ct]?|easting|rlon|west_east"),
}
_DOWN_NAMES = re.compile(r"depth\w*|plev\d*|pressure\w*|isobaric\w*|pfull|phalf|lev\w*")
_DOWN_UNITS = {"pa", "hpa", "mbar", "millibar", "millibars", "mb", "dbar", "decibar", "bar"}


@dataclass(frozen=True, slots=True)
class Axis:
    """`kind` is latitude, longitude, x, y, vertical, time or empty."""

    name: str
    kind: str
    label: str  # the long name, or the name
    units: str
    calendar: str  # of a time, if it is another than datetime64 has
    path: NodePath | None  # of the coordinate array
    points_down: bool  # greater values are deeper
    ascends: bool | None  # None: not known

    def is_reversed(self, *, on_rows: bool) -> bool:
        """True if the first position belongs at the bottom, or on the right."""
        if self.ascends is None:
            return False
        if on_rows and self.kind in {"latitude", "y", "vertical"}:
            return self.ascends is not self.points_down
        return not on_rows and self.kind in {"longitude", "x"} and not self.ascends


def read_values(session: Session, path: NodePath, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
    try:
        return np.asarray(read_region(session, path, selection))
    except Exception as error:  # codecs and stores of others raise what they like
        raise StorageError(f"cannot read this slice: {error}", kind=UNREADABLE) from error


def axes_of(explored: Explored, snapshot: SnapshotId, path: NodePath) -> tuple[Axis, ...]:
    """Axes of the array at `path`, one for each dimension."""
    return explored.recall(("axes", snapshot, path), partial(_axes, explored, snapshot, path))


def _axes(explored: Explored, snapshot: SnapshotId, path: NodePath) -> tuple[Axis, ...]:
    array = explored.session(snapshot).node(path).array
    shape = () if array is None else array.shape
    names = (array and array.dimension_names) or (None,) * len(shape)
    return tuple(
        _axis(explored, snapshot, path, name or f"dimension {number}", length)
        for number, (name, length) in enumerate(zip(names, shape, strict=True))
    )


def _axis(explored: Explored, snapshot: SnapshotId, path: NodePath, name: str, length: int) -> Axis:
    session = explored.session(snapshot)
    found = _find_coordinate(session, path, name, length)
    attributes: dict[str, Any] = {}
    if found is not None:
        document = readable_document(session.node(found).user_data) or {}
        attributes = document.get("attributes") or {}
    kind = _kind(name, attributes)
    calendar = _text(attributes, "calendar").lower()
    return Axis(
        name=name,
        kind=kind,
        label=_text(attributes, "long_name") or name,
        units=_text(attributes, "units"),
        calendar=calendar if calendar in _MONTHS else "",
        path=found,
        points_down=kind == "vertical" and _points_down(name, attributes),
        ascends=None if found is None else _ascends(explored, snapshot, found, length),
    )


def _find_coordinate(session: Session, path: NodePath, name: str, length: int) -> NodePath | None:
    """The array of one dimension that has its name, in the group of `path` or above."""
    for group in path.ancestors:
        try:
            node = session.find_node(group.child(name))
        except InvalidInputError:  # a name that no node can have
            return None
        if node is None or node.array is None or node.path == path:
            continue
        if node.array.shape == (length,):
            return node.path
    return None


def _text(attributes: dict[str, Any], key: str) -> str:
    value = attributes.get(key)
    return value[:200] if isinstance(value, str) else ""


def _kind(name: str, attributes: dict[str, Any]) -> str:
    units = _text(attributes, "units").lower().replace(" ", "_")
    if units in _NORTH:
        return "latitude"
    if units in _EAST:
        return "longitude"
    standard = _STANDARD_NAMES.get(_text(attributes, "standard_name"))
    if standard is not None:
        return standard
    if " since " in _text(attributes, "units"):
        return "time"
    by_name = next((kind for kind, known in _NAMES.items() if known.fullmatch(name.lower())), "")
    by_axis = _AXIS.get(_text(attributes, "axis").upper(), "")
    is_geographic = {("y", "latitude"), ("x", "longitude")}
    return by_name if not by_axis or (by_axis, by_name) in is_geographic else by_axis


def _points_down(name: str, attributes: dict[str, Any]) -> bool:
    positive = _text(attributes, "positive").lower()
    if positive in {"up", "down"}:
        return positive == "down"
    if _text(attributes, "standard_name") in {"air_pressure", "depth"}:
        return True
    units = _text(attributes, "units").lower()
    return units in _DOWN_UNITS or (not units and bool(_DOWN_NAMES.fullmatch(name.lower())))


def _ascends(explored: Explored, snapshot: SnapshotId, path: NodePath, length: int) -> bool | None:
    if length < 2:
        return None
    ends = [coordinates(explored, snapshot, path, np.array([at])) for at in (0, length - 1)]
    first, last = (None if each is None else each.numbers[0] for each in ends)
    if first is None or last is None or not np.isfinite([first, last]).all() or first == last:
        return None
    return bool(last > first)


# Values of a coordinate.


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """`numbers` are NaN where there is none; `texts` are those of times and words."""

    numbers: npt.NDArray[np.float64]
    texts: list[str] | None


def coordinates(
    explored: Explored, snapshot: SnapshotId, path: NodePath, positions: Ints
) -> Coordinates | None:
    """Values of a coordinate array at evenly spaced positions; None if that costs too much."""
    node = explored.session(snapshot).node(path)
    if node.array is None or not len(positions):
        return None
    (length,) = node.array.shape
    try:
        if length <= _WHOLE and node.array.num_chunks[0] <= _MAX_CHUNKS:
            read = partial(_read, explored, snapshot, path, np.arange(length))
            whole = explored.recall(("coordinate", snapshot, path), read)
            texts = None if whole.texts is None else [whole.texts[at] for at in positions.tolist()]
            return Coordinates(whole.numbers[positions], texts)
        grid = parse_grid(readable_document(node.user_data) or {}, node.array.shape)
        if len(touched_chunks(grid, (positions,))) > _MAX_CHUNKS:
            return None
        return _read(explored, snapshot, path, positions)
    except IcechunkError:  # a picture without coordinates is better than none
        return None


def _read(explored: Explored, snapshot: SnapshotId, path: NodePath, positions: Ints) -> Coordinates:
    session = explored.session(snapshot)
    stored = read_values(session, path, selection_of((positions,)))
    array = open_array(session, path)
    decoding = plan_decoding(array)
    if isinstance(decoding, Time):
        numbers = with_nan(decode(count_decoding(decoding), stored)).astype(np.float64)
        return Coordinates(numbers, format_times(with_nan(decode(decoding, stored))))
    values = with_nan(decode(decoding, stored))
    match values.dtype.kind:
        case "b" | "i" | "u" | "f":
            numbers = values.astype(np.float64)
            return Coordinates(numbers, _model_times(numbers, dict(array.attrs)))
        case "M":
            numbers = np.where(np.isnat(values), np.nan, values.view(np.int64).astype(np.float64))
            return Coordinates(numbers, format_times(values))
        case _:
            texts = [str(value)[:100] for value in values.tolist()]
            return Coordinates(np.full(len(values), np.nan), texts)


def format_times(values: npt.NDArray[Any]) -> list[str]:
    """Times as texts, as precise as any of them needs."""
    for unit in ("D", "m", "s"):
        whole = values.astype(f"M8[{unit}]")
        if bool(((whole == values) | np.isnat(values)).all()):
            values = whole
            break
    return [text.replace("T", " ") for text in np.datetime_as_string(values).tolist()]


_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTHS = {
    **dict.fromkeys(("noleap", "365_day"), _LENGTHS),
    **dict.fromkeys(("all_leap", "366_day"), (31, 29, *_LENGTHS[2:])),
    "360_day": (30,) * 12,
}
_SECONDS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
_SINCE = re.compile(
    r"\s*(day|hour|minute|second)s?\s+since\s+(\d{1,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.0*)?)?)?\s*(?:Z|UTC)?\s*"
)


def _model_times(numbers: npt.NDArray[np.float64], attributes: dict[str, Any]) -> list[str] | None:
    """Times of calendars that no datetime64 has (noleap, all_leap, 360_day), as texts."""
    months = _MONTHS.get(str(attributes.get("calendar", "")).lower())
    since = _SINCE.fullmatch(_text(attributes, "units"))
    if months is None or since is None or not np.isfinite(numbers).all():
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in since.groups()[1:])
    if not 1 <= month <= 12 or np.abs(numbers).max(initial=0) > 1e12:
        return None
    starts = np.concatenate([[0], np.cumsum(months)])
    epoch_days = year * int(starts[-1]) + int(starts[month - 1]) + day - 1
    epoch = epoch_days * 86400 + hour * 3600 + minute * 60 + second
    seconds = np.rint(numbers * _SECONDS[since[1]]).astype(np.int64) + epoch
    days, seconds = np.divmod(seconds, 86400)
    years, days = np.divmod(days, int(starts[-1]))
    at = np.searchsorted(starts, days, side="right") - 1
    parts = zip(years.tolist(), (at + 1).tolist(), (days - starts[at] + 1).tolist(), strict=True)
    dates = [f"{y:04}-{m:02}-{d:02}" for y, m, d in parts]
    if not seconds.any():
        return dates
    clocks = [f"{s // 3600:02}:{s // 60 % 60:02}" for s in seconds.tolist()]
    return [f"{date} {clock}" for date, clock in zip(dates, clocks, strict=True)]
