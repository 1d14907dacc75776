"""Mode `rows` without `changes`: rows of the chunks that a commit changed, as they are after it.

With `changes`, rows are compared one by one: see change_rows. A chunk of fill values only is not
stored, as Zarr would have it, but its rows are rows: what counts is what the transaction log
names. Coordinates are compared value by value, since to append is to write the last chunk of one
again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from frazil.engine.changes.transaction_logs import ids_in, unite_logs
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.chunk_index import distinct
from frazil.format.transaction_log import TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.spark.io.chunk_scan import chunk_kinds
from frazil.spark.io.stream_commits import Commit, OnRemoval
from frazil.spark.table.cf import RAW, Values, plan_decoding
from frazil.spark.table.description import ArrayDescription, choose_grid
from frazil.spark.table.metadata_tables import repeat_column, time_column
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan import Scan, Table, positions_along, read_box
from frazil.spark.table.scan_plan import Axis, Box, cell_size
from frazil.spark.table.schema import (
    ColumnPlan,
    arrow_schema,
    plan_columns,
    spark_schema,
    spark_type,
)
from frazil.spark.table.selection import Positions

# Boxes of elements: what changed, what is stored, what a task reads. Columns, not objects.
#
# Chunks of several arrays need not have the same shape. A row has changed if it is in a changed
# chunk of any of them, so tasks are made of cells that hold whole chunks where that is possible,
# and rows of a cell are masked where it is not.

type Boxes = npt.NDArray[np.int64]  # (n, 2, ndim): first element, and behind the last
type Cells = npt.NDArray[np.int64]  # (n, ndim)


def no_boxes(ndim: int) -> Boxes:
    return np.zeros((0, 2, ndim), dtype=np.int64)


def chunk_boxes(
    array: ArrayDescription, index: npt.NDArray[np.uint32], dims: Sequence[str]
) -> Boxes:
    """Boxes of the chunks at `index` in the order of `dims`, cut off at the end of the array."""
    shape = np.array(array.shape, dtype=np.int64)
    first = index.astype(np.int64) * np.array(array.chunks, dtype=np.int64)
    first = first[(first < shape).all(axis=1)]
    stop = np.minimum(first + np.array(array.chunks, dtype=np.int64), shape)
    order = [array.dims.index(dim) for dim in dims]
    return np.stack([first, stop], axis=1)[:, :, order]


def slabs(axis: int, positions: npt.NDArray[np.int64], shape: Sequence[int]) -> Boxes:
    """All elements at some positions of one axis; neighbours make one box."""
    breaks = np.flatnonzero(np.diff(positions) > 1) + 1
    runs = [run for run in np.split(positions, breaks) if len(run)]
    boxes = np.zeros((len(runs), 2, len(shape)), dtype=np.int64)
    boxes[:, 1] = shape
    boxes[:, 0, axis] = [run[0] for run in runs]
    boxes[:, 1, axis] = [run[-1] + 1 for run in runs]
    return boxes


def cells_touched(boxes: Boxes, axes: Sequence[Axis], sizes: Sequence[int]) -> Cells:
    """Cells of `sizes` with an element of a box and a wanted position along every axis."""
    cells = _cells(boxes, np.array(sizes, dtype=np.int64))
    keep = np.ones(len(cells), dtype=np.bool_)
    for k, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        wanted = np.unique(np.asarray(axis.positions, dtype=np.int64) // size)
        keep &= np.isin(cells[:, k], wanted)
    return cells[keep]


def _cells(boxes: Boxes, sizes: npt.NDArray[np.int64]) -> Cells:
    """Every cell that a box touches, once, in ascending order."""
    boxes = boxes[(boxes[:, 0] < boxes[:, 1]).all(axis=1)]
    first, last = boxes[:, 0] // sizes, (boxes[:, 1] - 1) // sizes
    along = last - first + 1
    counts = along.prod(axis=1)
    owner = np.repeat(np.arange(len(boxes)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    cells = np.zeros((len(owner), len(sizes)), dtype=np.int64)
    for k in reversed(range(len(sizes))):
        cells[:, k] = first[owner, k] + number % along[owner, k]
        number //= along[owner, k]
    return np.unique(cells, axis=0) if len(sizes) else cells[:1]


def cell_box(cell: Sequence[int], axes: Sequence[Axis], sizes: Sequence[int]) -> Box:
    """Offsets into the positions of the axes."""
    return tuple(
        _span(axis, number * size, (number + 1) * size)
        for number, axis, size in zip(cell, axes, sizes, strict=True)
    )


def _span(axis: Axis, first: int, stop: int) -> tuple[int, int]:
    wanted = axis.positions
    if isinstance(wanted, range):
        return tuple(min(max(at - wanted.start, 0), len(wanted)) for at in (first, stop))  # type: ignore[return-value]  # two of two
    lo, hi = np.searchsorted(wanted, [first, stop]).tolist()
    return lo, hi


def boxes_near_cells(boxes: Boxes, cells: Cells, sizes: Sequence[int]) -> Boxes:
    """Returns the boxes that may touch one of the cells: their bounding box is compared."""
    if not len(cells) or not len(sizes):
        return boxes
    scale = np.array(sizes, dtype=np.int64)
    low, high = cells.min(axis=0) * scale, (cells.max(axis=0) + 1) * scale
    return boxes[((boxes[:, 0] < high) & (boxes[:, 1] > low)).all(axis=1)]


def inside_boxes(places: Sequence[npt.NDArray[np.int64]], boxes: Boxes) -> npt.NDArray[np.bool_]:
    """True for combinations of positions that are in a box; `places` ascend."""
    mask = np.zeros([len(along) for along in places], dtype=np.bool_)
    for first, stop in boxes:
        spans = [np.searchsorted(along, [first[k], stop[k]]) for k, along in enumerate(places)]
        mask[tuple(slice(lo, hi) for lo, hi in spans)] = True
    return mask


# A group of arrays before and after a commit, and what its transaction log says of them.

type Index = npt.NDArray[np.uint32]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    before: Opened
    after: Opened
    log: TransactionLog

    def arrays(self, group: str) -> Iterator[tuple[str, "ArrayVersions"]]:
        """Arrays that are or were in the group, by name."""
        old, new = arrays_in(self.before, group), arrays_in(self.after, group)
        for name in dict.fromkeys((*old, *new)):
            yield name, self.of(old.get(name), new.get(name))

    def of(self, old: ArrayDescription | None, new: ArrayDescription | None) -> "ArrayVersions":
        return ArrayVersions(
            old,
            new,
            node_id=_node_id(self.after, new),
            is_same=new is not None
            and old is not None
            and _node_id(self.before, old) == _node_id(self.after, new)
            and (old.chunks, old.dims) == (new.chunks, new.dims),
        )

    def touches(self, array: "ArrayVersions") -> bool:
        """True if its metadata or its values may have changed."""
        if not array.is_same or array.node_id is None:
            return True
        # new on both sides of a history that was rewritten, if it is in both versions
        named = ids_in(self.log.updated_arrays, self.log.new_arrays)
        return array.node_id in self.log.updated_chunks or array.node_id in named

    def logged(self, array: "ArrayVersions") -> Index:
        """Chunks of the new array that were written or deleted."""
        ndim = 0 if array.new is None else len(array.new.shape)
        found = None if array.node_id is None else self.log.updated_chunks.get(array.node_id)
        return no_chunks(ndim) if found is None or found.shape[1] != ndim else found


@dataclass(frozen=True, slots=True, eq=False)
class ArrayVersions:
    """One path. `is_same`: the same node on the same grid, perhaps of another shape."""

    old: ArrayDescription | None
    new: ArrayDescription | None
    node_id: NodeId | None  # of `new`
    is_same: bool


def open_versions(commit: Commit, before: Opened, after: Opened) -> Versions:
    logs = after.session.files.fetch_logs(list(commit.logs))
    return Versions(before, after, unite_logs(commit.snapshot, logs[::-1]))


def arrays_in(opened: Opened, group: str) -> Mapping[str, ArrayDescription]:
    """None if there is no such group."""
    try:
        return opened.describe(group).arrays
    except NodeNotFoundError:
        return {}


def stored_chunks(opened: Opened, array: ArrayDescription) -> Index:
    """Index of every chunk that was written."""
    found = [refs.index for refs in opened.session.chunk_refs(NodePath(array.path))]
    return distinct(np.concatenate(found)) if found else no_chunks(len(array.shape))


def is_stored(
    opened: Opened, array: ArrayDescription | None, index: Index
) -> npt.NDArray[np.bool_]:
    if array is None:
        return np.zeros(len(index), dtype=np.bool_)
    return chunk_kinds(opened, NodePath(array.path), index) > 0


def no_chunks(ndim: int) -> Index:
    return np.zeros((0, ndim), dtype=np.uint32)


def _node_id(opened: Opened, array: ArrayDescription | None) -> NodeId | None:
    return None if array is None else opened.session.node(NodePath(array.path)).id


# The columns that say what a row of a stream is, named as Spark names them for CHANGES.

CHANGE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
NAMES = (CHANGE, VERSION, TIME)
DELETE, INSERT, UPDATE, PREIMAGE, POSTIMAGE, NOTHING = range(6)
_KINDS = ("delete", "insert", "update", "update_preimage", "update_postimage")


def change_codes(
    was: npt.NDArray[np.bool_], is_there: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """NOTHING where there was nothing and is nothing."""
    after = np.where(is_there, INSERT, NOTHING)
    return np.where(was, np.where(is_there, UPDATE, DELETE), after).astype(np.uint8)


def with_change_columns(schema: StructType | str) -> StructType | str:
    if isinstance(schema, str):
        return f"{schema}, {CHANGE} STRING, {VERSION} STRING, {TIME} TIMESTAMP"
    doubled = [name for name in schema.names if name.casefold() in NAMES]
    if doubled:
        raise InvalidInputError(f"the table has a column {doubled[0]!r} of its own: leave it out")
    types = (StringType(), StringType(), TimestampType())
    return StructType(
        [*schema.fields, *(StructField(n, t) for n, t in zip(NAMES, types, strict=True))]
    )


def add_change_columns(
    batch: pa.RecordBatch, commit: Commit, codes: npt.NDArray[np.uint8], schema: pa.Schema
) -> pa.RecordBatch:
    """The columns of the schema: those of the batch, what changed, and NULL for the rest."""
    count = batch.num_rows
    told = {
        CHANGE: pa.array(_KINDS, pa.string()).take(pa.array(codes)),
        VERSION: repeat_column(str(commit.snapshot), count),
        TIME: time_column(np.full(count, commit.committed_us)),
    }
    return fill_columns(batch, told, schema)


def fill_columns(
    batch: pa.RecordBatch, more: Mapping[str, pa.Array], schema: pa.Schema
) -> pa.RecordBatch:
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **more}
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names).cast(schema)


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """`variables`: of the table when the stream began. The schema is Spark's, change and all."""

    options: ReadOptions
    variables: tuple[str, ...]
    schema: StructType
    on_removal: OnRemoval


