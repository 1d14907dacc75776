"""A write in a session: what is there, arrays made or resized, references of chunks, coordinates.

Everything is pending until the commit.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.spark.runtime.jobs import store_region
from frazil.spark.table.cf import decode
from frazil.spark.table.description import ArrayDescription, GroupDescription
from frazil.spark.table.documents import group_document
from frazil.spark.table.opened import Opened
from frazil.spark.table.schema import to_arrow
from frazil.spark.writing.blocks import (
    Coordinate,
    Indices,
    Region,
    find_duplicate,
    locate,
    outside_grid_error,
    position_of,
)
from frazil.spark.writing.columns import (
    Column,
    StoredColumn,
    encode_column,
    encode_coordinate,
    text_of,
)
from frazil.spark.writing.layout import ArrayLayout, Layout, Target, plan_target
from frazil.spark.writing.options import WriteOptions
from frazil.zarrstore.array_codecs import resized_document
from frazil.zarrstore.arrays import read_region

# Chunks made of cells: rows of one block become blocks of arrays, are encoded and stored.
#
# What a block held before the write is read first, unless its rows cover it all; cells that have
# no row and were not there get the fill value.


@dataclass(frozen=True, slots=True, eq=False)
class StoredChunks:
    """Chunks of one array: where they are, and which hold nothing (m, ndim) and are not stored."""

    array: int
    refs: ChunkRefs
    emptied: npt.NDArray[np.uint32]
    rows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class BlockCells:
    """Values for cells of one block: numbers of cells, or an index of as many dimensions."""

    where: Indices | tuple[Any, ...]
    values: Mapping[str, Column]  # stored, by array; in the shape of `where`

    @property
    def count(self) -> int:
        return next((values.size for values in self.values.values()), 0)

    def of(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the block that `where` indexes."""
        return block.reshape(-1) if isinstance(self.where, np.ndarray) else block

    def numbers(self, shape: tuple[int, ...]) -> Indices:
        """Numbers of the cells of a block of this shape."""
        if isinstance(self.where, np.ndarray):
            return self.where
        every: Indices = np.arange(prod(shape), dtype=np.int64).reshape(shape)
        return np.asarray(every[self.where].reshape(-1))


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """All that it takes to make chunks; picklable."""

    layout: Layout
    writer: ChunkWriter
    base: Session | None  # read-only, what was there
    keeps_values: bool = False  # whether only empty cells may be written

    def store(self, block: int, parts: Sequence[BlockCells]) -> list[StoredChunks]:
        """All arrays' chunks of a block. Raises InvalidInputError for two rows of one cell."""
        rows = self._count_distinct(block, parts)
        region = self.layout.grid.region(block)
        stored = []
        for number, array in enumerate(self.layout.arrays):
            whole, part = self._new_block(array, region)
            if self.keeps_values or rows < part.size:
                self._read_base(array, region, part)
            for cells in parts:
                if self.keeps_values:
                    self._require_empty(array, block, cells, whole)
                cells.of(whole)[cells.where] = cells.values[array.name]
            stored.append(self._store_block(number, region, part, rows))
        return stored

    def _count_distinct(self, block: int, parts: Sequence[BlockCells]) -> int:
        """Number of rows, which are all for other cells."""
        seen, rows = np.zeros(self.layout.grid.block, dtype=bool), 0
        for cells in parts:
            if isinstance(cells.where, np.ndarray):
                require_no_duplicate(self.layout, block, cells.where)
            here = cells.of(seen)
            if rows and here[cells.where].any():
                numbers = cells.numbers(seen.shape)
                cell = int(numbers[here[cells.where].reshape(-1)][0])
                raise duplicate_error(self.layout, block, cell)
            here[cells.where] = True
            rows += cells.count
        return rows

    def change(
        self, block: int, cells: Indices, rows: pa.Table, emptied: Indices
    ) -> list[StoredChunks]:
        """All arrays' chunks of a block in which some cells change and others are emptied.

        A value that is what reading gives for the cell leaves the stored one as it is, to the last
        bit; chunks in which nothing changes are not stored. A cell that is emptied and written is
        written. Raises InvalidInputError for two rows of one cell.
        """
        require_no_duplicate(self.layout, block, cells)
        region = self.layout.grid.region(block)
        stored = []
        for number, array in enumerate(self.layout.arrays):
            whole, part = self._new_block(array, region)
            self._read_base(array, region, part)
            before, flat = part.copy(), whole.reshape(-1)
            old = flat[cells]
            flat[emptied] = array.fill
            flat[cells] = old
            if len(cells):
                column = column_of(rows, array.name)
                changed = ~is_said(array.column, old, column)
                new = encode_column(array.column, column.filter(pa.array(changed)))
                flat[cells[changed]] = new
            if not _is_same(before, part):
                stored.append(self._store_block(number, region, part, len(cells)))
        return stored

    def _new_block(
        self, array: ArrayLayout, region: Region
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """A block without values, and the part of it that is in the array."""
        whole = np.full(self.layout.grid.block, array.fill, dtype=array.column.work_dtype)
        return whole, whole[tuple(slice(part.stop - part.start) for part in region)]

    def _require_empty(
        self, array: ArrayLayout, block: int, cells: BlockCells, whole: npt.NDArray[Any]
    ) -> None:
        stored = cells.of(whole)[cells.where].reshape(-1)
        empty = stored == array.fill
        if stored.dtype.kind in "fcmM":
            empty |= stored != stored  # noqa: PLR0124  # NaN and NaT are not themselves
        missing = decode(array.column.decoding, stored).null
        if missing is not None:
            empty |= missing
        if not empty.all():
            cell = int(cells.numbers(whole.shape)[np.flatnonzero(~empty)[0]])
            raise InvalidInputError(
                f"there is a value of {array.name!r} at {place_text(self.layout, block, cell)}:"
                " inserting never overwrites (UPDATE, MERGE, and the modes 'region' and 'upsert')",
                kind="duplicate-rows",
            )

    def _store_block(
        self, number: int, region: Region, block: npt.NDArray[Any], rows: int
    ) -> StoredChunks:
        array = self.layout.arrays[number]
        where = tuple(region[axis] for axis in array.axes)
        refs = store_region(array.document, self.writer, where, block.transpose(array.axes))
        emptied = _exclude_stored(_chunks_of(where, array.chunks), refs)
        touched = array.base_shape is not None
        return StoredChunks(number, refs, emptied if touched else emptied[:0], rows)

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
    if cell is not None:
        raise duplicate_error(layout, block, cell)


def duplicate_error(layout: Layout, block: int, cell: int) -> InvalidInputError:
    where = place_text(layout, block, cell)
    return InvalidInputError(f"two rows are for one cell: {where}", kind="duplicate-rows")


def place_text(layout: Layout, block: int, cell: int) -> str:
    """Coordinates of a cell, for a message."""
    return ", ".join(
        f"{c.name} = {p if c.values is None else text_of(c.column, c.values[p])}"
        for c, p in zip(layout.coordinates, position_of(layout.grid, block, cell), strict=True)
    )


def is_said(spec: StoredColumn, stored: Column, column: pa.Array) -> npt.NDArray[np.bool_]:
    """True where the column has what reading gives for the stored value."""
    said = to_arrow(decode(spec.decoding, stored))
    if pa.types.is_struct(said.type):
        same = [old == new for old, new in zip(said.to_pylist(), column.to_pylist(), strict=True)]
        return np.array(same, dtype=bool)
    said = said.cast(column.type)
    equal = pc.fill_null(pc.equal(said, column), fill_value=False)
    equal = pc.or_(equal, pc.and_(pc.is_null(said), pc.is_null(column, nan_is_null=True)))
    return np.asarray(equal.to_numpy(zero_copy_only=False), dtype=bool)


def _is_same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fcmM")


def _chunks_of(where: Region, chunks: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Index of every chunk in a region of whole chunks, (m, ndim)."""
    along = [
        np.arange(part.start // size, -(-part.stop // size), dtype=np.uint32)
        for part, size in zip(where, chunks, strict=True)
    ]
    return np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(-1, len(chunks))


def _exclude_stored(index: npt.NDArray[np.uint32], refs: ChunkRefs) -> npt.NDArray[np.uint32]:
    if not len(refs):
        return index
    return index[refs.lookup(index) < 0]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    target: Target
    documents: Mapping[str, bytes]  # zarr.json of the arrays that are there


@dataclass(frozen=True, slots=True)
class Written:
    chunks: int
    size_bytes: int
    rows: int


def prepare(session: Session, schema: StructType, options: WriteOptions) -> Prepared:
    """Everything that can be found out without a row. Raises what is wrong with the schema."""
    path = NodePath(options.group)
    there = _describe(session, options.group)
    arrays = {} if there is None else there.arrays
    dims = {dim for array in arrays.values() for dim in array.dims}
    values: dict[str, Column] = {
        name: read_region(session, path.child(name), (slice(0, array.shape[0]),))
        for name, array in arrays.items()
        if array.is_coordinate and name in dims
    }
    target = plan_target(there, values, schema, options)
    for variable in target.variables:
        if not variable.is_new:
            _require_one_chunk_shape(session, path.child(variable.array.name), variable.array)
    documents = {name: session.node(path.child(name)).user_data for name in arrays}
    return Prepared(target, documents)


def apply_layout(
    session: Session, target: Target, layout: Layout, attrs: Mapping[str, Json]
) -> None:
    """Arrays as they will be, without coordinates: `write_coordinates`. Nothing is stored."""
    group = NodePath(layout.group)
    make_group(session, group, attrs)
    for name in target.replaced:
        session.delete_node(group.child(name))
    for array in layout.arrays:
        session.set_node(group.child(array.name), array.document)


def write_coordinates(session: Session, layout: Layout) -> None:
    for axis in range(len(layout.coordinates)):
        _write_coordinate(session, NodePath(layout.group), layout, axis)


def adopt_node_ids(session: Session, nodes: Mapping[NodePath, NodeId]) -> None:
    """Lets new arrays have these ids, by which manifests know them already."""

    def revised(changes: ChangeSet) -> ChangeSet:
        for path, node_id in nodes.items():
            node = changes.find_node(path)
            if node is not None and node.id in changes.created:
                changes.created.discard(node.id)
                changes.created.add(node_id)
                changes.edited[path.text] = replace(node, id=node_id)
        return changes

    session.revise(revised)


def truncate(session: Session, group: str, names: Sequence[str]) -> None:
    """Arrays of no length in place of those that are there, without their chunks."""
    for name in names:
        path = NodePath(group).child(name)
        node = session.find_node(path)
        if node is not None and node.array is not None:
            document = resized_document(node.user_data, [0] * len(node.array.shape))
            session.delete_node(path)
            session.set_node(path, document)


def make_group(session: Session, group: NodePath, attrs: Mapping[str, Json]) -> None:
    """Creates a group with its parents. Attributes are added to existing ones."""
    for path in [*reversed([*group.ancestors]), group]:
        node = session.find_node(path)
        given = attrs if path == group else {}
        if node is None:
            session.set_node(path, group_document(given))
        elif node.array is not None:
            raise InvalidInputError(
                f"there is an array at `{path}`, not a group", kind="not-a-group"
            )
        elif given:
            kept = json.loads(node.user_data).get("attributes", {})
            session.set_node(path, group_document({**kept, **given}))


def merge_chunks(
    session: Session, paths: Sequence[NodePath], results: Iterable[StoredChunks]
) -> Written:
    """References into the session. A chunk that was made twice is an error, never lost.

    Results number the arrays that are at `paths`.
    """
    chunks, size, rows = 0, 0, 0
    by_array: dict[int, list[StoredChunks]] = {}
    for result in results:
        by_array.setdefault(result.array, []).append(result)
        rows += result.rows if result.array == 0 else 0
    for number, parts in by_array.items():
        path = paths[number]
        refs = ChunkRefs.concat([part.refs for part in parts])
        emptied = np.concatenate([part.emptied for part in parts])
        all_made = np.concatenate([emptied, *(part.refs.index for part in parts)])
        if len(np.unique(all_made, axis=0)) != len(all_made):
            raise InvalidInputError(
                f"two rows are for one chunk of {path.name!r}", kind="duplicate-rows"
            )
        if len(refs):
            session.set_chunk_refs(path, refs)
        for index in emptied.tolist():
            if session.chunk_payload(path, tuple(index)) is not None:
                session.delete_chunk(path, tuple(index))
        chunks += len(refs)
        size += int(refs.length.sum(dtype=np.uint64))
    return Written(chunks, size, rows)


def join_chunks(parts: Iterable[StoredChunks]) -> Iterator[StoredChunks]:
    """One for each array."""
    by_array: dict[int, list[StoredChunks]] = {}
    for part in parts:
        by_array.setdefault(part.array, []).append(part)
    for number, of_array in by_array.items():
        yield StoredChunks(
            number,
            ChunkRefs.concat([part.refs for part in of_array]),
            np.concatenate([part.emptied for part in of_array]),
            sum(part.rows for part in of_array),
        )


def _require_one_chunk_shape(session: Session, path: NodePath, array: ArrayDescription) -> None:
    stored = session.node(path).array
    grid = tuple(-(-n // chunk) for n, chunk in zip(array.shape, array.chunks, strict=True))
    if stored is not None and stored.num_chunks != grid:
        raise InvalidInputError(f"the chunks of array `{path}` are not all of one shape")


def _describe(session: Session, group: str) -> GroupDescription | None:
    try:
        return Opened(session).describe(group)
    except NodeNotFoundError:
        return None


def _write_coordinate(session: Session, group: NodePath, layout: Layout, axis: int) -> None:
    """Stores chunks that change."""
    coordinate, document = layout.coordinates[axis], layout.coordinate_documents[axis]
    if document is None or coordinate.values is None:
        return
    path = group.child(coordinate.name)
    node = session.find_node(path)
    if node is not None and node.user_data == document:
        return
    session.set_node(path, document)
    base = layout.base_sizes[axis]
    chunk = Opened(session).describe(layout.group).arrays[coordinate.name].chunks[0]
    start = base // chunk * chunk
    if start >= coordinate.size:
        return
    where = (slice(start, coordinate.size),)
    refs = store_region(document, session.chunk_writer(), where, coordinate.values[start:])
    session.set_chunk_refs(path, refs)


# Rows, as columns of Arrow, on their way to cells.

type Table = pa.Table | pa.RecordBatch


def column_of(table: Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def positions_of(coordinate: Coordinate, column: pa.Array) -> Indices:
    """Along one dimension. Raises InvalidInputError for a row outside."""
    values = encode_coordinate(coordinate.column, column)
    found = locate(coordinate, values)
    outside = np.flatnonzero(found < 0)
    if len(outside):
        raise outside_grid_error(coordinate, values[outside[0]])
    return found


def encode_rows(layout: Layout, table: Table) -> dict[str, Column]:
    """Stored values of the variables."""
    return {
        array.name: encode_column(array.column, column_of(table, array.name))
        for array in layout.arrays
    }
