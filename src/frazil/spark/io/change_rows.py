"""Change data: what a commit, or several together, did to the rows of a table.

A row is there if it is in the shape of the table and at least one of its variables is not NULL;
of a table without variables, if it is in the shape. Its identity are the values of its dimensions.

    insert                               it was not there before, and is after
    delete                               it was there before, and is not after
    update_preimage, update_postimage    it is there before and after, with another value

So the rows of the version before, with the changes of some commits applied, are the rows of the
version after. Values are the same if Spark's `<=>` says so: NaN is NaN, -0.0 is 0.0.

Only chunks that the transaction log names, and rows that a shape or a coordinate adds or takes
away, are read: both versions of them, on executors. A chunk outside of an array's shape holds
nothing, since Zarr deletes it when the array becomes smaller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.io.stream_commits import Commit
from frazil.spark.io.stream_rows import (
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    Boxes,
    Versions,
    add_change_columns,
    arrays_in,
    cell_box,
    cells_of_task,
    cells_touched,
    chunk_boxes,
    no_boxes,
    positions_or_none,
    slabs,
    stored_chunks,
)
from frazil.spark.table.cf import decode
from frazil.spark.table.description import choose_grid
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan import Scan, Table, read_box
from frazil.spark.table.scan_plan import Axis, cell_size
from frazil.spark.table.schema import (
    ColumnPlan,
    arrow_schema,
    plan_columns,
    spark_schema,
    spark_type,
    to_arrow,
)
from frazil.spark.table.selection import (
    EVERYTHING,
    Positions,
    Selection,
    compact,
    intersect,
    resolve,
)

type Numbers = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """`columns` of the table whose changes are asked for: dimensions, then variables.

    `variables` are the arrays that make up the table. Rows that `prune` does not select may be left
    out.
    """

    options: ReadOptions
    columns: StructType
    dimensions: tuple[str, ...]
    variables: tuple[str, ...]
    prune: Selection = EVERYTHING

    @property
    def values(self) -> list[str]:
        """Columns that are no dimensions."""
        return [name for name in self.columns.names if name not in self.dimensions]


# Keys: the positions along one dimension that have the same value before and after.
#
# Of a dimension that was 10 20 30 and is 10 30 40, the keys are 10 (0, 0), 30 (2, 1), 40 (-, 2) and
# 20 (1, -). Those of the new version come first, so that key and position are the same number as
# long as a coordinate only grows or shrinks at its end.


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Positions before and after, by key, -1 where there is none. `moved`: see above."""

    name: str
    old: Numbers
    new: Numbers
    moved: Numbers

    def __len__(self) -> int:
        return len(self.new)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Some positions of one version, ascending, and which key of the box each has."""

    positions: Positions
    places: Positions | Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Keys of a box along one dimension."""

    name: str
    count: int
    old: Side
    new: Side


@dataclass(frozen=True, slots=True, eq=False)
class ChangesPart:
    """A task. A table is None where there is no such table before, or after."""

    commit: Commit
    old: Table | None
    new: Table | None
    boxes: tuple[tuple[Span, ...], ...]


def plan_changes(commit: Commit, versions: Versions, request: ChangesRequest) -> list[ChangesPart]:
    """Reads coordinates that changed or are selected on, and lists what is stored of new arrays."""
    try:
        old, new = (_find_table(each, request) for each in (versions.before, versions.after))
        return _plan_parts(commit, versions, old, new, request)
    except InvalidInputError as error:
        raise InvalidInputError(f"commit {commit.snapshot}: {error}", kind=error.kind) from error


def _find_table(opened: Opened, request: ChangesRequest) -> Table | None:
    options = request.options
    arrays = arrays_in(opened, options.group)
    there = [name for name in request.variables if name in arrays]
    if not there:
        return None
    grid = choose_grid(opened.describe(options.group), there)
    columns = plan_columns(grid, decode_cf=options.decode_cf)
    types = {field.name: field.dataType for field in request.columns}
    for column in columns:
        found, wanted = spark_type(column), types.get(column.name)
        if wanted is None or found != wanted:
            told = "not there" if wanted is None else wanted.simpleString()
            raise InvalidInputError(
                f"column {column.name!r} is {found.simpleString()}, but {told} in the table whose"
                " changes are read; begin another stream, or ask for the changes up to this commit"
            )
    return Table(grid, columns, columns)


