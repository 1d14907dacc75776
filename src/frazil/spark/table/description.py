"""A group of arrays described as a table, before a chunk is read.

A table has one row per element of a grid: a column per dimension (its coordinate array, or the
position where there is none) and a column per variable. So the variables of one table must have
the same dimensions; `choose_grid` picks them or says which do not fit together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from frazil.errors import InvalidInputError, NodeNotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDescription:
    """One Zarr array. `chunks` is the grid of what is stored: of shards, where there are any."""

    name: str
    path: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attrs: Mapping[str, object] = field(default_factory=dict)
    fill_value: object = None

    def __post_init__(self) -> None:
        if not len(self.dims) == len(self.shape) == len(self.chunks):
            raise InvalidInputError(
                f"array {self.path!r} has shape {self.shape}, chunks {self.chunks}"
                f" and dimensions {self.dims}"
            )
        if len(set(self.dims)) != len(self.dims):
            raise InvalidInputError(
                f"array {self.path!r} names a dimension twice, {self.dims}: it is no table"
            )

    @property
    def chunk_bytes(self) -> int:
        """Size of one chunk once decoded."""
        return prod(self.chunks) * self.dtype.itemsize

    @property
    def is_coordinate(self) -> bool:
        return self.dims == (self.name,)

    def chunk_of(self, dim: str) -> int:
        return max(1, self.chunks[self.dims.index(dim)])


@dataclass(frozen=True, slots=True)
class Dimension:
    name: str
    size: int
    coordinate: ArrayDescription | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The arrays directly in a group, by name."""

    path: str
    arrays: Mapping[str, ArrayDescription]
    groups: tuple[str, ...] = ()  # names of subgroups, for error messages


@dataclass(frozen=True, slots=True)
class Grid:
    """Arrays that make one table. The order of `dimensions` is that of the first variable."""

    group: str
    dimensions: tuple[Dimension, ...]
    variables: tuple[ArrayDescription, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(d.name for d in self.dimensions), *(v.name for v in self.variables))

    def dimension(self, name: str) -> Dimension | None:
        return next((d for d in self.dimensions if d.name == name), None)


def choose_grid(
    group: GroupDescription,
    variables: Sequence[str] | None,
    dims: Sequence[str] | None = None,
) -> Grid:
    """The table of the named variables, or of all that are not coordinates.

    Scalars, CF bounds and grid mappings are left out unless named: they describe the
    other variables rather than being values on their grid. Of those that are left, `dims` keeps
    the ones with exactly these dimensions.
    """
    if variables is not None:
        named = _select_named(group, variables)
    else:
        named = _select_default(group) if dims is None else _values(group)
    named = _of_dimensions(group, named, dims)
    _require_equal_dimensions(group, named)
    lead = named[0]
    dimensions = tuple(
        _dimension(group, name, size) for name, size in zip(lead.dims, lead.shape, strict=True)
    )
    kept = tuple(v for v in named if not v.is_coordinate)
    grid = Grid(group.path, dimensions, kept)
    _require_distinct_columns(grid)
    return grid


def choose_arrays(
    group: GroupDescription,
    variables: Sequence[str] | None,
    dims: Sequence[str] | None = None,
) -> list[ArrayDescription]:
    """The named arrays, or all, coordinates too; of any dimensions, unless `dims` is given."""
    if variables is not None:
        _require_arrays(group, variables)
    elif not group.arrays:
        raise _no_arrays(group)
    names = list(group.arrays) if variables is None else list(dict.fromkeys(variables))
    return _of_dimensions(group, [group.arrays[name] for name in names], dims)


def _of_dimensions(
    group: GroupDescription, arrays: list[ArrayDescription], dims: Sequence[str] | None
) -> list[ArrayDescription]:
    if dims is None:
        return arrays
    fitting = [array for array in arrays if sorted(array.dims) == sorted(dims)]
    if fitting:
        return fitting
    raise InvalidInputError(
        f"no variable of group {group.path!r} has the dimensions ({', '.join(dims)});"
        f" there are: {_format_arrays(arrays)}"
    )


