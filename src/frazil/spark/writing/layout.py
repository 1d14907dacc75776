"""Arrays as they will be, once the coordinates of all rows are known. Pure, picklable.

Target + distinct coordinate values -> Layout: coordinates, documents, the grid of blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from pyspark.sql.types import LongType, StructType

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.chunk_index import Box
from frazil.paths import NodePath
from frazil.spark.table.description import ArrayDescription, GroupDescription
from frazil.spark.table.documents import (
    DEFAULT_CHUNK_BYTES,
    TEXT_BYTES,
    coordinate_chunks,
    json_attributes,
)
from frazil.spark.writing.blocks import (
    BlockGrid,
    Coordinate,
    Growth,
    KnownDimension,
    grow_blocks,
    merge_coordinate,
    plan_blocks,
    require_distinct,
)
from frazil.spark.writing.columns import (
    Column,
    StoredColumn,
    new_array,
    require_fitting,
    require_near,
    require_tolerances,
    snapped_column,
    stored_column,
)
from frazil.spark.writing.options import NewArrays, WriteMode, WriteOptions
from frazil.zarrstore.array_codecs import array_document, resized_document

# Target of rows, decided before a row is seen: columns, types, growing dimensions. No I/O.
#
# A schema that does not fit is found out here, when nothing is written yet.

_LONGEST_CHUNK = 2**31 - 1
_GROWTH = {
    WriteMode.APPEND: Growth(grows=True, touches=False),
    WriteMode.UPSERT: Growth(grows=True, touches=True),
    WriteMode.REGION: Growth(grows=False, touches=True),
    WriteMode.INSERT: Growth(grows=True, touches=True),
    WriteMode.OVERWRITE: Growth(grows=True, touches=True),  # of arrays that are kept, without cells
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
    any_dim: bool = False  # whether other dimensions may grow as well
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # arrays without a column

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    def growth_of(self, dimension: KnownDimension) -> Growth:
        if dimension.name == self.append_dim or self.any_dim:
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
    keeps = options.native is not None and options.native.in_place
    if there is not None and exists and (keeps or options.mode is not WriteMode.OVERWRITE):
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
    others = {
        name: array.dims
        for name, array in there.arrays.items()
        if name not in names and name not in dims
    }
    _require_known(there, names)
    if growth.grows and not options.any_dim:
        require_all(others, append_dim)
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
        any_dim=options.any_dim,
        others=others,
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
    """Returns the dimensions of the arrays that the columns name; given ones must be equal."""
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


def _require_known(there: GroupDescription, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in there.arrays]
    if unknown:
        raise InvalidInputError(
            f"the rows have {', '.join(map(repr, unknown))}, of which group {there.path!r} has no"
            f" array; it has {', '.join(sorted(there.arrays))}",
            kind="invalid-array-metadata",
        )


def require_all(others: Mapping[str, tuple[str, ...]], growing: str) -> None:
    """Refuses to let a dimension grow that arrays have of which the rows tell nothing."""
    lacking = [name for name, dims in others.items() if growing in dims]
    if lacking:
        raise InvalidInputError(
            f"the rows lack {', '.join(map(repr, lacking))}, which would grow along"
            f" {growing!r} with nothing in it: add the column, with NULL if there is nothing",
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
    if options.append_dim is None or options.any_dim:
        return dims[0]
    if options.append_dim not in dims:
        raise InvalidInputError(
            f"option 'appendDim' is {options.append_dim!r}, the dimensions are {', '.join(dims)}"
        )
    return options.append_dim


BLOCK_BYTES = 4 << 20  # small chunks are made many at a time
_SMALLEST_ROOM = 1024  # a dimension that grows gets chunks of so many steps, if they are small


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayLayout:
    """One array. `axes[k]` is the dimension of the write that is axis k of the array."""

    name: str
    axes: tuple[int, ...]
    chunks: tuple[int, ...]
    document: bytes
    column: StoredColumn
    fill: Any  # stored, what cells without a row get
    base_shape: tuple[int, ...] | None  # before the write, in the order of the dimensions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    group: str
    coordinates: tuple[Coordinate, ...]
    coordinate_documents: tuple[bytes | None, ...]
    base_sizes: tuple[int, ...]
    arrays: tuple[ArrayLayout, ...]
    grid: BlockGrid

    @property
    def shape(self) -> tuple[int, ...]:
        return self.grid.shape

    @property
    def paths(self) -> tuple[NodePath, ...]:
        """Paths of the arrays, in order."""
        return tuple(NodePath(self.group).child(array.name) for array in self.arrays)

    @property
    def size_bytes(self) -> int:
        """Bytes of all cells, before compression."""
        return prod(self.shape) * sum(a.column.work_dtype.itemsize for a in self.arrays)

    def chunk_box(self, array: ArrayLayout, blocks: Sequence[tuple[int, int]]) -> Box:
        """Chunks of an array in blocks from the first up to the last along each dimension."""
        lo, hi = [], []
        for axis, chunk in zip(array.axes, array.chunks, strict=True):
            (first, last), step, size = blocks[axis], self.grid.block[axis], self.shape[axis]
            lo.append(first * step // chunk)
            hi.append(-(-min(last * step, size) // chunk))
        return Box(tuple(lo), tuple(hi))


def plan_layout(
    target: Target,
    documents: Mapping[str, bytes],
    found: Mapping[str, Column],
    new: NewArrays,
) -> Layout:
    """`documents` are those of the arrays that are there, `found` the coordinates of the rows."""
    coordinates = tuple(
        merge_coordinate(dimension, found[dimension.name], target.growth_of(dimension))
        for dimension in target.dimensions
    )
    shape = tuple(coordinate.size for coordinate in coordinates)
    for dimension, size in zip(target.dimensions, shape, strict=True):
        if target.any_dim and size > dimension.size:
            require_all(target.others, dimension.name)
    arrays = tuple(_array(target, variable, shape, documents, new) for variable in target.variables)
    grid = plan_blocks(shape, [_by_dimension(array.axes, array.chunks) for array in arrays])
    if target.creates:
        # where cells are there already, a larger block would rewrite chunks that no row is for
        cell_bytes = sum(array.column.work_dtype.itemsize for array in arrays)
        grid = grow_blocks(grid, max_cells=BLOCK_BYTES // max(1, cell_bytes))
    return Layout(
        group=target.group,
        coordinates=coordinates,
        coordinate_documents=tuple(
            None if array is None else _coordinate(target, array, size, documents, new)
            for array, size in zip(target.coordinates, shape, strict=True)
        ),
        base_sizes=tuple(dimension.size for dimension in target.dimensions),
        arrays=arrays,
        grid=grid,
    )


def choose_chunks(
    dims: Sequence[str],
    shape: Sequence[int],
    item_bytes: int,
    *,
    wanted: Mapping[str, int],
    append_dim: str,
) -> tuple[int, ...]:
    """Returns the chunk shape of `wanted`; else whole dimensions, divided until a chunk is at most
    8 MiB.

    The append dimension is cut first, and may be longer than the array: it has room to grow.
    """
    sizes = dict(zip(dims, shape, strict=True))
    chosen = {
        # of a table without rows nothing is known but that there will be some
        dim: (sizes[dim] or _SMALLEST_ROOM) if wanted.get(dim, -1) == -1 else wanted[dim]
        for dim in dims
    }
    free = [dim for dim in dims if dim not in wanted]
    for dim in sorted(free, key=lambda dim: dim != append_dim):
        others = prod(size for name, size in chosen.items() if name != dim)
        room = max(1, DEFAULT_CHUNK_BYTES // max(1, item_bytes * others))
        longest = max(chosen[dim], _SMALLEST_ROOM) if dim == append_dim else chosen[dim]
        chosen[dim] = min(longest, room)
    return tuple(chosen[dim] for dim in dims)


def _array(
    target: Target,
    variable: VariableTarget,
    shape: tuple[int, ...],
    documents: Mapping[str, bytes],
    new: NewArrays,
) -> ArrayLayout:
    array, dims = variable.array, target.dims
    if variable.is_new:
        item = TEXT_BYTES if array.dtype.kind in "TUO" else array.dtype.itemsize
        chunks = choose_chunks(dims, shape, item, wanted=new.chunks, append_dim=target.append_dim)
        document = _document(array, dims, shape, chunks, new)
        axes, base_shape = tuple(range(len(dims))), None
    else:
        axes = tuple(dims.index(dim) for dim in array.dims)
        chunks = array.chunks
        document = resized_document(documents[array.name], [shape[axis] for axis in axes])
        base_shape = tuple(array.shape[axes.index(k)] for k in range(len(dims)))
    return ArrayLayout(
        name=array.name,
        axes=axes,
        chunks=chunks,
        document=document,
        column=variable.column,
        fill=fill_of(array),
        base_shape=base_shape,
    )


def _coordinate(
    target: Target,
    array: ArrayDescription,
    size: int,
    documents: Mapping[str, bytes],
    new: NewArrays,
) -> bytes:
    if not target.creates:
        return resized_document(documents[array.name], [size])
    chunks = coordinate_chunks(size, grows=array.name == target.append_dim)
    return _document(array, (array.name,), (size,), chunks, new)


def _document(
    array: ArrayDescription,
    dims: Sequence[str],
    shape: Sequence[int],
    chunks: Sequence[int],
    new: NewArrays,
) -> bytes:
    codecs = new.codecs.get(array.name) if isinstance(new.codecs, dict) else new.codecs
    text = array.dtype.kind in "TO"
    return array_document(
        shape=shape,
        chunks=chunks,
        dtype="string" if text else array.dtype.str.replace("|", ""),
        fill_value=array.fill_value,
        dims=dims,
        attributes=json_attributes(array.attrs, np.dtype(object) if text else array.dtype),
        codecs=codecs,
    )


def fill_of(array: ArrayDescription) -> Any:
    """The stored value of a cell that was never written."""
    if array.fill_value is not None:
        return array.fill_value
    if array.dtype.kind in "TUO":
        return ""
    return np.array("NaT" if array.dtype.kind in "mM" else 0, dtype=array.dtype)[()]


def _by_dimension(axes: Sequence[int], along: Sequence[int]) -> tuple[int, ...]:
    return tuple(along[axes.index(k)] for k in range(len(axes)))