def _plan_parts(
    commit: Commit,
    versions: Versions,
    old: Table | None,
    new: Table | None,
    request: ChangesRequest,
) -> list[ChangesPart]:
    lead = new or old
    if lead is None:
        return []
    if old and new and {d.name for d in old.dimensions} != {d.name for d in new.dimensions}:
        raise InvalidInputError("the table has other dimensions than before")
    keys = [_align(versions, old, new, c.name, request) for c in lead.dimensions]
    shape = [len(each) for each in keys]
    moved = [slabs(k, each.moved, shape) for k, each in enumerate(keys)]
    boxes = np.concatenate([_changed_boxes(versions, old, new, shape), *moved])
    if not len(boxes):
        return []
    axes = tuple(_axis(each) for each in keys)
    watched = [array for table in (old, new) if table for array in table.variables] or [
        c.array for table in (old, new) if table for c in table.dimensions if c.array is not None
    ]
    sizes = [cell_size([array.chunk_of(axis.name) for array in watched]) for axis in axes]
    cells = cells_touched(boxes, axes, sizes)
    step = cells_of_task(lead, watched, sizes, request.options.partition_bytes)
    parts = (cells[at : at + step].tolist() for at in range(0, len(cells), step))
    return [
        ChangesPart(
            commit, old, new, tuple(_spans(keys, axes, cell_box(c, axes, sizes)) for c in part)
        )
        for part in parts
    ]


def _axis(keys: Keys) -> Axis:
    return Axis(keys.name, compact(np.flatnonzero((keys.old >= 0) | (keys.new >= 0))))


def _spans(
    keys: Sequence[Keys], axes: Sequence[Axis], box: Sequence[tuple[int, int]]
) -> tuple[Span, ...]:
    found = []
    for each, axis, (lo, hi) in zip(keys, axes, box, strict=True):
        chosen = np.asarray(axis.positions[lo:hi], dtype=np.int64)
        sides = _side(each.old[chosen]), _side(each.new[chosen])
        found.append(Span(each.name, len(chosen), *sides))
    return tuple(found)


def _side(positions: Numbers) -> Side:
    places = np.flatnonzero(positions >= 0)
    there = positions[places]
    order = np.argsort(there, kind="stable")
    return Side(compact(there[order]), _as_range(places[order]))


def _as_range(numbers: Numbers) -> Positions | Numbers:
    ascends = len(numbers) > 0 and bool((np.diff(numbers) == 1).all())
    return range(int(numbers[0]), int(numbers[-1]) + 1) if ascends else numbers


def _align(
    versions: Versions, old: Table | None, new: Table | None, name: str, request: ChangesRequest
) -> Keys:
    before = _numbers_of(old, name)
    after = _numbers_of(new, name)
    if old and new and _may_differ(versions, old, new, name):
        matched = _match(_values(versions.before, old, name), _values(versions.after, new, name))
    else:
        matched = np.where(after < len(before), after, -1)
    gone = np.setdiff1d(before, matched)
    was = np.concatenate([matched, gone])
    now = np.concatenate([after, np.full(len(gone), -1)])
    was = _selected(versions.before, old, name, was, request)
    now = _selected(versions.after, new, name, now, request)
    grown = (was < 0) & (now >= len(before)) if old else np.zeros(len(now), np.bool_)
    shrunk = (now < 0) & (was >= len(after)) & (was == np.arange(len(was)))
    differs = (was != now) & ~grown & ~shrunk & bool(old and new)
    return Keys(name, was, now, np.flatnonzero(differs))


def _column(table: Table, name: str) -> ColumnPlan:
    return next(column for column in table.dimensions if column.name == name)


def _numbers_of(table: Table | None, name: str) -> Numbers:
    sizes = {d.name: d.size for d in table.grid.dimensions} if table else {}
    return np.arange(sizes.get(name, 0))


def _may_differ(versions: Versions, old: Table, new: Table, name: str) -> bool:
    before, after = _column(old, name).array, _column(new, name).array
    if before is None or after is None:
        return before is not after
    return versions.touches(versions.of(before, after))


def _values(opened: Opened, table: Table, name: str) -> pa.Array:
    size = len(_numbers_of(table, name))
    return to_arrow(opened.coordinate(_column(table, name), slice(0, size), size=size))