@dataclass(frozen=True, slots=True, eq=False)
class RowsPart:
    """A task. Without `changed` all rows of its boxes have changed."""

    commit: Commit
    scan: Scan
    changed: Boxes | None


def plan_rows(commit: Commit, versions: Versions, request: RowsRequest) -> list[RowsPart]:
    """Reads coordinates that changed or are selected on, and lists what is stored of new arrays."""
    try:
        _require_nothing_removed(versions, request)
        table = _find_table(versions.after, request)
        return [] if table is None else _plan_parts(commit, versions, table, request)
    except InvalidInputError as error:
        raise InvalidInputError(f"commit {commit.snapshot}: {error}", kind=error.kind) from error


def read_rows(opened: Opened, part: RowsPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    own = arrow_schema(spark_schema(part.scan.table.columns))
    for box in part.scan.boxes:
        mask = _mask(part, box).reshape(-1)
        start = 0
        for batch in read_box(opened, part.scan, box, own) if mask.any() else ():
            keep = mask[start : start + batch.num_rows]
            start += batch.num_rows
            if keep.any():
                yield fill_columns(batch.filter(pa.array(keep)), {}, schema)


def _mask(part: RowsPart, box: Box) -> npt.NDArray[np.bool_]:
    """True for rows that have changed."""
    places = [
        np.asarray(axis.positions[lo:hi], dtype=np.int64)
        for axis, (lo, hi) in zip(part.scan.axes, box, strict=True)
    ]
    if part.changed is None:
        return np.ones([len(along) for along in places], dtype=np.bool_)
    return inside_boxes(places, part.changed)


def _find_table(opened: Opened, request: RowsRequest) -> Table | None:
    """Finds the stream's table. Raises if it has other types."""
    options = request.options
    there = [name for name in request.variables if name in arrays_in(opened, options.group)]
    if not there:
        return None
    grid = choose_grid(opened.describe(options.group), there)
    columns = plan_columns(grid, decode_cf=options.decode_cf)
    types = {field.name: field.dataType for field in request.schema if field.name not in NAMES}
    kept = tuple(column for column in columns if column.name in types)
    for column in kept:
        if spark_type(column) != types[column.name]:
            raise InvalidInputError(
                f"column {column.name!r} is {spark_type(column).simpleString()}, but"
                f" {types[column.name].simpleString()} in the stream; begin another stream"
            )
    return Table(grid, columns, kept or columns[:1])


def _row_arrays(table: Table) -> tuple[ArrayDescription, ...]:
    """Arrays whose chunks make up the rows."""
    coordinates = tuple(c.array for c in table.dimensions if c.array is not None)
    return table.variables or table.grid.variables or coordinates


def _require_nothing_removed(versions: Versions, request: RowsRequest) -> None:
    if request.on_removal is OnRemoval.IGNORE:
        return
    group = request.options.group
    old, new = arrays_in(versions.before, group), arrays_in(versions.after, group)
    for name in request.variables:
        if name not in old:
            continue
        if name not in new:
            raise _removal(f"array {name!r} was deleted or moved away")
        sizes = dict(zip(new[name].dims, new[name].shape, strict=True))
        for dim, size in zip(old[name].dims, old[name].shape, strict=True):
            if sizes.get(dim, 0) < size:
                raise _removal(f"dimension {dim!r} of array {name!r} became shorter")


def _removal(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what}, and a stream of rows cannot take rows back. With the option onRemoval=ignore it"
        " goes on; a stream of chunks (mode=chunks) tells what was deleted",
        kind="rows-removed",
    )


