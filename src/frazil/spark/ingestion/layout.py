"""How many sources become one group: which arrays, how long, and who contributes what.

Pure: descriptions in, a Layout out, or an InvalidInputError that names the source and variable
that do not fit. The first source (or, when appending, the existing group) is the reference: the
others must have its variables, dimensions, types and packing; their times are converted to its
units; other attributes are the reference's.

        existing group          source 0         source 1      source 2
    |---------------------|----------------|----------------|----------|   concat dimension
    0                 starts[0]        starts[1]        starts[2]   starts[3]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.checks import (
    Conversions,
    check_static,
    plan_conversions,
    require_same_structure,
)
from frazil.spark.ingestion.chunks import coordinate_chunks, require_known_dims, target_chunks
from frazil.spark.ingestion.order import concatenate_coordinate, order_sources
from frazil.spark.ingestion.places import find_start
from frazil.spark.ingestion.storage import Wanted, choose_storage, require_encodable
from frazil.spark.ingestion.times import TimeConversion
from frazil.spark.sources.description import Attributes, SourceDescription, VariableDescription
from frazil.spark.sources.stored import StoredAs


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
        """Whether executors read its values."""
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
        """What the existing group already holds along the concat dimension."""
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
