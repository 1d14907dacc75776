"""CF conventions: how stored values become the values of a column.

    stored value                                                column value
    _FillValue or missing_value (attributes)                    NULL
    the array's Zarr fill value, unless 0, False or empty       NULL     (those are Zarr's defaults, and ordinary values)
    NaN, NaT                                                    NULL     (in Spark NaN is greater than all, and spoils avg and max)
    scale_factor, add_offset                                    DOUBLE, stored * scale_factor + add_offset
    "hours since 1970-01-01" and such, a calendar of Earth      TIMESTAMP, in UTC; NULL when out of its range
    the same with another calendar (noleap, 360_day, ...),
      or in months or years, or with no reference ("hours")     the stored number: no TIMESTAMP can hold 30 February

Fill values are compared before scaling, as stored. Dates of the mixed calendar (`standard`,
`gregorian`, the default) before 15 October 1582 are Julian; those of `proleptic_gregorian` never.
"""  # noqa: E501  # a table reads better unwrapped

import base64
import binascii
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.spark.description import ArrayDescription

_UNIT_US = {
    **dict.fromkeys(("microsecond", "microseconds", "us"), 1),
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs", "ms"), 1_000),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 1_000_000),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), 60_000_000),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), 3_600_000_000),
    **dict.fromkeys(("day", "days", "d"), 86_400_000_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000_000),
}
_MIXED_CALENDARS = {"standard", "gregorian"}
_CALENDARS = _MIXED_CALENDARS | {"proleptic_gregorian"}
_SINCE = re.compile(
    r"\s*(?P<unit>[a-zA-Z]+)\s+since\s+"
    r"(?P<year>[-+]?\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:(?:T|\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2}))?(?::(?P<second>\d{1,2}(?:\.\d*)?))?)?"
    r"\s*(?:Z|UTC|GMT|(?P<sign>[-+])(?P<zone_h>\d{1,2}):?(?P<zone_m>\d{2})?)?\s*"
)
_DAY_US = 86_400_000_000
_UNIX_EPOCH_JDN = 2_440_588
_GREGORIAN_START = (1582, 10, 15)
_MAX_US = 2.0**62  # the year 148,000; no sum of two such overflows
_NEVER_MISSING = "VcmM"  # kinds with no fill to compare: NaT and NaN are found by themselves


@dataclass(frozen=True, slots=True)
class Plain:
    """The stored values themselves."""

    missing: tuple[object, ...] = ()  # in the stored dtype; NaN and NaT need no mention


@dataclass(frozen=True, slots=True)
class Scaled:
    scale: float
    offset: float
    missing: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Time:
    """Numbers that count `unit_us` from `epoch_us`, both in microseconds."""

    unit_us: int
    epoch_us: int
    missing: tuple[object, ...] = ()


