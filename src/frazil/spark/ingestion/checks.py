"""Whether a source fits the reference, said in terms of the file and the variable that does not."""

from collections.abc import Iterable, Mapping
from typing import Never

import numpy as np

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.times import (
    TimeConversion,
    TimeEncoding,
    find_time_encoding,
    plan_conversion,
)
from frazil.spark.sources.description import Attributes, SourceDescription, VariableDescription

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
    """For each variable along the concat dimension whose times the reference counts differently."""
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
    """What does not have the concat dimension is the same in all sources."""
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
    """How each variable counts time. Bounds count like the variable they bound (CF, 7.1)."""
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
        if not _same_attribute(have_attr, want_attr):
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
