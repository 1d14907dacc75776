"""CF conventions: how stored values become the values of a column, in this order.

    stored value                                                column value
    _FillValue or missing_value (attributes)                    NULL
    the array's Zarr fill value, unless 0, False or empty       NULL     (those are Zarr's defaults, and ordinary values)
    NaN, NaT                                                    NULL     (in Spark NaN is greater than all, and spoils avg and max)
    integers with _Unsigned "true" ("false")                    the same bits as unsigned (signed) integers
    scale_factor, add_offset                                    DOUBLE, stored * scale_factor + add_offset
    "hours since 1970-01-01" and such, a calendar of Earth      TIMESTAMP, in UTC; NULL when out of its range
    the same with another calendar (noleap, 360_day, ...),
      or in months or years, or with no reference ("hours")     the number: no TIMESTAMP can hold 30 February

Fill values are compared before anything else, as stored; with _Unsigned they may be given as signed
or as unsigned numbers. Dates of the mixed calendar (`standard`, `gregorian`, the default) before
15 October 1582 are Julian; those of `proleptic_gregorian` never.

This is the only decoder of CF: rows, predicates, selections, reductions, streams, the explorer and
the command line use it. tests/unit/spark/test_cf.py compares it with xarray. Characters are not
joined to text here: an array of single characters has its last dimension, in a table as elsewhere.
"""  # noqa: E501  # a table reads better unwrapped

import base64
import binascii
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError

_NANOSECONDS = frozenset({"nanosecond", "nanoseconds", "ns"})
_UNIT_US = {
    **dict.fromkeys(("microsecond", "microseconds", "microsec", "microsecs", "us"), 1),
    **dict.fromkeys(
        ("millisecond", "milliseconds", "millisec", "millisecs", "msec", "msecs", "ms"), 1_000
    ),
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
    r"(?P<year>[-+]?\d{1,6}(?=[-/])|\d{4})(?:(?P<dash>[-/])(?P<month>\d{1,2})(?:(?P=dash)(?P<day>\d{1,2}))?)?"
    r"(?:(?:T|\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2}))?(?::(?P<second>\d{1,2}(?:\.\d*)?))?)?"
    r"\s*(?:Z|UTC|GMT|(?P<sign>[-+])(?P<zone_h>\d{1,2}):?(?P<zone_m>\d{2})?)?\s*"
)
_DAY_US = 86_400_000_000
_UNIX_EPOCH_JDN = 2_440_588
_GREGORIAN_START = (1582, 10, 15)
_MAX_US = 2.0**62  # the year 148,000; no sum of two such overflows
_SCALARS = (bool, int, float, str, bytes, np.generic)
_NEVER_MISSING = "VcmM"  # kinds with no fill to compare: NaT and NaN are found by themselves


class Described(Protocol):
    """An array by its metadata: an ArrayDescription, or Zarr's own object."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def attrs(self) -> Mapping[str, Any]: ...

    @property
    def fill_value(self) -> Any: ...


# `missing` is in the stored dtype; NaN and NaT need no mention. `view` is the dtype that stored
# integers are read as, where `_Unsigned` says another than their own.


@dataclass(frozen=True, slots=True)
class Plain:
    """The stored values themselves."""

    missing: tuple[object, ...] = ()
    view: str = ""


@dataclass(frozen=True, slots=True)
class Scaled:
    scale: float
    offset: float
    missing: tuple[object, ...] = ()
    view: str = ""


@dataclass(frozen=True, slots=True)
class Time:
    """Numbers, once unpacked, that count `unit_us` from `epoch_us`, both in microseconds.

    With `per_unit` they count that part of `unit_us`: nanoseconds are 1 with 1000.
    """

    unit_us: int
    epoch_us: int
    missing: tuple[object, ...] = ()
    view: str = ""
    scale: float = 1.0
    offset: float = 0.0
    per_unit: int = 1

    @property
    def is_packed(self) -> bool:
        return (self.scale, self.offset) != (1.0, 0.0)


type Decoding = Plain | Scaled | Time


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A column: `values` (n,), and where it is NULL (n,), or None for nowhere."""

    values: npt.NDArray[Any]
    null: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.values)


RAW = Plain()


def plan_decoding(array: Described) -> Decoding:
    """Plans how to decode `array`, by its attributes alone.

    Raises InvalidInputError for a scale_factor or add_offset that is no number.
    """
    view = _plan_view(array)
    missing = tuple(_missing_values(array, view))
    if array.dtype.kind not in "iuf":
        return Plain(missing)
    given = [array.attrs.get(key) for key in ("scale_factor", "add_offset")]
    scale, offset = _number("scale_factor", given[0], 1.0), _number("add_offset", given[1], 0.0)
    time = _plan_time(array.attrs, missing, view, scale, offset)
    if time is not None:
        return time
    return Plain(missing, view) if given == [None, None] else Scaled(scale, offset, missing, view)


def count_decoding(decoding: Decoding) -> Decoding:
    """The same without calendar: a time is the number of its units."""
    if not isinstance(decoding, Time):
        return decoding
    if decoding.is_packed:
        return Scaled(decoding.scale, decoding.offset, decoding.missing, decoding.view)
    return Plain(decoding.missing, decoding.view)


def decoded_dtype(decoding: Decoding, stored: np.dtype[Any]) -> np.dtype[Any]:
    match decoding:
        case Plain():
            return np.dtype(decoding.view) if decoding.view else stored
        case Scaled():
            return np.dtype(np.float64)
        case Time():
            return np.dtype("datetime64[us]")
        case _:
            assert_never(decoding)


