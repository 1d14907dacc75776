"""Mode `chunks`: a row per chunk instead of a row per element.

    array    STRING           name in the group
    chunk    ARRAY<BIGINT>    index in the array's grid; of shards, where there are any
    offset   ARRAY<BIGINT>    position of its first element
    shape    ARRAY<BIGINT>    of its values; cut off at the end of the array
    dtype    STRING           of its values, as numpy writes it: <f4
    kind     STRING           native, virtual, inline; missing if it was never written
    data     BINARY           values in C order, little-endian; as they are stored with
                              `decode=false`; ARRAY<..> with `values=true`; NULL if missing

A selection picks chunks, not elements. Arrays need not have the same dimensions: a selection holds
for those that have the dimension. Values are as they are stored: nothing is scaled or replaced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.engine.changes.chunk_reads import lookup_current
from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.spark.table.cf import RAW, Values, plan_decoding
from frazil.spark.table.description import ArrayDescription, GroupDescription, choose_arrays
from frazil.spark.table.metadata_tables import (
    batch_of,
    index_column,
    kind_column,
    pack,
    repeat_column,
)
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import ChunkData, ReadOptions
from frazil.spark.table.scan import positions_along, require_dimensions
from frazil.spark.table.scan_plan import Axis, Box, touched_chunks
from frazil.spark.table.schema import ColumnPlan, spark_type, to_arrow
from frazil.spark.table.selection import Positions
from frazil.zarrstore.arrays import read_chunks

_BATCH_BYTES = 16 << 20  # decoded; Spark holds a batch in memory, and so does the worker
_COLUMNS = (
    "array STRING, chunk ARRAY<BIGINT>, offset ARRAY<BIGINT>, shape ARRAY<BIGINT>, dtype STRING,"
    " kind STRING, data "
)
type _Index = npt.NDArray[np.uint32]  # (m, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkArray:
    """An array and, along each dimension, which chunks are wanted."""

    array: ArrayDescription
    along: tuple[npt.NDArray[np.int64], ...]

    def index(self, box: Box) -> _Index:
        """Index of every chunk in a box of offsets into `along`, in C order."""
        places = [found[lo:hi] for found, (lo, hi) in zip(self.along, box, strict=True)]
        if not places:
            return np.zeros((1, 0), dtype=np.uint32)
        grid = np.meshgrid(*places, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, len(places)).astype(np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkScan:
    """`parts`: boxes of arrays by number, for each task. `element`: of the lists in `data`."""

    arrays: tuple[ChunkArray, ...]
    parts: tuple[tuple[tuple[int, Box], ...], ...]
    data: ChunkData
    element: np.dtype[Any] | None
    include_missing: bool
    batch_rows: int


def chunk_schema(scan: ChunkScan) -> str:
    if scan.element is None:
        return _COLUMNS + "BINARY"
    column = ColumnPlan(
        "data", _standing_for(scan.element), RAW, is_dimension=False, nan_is_null=False
    )
    return f"{_COLUMNS}ARRAY<{spark_type(column).simpleString()}>"


def plan_chunk_scan(opened: Opened, options: ReadOptions) -> ChunkScan:
    """Reads the coordinates that are selected on, and nothing else."""
    group = opened.describe(options.group)
    arrays = choose_arrays(group, options.variables, options.dims)
    known = list(dict.fromkeys(dim for array in arrays for dim in array.dims))
    require_dimensions("sel", options.selection.dimensions, known)
    require_dimensions("isel", options.isel.dimensions, known)
    for array in arrays:
        require_readable(opened, array, options.chunk_data)
    chosen = tuple(choose_chunks(opened, group, array, options) for array in arrays)
    boxes = [
        ((number, box), prod(hi - lo for lo, hi in box) * one.array.chunk_bytes)
        for number, one in enumerate(chosen)
        for box in _boxes(one, options.partition_bytes)
    ]
    wants_values = options.chunk_data is ChunkData.VALUES
    return ChunkScan(
        chosen,
        tuple(pack(boxes, options.partition_bytes)),
        options.chunk_data,
        _common_dtype([array.dtype for array in arrays]) if wants_values else None,
        options.include_missing,
        options.batch_rows,
    )


def read_chunk_part(
    opened: Opened, scan: ChunkScan, part: Sequence[tuple[int, Box]]
) -> Iterator[pa.RecordBatch]:
    """Rows of one task."""
    for number, box in part:
        one = scan.arrays[number]
        index = one.index(box)
        size = max(1, min(scan.batch_rows, _BATCH_BYTES // max(1, one.array.chunk_bytes)))
        for start in range(0, len(index), size):
            yield chunk_batch(opened, scan, one.array, index[start : start + size])


def chunk_batch(
    opened: Opened, scan: ChunkScan, array: ArrayDescription, index: _Index
) -> pa.RecordBatch:
    """Rows of the chunks at `index`; of those that exist, unless missing ones are wanted."""
    path = NodePath(array.path)
    kinds = chunk_kinds(opened, path, index)
    if not scan.include_missing:
        index, kinds = index[kinds > 0], kinds[kinds > 0]
    sizes = np.array(array.chunks, dtype=np.int64)
    offset = index.astype(np.int64) * sizes
    shape = np.minimum(sizes, np.array(array.shape, dtype=np.int64) - offset)
    return batch_of(
        {
            "array": repeat_column(array.name, len(index)),
            "chunk": index_column(index),
            "offset": index_column(offset),
            "shape": index_column(shape),
            "dtype": repeat_column(dtype_text(array.dtype), len(index)),
            "kind": kind_column(kinds),
            "data": _data(opened, scan, path, index, kinds > 0),
        }
    )


def chunk_kinds(opened: Opened, path: NodePath, index: _Index) -> npt.NDArray[np.uint8]:
    """A RefKind of each chunk, 0 of one that is missing."""
    session = opened.session
    kinds = np.zeros(len(index), dtype=np.uint8)
    for part in lookup_current(session.files, session.node(path), None, index):
        kinds[part.at] = part.refs.kind[part.rows]
    return kinds


def _data(
    opened: Opened, scan: ChunkScan, path: NodePath, index: _Index, there: npt.NDArray[np.bool_]
) -> pa.Array:
    if scan.data is ChunkData.ENCODED:
        stored = opened.session.fetch_chunks(path, index)
        return pa.array([None if one is None else bytes(one) for one in stored], pa.binary())
    decoded = read_chunks(opened.session, path, index[there])
    if scan.element is None:
        items = (_to_little_endian(values).tobytes() for values in decoded)
        return pa.array([next(items) if one else None for one in there.tolist()], pa.binary())
    lists = [
        to_arrow(Values(values.reshape(-1).astype(scan.element, copy=False), None))
        for values in decoded
    ]
    element = to_arrow(Values(np.zeros(0, scan.element), None)).type
    lengths = np.zeros(len(index) + 1, dtype=np.int32)
    lengths[1:][there] = [len(one) for one in lists]
    flat = pa.concat_arrays(lists) if lists else pa.array([], element)
    edges = pa.array(np.cumsum(lengths, dtype=np.int32), mask=np.append(~there, False))
    return pa.ListArray.from_arrays(edges, flat)


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Returns the `numpy.dtype` text for the column `data`; text of any length is "string"."""
    return "string" if dtype.kind in "TO" else _little_dtype(dtype).str


