"""Layout of the group that many sources become: its arrays, their lengths, the part of each source.

Pure: descriptions in, a Layout out, or an InvalidInputError that names the source and variable
that do not fit. The first source (or, when appending, the existing group) is the reference: the
others must have its variables, dimensions, types and packing; their times are converted to its
units; other attributes are the reference's.

        existing group          source 0         source 1      source 2
    |---------------------|----------------|----------------|----------|   concat dimension
    0                 starts[0]        starts[1]        starts[2]   starts[3]
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.grid import concatenate_coordinate, find_start, order_sources
from frazil.spark.ingestion.source_checks import (
    Conversions,
    TimeConversion,
    check_static,
    plan_conversions,
    require_same_structure,
)
from frazil.spark.sources.source_types import (
    Attributes,
    SourceDescription,
    StoredAs,
    VariableDescription,
)
from frazil.spark.table.documents import DEFAULT_CHUNK_BYTES, TEXT_BYTES, coordinate_chunks
from frazil.zarrstore.grib import NAME as GRIB

# The chunk shape of each array that an ingest creates.

WHOLE = -1  # as in xarray and dask: one chunk for the whole dimension


def require_known_dims(chunks: Mapping[str, int], reference: SourceDescription) -> None:
    for dim, size in chunks.items():
        if dim not in reference.sizes:
            raise InvalidInputError(
                f"chunks name the dimension {dim!r};"
                f" there is {', '.join(sorted(reference.sizes)) or 'none'}"
            )
        if size != WHOLE and size < 1:
            raise InvalidInputError(f"chunks of {size} along {dim!r}: at least 1, or -1 for whole")


def target_chunks(
    variable: VariableDescription,
    shape: tuple[int, ...],
    chunks: Mapping[str, int],
    concat_dim: str | None,
) -> tuple[int, ...]:
    """Returns the given `chunks`; else whole dimensions, with as many steps of the concat dimension
    as
    make a chunk of about DEFAULT_CHUNK_BYTES.
    """
    wanted = {dim: chunks.get(dim, WHOLE) for dim, size in zip(variable.dims, shape, strict=True)}
    sizes = dict(zip(variable.dims, shape, strict=True))
    resolved = {dim: sizes[dim] if n == WHOLE else n for dim, n in wanted.items()}
    if concat_dim in sizes and concat_dim not in chunks:
        item = TEXT_BYTES if variable.dtype.hasobject else variable.dtype.itemsize
        others = math.prod(n for dim, n in resolved.items() if dim != concat_dim)
        resolved[concat_dim] = min(
            sizes[concat_dim], max(1, DEFAULT_CHUNK_BYTES // max(1, item * others))
        )
    # Only the concat dimension can grow: elsewhere a chunk larger than the array is a waste.
    return tuple(
        max(1, n if dim == concat_dim else min(n, sizes[dim])) for dim, n in resolved.items()
    )


# Virtual arrays: compatible chunks of the sources, and the chunks of the array. No I/O.

COPIED_BYTES = 1 << 20  # an array of no more is copied if it cannot be virtual


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """An array of the result, before it is known how it is stored."""

    variable: VariableDescription  # of the reference
    shape: tuple[int, ...]
    starts: npt.NDArray[np.int64]  # of each source, along the concat dimension
    axis: int | None  # of that dimension
    chunks: Mapping[str, int]  # asked for
    exists: bool  # and keeps its chunks

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.variable.dtype.itemsize


def choose_storage(wanted: Wanted, ordered: Sequence[SourceDescription]) -> StoredAs | None:
    """Returns the storage that the array has in all sources; None if its values are to be copied.

    Texts and scalars are copied, and small arrays where they cannot be referred to. For others
    that raises InvalidInputError, which names the source.
    """
    if wanted.variable.dtype.hasobject or not wanted.shape:
        return None
    try:
        contributing = ordered if wanted.axis is not None else ordered[:1]
        stored = _cut(_common(wanted.variable, contributing), wanted)
        _require_as_there(wanted, stored, contributing)
        _require_aligned(wanted, stored, contributing)
    except InvalidInputError:
        if wanted.size_bytes > COPIED_BYTES:
            raise
        return None
    return stored


def require_encodable(variable: VariableDescription) -> None:
    """Raises InvalidInputError for an array whose chunks only others can make."""
    stored = variable.storage
    if isinstance(stored, StoredAs) and GRIB in {
        each["name"] for each in json.loads(stored.codecs)
    }:
        raise InvalidInputError(
            f"variable {variable.name!r} consists of GRIB messages, to which values cannot be"
            " added: append to it with virtual=True",
            kind="bad-metadata",
        )


def _common(variable: VariableDescription, sources: Sequence[SourceDescription]) -> StoredAs:
    first: StoredAs | None = None
    for source in sources:
        found = source.variables[variable.name].storage
        if not isinstance(found, StoredAs):
            raise _not_virtual(source, variable, f"it has {found or 'no description'}")
        first = first or found
        if not first.fits(found):
            raise _not_virtual(source, variable, f"its {_difference(first, found)}")
    if first is None:
        raise InvalidInputError("no sources given")
    return first


def _difference(first: StoredAs, other: StoredAs) -> str:
    for name in ("chunks", "data_type", "codecs", "fill"):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            return f"{name} are {two}, elsewhere {one}"
    return "values do not lie as elsewhere"


def _require_as_there(
    wanted: Wanted, stored: StoredAs, sources: Sequence[SourceDescription]
) -> None:
    """Checks that existing and added values are decoded in the same way."""
    variable, there = wanted.variable, wanted.variable.storage
    if not wanted.exists:
        return
    if not isinstance(there, StoredAs):
        raise _not_virtual(sources[0], variable, f"the array has {there or 'no description'}")
    fills = {stored.fill, there.fill} - {None} if "_FillValue" not in variable.attrs else set()
    if not there.decodes(stored) or there.data_type != stored.data_type or len(fills) > 1:
        raise _not_virtual(
            sources[0], variable, f"its {_difference(there, replace(stored, chunks=there.chunks))}"
        )


def _cut(stored: StoredAs, wanted: Wanted) -> StoredAs:
    """Values in one piece, in chunks of a good size."""
    variable = wanted.variable
    if not stored.is_row or not stored.chunks:
        return stored
    axis = stored.stacked
    if wanted.exists and variable.chunks is not None:
        return stored.cut(variable.chunks[axis])
    lengths = np.diff(wanted.starts) if wanted.axis == axis else np.array([wanted.shape[axis]])
    common = int(np.gcd.reduce(lengths)) or 1
    row = variable.dtype.itemsize * math.prod(stored.chunks[axis + 1 :])
    most = wanted.chunks.get(variable.dims[axis], max(1, DEFAULT_CHUNK_BYTES // max(1, row)))
    most = common if most == WHOLE else most
    return stored.cut(next(n for n in range(min(common, most), 0, -1) if common % n == 0))


def _require_aligned(
    wanted: Wanted, stored: StoredAs, sources: Sequence[SourceDescription]
) -> None:
    variable, axis, starts = wanted.variable, wanted.axis, wanted.starts
    if wanted.exists and variable.chunks is not None and variable.chunks != stored.chunks:
        raise _not_virtual(
            sources[0], variable, f"its chunks are {stored.chunks}, {variable.chunks} in the array"
        )
    for dim, have in zip(variable.dims, stored.chunks, strict=True):
        asked = wanted.chunks.get(dim, have)
        if asked not in {have, WHOLE} and not wanted.exists:
            raise _not_virtual(sources[0], variable, f"its chunks are {have} along {dim!r}")
    if axis is None:
        return
    uneven = np.flatnonzero(starts[: len(sources)] % stored.chunks[axis])
    if len(uneven):
        at = int(uneven[0])
        raise _not_virtual(
            sources[at],
            variable,
            f"it would begin at {int(starts[at])} along {variable.dims[axis]!r}, which is inside"
            f" a chunk of {stored.chunks[axis]}",
        )


def _not_virtual(
    source: SourceDescription, variable: VariableDescription, reason: str
) -> InvalidInputError:
    return InvalidInputError(
        f"{source.path}: variable {variable.name!r} cannot be virtual: {reason};"
        " copy it, or choose other variables",
        kind="bad-metadata",
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetArray:
    """One array of the result. `shape` is the shape after the ingest."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[np.generic]  # object means text
    attrs: Attributes
    axis: int | None  # of the concat dimension
    conversions: Mapping[int, TimeConversion] = field(default_factory=dict)  # by source
    values: npt.NDArray[np.generic] | None = None  # whole, known to the driver: a coordinate
    stored: StoredAs | None = None  # of virtual arrays: the chunks are those of the sources

    @property
    def is_copied(self) -> bool:
        """True if executors read its values."""
        return self.values is None and self.stored is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """`order[i]` is the position of source i among the descriptions given.

    Of a region, what is beyond the last of `starts` is there already, too.
    """

    order: tuple[int, ...]
    starts: npt.NDArray[np.int64]  # (sources + 1,)
    arrays: tuple[TargetArray, ...]
    attrs: Attributes

    @property
    def base_length(self) -> int:
        """Length of the existing group along the concat dimension."""
        return int(self.starts[0])