def _plan_parts(
    commit: Commit, versions: Versions, table: Table, request: RowsRequest
) -> list[RowsPart]:
    dims = [dimension.name for dimension in table.grid.dimensions]
    watched, old = _row_arrays(table), arrays_in(versions.before, request.options.group)
    pairs = [versions.of(_if_same_dims(old.get(array.name), array), array) for array in watched]
    own = np.concatenate([_changed_boxes(versions, pair, dims) for pair in pairs])
    slabbed = [*_changed_slabs(versions, table, pairs), *_uncovered_slabs(table, pairs)]
    changed = np.concatenate([own, *slabbed])
    if not len(changed):
        return []
    axes = _axes(versions.after, table, request.options)
    sizes = [cell_size([array.chunk_of(dim) for array in watched]) for dim in dims]
    cells = cells_touched(changed, axes, sizes)
    grids = {tuple(array.chunk_of(dim) for dim in dims) for array in watched}
    whole = grids == {tuple(sizes)} and not slabbed
    step = cells_of_task(table, watched, sizes, request.options.partition_bytes)
    scan = Scan(table, axes, (), request.options.batch_rows)
    return [
        RowsPart(
            commit,
            replace(scan, boxes=tuple(cell_box(cell, axes, sizes) for cell in part.tolist())),
            None if whole else boxes_near_cells(changed, part, sizes),
        )
        for part in (cells[at : at + step] for at in range(0, len(cells), step))
    ]