def _little_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


def _to_little_endian(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(values, dtype=_little_dtype(values.dtype))


def require_readable(opened: Opened, array: ArrayDescription, data: ChunkData) -> None:
    if array.dtype.kind in "TO" and data is ChunkData.DECODED:
        raise InvalidInputError(
            f"array {array.path!r} is of text, which has no bytes of fixed size: read it with"
            " values=true or with decode=false"
        )
    stored = opened.session.node(NodePath(array.path)).array
    sizes = zip(array.shape, array.chunks, strict=True)
    if stored is not None and stored.num_chunks != tuple(-(-n // c) for n, c in sizes):
        raise InvalidInputError(f"the chunks of array {array.path!r} are not all of one shape")


def choose_chunks(
    opened: Opened, group: GroupDescription, array: ArrayDescription, options: ReadOptions
) -> ChunkArray:
    axes = [
        Axis(dim, _positions(opened, group, dim, size, options))
        for dim, size in zip(array.dims, array.shape, strict=True)
    ]
    return ChunkArray(
        array, tuple(touched_chunks(axis, array.chunk_of(axis.name)) for axis in axes)
    )


def _positions(
    opened: Opened, group: GroupDescription, dim: str, size: int, options: ReadOptions
) -> Positions:
    found = group.arrays.get(dim)
    coordinate = found if found and found.is_coordinate and found.shape == (size,) else None
    decoding = RAW if coordinate is None else plan_decoding(coordinate)
    column = ColumnPlan(dim, coordinate, decoding, is_dimension=True, nan_is_null=True)
    return positions_along(opened, column, size, options)


def _boxes(one: ChunkArray, target_bytes: int) -> list[Box]:
    """Boxes of about `target_bytes`, decoded, and of at least one chunk."""
    lengths = [len(found) for found in one.along]
    if not all(lengths):
        return []
    room = max(1, target_bytes // max(1, one.array.chunk_bytes))
    steps = [1] * len(lengths)
    for k in reversed(range(len(lengths))):
        steps[k] = min(lengths[k], room)
        room //= steps[k]
        if steps[k] < lengths[k]:
            break
    spans = [
        list(pairwise([*range(0, length, step), length]))
        for length, step in zip(lengths, steps, strict=True)
    ]
    return list(product(*spans))


def _common_dtype(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Dtype that holds all values of all arrays."""
    distinct = list(dict.fromkeys(dtypes))
    if len(distinct) == 1:
        return distinct[0]
    if not all(dtype.kind in "iuf" for dtype in distinct):
        raise InvalidInputError(
            f"arrays of {', '.join(map(str, distinct))} have no type in common: read them apart,"
            " by the option `variables`, or as bytes, without values=true"
        )
    return np.result_type(*distinct)


def _standing_for(dtype: np.dtype[Any]) -> ArrayDescription:
    return ArrayDescription(name="data", path="", dims=(), shape=(), chunks=(), dtype=dtype)
