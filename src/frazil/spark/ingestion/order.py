"""The order of sources along the concat dimension, and the coordinate that results."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.checks import Conversions
from frazil.spark.ingestion.times import convert
from frazil.spark.sources.description import SourceDescription, VariableDescription


def order_sources(
    descriptions: Sequence[SourceDescription],
    conversions: Sequence[Conversions],
    concat_dim: str | None,
    existing: SourceDescription | None,
    *,
    inside: bool = False,
) -> tuple[int, ...]:
    """Positions of the sources, sorted by their coordinate; as given when there is none to sort by.

    The whole coordinate must be strictly monotonic: InvalidInputError names the sources that
    overlap, repeat a value, or run backwards. They come after what exists, or lie `inside` of it.
    """
    given = tuple(range(len(descriptions)))
    reference = existing or descriptions[0]
    coordinate = reference.variables.get(concat_dim or "")
    if coordinate is None or coordinate.values is None or coordinate.dtype.kind not in "iuf":
        return given
    parts = [
        coordinate_values(description, planned, coordinate)
        for description, planned in zip(descriptions, conversions, strict=True)
    ]
    falling = any(len(part) > 1 and part[0] > part[-1] for part in [*parts, coordinate.values])
    sign = -1 if falling else 1
    for description, part in zip(descriptions, parts, strict=True):
        _require_monotonic(description, part, sign, coordinate.name)
    order = sorted(given, key=lambda i: (len(parts[i]) > 0, sign * _first(parts[i])))
    before = None if inside else existing
    _require_disjoint([(descriptions[i], parts[i]) for i in order], before, coordinate, sign)
    return tuple(order)


def concatenate_coordinate(
    coordinate: VariableDescription,
    ordered: Sequence[SourceDescription],
    conversions: Sequence[Conversions],
    existing: SourceDescription | None,
) -> npt.NDArray[np.generic]:
    """Values of the coordinate in the result, in the encoding of the reference."""
    parts = [
        coordinate_values(description, planned, coordinate)
        for description, planned in zip(ordered, conversions, strict=True)
    ]
    if existing is not None and coordinate.values is not None:
        parts.insert(0, coordinate.values)
    return np.concatenate(parts).astype(coordinate.dtype, copy=False)


def coordinate_values(
    description: SourceDescription, conversions: Conversions, reference: VariableDescription
) -> npt.NDArray[np.generic]:
    """The source's coordinate, in the type and time units of `reference`."""
    values = description.variables[reference.name].values
    if values is None:
        raise InvalidInputError(f"{description.path}: {reference.name!r} is not a coordinate")
    conversion = conversions.get(reference.name)
    if conversion is not None:
        try:
            fill = reference.attrs.get("_FillValue")
            return convert(values, conversion, dtype=reference.dtype, fill=fill)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{description.path}: coordinate {reference.name!r}: {error};"
                f" the target counts in {reference.attrs.get('units')!r}",
                kind="bad-metadata",
            ) from error
    cast = values.astype(reference.dtype, copy=False)
    if not np.array_equal(cast, values, equal_nan=values.dtype.kind == "f"):
        raise InvalidInputError(
            f"{description.path}: coordinate {reference.name!r} of type {values.dtype} does not"
            f" fit into {reference.dtype}",
            kind="bad-metadata",
        )
    return cast


def _first(values: npt.NDArray[np.generic]) -> float:
    return float(values[0]) if len(values) else 0.0


def _require_monotonic(
    source: SourceDescription, values: npt.NDArray[np.generic], sign: int, name: str
) -> None:
    rises = np.greater(values[1:], values[:-1]) if sign > 0 else np.less(values[1:], values[:-1])
    broken = np.flatnonzero(~rises) + 1  # NaN neither rises nor falls
    if len(values) == 1 and np.isnan(float(values[0])):
        broken = np.zeros(1, dtype=np.intp)
    if len(broken):
        at = int(broken[0])
        raise InvalidInputError(
            f"{source.path}: coordinate {name!r} is not strictly monotonic:"
            f" {values[at]} at position {at}",
            kind="bad-metadata",
        )


def _require_disjoint(
    ordered: Sequence[tuple[SourceDescription, npt.NDArray[np.generic]]],
    existing: SourceDescription | None,
    coordinate: VariableDescription,
    sign: int,
) -> None:
    before: tuple[str, npt.NDArray[np.generic]] | None = None
    if existing is not None and coordinate.values is not None and len(coordinate.values):
        before = (existing.path, coordinate.values)
    for source, values in ordered:
        if not len(values):
            continue
        if before is not None and not sign * (float(values[0]) - float(before[1][-1])) > 0:
            raise InvalidInputError(
                f"{source.path}: coordinate {coordinate.name!r} starts at {values[0]}, but"
                f" {before[0]} already reaches {before[1][-1]}"
                f"{_units(coordinate)}: overlapping or duplicate",
                kind="bad-metadata",
            )
        before = (source.path, values)


def _units(coordinate: VariableDescription) -> str:
    units = coordinate.attrs.get("units")
    return f" ({units})" if units else ""