def _match(old: pa.Array, new: pa.Array) -> Numbers:
    """Positions of `old` with the values of `new`, in its order; -1 if there is none.

    Of values that come several times, the first is that of the first, and so on.
    """
    common = min(len(old), len(new))
    if bool(same_values(old[:common], new[:common]).all()):
        return np.where(np.arange(len(new)) < common, np.arange(len(new)), -1)
    codes = _codes(pa.concat_arrays([old, new]))
    before, after = _numbered(codes[: len(old)]), _numbered(codes[len(old) :])
    order = np.lexsort(before.T)
    both = np.concatenate([before[order], after])
    _, inverse = np.unique(both, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    place = np.full(int(inverse.max(initial=0)) + 1, -1)
    place[inverse[: len(old)]] = order
    found: Numbers = place[inverse[len(old) :]]
    return found


def _codes(values: pa.Array) -> Numbers:
    """Equal numbers for equal values."""
    if pa.types.is_nested(values.type):
        values = pa.array([repr(each) for each in values.to_pylist()])
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0).cast(values.type)  # -0.0 becomes 0.0
    encoded = values.dictionary_encode(null_encoding="encode")
    found: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _numbered(codes: Numbers) -> Numbers:
    """Codes, and how often each came before."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0))
    times = np.zeros(len(codes), dtype=np.int64)
    times[order] = np.arange(len(ordered)) - first
    return np.stack([codes, times], axis=1)


def _selected(
    opened: Opened, table: Table | None, name: str, positions: Numbers, request: ChangesRequest
) -> Numbers:
    """Positions that the options do not select become -1."""
    if table is None:
        return positions
    size, column = len(_numbers_of(table, name)), _column(table, name)
    wanted = positions_or_none(opened, column, size, request.options)
    pruning = request.prune.on(name)
    if pruning:
        try:
            values = opened.coordinate(column, slice(0, size), size=size)
            wanted = intersect(resolve(name, values, pruning), wanted)
        except InvalidInputError:  # a literal that `sel` does not take: Spark's filter remains
            pass
    if isinstance(wanted, range) and wanted == range(size):
        return positions
    return np.where(np.isin(positions, np.asarray(wanted, dtype=np.int64)), positions, -1)


# Boxes of keys in which something may have changed.


def _changed_boxes(
    versions: Versions,
    old: Table | None,
    new: Table | None,
    shape: Sequence[int],
) -> Boxes:
    lead = new or old
    dims = [] if lead is None else [d.name for d in lead.grid.dimensions]
    found = [no_boxes(len(dims))]
    before, after = _variables(old), _variables(new)
    for name in dict.fromkeys((*before, *after)):
        found += _boxes_of(versions, before.get(name), after.get(name), dims, shape)
    if not before and not after:  # a table of coordinates alone
        found.append(_box([0] * len(dims), shape))
    return np.minimum(np.concatenate(found), np.array(shape, dtype=np.int64))


def _variables(table: Table | None) -> dict[str, ColumnPlan]:
    columns = table.columns if table else ()
    return {c.name: c for c in columns if not c.is_dimension and c.array is not None}


def _boxes_of(
    versions: Versions,
    old: ColumnPlan | None,
    new: ColumnPlan | None,
    dims: Sequence[str],
    shape: Sequence[int],
) -> Iterator[Boxes]:
    pair = versions.of(old.array if old else None, new.array if new else None)
    if old is None or new is None or not pair.is_same or not _reads_alike(old, new):
        for opened, column in ((versions.before, old), (versions.after, new)):
            if column is not None:
                yield from _everything(opened, column, dims)
        return
    logged = versions.logged(pair)
    for column in (old, new):
        if column.array is not None and logged.shape[1] == len(column.array.shape):
            yield chunk_boxes(column.array, logged, dims)
    for k, dim in enumerate(dims):
        was, now = _size(old, dim), _size(new, dim)
        stop = max(was, now)
        if now > was and _fill_is_null(new) and new.array is not None:
            chunk = new.array.chunk_of(dim)  # its last chunk was cut off at its end
            stop = min(-(-was // chunk) * chunk, now)
        yield slabs(k, np.arange(min(was, now), stop), shape)


def _reads_alike(old: ColumnPlan, new: ColumnPlan) -> bool:
    """True if the same stored values give the same rows."""
    if old.array is None or new.array is None:
        return False
    return old.decoding == new.decoding and (
        repr(old.array.fill_value) == repr(new.array.fill_value)
    )


def _everything(opened: Opened, column: ColumnPlan, dims: Sequence[str]) -> Iterator[Boxes]:
    array = column.array
    if array is not None and _fill_is_null(column):
        yield chunk_boxes(array, stored_chunks(opened, array), dims)
    elif array is not None:
        yield _box([0] * len(dims), [_size(column, dim) for dim in dims])


def _box(first: Sequence[int], stop: Sequence[int]) -> Boxes:
    return np.array([[first, stop]], dtype=np.int64)


def _size(column: ColumnPlan, dim: str) -> int:
    array = column.array
    return 0 if array is None else array.shape[array.dims.index(dim)]


def _fill_is_null(column: ColumnPlan) -> bool:
    """True if what was never written reads as NULL."""
    array = column.array
    if array is None:
        return False
    try:
        stored = np.full(1, array.fill_value, dtype=array.dtype)
    except (TypeError, ValueError):
        return False
    null = decode(column.decoding, stored, nan_is_null=column.nan_is_null).null
    return null is not None and bool(null[0])


# Executors: both versions of a box, compared.


def read_changes(
    before: Opened, after: Opened, part: ChangesPart, request: ChangesRequest, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for spans in part.boxes:
        rows, codes = _compare(
            _read_rows(before, part.old, spans, request, old=True),
            _read_rows(after, part.new, spans, request, old=False),
            prod(span.count for span in spans),
            request.values,
        )
        size = request.options.batch_rows
        for at in range(0, len(rows), size):
            (batch,) = rows[at : at + size].combine_chunks().to_batches()
            yield add_change_columns(batch, part.commit, codes[at : at + size], schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one version, which key each has, and which are there."""

    table: pa.Table
    keys: Numbers
    there: Mask


