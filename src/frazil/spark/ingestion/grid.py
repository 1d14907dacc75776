"""Sources that make a grid: joined along all dimensions but the first, which the layout is along.

Sources with equal coordinates along all other dimensions are joined along the last one; so the
grid loses a dimension, until one is left. A row in which a source is missing is shorter than the
others, or has other coordinates, and does not fit to them: the layout says so.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.source_checks import (
    Conversions,
    check_static,
    convert,
    require_same_structure,
)
from frazil.spark.sources.source_reader import AnySource, ConcatenatedSource
from frazil.spark.sources.source_types import SourceDescription, StoredAs, VariableDescription

# The order of sources along the concat dimension, and the coordinate that results.


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


type Described = tuple[SourceDescription, AnySource]


def join_grid(sources: Sequence[Described], dims: tuple[str, ...]) -> list[Described]:
    """Returns what remains to concatenate along the first of `dims`."""
    joined = list(sources)
    for number in range(len(dims) - 1, 0, -1):
        joined = _join_along(joined, dims[number], dims[:number])
    return joined


def differing_dims(descriptions: Sequence[SourceDescription]) -> tuple[str, ...]:
    """Dimensions whose coordinates are not the same in all sources, in the order of the first."""
    first = descriptions[0]
    found = tuple(
        dim
        for dim in first.sizes
        if any(_key(one, (dim,)) != _key(first, (dim,)) for one in descriptions)
    )
    if not found:
        raise InvalidInputError(
            "the sources have the same coordinates along all dimensions: there is nothing to"
            " combine them by"
        )
    return found


def _join_along(sources: Sequence[Described], dim: str, others: tuple[str, ...]) -> list[Described]:
    rows: dict[tuple[bytes | None, ...], list[Described]] = {}
    for one in sources:
        rows.setdefault(_key(one[0], others), []).append(one)
    return [_join(row, dim) for row in rows.values()]


def _join(row: Sequence[Described], dim: str) -> Described:
    if len(row) == 1:
        return row[0]
    first = row[0][0]
    coordinate = first.variables.get(dim)
    if coordinate is None or coordinate.values is None:
        raise InvalidInputError(
            f"{first.path}: no coordinate {dim!r} to place it by beside {row[1][0].path}",
            kind="bad-metadata",
        )
    for description, _ in row:
        require_same_structure(description, first, dim, growing_only=False)
        check_static(description, first, dim)
    descriptions = [description for description, _ in row]
    order = order_sources(descriptions, [{} for _ in row], dim, None)
    ordered = [row[position] for position in order]
    starts = np.cumsum([0, *(description.sizes[dim] for description, _ in ordered)])
    source = ConcatenatedSource(dim, tuple(starts.tolist()), tuple(part for _, part in ordered))
    parts = [description for description, _ in ordered]
    variables = {
        name: _joined_variable([part.variables[name] for part in parts], dim, starts)
        for name in first.variables
    }
    return replace(parts[0], variables=variables), source


def _joined_variable(
    parts: Sequence[VariableDescription], dim: str, starts: npt.NDArray[np.int64]
) -> VariableDescription:
    first = parts[0]
    if dim not in first.dims:
        return first
    axis = first.dims.index(dim)
    shape = (*first.shape[:axis], int(starts[-1]), *first.shape[axis + 1 :])
    values = [part.values for part in parts if part.values is not None]
    marks = [part.digest for part in parts if part.digest is not None]
    return replace(
        first,
        shape=shape,
        values=np.concatenate(values) if values else None,
        digest=hashlib.sha256(b"".join(marks)).digest() if marks else None,
        storage=_joined_storage(parts, axis, starts),
    )


def _joined_storage(
    parts: Sequence[VariableDescription], axis: int, starts: npt.NDArray[np.int64]
) -> StoredAs | str | None:
    found = [part.storage for part in parts]
    first = found[0]
    if not isinstance(first, StoredAs):
        return first
    if first.is_row:  # and lies in several pieces now
        first = replace(first, is_row=False)
        found = [replace(one, is_row=False) if isinstance(one, StoredAs) else one for one in found]
    if not all(isinstance(one, StoredAs) and first.fits(one) for one in found):
        return "sources that are not stored alike"
    if (starts[:-1] % first.chunks[axis]).any():
        return f"sources that begin inside a chunk of {first.chunks[axis]}"
    return first


def _key(description: SourceDescription, dims: tuple[str, ...]) -> tuple[bytes | None, ...]:
    """Equal for sources with equal coordinates along `dims`."""
    found = [description.variables.get(dim) for dim in dims]
    return tuple(
        None if one is None or one.values is None else repr(one.values.tolist()).encode()
        for one in found
    )


# Position of sources that replace a part of a group.


def find_start(
    existing: SourceDescription,
    ordered: Sequence[SourceDescription],
    conversions: Sequence[Conversions],
    dim: str,
) -> int:
    """Finds the consecutive coordinates of the sources in those of the group; returns their start.

    Raises InvalidInputError if they are not.
    """
    coordinate = existing.variables.get(dim)
    if coordinate is None or coordinate.values is None:
        raise InvalidInputError(
            f"{existing.path} has no coordinate {dim!r} that tells where the sources go"
        )
    wanted = concatenate_coordinate(coordinate, ordered, conversions, None)
    if not len(wanted):
        raise InvalidInputError(f"{ordered[0].path}: nothing along {dim!r}", kind="bad-metadata")
    start = int(np.argmax(coordinate.values == wanted[0]))
    have = coordinate.values[start : start + len(wanted)]
    differing = np.flatnonzero(have != wanted[: len(have)])
    at = int(differing[0]) if len(differing) else len(have)
    if at < len(wanted):
        raise InvalidInputError(
            f"{ordered[0].path}: coordinate {dim!r} has {wanted[at]}, and {existing.path} does not,"
            " or not there: only what it has, in its order, can be replaced; mode='append' adds"
            " to it",
            kind="bad-metadata",
        )
    return start