def decode(decoding: Decoding, stored: npt.NDArray[Any], *, nan_is_null: bool = True) -> Values:
    """Column values of stored ones (n,)."""
    null = _null_mask(stored, decoding.missing, nan_is_null=nan_is_null)
    numbers = _unpack(decoding, stored)
    return (
        _decode_time(numbers, null, decoding)
        if isinstance(decoding, Time)
        else Values(numbers, null)
    )


def with_nan(column: Values) -> npt.NDArray[Any]:
    """Values with NaN or NaT for what is missing, as xarray has them: then integers are floats."""
    values = column.values
    if column.null is None or values.dtype.kind not in "biufM":
        return values
    if values.dtype.kind == "M":
        return np.where(column.null, np.datetime64("NaT", "us"), values)
    return np.where(column.null, np.nan, values)


def _unpack(decoding: Decoding, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if decoding.view:
        stored = stored.astype(decoding.view)  # between integers of one size: the same bits
    if isinstance(decoding, Plain) or (isinstance(decoding, Time) and not decoding.is_packed):
        return stored
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = stored.astype(np.float64)
        numbers *= decoding.scale
        numbers += decoding.offset
    return numbers


def pack(
    decoding: Scaled | Time, numbers: npt.NDArray[Any], stored: np.dtype[Any]
) -> npt.NDArray[np.float64]:
    """The inverse of unpacking, before the cast to `stored`: rounded if that is of integers."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        packed = (numbers.astype(np.float64) - decoding.offset) / decoding.scale
    return np.rint(packed) if stored.kind in "iu" else packed


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
    null = masks[0]
    for mask in masks[1:]:
        null |= mask
    return null if null.any() else None


def _decode_time(
    numbers: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None, time: Time
) -> Values:
    unit, parts = time.unit_us, time.per_unit
    with np.errstate(invalid="ignore", over="ignore"):
        approximate = numbers.astype(np.float64) * unit / parts + time.epoch_us
        beyond = ~(np.abs(approximate) < _MAX_US)  # NaN is beyond, too
    null = beyond if null is None else null | beyond
    safe = np.where(null, numbers.dtype.type(0), numbers)
    if numbers.dtype.kind == "f":
        since = np.rint(safe.astype(np.float64) * unit / parts).astype(np.int64)
    else:
        since = safe.astype(np.int64) * unit // parts
    return Values((since + time.epoch_us).view("datetime64[us]"), null if null.any() else None)


def _plan_view(array: Described) -> str:
    unsigned = str(array.attrs.get("_Unsigned", "")).lower()
    kind = {("i", "true"): "u", ("u", "false"): "i"}.get((array.dtype.kind, unsigned))
    return "" if kind is None else f"{kind}{array.dtype.itemsize}"


def _missing_values(array: Described, view: str) -> Iterable[object]:
    for key in ("_FillValue", "missing_value"):
        given = array.attrs.get(key)
        for value in given if isinstance(given, list) else [given]:
            yield from _cast_to_stored(value, array.dtype, view)
    # a fill of 0, False or "" is what Zarr writes when no one chose one
    if array.dtype.kind not in _NEVER_MISSING and array.fill_value:
        yield from _cast_to_stored(array.fill_value, array.dtype, view)


def _cast_to_stored(value: object, dtype: np.dtype[Any], view: str) -> Iterable[object]:
    """`value` in the stored dtype; nothing where the dtype cannot hold it, or it is NaN."""
    if not isinstance(value, _SCALARS) or dtype.kind in _NEVER_MISSING:
        return
    if isinstance(value, str) and dtype.kind in "iufb":
        value = _number_in_text(value)
    for own in (dtype, np.dtype(view)) if view else (dtype,):
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                stored = np.asarray(value).astype(own, casting="unsafe")[()]
            equal = own.kind not in "iub" or bool(stored == value)
        except (TypeError, ValueError, OverflowError):
            continue
        if equal and not (own.kind == "f" and np.isnan(stored)):
            yield stored if own is dtype else stored.astype(dtype)
            return


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


def _plan_time(
    attrs: Mapping[str, Any], missing: tuple[object, ...], view: str, scale: float, offset: float
) -> Time | None:
    calendar = str(attrs.get("calendar", "standard")).lower()
    match = _SINCE.fullmatch(str(attrs.get("units", "")))
    if match is None or calendar not in _CALENDARS:
        return None
    unit = match["unit"].lower()
    unit_us = 1 if unit in _NANOSECONDS else _UNIT_US.get(unit)
    if unit_us is None:
        return None
    ymd = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    if not (1 <= ymd[1] <= 12 and 1 <= ymd[2] <= 31):
        return None
    days = _julian_day(ymd, mixed=calendar in _MIXED_CALENDARS) - _UNIX_EPOCH_JDN
    clock_s = 3600 * int(match["hour"] or 0) + 60 * int(match["minute"] or 0)
    zone_s = 3600 * int(match["zone_h"] or 0) + 60 * int(match["zone_m"] or 0)
    within_us = (clock_s - (-zone_s if match["sign"] == "-" else zone_s)) * 1_000_000
    within_us += round(float(match["second"] or 0) * 1_000_000)
    epoch_us = days * _DAY_US + within_us
    parts = 1000 if unit in _NANOSECONDS else 1
    return Time(unit_us, epoch_us, missing, view, scale, offset, parts)


def _julian_day(ymd: tuple[int, int, int], *, mixed: bool) -> int:
    """Julian day number of a date at noon; https://en.wikipedia.org/wiki/Julian_day."""
    year, month, day = ymd
    shift = (14 - month) // 12
    y, m = year + 4800 - shift, month + 12 * shift - 3
    days = day + (153 * m + 2) // 5 + 365 * y + y // 4
    if mixed and ymd < _GREGORIAN_START:
        return days - 32083
    return days - y // 100 + y // 400 - 32045


def _number(key: str, value: object, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        return float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"the attribute {key!r} is {value!r}, expected a number") from None