def _select_named(group: GroupDescription, variables: Sequence[str]) -> list[ArrayDescription]:
    _require_arrays(group, variables)
    chosen = [group.arrays[name] for name in dict.fromkeys(variables)]
    values = [a for a in chosen if not a.is_coordinate]
    used = {dim for a in values for dim in a.dims}
    # a coordinate of the chosen variables is a column anyway
    return values + [a for a in chosen if a.is_coordinate and a.name not in used]


def _require_arrays(group: GroupDescription, variables: Sequence[str]) -> None:
    if not variables:
        raise InvalidInputError("the option `variables` names no variable")
    missing = [name for name in variables if name not in group.arrays]
    if missing:
        raise NodeNotFoundError(
            f"no array {', '.join(map(repr, missing))} in group {group.path!r};"
            f" its arrays: {', '.join(sorted(group.arrays)) or 'none'}"
        )


def _no_arrays(group: GroupDescription) -> InvalidInputError:
    subgroups = f"; its subgroups: {', '.join(group.groups)}" if group.groups else ""
    return InvalidInputError(f"group {group.path!r} has no arrays{subgroups}")


def _values(group: GroupDescription) -> list[ArrayDescription]:
    """All that are not coordinates, if there is such."""
    arrays = list(group.arrays.values())
    if not arrays:
        raise _no_arrays(group)
    return [a for a in arrays if not a.is_coordinate] or arrays


def _select_default(group: GroupDescription) -> list[ArrayDescription]:
    arrays = list(group.arrays.values())
    values = _values(group)
    described = {
        str(a.attrs[key])
        for a in arrays
        for key in ("bounds", "climatology", "grid_mapping")
        if key in a.attrs
    }
    proper = [a for a in values if a.shape and a.name not in described]
    return proper or values


def _require_equal_dimensions(group: GroupDescription, arrays: Sequence[ArrayDescription]) -> None:
    if len(_by_dimensions(arrays)) > 1:
        raise InvalidInputError(
            f"the variables of group {group.path!r} do not share their dimensions:"
            f" {_format_arrays(arrays)}; choose a set with the option `dims`, or name those that"
            " belong together with the option `variables`"
        )


def _by_dimensions(arrays: Sequence[ArrayDescription]) -> list[list[ArrayDescription]]:
    kinds: dict[frozenset[tuple[str, int]], list[ArrayDescription]] = {}
    for array in arrays:
        kinds.setdefault(frozenset(zip(array.dims, array.shape, strict=True)), []).append(array)
    return list(kinds.values())


def _format_arrays(arrays: Sequence[ArrayDescription]) -> str:
    return "; ".join(
        f"{', '.join(a.name for a in members)} ({_shape_text(members[0])})"
        for members in _by_dimensions(arrays)
    )


def _shape_text(array: ArrayDescription) -> str:
    return ", ".join(f"{d}: {n}" for d, n in zip(array.dims, array.shape, strict=True)) or "scalar"


def _dimension(group: GroupDescription, name: str, size: int) -> Dimension:
    found = group.arrays.get(name)
    if found is None or not found.is_coordinate:
        return Dimension(name, size, None)
    if found.shape != (size,):
        raise InvalidInputError(
            f"coordinate {found.path!r} has {found.shape[0]} values, its dimension has {size}"
        )
    return Dimension(name, size, found)


def _require_distinct_columns(grid: Grid) -> None:
    # Spark's names are case insensitive
    folded = [name.casefold() for name in grid.columns]
    doubled = sorted({n for n in grid.columns if folded.count(n.casefold()) > 1})
    if doubled:
        raise InvalidInputError(
            f"columns {', '.join(doubled)} of group {grid.group!r} have the same name to Spark;"
            " choose others with the option `variables`"
        )
