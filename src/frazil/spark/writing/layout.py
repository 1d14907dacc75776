"""Arrays as they will be, once the coordinates of all rows are known. Pure, picklable.

Target + distinct coordinate values -> Layout: coordinates, documents, the grid of blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from frazil.paths import NodePath
from frazil.spark.description import ArrayDescription
from frazil.spark.ingestion.chunks import DEFAULT_CHUNK_BYTES, TEXT_BYTES, coordinate_chunks
from frazil.spark.ingestion.metadata import json_attributes
from frazil.spark.writing.blocks import BlockGrid, grow_blocks, plan_blocks
from frazil.spark.writing.columns import Column, StoredColumn
from frazil.spark.writing.coordinates import Coordinate, merge_coordinate
from frazil.spark.writing.options import NewArrays
from frazil.spark.writing.target import Target, VariableTarget
from frazil.zarrstore.documents import array_document, resized_document

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
        """Of the arrays, in their order."""
        return tuple(NodePath(self.group).child(array.name) for array in self.arrays)

    @property
    def size_bytes(self) -> int:
        """Of all cells, before compression."""
        return prod(self.shape) * sum(a.column.work_dtype.itemsize for a in self.arrays)


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
    """What `wanted` says; else whole dimensions, cut until a chunk is no larger than 8 MiB.

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
        fill=_fill(array),
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


def _fill(array: ArrayDescription) -> Any:
    if array.fill_value is not None:
        return array.fill_value
    if array.dtype.kind in "TUO":
        return ""
    return np.array("NaT" if array.dtype.kind in "mM" else 0, dtype=array.dtype)[()]


def _by_dimension(axes: Sequence[int], along: Sequence[int]) -> tuple[int, ...]:
    return tuple(along[axes.index(k)] for k in range(len(axes)))
