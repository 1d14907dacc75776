"""Raw CF times from one `units since reference` to another, exactly.

Files of one data set often count from different days. Between two encodings of one calendar a
raw value changes by a rational factor and a shift, both whole numbers of microseconds:

    us  = value * unit_us + shift_us
    out = us / target_unit_us            refused when the target is integer and this is not whole
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError

UNIT_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
_ALIASES = {
    "us": "microsecond",
    "microsec": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "millisec": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
_SINCE = re.compile(r"^\s*(\w+)\s+since\s+(\S.*?)\s*$", re.IGNORECASE)
_GREGORIAN = frozenset({"standard", "gregorian", "proleptic_gregorian"})


@dataclass(frozen=True, slots=True)
class TimeEncoding:
    """How a variable counts time: CF attributes `units` and `calendar`."""

    units: str
    calendar: str

    def __str__(self) -> str:
        return f"{self.units!r} ({self.calendar})"


@dataclass(frozen=True, slots=True)
class TimeConversion:
    unit_us: int
    shift_us: int
    target_unit_us: int


def find_time_encoding(attrs: Mapping[str, object]) -> TimeEncoding | None:
    """None when the attributes do not say `<unit> since <date>`."""
    units = attrs.get("units")
    if not isinstance(units, str) or _SINCE.match(units) is None:
        return None
    return TimeEncoding(units, str(attrs.get("calendar", "standard")).lower())


def plan_conversion(source: TimeEncoding, target: TimeEncoding) -> TimeConversion | None:
    """None when raw values mean the same in both. InvalidInputError when no exact factor exists."""
    if source.units == target.units and _same_calendar(source, target):
        return None
    if not _same_calendar(source, target):
        raise InvalidInputError(f"times in {source} do not convert to {target}: calendars differ")
    conversion = TimeConversion(
        unit_us=_unit_us(source),
        shift_us=_reference_us(source, target.calendar) - _reference_us(target, target.calendar),
        target_unit_us=_unit_us(target),
    )
    same = conversion.unit_us == conversion.target_unit_us and conversion.shift_us == 0
    return None if same else conversion


def convert(
    values: npt.NDArray[np.generic],
    conversion: TimeConversion,
    *,
    dtype: np.dtype[np.generic],
    fill: object,
) -> npt.NDArray[np.generic]:
    """Converted values as `dtype`; NaN and values equal to `fill` stay what they are.

    Raises InvalidInputError where an integer target cannot hold the result.
    """
    missing = np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        missing |= np.isnan(values.astype(np.float64))
    if fill is not None:
        missing |= np.asarray(values == fill)
    micros = _micros(np.where(missing, values.dtype.type(0), values), conversion)
    if dtype.kind == "f":
        out = (micros / np.float64(conversion.target_unit_us)).astype(dtype)
    else:
        whole, rest = np.divmod(micros, np.int64(conversion.target_unit_us))
        if rest[~missing].any():
            raise InvalidInputError("times are not whole numbers of the target's unit")
        out = whole.astype(dtype)
        if not np.array_equal(out.astype(np.int64)[~missing], whole[~missing]):
            raise InvalidInputError(f"times do not fit into the target's {dtype}")
    return np.where(missing, values.astype(dtype), out) if missing.any() else out


def _micros(values: npt.NDArray[np.generic], conversion: TimeConversion) -> npt.NDArray[np.int64]:
    exact = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    largest = float(np.abs(exact).max(initial=0))
    if max(largest * conversion.unit_us, abs(conversion.shift_us)) > 2**62:
        raise InvalidInputError("times are out of the range of 64-bit microseconds")
    scaled = exact * conversion.unit_us
    if scaled.dtype.kind == "f":
        scaled = np.rint(scaled)
    return scaled.astype(np.int64) + np.int64(conversion.shift_us)


def _unit_us(encoding: TimeEncoding) -> int:
    match = _SINCE.match(encoding.units)
    name = match[1].lower() if match else ""
    if name not in _ALIASES:
        name = name.removesuffix("s")
    name = _ALIASES.get(name, name)
    if name not in UNIT_US:  # months and years have no fixed length
        raise InvalidInputError(f"times in {encoding} have no exact conversion")
    return UNIT_US[name]


def _reference_us(encoding: TimeEncoding, calendar: str) -> int:
    """The reference date of `encoding`, counted in a common epoch."""
    import cftime  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    match = _SINCE.match(encoding.units)
    try:
        return int(
            cftime.date2num(
                cftime.num2date(0, f"microseconds since {match[2] if match else ''}", calendar),
                "microseconds since 2000-01-01 00:00:00",
                calendar,
            )
        )
    except ValueError as error:
        raise InvalidInputError(f"times in {encoding} cannot be read: {error}") from error


def _same_calendar(one: TimeEncoding, other: TimeEncoding) -> bool:
    """Whether both count the same days. The Gregorian calendars do, in dates after 1582."""
    return one.calendar == other.calendar or (
        {one.calendar, other.calendar} <= _GREGORIAN and min(_year(one), _year(other)) >= 1583
    )


def _year(encoding: TimeEncoding) -> int:
    match = _SINCE.match(encoding.units)
    digits = re.match(r"\d+", match[2]) if match else None
    return int(digits[0]) if digits else 0
