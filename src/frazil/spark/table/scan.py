"""A scan, decided: which table, which positions, which chunks, which tasks.

ReadOptions + repository -> Table (columns)          enough for a schema
Table + coordinates      -> Scan  (positions, boxes) enough for executors, and to count chunks
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.spark.table.description import ArrayDescription, Grid, choose_grid
from frazil.spark.table.opened import Opened
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan_plan import (
    Axis,
    BlockColumn,
    Box,
    CoordinateColumn,
    VariableColumn,
    Where,
    batches,
    count_chunks,
    count_grid,
    cut_boxes,
    plan_boxes,
)
from frazil.spark.table.schema import ColumnPlan, from_numbers, keep_columns, plan_columns, to_arrow
from frazil.spark.table.selection import Positions, intersect, positions_at, resolve
from frazil.spark.table.value_condition import ValueCondition

_LEAST_ROW_BYTES = 8  # a row costs Spark something, however little of it is read here


@dataclass(frozen=True, slots=True)
class Table:
    """All columns there are, and those to be read."""

    grid: Grid
    all_columns: tuple[ColumnPlan, ...]
    columns: tuple[ColumnPlan, ...]

    @property
    def dimensions(self) -> tuple[ColumnPlan, ...]:
        return tuple(c for c in self.all_columns if c.is_dimension)

    @property
    def variables(self) -> tuple[ArrayDescription, ...]:
        """Variables to read, without coordinates."""
        return tuple(c.array for c in self.columns if not c.is_dimension and c.array is not None)


@dataclass(frozen=True, slots=True)
class VariableReads:
    """Number of chunks of a variable that a scan reads, and of those in its grid."""

    variable: str
    read: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    table: Table
    axes: tuple[Axis, ...]
    boxes: tuple[Box, ...]
    batch_rows: int

    @property
    def reads(self) -> tuple[VariableReads, ...]:
        return tuple(
            VariableReads(v.name, count_chunks(self.axes, v), count_grid(v))
            for v in self.table.variables
        )


def plan_table(opened: Opened, options: ReadOptions) -> Table:
    grid = choose_grid(opened.describe(options.group), options.variables, options.dims)
    columns = plan_columns(grid, decode_cf=options.decode_cf)
    kept = columns if options.columns is None else keep_columns(columns, options.columns)
    return Table(grid, columns, kept)


def plan_scan(
    table: Table,
    axes: tuple[Axis, ...],
    options: ReadOptions,
    cuts: Sequence[Sequence[int]] | None = None,
) -> Scan:
    """Divides the cells of a product into tasks: at `cuts`, or as their size suggests."""
    if cuts is not None:
        return Scan(table, axes, tuple(cut_boxes(axes, cuts)), options.batch_rows)
    grids = table.variables or table.grid.variables or _coordinates(table)
    row_bytes = max(_LEAST_ROW_BYTES, sum(c.dtype.itemsize for c in table.columns))
    boxes = plan_boxes(
        axes,
        grids,
        read=table.variables,
        row_bytes=row_bytes,
        target_bytes=options.partition_bytes,
    )
    return Scan(table, axes, tuple(boxes), options.batch_rows)


def read_box(
    opened: Opened,
    scan: Scan,
    box: Box,
    schema: pa.Schema,
    condition: ValueCondition | None = None,
    *,
    numbered: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows of one task, those for which a condition holds; the table has the columns of that, too.

    The last column of `schema` has the number of each row in the box, if they are `numbered`.
    """
    read = {column.name: _block_column(opened, scan, box, column) for column in scan.table.columns}
    names = schema.names[:-1] if numbered else schema.names
    where = None
    if condition is not None:
        asked = {name: read[name] for name in read.keys() & condition.names}
        variables = {name: each for name, each in asked.items() if isinstance(each, VariableColumn)}
        where = Where(condition, variables, numbered)
    columns = [read[name] for name in names]
    return batches(_shape(box), columns, schema, where, batch_rows=scan.batch_rows)


def _shape(box: Box) -> list[int]:
    return [hi - lo for lo, hi in box]


def plan_axes(opened: Opened, table: Table, options: ReadOptions) -> tuple[Axis, ...]:
    """Positions that the options select. Reads the coordinates that are selected on.

    Raises InvalidInputError for a selection that the table cannot fulfil.
    """
    names = [d.name for d in table.grid.dimensions]
    require_dimensions("sel", options.selection.dimensions, names)
    require_dimensions("isel", options.isel.dimensions, names)
    return tuple(
        Axis(dimension.name, positions_along(opened, column, dimension.size, options))
        for dimension, column in zip(table.grid.dimensions, table.dimensions, strict=True)
    )


def require_dimensions(option: str, wanted: Sequence[str], names: Sequence[str]) -> None:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise InvalidInputError(
            f"`{option}` names {', '.join(map(repr, unknown))},"
            f" but the dimensions are {', '.join(names) or 'none'}"
        )


def positions_along(
    opened: Opened, column: ColumnPlan, size: int, options: ReadOptions
) -> Positions:
    numbered = positions_at(column.name, size, options.isel.on(column.name))
    wanted = options.selection.on(column.name)
    if not wanted:
        return numbered
    values = opened.coordinate(column, slice(0, size), size=size)
    return intersect(resolve(column.name, values, wanted), numbered)


def _coordinates(table: Table) -> Sequence[ArrayDescription]:
    """Coordinates that tasks are aligned to without a variable; then there is one dimension."""
    return [c.array for c in table.dimensions if c.array is not None]


def _block_column(opened: Opened, scan: Scan, box: Box, column: ColumnPlan) -> BlockColumn:
    if not column.is_dimension and column.array is not None:
        block = opened.block(column.array, scan.axes, box)
        return VariableColumn(block.reshape(-1), column.decoding, column.nan_is_null)
    k = [axis.name for axis in scan.axes].index(column.name)
    size = scan.table.grid.dimensions[k].size
    positions = scan.axes[k].positions[box[k][0] : box[k][1]]
    first, last = int(positions[0]), int(positions[-1])
    values = to_arrow(opened.coordinate(column, slice(first, last + 1), size=size))
    if not isinstance(positions, range):
        values = values.take(from_numbers(positions - first))
    return CoordinateColumn(k, values)