def plan_layout(
    descriptions: Sequence[SourceDescription],
    *,
    concat_dim: str | None,
    chunks: Mapping[str, int],
    existing: SourceDescription | None = None,
    virtual: bool = False,
    inside: bool = False,
) -> Layout:
    """The result of concatenating the sources, after what `existing` holds when it is given.

    Or `inside` of it: where it has their coordinates. If it is to be `virtual`, arrays keep the
    chunks of the sources where that is possible.
    """
    _require_concat_dim(descriptions, concat_dim, existing)
    reference = existing or descriptions[0]
    require_known_dims(chunks, reference)
    conversions = []
    for description in descriptions:
        require_same_structure(
            description, reference, concat_dim, growing_only=existing is not None
        )
        conversions.append(plan_conversions(description, reference, concat_dim))
        check_static(description, reference, concat_dim)
    order = order_sources(descriptions, conversions, concat_dim, existing, inside=inside)
    ordered = [descriptions[position] for position in order]
    base = existing.sizes.get(concat_dim, 0) if existing and concat_dim else 0
    if inside and existing and concat_dim:
        base = find_start(existing, ordered, [conversions[each] for each in order], concat_dim)
    lengths = [description.sizes.get(concat_dim or "", 0) for description in ordered]
    starts = np.cumsum([base, *lengths], dtype=np.int64)
    length = existing.sizes[concat_dim] if inside and existing and concat_dim else int(starts[-1])
    arrays = [
        _target(
            variable,
            ordered=ordered,
            conversions=[conversions[position] for position in order],
            concat_dim=concat_dim,
            starts=starts,
            length=length,
            chunks=chunks,
            existing=existing,
            virtual=virtual,
        )
        for variable in reference.variables.values()
        if existing is None
        or (concat_dim in variable.dims and not (inside and variable.name == concat_dim))
    ]
    return Layout(order=order, starts=starts, arrays=tuple(arrays), attrs=reference.attrs)


