"""Checks that a source fits the reference; errors name the file and the variable."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Never

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.sources.source_types import Attributes, SourceDescription, VariableDescription

# Raw CF times from one `units since reference` to another, exactly.
#
# Files of one data set often count from different days. Between two encodings of one calendar a
# raw value changes by a rational factor and a shift, both whole numbers of microseconds:
#
#     us  = value * unit_us + shift_us
#     out = us / target_unit_us            refused when the target is integer and this is not whole

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
    """Time encoding of a variable: the CF attributes `units` and `calendar`."""

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
    """True if both calendars count the same days, as the Gregorian ones do after 1582."""
    return one.calendar == other.calendar or (
        {one.calendar, other.calendar} <= _GREGORIAN and min(_year(one), _year(other)) >= 1583
    )


def _year(encoding: TimeEncoding) -> int:
    match = _SINCE.match(encoding.units)
    digits = re.match(r"\d+", match[2]) if match else None
    return int(digits[0]) if digits else 0


type Conversions = Mapping[str, TimeConversion]

# Attributes that change what raw values mean.
_NEUTRAL = {"scale_factor": 1, "add_offset": 0, "_Unsigned": "false"}
PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")


def require_same_structure(
    source: SourceDescription,
    reference: SourceDescription,
    concat_dim: str | None,
    *,
    growing_only: bool,
) -> None:
    """Same variables, dimensions, lengths (but along the concat dimension) and packing.

    What an existing group holds once for all times need not be in later files (`growing_only`).
    """
    if source is reference:
        return
    needed = {
        name
        for name, variable in reference.variables.items()
        if concat_dim in variable.dims or not growing_only
    }
    missing = sorted(needed.difference(source.variables))
    extra = sorted(set(source.variables).difference(reference.variables))
    if missing:
        _refuse(source, f"lacks variable {_names(missing)}, which {reference.path} has")
    if extra:
        _refuse(source, f"has variable {_names(extra)}, which {reference.path} lacks")
    for name, found in source.variables.items():
        wanted = reference.variables[name]
        _require_same_variable(source, found, wanted, concat_dim, reference.path)


def plan_conversions(
    source: SourceDescription, reference: SourceDescription, concat_dim: str | None
) -> Conversions:
    """Plans conversions of variables along the concat dimension whose times the reference encodes
    differently.
    """
    if source is reference:
        return {}
    theirs, ours = time_encodings(source), time_encodings(reference)
    planned = {}
    for name, wanted in ours.items():
        if concat_dim not in reference.variables[name].dims:
            continue
        if name not in theirs:
            _refuse(source, f"variable {name!r} has no time units, {reference.path} has {wanted}")
        try:
            conversion = plan_conversion(theirs[name], wanted)
        except InvalidInputError as error:
            _refuse(source, f"variable {name!r}: {error}")
        if conversion is not None:
            _require_unpacked(source, reference.variables[name], wanted)
            planned[name] = conversion
    return planned


def _require_unpacked(
    source: SourceDescription, variable: VariableDescription, wanted: TimeEncoding
) -> None:
    """Numbers are converted as they are stored, which is wrong for packed ones."""
    packed = [
        key for key, neutral in _NEUTRAL.items() if variable.attrs.get(key, neutral) != neutral
    ]
    if packed:
        _refuse(
            source,
            f"variable {variable.name!r} counts its times otherwise than {wanted}, and times that"
            f" are packed ({_names(packed)}) are not converted",
        )


def check_static(
    source: SourceDescription, reference: SourceDescription, concat_dim: str | None
) -> None:
    """Checks that variables without the concat dimension are the same in all sources."""
    for name, wanted in reference.variables.items():
        if source is reference or concat_dim in wanted.dims or name not in source.variables:
            continue
        found = source.variables[name]
        if not _same_values(found, wanted):
            _refuse(
                source,
                f"variable {name!r}, which does not have the dimension {concat_dim!r}, has other"
                f" values than in {reference.path}",
            )


def time_encodings(source: SourceDescription) -> dict[str, TimeEncoding]:
    """Time encoding of each variable. Bounds have that of the variable they bound (CF, 7.1)."""
    found = {
        name: encoding
        for name, variable in source.variables.items()
        if (encoding := find_time_encoding(variable.attrs)) is not None
    }
    for name, encoding in list(found.items()):
        bounds = source.variables[name].attrs.get("bounds")
        if isinstance(bounds, str) and bounds in source.variables:
            found.setdefault(bounds, encoding)
    return found


def _require_same_variable(
    source: SourceDescription,
    found: VariableDescription,
    wanted: VariableDescription,
    concat_dim: str | None,
    where: str,
) -> None:
    name = wanted.name
    if found.dims != wanted.dims:
        _refuse(source, f"variable {name!r} has dimensions {found.dims}, {wanted.dims} in {where}")
    if found.dtype != wanted.dtype and find_time_encoding(wanted.attrs) is None:
        _refuse(source, f"variable {name!r} has type {found.dtype}, {wanted.dtype} in {where}")
    for dim, have, want in zip(wanted.dims, found.shape, wanted.shape, strict=True):
        if dim != concat_dim and have != want:
            _refuse(source, f"variable {name!r} has length {have} along {dim!r}, {want} in {where}")
    is_time = find_time_encoding(wanted.attrs) is not None
    for key in PACKING if is_time else (*PACKING, "units"):
        have_attr, want_attr = found.attrs.get(key), wanted.attrs.get(key)
        # a NaN is missing with and without it; xarray adds it to every file that it writes
        needless = key == "_FillValue" and want_attr is None and _same_attribute(have_attr, np.nan)
        if not needless and not _same_attribute(have_attr, want_attr):
            _refuse(
                source,
                f"variable {name!r} has {key} {_shown(have_attr)}, {_shown(want_attr)} in {where}",
            )


def _same_values(found: VariableDescription, wanted: VariableDescription) -> bool:
    if found.values is None or wanted.values is None:
        unknown = found.digest is None or wanted.digest is None
        return unknown or found.digest == wanted.digest
    numeric = found.dtype.kind in "fc"
    return np.array_equal(found.values, wanted.values, equal_nan=numeric)


def _same_attribute(one: object, other: object) -> bool:
    if one is None or other is None:
        return one is other
    first, second = np.asarray(one), np.asarray(other)
    numeric = first.dtype.kind in "fc" and second.dtype.kind in "fc"
    return np.array_equal(first, second, equal_nan=numeric)


def _shown(value: object) -> str:
    return "not set" if value is None else repr(np.asarray(value).tolist())


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _refuse(source: SourceDescription, problem: str) -> Never:
    raise InvalidInputError(f"{source.path}: {problem}", kind="bad-metadata")


__all__ = [
    "PACKING",
    "Attributes",
    "Conversions",
    "check_static",
    "plan_conversions",
    "require_same_structure",
    "time_encodings",
]
