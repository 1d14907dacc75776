"""Mode `rows`: the rows of the chunks that a commit changed, as they are after it.

    insert    the row is new: beyond the former shape of the variables
    update    it was there: a chunk of it was written or deleted, or its coordinate was

A chunk of fill values only is not stored, as Zarr would have it, but its rows are rows: what
counts is what the transaction log names. Coordinates are compared value by value, since to append
is to write the last chunk of one again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.arrow_schema import arrow_schema
from frazil.spark.cf import RAW, Values, plan_decoding
from frazil.spark.description import ArrayDescription, choose_grid
from frazil.spark.opened import Opened
from frazil.spark.options import ReadOptions
from frazil.spark.plan import Axis, Box, cell_size
from frazil.spark.positions import Positions
from frazil.spark.scan import Scan, Table, positions_along, read_box
from frazil.spark.schema import ColumnPlan, plan_columns, spark_schema, spark_type
from frazil.spark.streaming.boxes import (
    Boxes,
    cell_box,
    cells_touched,
    chunk_boxes,
    no_boxes,
    painted,
    slabs,
    within,
)
from frazil.spark.streaming.change_columns import INSERT, NAMES, NOTHING, UPDATE, completed
from frazil.spark.streaming.commits import Commit
from frazil.spark.streaming.options import OnRemoval
from frazil.spark.streaming.versions import (
    ArrayVersions,
    Versions,
    arrays_in,
    stored_chunks,
)


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
    former: tuple[ArrayDescription, ...]
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
        codes = _codes(part, box).reshape(-1)
        if (codes == NOTHING).all():
            continue
        start = 0
        for batch in read_box(opened, part.scan, box, own):
            found = codes[start : start + batch.num_rows]
            start += batch.num_rows
            keep = found != NOTHING
            if keep.any():
                yield completed(batch.filter(pa.array(keep)), part.commit, found[keep], schema)


def _codes(part: RowsPart, box: Box) -> npt.NDArray[np.uint8]:
    axes = part.scan.axes
    dims = [axis.name for axis in axes]
    places = [
        np.asarray(axis.positions[lo:hi], dtype=np.int64)
        for axis, (lo, hi) in zip(axes, box, strict=True)
    ]
    was = painted(places, _whole_boxes(part.former, dims))
    codes = np.where(was, UPDATE, INSERT).astype(np.uint8)
    if part.changed is not None:
        codes[~painted(places, part.changed)] = NOTHING
    return codes


def _whole_boxes(arrays: Sequence[ArrayDescription], dims: Sequence[str]) -> Boxes:
    boxes = np.zeros((len(arrays), 2, len(dims)), dtype=np.int64)
    boxes[:, 1] = [[_size(array, dim) for dim in dims] for array in arrays] or 0
    return boxes


def _find_table(opened: Opened, request: RowsRequest) -> Table | None:
    """What there is of the stream's table. Raises if it has other types."""
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


def _watched(table: Table) -> tuple[ArrayDescription, ...]:
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
    watched, old = _watched(table), arrays_in(versions.before, request.options.group)
    pairs = [versions.of(_like(old.get(array.name), array), array) for array in watched]
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
    step = _cells_of_task(table, watched, sizes, request.options.partition_bytes)
    scan = Scan(table, axes, (), request.options.batch_rows)
    former = tuple(pair.old for pair in pairs if pair.old is not None)
    return [
        RowsPart(
            commit,
            replace(scan, boxes=tuple(cell_box(cell, axes, sizes) for cell in part.tolist())),
            former,
            None if whole else within(changed, part, sizes),
        )
        for part in (cells[at : at + step] for at in range(0, len(cells), step))
    ]


def _like(old: ArrayDescription | None, new: ArrayDescription) -> ArrayDescription | None:
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
    return np.flatnonzero(~_same(old, new))


def _same(old: Values, new: Values) -> npt.NDArray[np.bool_]:
    a, b = old.values, new.values
    nothing = np.zeros(len(a), dtype=np.bool_)
    null_a = nothing if old.null is None else old.null
    null_b = nothing if new.null is None else new.null
    equal: npt.NDArray[np.bool_] = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124  # NaN is not itself
    return np.where(null_a | null_b, null_a & null_b, equal)


def _axes(opened: Opened, table: Table, options: ReadOptions) -> tuple[Axis, ...]:
    return tuple(
        Axis(dimension.name, _positions(opened, column, dimension.size, options))
        for dimension, column in zip(table.grid.dimensions, table.dimensions, strict=True)
    )


def _positions(opened: Opened, column: ColumnPlan, size: int, options: ReadOptions) -> Positions:
    try:
        return positions_along(opened, column, size, options)
    except InvalidInputError:
        return range(0)  # a value or a position that is not there yet; the newest was checked


def _cells_of_task(
    table: Table, watched: Sequence[ArrayDescription], sizes: Sequence[int], target_bytes: int
) -> int:
    """How many cells have about `target_bytes`."""
    stored = sum(array.dtype.itemsize for array in watched)
    row_bytes = sum(column.dtype.itemsize for column in table.columns)
    return max(1, target_bytes // max(1, prod(sizes) * max(stored, row_bytes)))