def _target(
    variable: VariableDescription,
    *,
    ordered: Sequence[SourceDescription],
    conversions: Sequence[Conversions],
    concat_dim: str | None,
    starts: npt.NDArray[np.int64],
    length: int,
    chunks: Mapping[str, int],
    existing: SourceDescription | None,
    virtual: bool,
) -> TargetArray:
    axis = variable.dims.index(concat_dim) if concat_dim in variable.dims else None
    shape = list(variable.shape)
    if axis is not None:
        shape[axis] = length
    values = variable.values
    if variable.is_dimension_coordinate and axis is not None:
        values = concatenate_coordinate(variable, ordered, conversions, existing)
    converted = {
        number: found
        for number, planned in enumerate(conversions)
        if (found := planned.get(variable.name)) is not None
    }
    stored = None
    if virtual and values is None and not converted:
        wanted = Wanted(
            variable=variable,
            shape=tuple(shape),
            starts=starts,
            axis=axis,
            chunks=chunks,
            exists=existing is not None,
        )
        stored = choose_storage(wanted, ordered)
    if stored is not None:
        grid = stored.chunks
    elif existing is not None:
        require_encodable(variable)
        grid = variable.chunks or tuple(max(1, size) for size in variable.shape)
    elif variable.is_dimension_coordinate:
        grid = coordinate_chunks(shape[0], grows=axis is not None)
    else:
        grid = target_chunks(variable, tuple(shape), chunks, concat_dim)
    _require_chunks(variable, grid, chunks, existing)
    return TargetArray(
        name=variable.name,
        dims=variable.dims,
        shape=tuple(shape),
        chunks=grid,
        dtype=variable.dtype,
        attrs=variable.attrs,
        axis=axis,
        conversions=converted,
        values=values,
        stored=stored,
    )


def _require_concat_dim(
    descriptions: Sequence[SourceDescription],
    concat_dim: str | None,
    existing: SourceDescription | None,
) -> None:
    if not descriptions:
        raise InvalidInputError("no sources given")
    if concat_dim is None:
        if len(descriptions) > 1 or existing is not None:
            raise InvalidInputError("several sources need a concat_dim, and so does appending")
        return
    known = [*([existing] if existing else []), *descriptions]
    for description in known:
        if concat_dim not in description.sizes:
            raise InvalidInputError(
                f"{description.path}: no variable has the dimension {concat_dim!r};"
                f" there is {', '.join(sorted(description.sizes)) or 'none'}",
                kind="bad-metadata",
            )


def _require_chunks(
    variable: VariableDescription,
    grid: tuple[int, ...],
    chunks: Mapping[str, int],
    existing: SourceDescription | None,
) -> None:
    """Appending keeps the chunks that are there; asking for others is a mistake worth telling."""
    if existing is None or variable.is_dimension_coordinate:
        return
    for dim, size, stored in zip(variable.dims, variable.shape, grid, strict=True):
        wanted = chunks.get(dim, stored)
        if stored not in {wanted, min(wanted, size) if wanted > 0 else size}:
            raise InvalidInputError(
                f"variable {variable.name!r} has chunks of {stored} along {dim!r}, not {wanted};"
                " appending cannot change them",
                kind="invalid-array-metadata",
            )