def _if_same_dims(old: ArrayDescription | None, new: ArrayDescription) -> ArrayDescription | None:
    """An array of other dimensions has no rows in common with this one."""
    return old if old is not None and sorted(old.dims) == sorted(new.dims) else None


def _changed_boxes(versions: Versions, pair: ArrayVersions, dims: Sequence[str]) -> Boxes:
    found = [no_boxes(len(dims))]
    if pair.new is not None:
        found.append(chunk_boxes(pair.new, versions.logged(pair), dims))
    if pair.is_same:
        return np.concatenate(found)
    for opened, array in ((versions.before, pair.old), (versions.after, pair.new)):
        if array is not None:
            found.append(chunk_boxes(array, stored_chunks(opened, array), dims))
    shape = np.array([_size(pair.new, dim) for dim in dims], dtype=np.int64)
    return np.minimum(np.concatenate(found), shape)  # what is beyond is gone


def _size(array: ArrayDescription | None, dim: str) -> int:
    return 0 if array is None else array.shape[array.dims.index(dim)]


def _changed_slabs(versions: Versions, table: Table, pairs: Sequence[ArrayVersions]) -> list[Boxes]:
    """Rows whose coordinate has another value than before."""
    if all(pair.old is None for pair in pairs):
        return []  # they are new anyway
    kept = {column.name for column in table.columns}
    old = arrays_in(versions.before, table.grid.group)
    shape = [dimension.size for dimension in table.grid.dimensions]
    found = []
    for k, column in enumerate(table.dimensions):
        former = old.get(column.name)
        if column.name in kept and column.array is not None and former is not None:
            pair = versions.of(former, column.array)
            if versions.touches(pair) and former.is_coordinate:
                found.append(slabs(k, _changed_positions(versions, former, column), shape))
    return [boxes for boxes in found if len(boxes)]


