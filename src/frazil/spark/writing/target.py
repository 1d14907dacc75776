"""What rows are written to, decided before a row is seen: columns, types, what may grow. Pure.

A schema that does not fit is found out here, when nothing is written yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql.types import LongType, StructType

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.spark.description import ArrayDescription, GroupDescription
from frazil.spark.writing.columns import Column, StoredColumn
from frazil.spark.writing.coordinates import Growth, KnownDimension, require_distinct
from frazil.spark.writing.options import NewArrays, WriteMode, WriteOptions
from frazil.spark.writing.snapping import require_tolerances
from frazil.spark.writing.types import (
    new_array,
    require_fitting,
    require_near,
    snapped_column,
    stored_column,
)

_LONGEST_CHUNK = 2**31 - 1
_GROWTH = {
    WriteMode.APPEND: Growth(grows=True, touches=False),
    WriteMode.UPSERT: Growth(grows=True, touches=True),
    WriteMode.REGION: Growth(grows=False, touches=True),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariableTarget:
    """An array that gets a column. Shape and chunks of a new one are not decided yet."""

    array: ArrayDescription
    column: StoredColumn
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """`creates`: all arrays are new, and those that are there go."""

    group: str
    creates: bool
    dimensions: tuple[KnownDimension, ...]
    coordinates: tuple[ArrayDescription | None, ...]  # of each dimension
    variables: tuple[VariableTarget, ...]
    append_dim: str
    growth: Growth  # of the append dimension, if arrays are there
    replaced: tuple[str, ...]  # names of arrays that go

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    def growth_of(self, dimension: KnownDimension) -> Growth:
        if dimension.name == self.append_dim:
            return self.growth
        # arrays that were made of no rows get all their coordinates from the first rows
        return Growth(grows=self.growth.grows and dimension.size == 0, touches=True)


def plan_target(
    there: GroupDescription | None,
    coordinates: Mapping[str, Column],
    schema: StructType,
    options: WriteOptions,
) -> Target:
    """`there` is the group as it is, `coordinates` the stored values of its coordinates."""
    exists = there is not None and bool(there.arrays)
    if options.mode is WriteMode.CREATE and there is not None and exists:
        raise AlreadyExistsError(
            f"group {options.group!r} has arrays already ({', '.join(sorted(there.arrays))}):"
            " append to them, overwrite them, or choose another group"
        )
    if options.mode is WriteMode.REGION and not exists:
        raise InvalidInputError(
            f"group {options.group!r} has no arrays, and mode 'region' makes none"
        )
    _require_columns(schema, options)
    if options.tolerance and options.mode in {WriteMode.CREATE, WriteMode.OVERWRITE}:
        raise InvalidInputError(
            f"a tolerance is for coordinates that are there, which mode {str(options.mode)!r} makes"
        )
    if there is not None and exists and options.mode is not WriteMode.OVERWRITE:
        return _existing_target(there, coordinates, schema, options)
    replaced = tuple(sorted(there.arrays)) if there is not None else ()
    return _new_target(replaced, schema, options)


def _new_target(replaced: tuple[str, ...], schema: StructType, options: WriteOptions) -> Target:
    if not options.dims:
        raise InvalidInputError(
            "option 'dims' is missing: the columns that say where a row goes;"
            f" the columns are {', '.join(schema.names)}"
        )
    names = [name for name in schema.names if name not in options.dims]
    _require_named(options.new, options.dims, names)
    arrays = {name: _new_array(schema, name, options) for name in schema.names}
    dimensions = tuple(_new_dimension(arrays[name], schema, options) for name in options.dims)
    return Target(
        group=options.group,
        creates=True,
        dimensions=dimensions,
        coordinates=tuple(arrays[d.name] if d.has_coordinate else None for d in dimensions),
        variables=tuple(
            VariableTarget(
                array=arrays[name],
                column=stored_column(arrays[name], narrows=name in options.new.dtypes),
                is_new=True,
            )
            for name in names
        ),
        append_dim=_append_dim(options, options.dims),
        growth=Growth(grows=True, touches=True),
        replaced=replaced,
    )


def _existing_target(
    there: GroupDescription,
    coordinates: Mapping[str, Column],
    schema: StructType,
    options: WriteOptions,
) -> Target:
    dims = _existing_dims(there, schema, options)
    require_tolerances(options.tolerance, dims)
    append_dim = _append_dim(options, dims)
    growth = replace(_GROWTH[options.mode], unordered=options.unordered)
    names = [name for name in schema.names if name not in dims]
    _require_named(options.new, dims, names)
    _require_same_variables(there, names, dims, append_dim, growth=growth)
    dtypes = options.new.dtypes
    variables = tuple(
        _existing_variable(there, schema, name, dims, dtypes.get(name)) for name in names
    )
    for variable in variables:
        _require_chunks(variable.array, options.new.chunks)
    dimensions = tuple(
        _existing_dimension(there, schema, name, variables, coordinates, options=options)
        for name in dims
    )
    return Target(
        group=options.group,
        creates=False,
        dimensions=dimensions,
        coordinates=tuple(there.arrays[d.name] if d.has_coordinate else None for d in dimensions),
        variables=variables,
        append_dim=append_dim,
        growth=growth,
        replaced=(),
    )


def _new_array(schema: StructType, name: str, options: WriteOptions) -> ArrayDescription:
    dims, new = options.dims or (), options.new
    return new_array(
        name,
        schema[name].dataType,
        is_coordinate=name in dims,
        dtype=new.dtypes.get(name),
        fill=new.fill.get(name),
        units=new.units.get(name),
        attrs=new.attrs.get(name),
    )


def _new_dimension(
    array: ArrayDescription, schema: StructType, options: WriteOptions
) -> KnownDimension:
    by_position = array.name in options.new.positions
    if by_position:
        _require_position(schema, array.name)
    column = stored_column(array)
    return KnownDimension(
        name=array.name,
        column=column,
        has_coordinate=not by_position,
        values=np.zeros(0, dtype=column.work_dtype),
        size=0,
        is_new=True,
        descending=_wants_descending(options, array.name),
    )


def _wants_descending(options: WriteOptions, name: str) -> bool | None:
    order = options.new.order.get(name)
    if order not in {None, "ascending", "descending"}:
        raise InvalidInputError(
            f"option 'order' says {order!r} of {name!r}, expected 'ascending' or 'descending'"
        )
    return None if order is None else order == "descending"


def _existing_dims(
    there: GroupDescription, schema: StructType, options: WriteOptions
) -> tuple[str, ...]:
    """Of the arrays that the columns name; those given must be the same."""
    found = [
        there.arrays[name].dims
        for name in schema.names
        if name in there.arrays and not there.arrays[name].is_coordinate
    ]
    own = found[0] if found else tuple(name for name in schema.names if name in there.arrays)
    if options.dims is not None and set(options.dims) != set(own):
        raise InvalidInputError(
            f"option 'dims' says {', '.join(options.dims)}, the arrays have {', '.join(own)}"
        )
    missing = [name for name in own if name not in schema.names]
    if missing or not own:
        raise InvalidInputError(
            f"the rows lack the column {', '.join(map(repr, missing)) or 'of any dimension'};"
            f" the arrays of group {there.path!r} are {', '.join(sorted(there.arrays))}"
        )
    return options.dims or own


def _require_same_variables(
    there: GroupDescription,
    names: Sequence[str],
    dims: Sequence[str],
    append_dim: str,
    *,
    growth: Growth,
) -> None:
    unknown = [name for name in names if name not in there.arrays]
    if unknown:
        raise InvalidInputError(
            f"the rows have {', '.join(map(repr, unknown))}, of which group {there.path!r} has no"
            f" array; it has {', '.join(sorted(there.arrays))}",
            kind="invalid-array-metadata",
        )
    if not growth.grows:
        return
    lacking = [
        name
        for name, array in there.arrays.items()
        if append_dim in array.dims and name not in names and name not in dims
    ]
    if lacking:
        raise InvalidInputError(
            f"the rows lack {', '.join(map(repr, lacking))}, which would grow along"
            f" {append_dim!r} with nothing in it: add the column, with NULL if there is nothing",
            kind="invalid-array-metadata",
        )


def _existing_variable(
    there: GroupDescription,
    schema: StructType,
    name: str,
    dims: Sequence[str],
    dtype: str | None,
) -> VariableTarget:
    """`dtype` is the one asked for, when the caller repeats the options that made the array."""
    array = there.arrays[name]
    if set(array.dims) != set(dims):
        raise InvalidInputError(
            f"the array {name!r} has the dimensions {', '.join(array.dims)},"
            f" the rows have {', '.join(dims)}",
            kind="invalid-array-metadata",
        )
    require_fitting(array, schema[name].dataType, dtype)
    column = stored_column(array, narrows=dtype is not None)
    return VariableTarget(array=array, column=column, is_new=False)


def _existing_dimension(
    there: GroupDescription,
    schema: StructType,
    name: str,
    variables: Sequence[VariableTarget],
    coordinates: Mapping[str, Column],
    *,
    options: WriteOptions,
) -> KnownDimension:
    array, tolerance = there.arrays.get(name), options.tolerance.get(name)
    sizes = {v.array.shape[v.array.dims.index(name)] for v in variables}
    if array is not None and array.is_coordinate:
        sizes.add(array.shape[0])
    if len(sizes) != 1:
        raise InvalidInputError(f"the arrays do not agree on the length of {name!r}: {sizes}")
    if array is None or not array.is_coordinate:
        _require_position(schema, name)
        if tolerance is not None:
            raise InvalidInputError(f"a tolerance for {name!r}, which has no coordinate")
        position = new_array(name, LongType(), is_coordinate=True)
        return KnownDimension(
            name=name, column=stored_column(position), has_coordinate=False,
            values=np.zeros(0, dtype=np.int64), size=sizes.pop(), is_new=False,
        )  # fmt: skip
    kind = schema[name].dataType
    if tolerance is None:
        require_fitting(array, kind, options.new.dtypes.get(name))
    else:
        require_near(array, kind)
    column = snapped_column(array, kind, coordinates[name], tolerance)
    values = coordinates[name].astype(column.work_dtype)
    known = KnownDimension(
        name=name, column=column, has_coordinate=True, values=values, size=sizes.pop(),
        is_new=False, descending=_wants_descending(options, name),
    )  # fmt: skip
    require_distinct(known)
    return known


def _require_position(schema: StructType, name: str) -> None:
    kind = schema[name].dataType.typeName()
    if kind not in {"byte", "short", "integer", "long"}:
        raise InvalidInputError(
            f"dimension {name!r} has no coordinate: rows say the position, an integer, not {kind}"
        )


def _require_columns(schema: StructType, options: WriteOptions) -> None:
    folded = [name.casefold() for name in schema.names]
    doubled = [name for name in schema.names if folded.count(name.casefold()) > 1]
    if doubled:
        raise InvalidInputError(f"two columns have the name {doubled[0]!r}")
    bad = [name for name in schema.names if "/" in name or not name.strip(".")]
    if bad:
        raise InvalidInputError(f"column {bad[0]!r} cannot be the name of an array")
    if options.dims is None:
        return
    unknown = [name for name in options.dims if name not in schema.names]
    if unknown:
        raise InvalidInputError(
            f"option 'dims' names {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join(schema.names)}"
        )
    if len(set(options.dims)) != len(options.dims):
        raise InvalidInputError(f"option 'dims' names a column twice: {', '.join(options.dims)}")


def _require_named(new: NewArrays, dims: Sequence[str], names: Sequence[str]) -> None:
    """Options about columns name columns there are."""
    of_dims: dict[str, Any] = {"chunks": new.chunks, "order": new.order, "positions": new.positions}
    of_columns: dict[str, Any] = {
        "dtypes": new.dtypes,
        "fill": new.fill,
        "units": new.units,
        "attrs": new.attrs,
        "codecs": new.codecs if isinstance(new.codecs, dict) else (),
    }
    for known, given in ((dims, of_dims), ([*dims, *names], of_columns)):
        for option, named in given.items():
            unknown = [name for name in named if name not in known]
            if unknown:
                raise InvalidInputError(
                    f"option {option!r} names {', '.join(map(repr, unknown))};"
                    f" there is {', '.join(known)}"
                )
    for dim, size in new.chunks.items():
        if size != -1 and not 1 <= size <= _LONGEST_CHUNK:
            raise InvalidInputError(
                f"option 'chunks' says {size} along {dim!r}: at least 1, at most {_LONGEST_CHUNK},"
                " or -1 for whole"
            )


def _require_chunks(array: ArrayDescription, wanted: Mapping[str, int]) -> None:
    """Options may be repeated with each batch of a stream, but not changed."""
    for dim, size in zip(array.dims, array.chunks, strict=True):
        if wanted.get(dim, -1) not in {-1, size}:
            raise InvalidInputError(
                f"the array {array.name!r} has chunks of {size} along {dim!r}, not"
                f" {wanted[dim]}; only a new array can have others",
                kind="invalid-array-metadata",
            )


def _append_dim(options: WriteOptions, dims: Sequence[str]) -> str:
    if options.append_dim is None:
        return dims[0]
    if options.append_dim not in dims:
        raise InvalidInputError(
            f"option 'appendDim' is {options.append_dim!r}, the dimensions are {', '.join(dims)}"
        )
    return options.append_dim