def _read_rows(
    opened: Opened,
    table: Table | None,
    spans: Sequence[Span],
    request: ChangesRequest,
    *,
    old: bool,
) -> _Rows:
    whole = arrow_schema(request.columns)
    sides = [span.old if old else span.new for span in spans]
    if table is None or any(len(side.positions) == 0 for side in sides):
        return _Rows(whole.empty_table(), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    names = [span.name for span in spans]
    order = [names.index(d.name) for d in table.grid.dimensions]
    axes = tuple(
        Axis(d.name, sides[k].positions) for d, k in zip(table.grid.dimensions, order, strict=True)
    )
    count = prod(len(axis) for axis in axes)
    own = arrow_schema(spark_schema(table.columns))
    scan = Scan(table, axes, (), max(1, count))
    box = tuple((0, len(axis)) for axis in axes)
    read = pa.Table.from_batches(list(read_box(opened, scan, box, own)), own)
    found = pa.table(
        [
            read[field.name] if field.name in own.names else pa.nulls(count, field.type)
            for field in whole
        ],
        schema=whole,
    )
    return _Rows(found, _keys(spans, sides, order), _there(found, request))


def _keys(spans: Sequence[Span], sides: Sequence[Side], order: Sequence[int]) -> Numbers:
    """Number of each row's key in the box, in the order in which the rows are read."""
    strides = [prod(span.count for span in spans[k + 1 :]) for k in range(len(spans))]
    total = np.zeros((1,) * len(order), dtype=np.int64)
    for at, k in enumerate(order):
        along = np.asarray(sides[k].places, dtype=np.int64) * strides[k]
        total = total + along.reshape([-1 if n == at else 1 for n in range(len(order))])
    return total.reshape(-1)


def _there(rows: pa.Table, request: ChangesRequest) -> Mask:
    found = [~_is_null(rows.column(name).combine_chunks()) for name in request.values]
    return np.logical_or.reduce(found) if found else np.ones(rows.num_rows, dtype=np.bool_)


def _compare(
    old: _Rows, new: _Rows, count: int, values: Sequence[str]
) -> tuple[pa.Table, npt.NDArray[np.uint8]]:
    """The rows that changed, by key, and what happened to each."""
    was, now = _row_of(old, count), _row_of(new, count)
    before, after = was >= 0, now >= 0
    both = np.flatnonzero(before & after)
    same = np.ones(len(both), dtype=np.bool_)
    for name in values:
        if len(both):
            a = old.table.column(name).combine_chunks().take(pa.array(was[both]))
            b = new.table.column(name).combine_chunks().take(pa.array(now[both]))
            same &= same_values(a, b)
    updated = both[~same]
    inserted, deleted = np.flatnonzero(after & ~before), np.flatnonzero(before & ~after)
    keys = np.concatenate([inserted, deleted, updated, updated])
    shift = old.table.num_rows
    rows = np.concatenate([now[inserted] + shift, was[deleted], was[updated], now[updated] + shift])
    kinds = np.repeat(
        np.array([INSERT, DELETE, PREIMAGE, POSTIMAGE], dtype=np.uint8),
        [len(inserted), len(deleted), len(updated), len(updated)],
    )
    order = np.lexsort((kinds, keys))
    both_tables = pa.concat_tables([old.table, new.table]).combine_chunks()
    return both_tables.take(pa.array(rows[order])), kinds[order]


def _row_of(rows: _Rows, count: int) -> Numbers:
    """Number of the row of each key, -1 if it is not there."""
    found = np.full(count, -1, dtype=np.int64)
    found[rows.keys[rows.there]] = np.flatnonzero(rows.there)
    return found


def _is_null(values: pa.Array) -> Mask:
    found: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return found


def same_values(a: pa.Array, b: pa.Array) -> Mask:
    """Spark's `<=>`, row by row."""
    null_a, null_b = _is_null(a), _is_null(b)
    if pa.types.is_struct(a.type):
        parts = zip(a.flatten(), b.flatten(), strict=True)
        same = np.logical_and.reduce([same_values(x, y) for x, y in parts])
    else:
        same = _plain(pc.equal(a, b))
    if pa.types.is_floating(a.type):
        same = same | (_plain(pc.is_nan(a)) & _plain(pc.is_nan(b)))
    found: Mask = np.where(null_a | null_b, null_a & null_b, same)
    return found


def _plain(mask: Any) -> Mask:
    found: Mask = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found