def _uncovered_slabs(table: Table, pairs: Sequence[ArrayVersions]) -> list[Boxes]:
    """New rows in chunks that were stored before: an array grew within its last chunks."""
    shape = [dimension.size for dimension in table.grid.dimensions]
    found = []
    for k, dimension in enumerate(table.grid.dimensions):
        for pair in pairs:
            if pair.is_same and pair.old is not None:
                size, chunk = _size(pair.old, dimension.name), pair.old.chunk_of(dimension.name)
                stop = min(-(-size // chunk) * chunk, dimension.size)
                found.append(slabs(k, np.arange(size, stop), shape))
    return [boxes for boxes in found if len(boxes)]


def _changed_positions(
    versions: Versions, former: ArrayDescription, column: ColumnPlan
) -> npt.NDArray[np.int64]:
    size = former.shape[0]
    count = min(size, 0 if column.array is None else column.array.shape[0])
    decoding = RAW if column.decoding is RAW else plan_decoding(former)
    before = ColumnPlan(column.name, former, decoding, True, column.nan_is_null)
    old = versions.before.coordinate(before, slice(0, count), size=size)
    new = versions.after.coordinate(
        column, slice(0, count), size=0 if column.array is None else column.array.shape[0]
    )
    return np.flatnonzero(~_equal_mask(old, new))


def _equal_mask(old: Values, new: Values) -> npt.NDArray[np.bool_]:
    a, b = old.values, new.values
    nothing = np.zeros(len(a), dtype=np.bool_)
    null_a = nothing if old.null is None else old.null
    null_b = nothing if new.null is None else new.null
    equal: npt.NDArray[np.bool_] = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124  # NaN is not itself
    return np.where(null_a | null_b, null_a & null_b, equal)


def _axes(opened: Opened, table: Table, options: ReadOptions) -> tuple[Axis, ...]:
    return tuple(
        Axis(dimension.name, positions_or_none(opened, column, dimension.size, options))
        for dimension, column in zip(table.grid.dimensions, table.dimensions, strict=True)
    )


def positions_or_none(
    opened: Opened, column: ColumnPlan, size: int, options: ReadOptions
) -> Positions:
    try:
        return positions_along(opened, column, size, options)
    except InvalidInputError:
        return range(0)  # a value or a position that is not there yet; the newest was checked


def cells_of_task(
    table: Table, watched: Sequence[ArrayDescription], sizes: Sequence[int], target_bytes: int
) -> int:
    """Number of cells of about `target_bytes`."""
    stored = sum(array.dtype.itemsize for array in watched)
    row_bytes = sum(column.dtype.itemsize for column in table.columns)
    return max(1, target_bytes // max(1, prod(sizes) * max(stored, row_bytes)))