type Decoding = Plain | Scaled | Time


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A column: `values` (n,), and where it is NULL (n,), or None for nowhere."""

    values: npt.NDArray[Any]
    null: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.values)


RAW = Plain()


def plan_decoding(array: ArrayDescription) -> Decoding:
    """How to read `array`, by its attributes alone."""
    missing = tuple(_missing_values(array))
    if array.dtype.kind not in "iuf":
        return Plain(missing)
    time = _plan_time(array, missing)
    if time is not None:
        return time
    scale, offset = array.attrs.get("scale_factor"), array.attrs.get("add_offset")
    if scale is None and offset is None:
        return Plain(missing)
    return Scaled(_number(scale, 1.0), _number(offset, 0.0), missing)


def decoded_dtype(decoding: Decoding, stored: np.dtype[Any]) -> np.dtype[Any]:
    match decoding:
        case Plain():
            return stored
        case Scaled():
            return np.dtype(np.float64)
        case Time():
            return np.dtype("datetime64[us]")
        case _:
            assert_never(decoding)


def decode(decoding: Decoding, stored: npt.NDArray[Any], *, nan_is_null: bool = True) -> Values:
    """Column values of stored ones (n,)."""
    null = _null_mask(stored, decoding.missing, nan_is_null=nan_is_null)
    match decoding:
        case Plain():
            return Values(stored, null)
        case Scaled(scale, offset):
            return Values(stored.astype(np.float64) * scale + offset, null)
        case Time(unit_us, epoch_us):
            return _decode_time(stored, null, unit_us, epoch_us)
        case _:
            assert_never(decoding)


def _null_mask(
    stored: npt.NDArray[Any], missing: Iterable[object], *, nan_is_null: bool
) -> npt.NDArray[np.bool_] | None:
    masks = [np.asarray(stored == value, dtype=np.bool_) for value in missing]
    if nan_is_null and stored.dtype.kind in "fc":
        masks.append(np.isnan(stored))
    if stored.dtype.kind in "mM":
        masks.append(np.isnat(stored))
    if not masks:
        return None
    null = np.logical_or.reduce(masks)
    return null if null.any() else None


def _decode_time(
    stored: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None, unit_us: int, epoch_us: int
) -> Values:
    with np.errstate(invalid="ignore", over="ignore"):
        approximate = stored.astype(np.float64) * unit_us + epoch_us
        beyond = ~(np.abs(approximate) < _MAX_US)  # NaN is beyond, too
    null = beyond if null is None else null | beyond
    safe = np.where(null, stored.dtype.type(0), stored)
    if stored.dtype.kind == "f":
        since = np.rint(safe.astype(np.float64) * unit_us).astype(np.int64)
    else:
        since = safe.astype(np.int64) * unit_us
    return Values((since + epoch_us).view("datetime64[us]"), null if null.any() else None)


def _missing_values(array: ArrayDescription) -> Iterable[object]:
    for key in ("_FillValue", "missing_value"):
        given = array.attrs.get(key)
        for value in given if isinstance(given, list) else [given]:
            yield from _as_stored(value, array.dtype)
    # a fill of 0, False or "" is what Zarr writes when nobody chose one
    if array.dtype.kind not in _NEVER_MISSING and array.fill_value:
        yield from _as_stored(array.fill_value, array.dtype)


def _as_stored(value: object, dtype: np.dtype[Any]) -> Iterable[object]:
    """`value` in the stored dtype; nothing where the dtype cannot hold it, or it is NaN."""
    if value is None or dtype.kind in _NEVER_MISSING:
        return
    if isinstance(value, str) and dtype.kind in "iufb":
        value = _number_in_text(value)
    try:
        stored = np.asarray(value).astype(dtype, casting="unsafe")[()]
        equal = dtype.kind not in "iub" or bool(stored == value)
    except (TypeError, ValueError, OverflowError):
        return
    if equal and not (dtype.kind == "f" and np.isnan(stored)):
        yield stored


def _number_in_text(text: str) -> float:
    """A float as xarray stores it in JSON: "NaN", "1e20", or its eight bytes in base 64."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(struct.unpack("<d", base64.b64decode(text, validate=True))[0])
    except (binascii.Error, struct.error):
        return float("nan")


def _plan_time(array: ArrayDescription, missing: tuple[object, ...]) -> Time | None:
    calendar = str(array.attrs.get("calendar", "standard")).lower()
    match = _SINCE.fullmatch(str(array.attrs.get("units", "")))
    if match is None or calendar not in _CALENDARS:
        return None
    unit_us = _UNIT_US.get(match["unit"].lower())
    if unit_us is None:
        return None
    ymd = int(match["year"]), int(match["month"]), int(match["day"])
    if not (1 <= ymd[1] <= 12 and 1 <= ymd[2] <= 31):
        return None
    days = _julian_day(ymd, mixed=calendar in _MIXED_CALENDARS) - _UNIX_EPOCH_JDN
    clock_s = 3600 * int(match["hour"] or 0) + 60 * int(match["minute"] or 0)
    zone_s = 3600 * int(match["zone_h"] or 0) + 60 * int(match["zone_m"] or 0)
    within_us = (clock_s - (-zone_s if match["sign"] == "-" else zone_s)) * 1_000_000
    within_us += round(float(match["second"] or 0) * 1_000_000)
    return Time(unit_us, days * _DAY_US + within_us, missing)


def _julian_day(ymd: tuple[int, int, int], *, mixed: bool) -> int:
    """Julian day number of a date at noon; https://en.wikipedia.org/wiki/Julian_day."""
    year, month, day = ymd
    shift = (14 - month) // 12
    y, m = year + 4800 - shift, month + 12 * shift - 3
    days = day + (153 * m + 2) // 5 + 365 * y + y // 4
    if mixed and ymd < _GREGORIAN_START:
        return days - 32083
    return days - y // 100 + y // 400 - 32045


def _number(value: object, default: float) -> float:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float | str) else default
