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
from frazil.spark.ingestion.checks import check_static, require_same_structure
from frazil.spark.ingestion.order import order_sources
from frazil.spark.sources.description import SourceDescription, VariableDescription
from frazil.spark.sources.joined import AnySource, JoinedSource
from frazil.spark.sources.stored import StoredAs

type Described = tuple[SourceDescription, AnySource]


def join_grid(sources: Sequence[Described], dims: tuple[str, ...]) -> list[Described]:
    """What is left to concatenate along the first of `dims`."""
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
    return [_joined(row, dim) for row in rows.values()]


def _joined(row: Sequence[Described], dim: str) -> Described:
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
    source = JoinedSource(dim, tuple(starts.tolist()), tuple(part for _, part in ordered))
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
