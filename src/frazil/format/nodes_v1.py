"""The nodes of a snapshot as files of version 1 have them: shapes with the length of a chunk."""

import json
from functools import lru_cache

import numpy as np

from frazil.flatbuf.columns import VectorColumn
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.schemas import DIMENSION_SHAPE_V2, NODE_ARRAY

__all__ = ["with_shapes_v1"]


def with_shapes_v1(table: Table) -> Table:
    """The inverse of `with_shapes_v2`, but for what the numbers of chunks do not tell.

    The length of a chunk is that of the Zarr metadata. Where that has none, it is worked back
    from the number of chunks, which readers get again then.
    """
    data = table.union("node_data")
    arrays = data.variants[NODE_ARRAY]
    if not len(arrays):
        return table
    current = arrays.tables("shape_v2")
    lengths = current.rows.scalar("array_length").values
    counts = np.maximum(current.rows.scalar("num_chunks").values.astype(np.uint64), np.uint64(1))
    chunks = np.maximum(lengths // counts + (lengths % counts > 0), np.uint64(1))
    rows = np.flatnonzero(data.types == NODE_ARRAY)
    user_data = table.string("user_data")
    for row, at in zip(rows.tolist(), data.index[rows].tolist(), strict=True):
        axes = slice(int(current.splits[at]), int(current.splits[at + 1]))
        known = _chunk_shape(user_data.item(row) or b"")
        if known is not None and len(known) == axes.stop - axes.start:
            chunks[axes] = known
    pairs = np.stack([lengths, chunks], axis=1).astype("<u8").view(np.uint8).reshape(-1, 16)
    none = TableVectorColumn(
        np.zeros(len(arrays) + 1, dtype=np.int64),
        Table.empty(DIMENSION_SHAPE_V2),
        np.zeros(len(arrays), dtype=np.bool_),
    )
    arrays = arrays.replace(shape=VectorColumn.of(pairs, current.splits), shape_v2=none)
    variants = {**data.variants, NODE_ARRAY: arrays}
    return table.replace(node_data=UnionColumn(data.types, data.index, variants))


@lru_cache(maxsize=10_000)  # the same arrays are written with every commit
def _chunk_shape(user_data: bytes) -> tuple[int, ...] | None:
    """Of a regular chunk grid; None if there is none."""
    try:
        document = json.loads(user_data)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"chunk_grid": {"configuration": {"chunk_shape": list() as sizes}}}:
            if all(type(size) is int and 1 <= size < 2**64 for size in sizes):
                return tuple(sizes)
    return None
