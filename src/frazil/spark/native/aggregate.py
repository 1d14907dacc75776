"""Aggregates that the Java side pushed down: partial results of boxes of chunks.

A task reads some boxes, block by block, and returns a row for each of its groups: the columns that
are grouped by, then one column for each aggregate. Spark merges the rows of all tasks. The groups
are a product: along each dimension positions are grouped by the coordinate, by an expression of it
that Spark evaluated on the driver, or not at all.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, override

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.native.counters import with_counters
from frazil.spark.native.tally import (
    Grouped,
    Index,
    Tally,
    add_counts,
    along_axis,
    coded_groups,
    cut_block,
    cut_cells,
    cut_places,
    index_of,
    one_group,
    outer_sizes,
    own_groups,
    piece_of,
)
from frazil.spark.runtime.workers import limit_gc, read_ahead, value_of
from frazil.spark.table.cf import Values, decode
from frazil.spark.table.opened import Opened, Pinned, reuse_pinned
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan import Scan, Table, plan_scan
from frazil.spark.table.scan_plan import Axis, Box, box_rows
from frazil.spark.table.schema import arrow_schema, to_arrow
from frazil.spark.table.value_condition import ValueCondition

_WORTHWHILE = 64  # cells per group, at least, before a task returns its groups
_MOST_GROUPS = 1 << 22  # of a task
_MOST_BOXES = 16  # of a task, unless it would return as many groups as cells
_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class Column:
    """A variable, or a coordinate; of a variable perhaps cast to a wider number."""

    name: str
    cast: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """An expression of a coordinate: its distinct values, and which of them each position has.

    Packed, as it came: most of it is never looked at.
    """

    dimension: str
    code: str
    values: str
    null: str
    codes: str

    @property
    def unpacked(self) -> tuple[Values, npt.NDArray[np.int32]]:
        return _unpack(self)


type Operand = Column | Derived


@dataclass(frozen=True, slots=True)
class Wanted:
    """`function` is rows, count, sum, min or max."""

    function: str
    of: Operand | None


@dataclass(frozen=True, slots=True)
class Aggregate:
    groups: tuple[Operand, ...]
    values: tuple[Wanted, ...]
    cores: int = 2  # that tasks run on, all together

    def functions(self, operand: Operand) -> set[str]:
        return {wanted.function for wanted in self.values if wanted.of == operand}

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(dict.fromkeys(w.of for w in self.values if w.of is not None))


def parse_aggregate(told: Any) -> Aggregate:
    """Parses what the Java side wrote. Raises InvalidInputError."""
    match told:
        case {"groups": list(groups), "values": list(values), "cores": int(cores)}:
            return Aggregate(
                tuple(_parse_operand(each) for each in groups),
                tuple(_parse_wanted(each) for each in values),
                cores,
            )
    raise InvalidInputError("a planned aggregate has groups, values and cores")


def _parse_wanted(told: Any) -> Wanted:
    match told:
        case {"function": "rows"}:
            return Wanted("rows", None)
        case {"function": "count" | "sum" | "min" | "max" as function, "of": of}:
            return Wanted(function, _parse_operand(of))
    raise InvalidInputError("a planned aggregate has a function that is not known")


def _parse_operand(told: Any) -> Operand:
    match told:
        case {"column": str(name)}:
            return Column(name, str(told.get("cast", "")))
        case {"dimension": str(on), "type": str(code), "null": str(null), "codes": str(codes)}:
            values = told.get("values")
            packed = values if isinstance(values, str) else json.dumps(values)
            return Derived(on, code, packed, null, codes)
    raise InvalidInputError("a planned aggregate is of neither a column nor an expression")


@lru_cache(maxsize=8)
def _unpack(derived: Derived) -> tuple[Values, npt.NDArray[np.int32]]:
    values: npt.NDArray[Any]
    try:
        codes = np.frombuffer(_inflate(derived.codes), "<i4")
        null = np.frombuffer(_inflate(derived.null), np.bool_)
        if derived.code == "text":
            values = np.array(json.loads(derived.values), dtype=object)
        else:
            stored = "<f8" if derived.code.startswith("f") else "<i8"
            values = np.frombuffer(_inflate(derived.values), stored).astype(derived.code)
    except (ValueError, TypeError, zlib.error) as error:
        raise InvalidInputError(f"a planned aggregate cannot be unpacked: {error}") from None
    return Values(values, null if null.any() else None), codes


def _inflate(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _take(values: Values, at: npt.NDArray[Any]) -> Values:
    null = None if values.null is None else values.null[at]
    return Values(values.values[at], null)


# Planning: which boxes each task reads.


class AggregateReader(DataSourceReader):
    """Planned on the driver; `read` runs on executors. The scans are disjoint."""

    def __init__(
        self,
        pinned: Pinned,
        scans: tuple[Scan, ...],
        aggregate: Aggregate,
        where: ValueCondition | None,
        schema: StructType,
        *,
        counters: bool = False,
    ) -> None:
        self.pinned = pinned
        self.scans = scans
        self.aggregate = aggregate
        self.where = where
        self.schema = schema
        self.counters = counters

    def __getstate__(self) -> dict[str, object]:
        """State for executors, which receive their boxes one by one."""
        return {**self.__dict__, "scans": tuple(replace(s, boxes=()) for s in self.scans)}

    @override
    def partitions(self) -> list[InputPartition]:
        parts = [
            (number, boxes)
            for number, scan in enumerate(self.scans)
            for boxes in plan_tasks(scan, self.aggregate)
        ]
        # Spark adds counts up: without any row, and without groups, the sum would be NULL
        none = [] if parts or self.aggregate.groups else [(-1, ())]
        return [InputPartition(part) for part in [*parts, *none]]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        part: tuple[int, tuple[Box, ...]] | None = value_of(partition)
        if part is None:
            return
        limit_gc()
        schema = arrow_schema(self.schema)
        if not self.counters:
            yield from self._rows(part, schema)
        else:
            rows = self._rows(part, schema.remove(len(schema) - 1))
            yield from with_counters(rows, schema)

    def _rows(
        self, part: tuple[int, tuple[Box, ...]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        number, boxes = part
        if number < 0:
            yield _row_of_nothing(self.aggregate, schema)
            return
        scan = self.scans[number]
        task = _Task(reuse_pinned(self.pinned), scan, boxes, self.aggregate, self.where)
        yield from task.run(schema)


def plan_aggregate(
    table: Table,
    products: Sequence[tuple[Axis, ...]],
    aggregate: Aggregate,
    where: ValueCondition | None,
    options: ReadOptions,
) -> tuple[Scan, ...]:
    """Boxes of each product. No chunk is read for what depends on coordinates alone."""
    names = {each.name for each in aggregate.operands if isinstance(each, Column)}
    names |= set() if where is None else where.names
    read = tuple(c for c in table.all_columns if c.name in names and not c.is_dimension)
    narrow = Table(table.grid, table.all_columns, read)
    scans = [plan_scan(narrow, axes, options) for axes in products]
    if not read:
        scans = [replace(scan, boxes=tuple(_unread_boxes(scan, aggregate))) for scan in scans]
    return tuple(scans)


def _unread_boxes(scan: Scan, aggregate: Aggregate) -> list[Box]:
    """Boxes where no chunk is read: they are cut only if there are many groups."""
    if any(len(axis) == 0 for axis in scan.axes):
        return []
    layout = _layout(scan, aggregate)
    steps = cut_cells([min(len(a), n) for a, n in zip(scan.axes, layout, strict=True)])
    spans = [
        _spans((0, len(axis)), step if groups >= len(axis) else len(axis))
        for axis, groups, step in zip(scan.axes, layout, steps, strict=True)
    ]
    return list(product(*spans))


def plan_tasks(scan: Scan, aggregate: Aggregate) -> list[tuple[Box, ...]]:
    """Boxes of each task: as many as leave a few tasks for each core, from the same groups.

    Boxes of a task share the positions that are groups by themselves. Where one box would return
    nearly as many groups as it has cells, a task may have any number of them.
    """
    if not scan.boxes:
        return []
    layout = _layout(scan, aggregate)
    together: dict[tuple[tuple[int, int], ...], list[Box]] = {}
    for box in _by_code(scan, aggregate):
        own = tuple(s for s, n in zip(box, layout, strict=True) if n == _EACH)
        together.setdefault(own, []).append(box)
    largest = max(scan.boxes, key=box_rows)
    groups = prod(min(n, hi - lo) for n, (lo, hi) in zip(layout, largest, strict=True))
    merged = max(_MOST_BOXES, -(-_WORTHWHILE * groups // box_rows(largest)))
    merged = min(merged, max(1, len(scan.boxes) // (_TASKS_PER_CORE * max(1, aggregate.cores))))
    if any(1 < n < _EACH for n in layout):  # more boxes may have more groups
        merged = min(merged, max(1, _MOST_GROUPS // groups))
    return [
        tuple(boxes[i : i + merged])
        for boxes in together.values()
        for i in range(0, len(boxes), merged)
    ]


def _by_code(scan: Scan, aggregate: Aggregate) -> list[Box]:
    """Boxes in the order of their first groups: the Januaries of all years after each other."""
    along = [_codes_along(axis.name, aggregate) for axis in scan.axes]

    def key(box: Box) -> list[int]:
        return [
            int(codes[axis.positions[lo]])
            for codes, axis, (lo, _) in zip(along, scan.axes, box, strict=True)
            if codes is not None
        ]

    return sorted(scan.boxes, key=key)


def _codes_along(name: str, aggregate: Aggregate) -> npt.NDArray[np.int64] | None:
    """Codes of the groups of all positions of a dimension; None if expressions do not make them."""
    own = [g for g in aggregate.groups if isinstance(g, Derived) and g.dimension == name]
    if not own or _groups_along(name, aggregate) >= _EACH:
        return None
    codes = np.zeros(len(own[0].unpacked[1]), np.int64)
    for group in own:
        values, each = group.unpacked
        codes = codes * len(values) + each
    return codes


_EACH = 1 << 62  # as a number of groups: each position is one


def _layout(scan: Scan, aggregate: Aggregate) -> list[int]:
    """Number of groups along each axis."""
    return [_groups_along(axis.name, aggregate) for axis in scan.axes]


def _groups_along(name: str, aggregate: Aggregate) -> int:
    count = 1
    for group in aggregate.groups:
        if isinstance(group, Derived) and group.dimension == name:
            count *= max(1, len(group.unpacked[0]))
        elif isinstance(group, Column) and group.name == name:
            return _EACH
    return min(count, _EACH)


# A task.


class _Task:
    def __init__(
        self,
        opened: Opened,
        scan: Scan,
        boxes: Sequence[Box],
        aggregate: Aggregate,
        where: ValueCondition | None,
    ) -> None:
        self.opened = opened
        self.where = where
        self.scan = scan
        self.boxes = boxes
        self.aggregate = aggregate
        self.names = [axis.name for axis in scan.axes]
        self.columns = {column.name: column for column in scan.table.all_columns}
        self.along = [self._plan_axis(k) for k in range(len(scan.axes))]
        self.shape = [len(each.positions) for each in self.along]
        self.coded: dict[tuple[int, tuple[int, int]], Grouped] = {}  # by axis and span
        self.cells = np.zeros(self.shape, np.int64)  # of each group
        self.rows = self.cells if where is None else np.zeros(self.shape, np.int64)
        cells = sum(map(box_rows, boxes))
        self.tallies = {
            operand: Tally(aggregate.functions(operand), self._dtype(operand), self.shape, cells)
            for operand in aggregate.operands
        }

    def run(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for box in self.boxes:
            self._count(box)
        names = [each.name for each in self.scan.table.variables]
        # a condition is evaluated for all variables of a box at once
        together = [names] if self.where is not None else [[name] for name in names]
        parts = [(box, part) for box in self.boxes for part in together]
        blocks = read_ahead(self._read, [(box, name) for box, part in parts for name in part])
        for box, part in parts:
            self._add_blocks(box, {name: next(blocks) for name in part})
        yield from self._batches(schema)

    def _count(self, box: Box) -> None:
        """Adds what depends on coordinates alone."""
        groups, index = self._grouped(box)
        self.cells[index] += outer_sizes(groups)
        for operand, tally in self.tallies.items():
            if isinstance(operand, Column) and operand.name not in self.names:
                continue
            k = self._axis_of(operand)
            values = self._values(operand, self._positions(k, box[k]))
            ones = [g if j == k else one_group(1) for j, g in enumerate(groups)]
            others = [one_group(1) if j == k else g for j, g in enumerate(groups)]
            null = None if values.null is None else along_axis(values.null, k, len(box))
            flat = along_axis(values.values, k, len(box))
            tally.add(index, ones, flat, null, outer_sizes(others))

    def _read(self, read: tuple[Box, str]) -> npt.NDArray[Any]:
        box, name = read
        array = self.columns[name].array
        if array is None:
            raise InvalidInputError(f"{name!r} is not a variable")
        return self.opened.block(array, self.scan.axes, box)

    def _add_blocks(self, box: Box, blocks: Mapping[str, npt.NDArray[Any]]) -> None:
        """Adds variables of a box, piece by piece."""
        largest = max(blocks.values(), key=lambda block: block.itemsize)
        for place in cut_places(largest.shape, cut_block(largest, self._grouped(box)[0])):
            piece = tuple(
                (lo + p.start, lo + p.stop) for (lo, _), p in zip(box, place, strict=True)
            )
            groups, index = self._grouped(piece)
            found = {name: self._decode(name, block, place) for name, block in blocks.items()}
            out = None
            if self.where is not None:
                kept = self.where.holds(found)
                add_counts(self.rows, index, groups, kept)
                out = ~kept
            for operand, tally in self.tallies.items():
                if isinstance(operand, Column) and operand.name in found:
                    values, null = found[operand.name].values, found[operand.name].null
                    # what loses digits loses them value by value
                    if operand.cast and not np.can_cast(values.dtype, operand.cast):
                        values = values.astype(operand.cast)
                    if out is not None:
                        null = out if null is None else null | out
                    tally.add(index, groups, values, null)

    def _decode(self, name: str, block: npt.NDArray[Any], place: Sequence[slice]) -> Values:
        column = self.columns[name]
        return decode(column.decoding, piece_of(block, place), nan_is_null=column.nan_is_null)

    def _dtype(self, operand: Operand) -> np.dtype[Any]:
        if isinstance(operand, Derived):
            return operand.unpacked[0].values.dtype
        return np.dtype(operand.cast) if operand.cast else self.columns[operand.name].dtype

    def _axis_of(self, operand: Operand) -> int:
        name = operand.dimension if isinstance(operand, Derived) else operand.name
        return self.names.index(name)

    def _positions(self, k: int, span: tuple[int, int]) -> npt.NDArray[np.int64]:
        positions = self.scan.axes[k].positions[span[0] : span[1]]
        if isinstance(positions, range):
            return np.arange(positions.start, positions.stop, positions.step)
        return np.asarray(positions, dtype=np.int64)

    def _values(self, operand: Operand, positions: npt.NDArray[np.int64]) -> Values:
        """Values along a dimension."""
        if isinstance(operand, Derived):
            values, codes = operand.unpacked
            return _take(values, codes[positions])
        size = self.scan.table.grid.dimensions[self.names.index(operand.name)].size
        first, last = int(positions.min()), int(positions.max())
        column = self.columns[operand.name]
        found = self.opened.coordinate(column, slice(first, last + 1), size=size)
        return _take(found, positions - first)

    def _plan_axis(self, k: int) -> "_Along":
        spans = sorted({box[k] for box in self.boxes})
        first, last = spans[0][0], spans[-1][1]
        if all(self._axis_of(group) != k for group in self.aggregate.groups):
            return _Along(0, self._positions(k, (first, first + 1)), None, None)
        codes = _codes_along(self.names[k], self.aggregate)
        if codes is None:
            return _Along(first, self._positions(k, (first, last)), None, None)
        positions = np.concatenate([self._positions(k, span) for span in spans])
        known, places = np.unique(codes[positions], return_index=True)
        return _Along(0, positions[places], codes, known)

    def _grouped(self, box: Box) -> tuple[list[Grouped], Index]:
        groups = [self._grouped_along(k, span) for k, span in enumerate(box)]
        return groups, index_of(groups)

    def _grouped_along(self, k: int, span: tuple[int, int]) -> Grouped:
        along, count = self.along[k], span[1] - span[0]
        if along.codes is None or along.known is None:
            own = _groups_along(self.names[k], self.aggregate) != 1
            return own_groups(span[0] - along.first, count) if own else one_group(count)
        if (k, span) not in self.coded:
            codes = along.codes[self._positions(k, span)]
            self.coded[k, span] = coded_groups(codes, along.known)
        return self.coded[k, span]

    # The rows of the groups that have any.

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        # without groups there is one row, even of no rows at all: Spark adds up counts
        there = np.flatnonzero(self.rows) if self.aggregate.groups else np.zeros(1, np.int64)
        keys = [
            _to_type(self._values(group, self.along[self._axis_of(group)].positions), field.type)
            for group, field in zip(self.aggregate.groups, schema, strict=False)
        ]
        columns = [self._column(wanted) for wanted in self.aggregate.values]
        for start in range(0, len(there), self.scan.batch_rows):
            chosen = there[start : start + self.scan.batch_rows]
            values = [_take(column, chosen) for column in columns]
            yield self._batch(schema, keys, chosen, values)
        for number, wanted in enumerate(self.aggregate.values):
            if wanted.function == "sum" and wanted.of is not None:
                left = self.tallies[wanted.of].sums()[1]
                if left:
                    more = np.array([group for group, _ in left])
                    values = [_nothing(each, len(left)) for each in columns]
                    values[number] = Values(np.array([part for _, part in left]), None)
                    yield self._batch(schema, keys, more, values)

    def _batch(
        self,
        schema: pa.Schema,
        keys: Sequence[pa.Array],
        chosen: npt.NDArray[np.int64],
        values: Sequence[Values],
    ) -> pa.RecordBatch:
        places = np.unravel_index(chosen, self.shape) if self.shape else ()
        arrays = [
            key.take(pa.array(places[self._axis_of(group)]))
            for key, group in zip(keys, self.aggregate.groups, strict=True)
        ]
        fields = list(schema)[len(arrays) :]
        arrays += [_to_type(v, field.type) for v, field in zip(values, fields, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, wanted: Wanted) -> Values:
        """An aggregate of every group, flat."""
        if wanted.of is None:
            return Values(self.rows.reshape(-1), None)
        tally = self.tallies[wanted.of]
        counts = (self.cells - tally.nulls).reshape(-1)  # what is filtered out counts as NULL
        if wanted.function == "count":
            return Values(counts, None)
        found = tally.sums()[0] if wanted.function == "sum" else tally.extremes(wanted.function)
        none = counts == 0
        zero = np.zeros(1, found.dtype)  # the largest second is no microsecond
        return Values(np.where(none, zero, found), none)


@dataclass(frozen=True, slots=True, eq=False)
class _Along:
    """Groups of a task along an axis: a position of each, and how positions find theirs.

    By `codes` of all positions of the dimension, those in `known`; else by the offset from `first`.
    """

    first: int
    positions: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64] | None
    known: npt.NDArray[np.int64] | None


def _spans(span: tuple[int, int], step: int) -> list[tuple[int, int]]:
    return [(lo, min(lo + step, span[1])) for lo in range(span[0], span[1], step)]


def _nothing(column: Values, rows: int) -> Values:
    """Rows that add nothing: a count of 0, and else NULL."""
    null = None if column.null is None else np.ones(rows, np.bool_)
    return Values(np.zeros(rows, column.values.dtype), null)


def _to_type(values: Values, wanted: pa.DataType) -> pa.Array:
    plain = values.values.dtype.kind in "iu" and pa.types.is_temporal(wanted)
    if not plain:
        return to_arrow(values).cast(wanted)
    width = np.int32 if wanted.bit_width == 32 else np.int64
    return pa.array(values.values.astype(width, copy=False), mask=values.null).view(wanted)


def _row_of_nothing(aggregate: Aggregate, schema: pa.Schema) -> pa.RecordBatch:
    """Aggregates of no cells at all."""
    counts = [0 if wanted.function in ("rows", "count") else None for wanted in aggregate.values]
    arrays = [pa.array([n], type=field.type) for n, field in zip(counts, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
