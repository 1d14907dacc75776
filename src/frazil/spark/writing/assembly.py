"""Chunks made of cells: rows of one block become blocks of arrays, are encoded and stored.

What a block held before the write is read first, unless its rows cover it all; cells that have
no row and were not there get the fill value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.writer import ChunkWriter
from frazil.spark.jobs.regions import store_region
from frazil.spark.writing.blocks import Indices, Region, find_duplicate, position_of
from frazil.spark.writing.columns import Column, text_of
from frazil.spark.writing.layout import ArrayLayout, Layout
from frazil.zarrstore.arrays import read_region


@dataclass(frozen=True, slots=True, eq=False)
class StoredChunks:
    """Chunks of one array: where they are, and which hold nothing (m, ndim) and are not stored."""

    array: int
    refs: ChunkRefs
    emptied: npt.NDArray[np.uint32]
    rows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """All that it takes to make chunks; picklable."""

    layout: Layout
    writer: ChunkWriter
    base: Session | None  # read-only, what was there

    def store(
        self, block: int, cells: Indices, columns: Mapping[str, Column]
    ) -> list[StoredChunks]:
        """All arrays' chunks of a block. Raises InvalidInputError for two rows of one cell."""
        require_no_duplicate(self.layout, block, cells)
        region = self.layout.grid.region(block)
        return [
            self._store_array(number, array, region, cells, columns[array.name])
            for number, array in enumerate(self.layout.arrays)
        ]

    def _store_array(
        self, number: int, array: ArrayLayout, region: Region, cells: Indices, values: Column
    ) -> StoredChunks:
        shape = tuple(part.stop - part.start for part in region)
        whole = np.empty(self.layout.grid.block, dtype=array.column.work_dtype)
        block = whole[tuple(slice(size) for size in shape)]
        if len(cells) < block.size:
            whole[...] = array.fill
            self._read_base(array, region, block)
        whole.reshape(-1)[cells] = values
        where = tuple(region[axis] for axis in array.axes)
        refs = store_region(array.document, self.writer, where, block.transpose(array.axes))
        emptied = _without(_chunks_of(where, array.chunks), refs)
        touched = array.base_shape is not None
        return StoredChunks(number, refs, emptied if touched else emptied[:0], len(cells))

    def _read_base(self, array: ArrayLayout, region: Region, block: npt.NDArray[Any]) -> None:
        """Puts what was there into the block."""
        if array.base_shape is None or self.base is None:
            return
        there = tuple(
            slice(part.start, min(part.stop, size))
            for part, size in zip(region, array.base_shape, strict=True)
        )
        if any(part.stop <= part.start for part in there):
            return
        path = NodePath(self.layout.group).child(array.name)
        stored = read_region(self.base, path, tuple(there[axis] for axis in array.axes))
        into = tuple(slice(part.stop - part.start) for part in there)
        block[into] = stored.transpose(np.argsort(array.axes))


def require_no_duplicate(layout: Layout, block: int, cells: Indices) -> None:
    cell = find_duplicate(cells, layout.grid.cells)
    if cell is None:
        return
    position = position_of(layout.grid, block, cell)
    where = ", ".join(
        f"{c.name} = {p if c.values is None else text_of(c.column, c.values[p])}"
        for c, p in zip(layout.coordinates, position, strict=True)
    )
    raise InvalidInputError(f"two rows are for one cell: {where}", kind="duplicate-rows")


def _chunks_of(where: Region, chunks: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Index of every chunk in a region of whole chunks, (m, ndim)."""
    along = [
        np.arange(part.start // size, -(-part.stop // size), dtype=np.uint32)
        for part, size in zip(where, chunks, strict=True)
    ]
    return np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(-1, len(chunks))


def _without(index: npt.NDArray[np.uint32], refs: ChunkRefs) -> npt.NDArray[np.uint32]:
    if not len(refs):
        return index
    return index[refs.lookup(index) < 0]
