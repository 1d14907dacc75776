"""Tasks of a reduction: partial results of blocks, then cells from partial results.

stage 1   read boxes -> parts, those of one cell added up within a partition
shuffle   by cell
stage 2   parts of a cell in order -> its values -> a chunk is stored, or rows are made

Sums of floats depend on the order of their terms. Blocks are added in their order within a task,
and parts in the order of their blocks, not of their arrival: so a reduction that is repeated with
as many partitions has the same bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.session.session import Session
from frazil.paths import NodePath
from frazil.spark.native.tally import (
    Grouped,
    coded_groups,
    cut_block,
    cut_places,
    index_of,
    one_group,
    outer_sizes,
    own_groups,
    piece_of,
)
from frazil.spark.pipelines.reduce_plan import (
    Partial,
    ReducePlan,
    Variable,
    combine,
    finish,
    no_part,
    reduce_block,
    value_dtype,
)
from frazil.spark.pipelines.relayout import read_bounded
from frazil.spark.runtime.jobs import region_shape, store_region
from frazil.spark.runtime.progress import Counter
from frazil.spark.runtime.stored_refs import Gather, Written
from frazil.spark.runtime.workers import carrying_errors, limit_gc, read_ahead
from frazil.spark.table.cf import RAW, Values, plan_decoding
from frazil.spark.table.description import ArrayDescription, Grid
from frazil.spark.table.opened import Opened
from frazil.spark.table.scan_plan import BlockColumn, CoordinateColumn, VariableColumn, batches
from frazil.spark.table.schema import ColumnPlan, arrow_schema, spark_type, to_arrow

PARTIALS = pa.schema(
    [
        ("cell", pa.int64()),
        ("variable", pa.int32()),
        ("label", pa.int32()),
        ("first", pa.int64()),  # the task whose block is the first in this part
        ("count", pa.binary()),
        ("value", pa.binary()),
        ("squares", pa.binary()),
    ]
)

ORDER = ("cell", "variable", "label", "first")  # of rows, for the same bits in every run

type Parts = dict[int, Partial]  # by group, 0 if there are none
type Cell = tuple[int, dict[int, npt.NDArray[Any]]]  # number, values by variable


@dataclass(frozen=True, slots=True)
class MakeParts:
    """Stage 1."""

    base: Session  # read-only
    plan: ReducePlan
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        current: tuple[int, int] | None = None
        parts: Parts = {}
        first = tasks.start
        for task, stored in zip(tasks, read_ahead(self._read, tasks), strict=True):
            variable, cell, region = self.plan.locate(task)
            if current is not None and current != (variable, cell):
                yield _encode(current, parts, first)
                parts, first = {}, task
            current = variable, cell
            add_block(self.plan, self.plan.variables[variable], parts, stored, region)
            self.counter.add(stored.nbytes)
        if current is not None:
            yield _encode(current, parts, first)

    def _read(self, task: int) -> npt.NDArray[Any]:
        variable, _, region = self.plan.locate(task)
        source = self.plan.variables[variable].source
        return read_bounded(
            self.base, NodePath(source.path), region, source.chunks,
            itemsize=source.dtype.itemsize,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreCells:
    """Stage 2, for a result that is stored; one document for each variable."""

    plan: ReducePlan
    documents: tuple[bytes, ...]
    writer: ChunkWriter
    gather: Gather

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        with carrying_errors():
            yield from self.gather(self._store(batches))

    def _store(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Written]:
        for cell, values in cells(self.plan, batches):
            region = self.plan.cell_region(cell)
            for variable, block in values.items():
                refs = store_region(self.documents[variable], self.writer, region, block)
                yield Written(variable, refs)
        self.writer.sync()


def add_block(
    plan: ReducePlan,
    variable: Variable,
    parts: Parts,
    stored: npt.NDArray[Any],
    region: tuple[slice, ...],
) -> None:
    """Adds a block of the source to the parts of its cell."""
    axis, codes = _codes(plan, region)
    if codes is not None and (codes < 0).any():  # positions in no group
        stored, codes = stored.compress(codes >= 0, axis=axis), codes[codes >= 0]
    labels = np.zeros(1, np.int64) if codes is None else np.unique(codes)
    if len(labels):
        whole = _reduce_pieces(plan, variable, stored, _Along(plan, axis, codes, labels))
        for number, label in enumerate(labels.tolist()):
            part = _without(whole, plan.over, axis, number)
            parts[label] = combine(parts[label], part, plan.how) if label in parts else part


@dataclass(frozen=True, slots=True, eq=False)
class _Along:
    """Groups of a block along its axes: `codes` of positions along `axis`, those in `labels`."""

    plan: ReducePlan
    axis: int | None
    codes: npt.NDArray[np.int64] | None
    labels: npt.NDArray[np.int64]

    def grouped(self, axis: int, part: slice) -> Grouped:
        if axis == self.axis and self.codes is not None:
            return coded_groups(self.codes[part], self.labels)
        count = part.stop - part.start
        return one_group(count) if axis in self.plan.over else own_groups(part.start, count)


def _codes(
    plan: ReducePlan, region: tuple[slice, ...]
) -> tuple[int | None, npt.NDArray[np.int64] | None]:
    if plan.grouping is None:
        return None, None
    axis = plan.variables[0].source.dims.index(plan.grouping.dim)
    return axis, plan.grouping.codes[region[axis]]


def _reduce_pieces(
    plan: ReducePlan, variable: Variable, stored: npt.NDArray[Any], along: _Along
) -> Partial:
    """The part of a block, with all of its axes; no more than a piece of it is decoded at once."""
    groups = [along.grouped(k, slice(0, n)) for k, n in enumerate(stored.shape)]
    whole = no_part(outer_sizes(groups).shape, plan.how, variable.dtype)
    for place in cut_places(stored.shape, cut_block(stored, groups)):
        groups = [along.grouped(k, part) for k, part in enumerate(place)]
        values = variable.decoded(piece_of(stored, place))
        part = reduce_block(values, groups, plan.how, skipna=plan.skipna)
        index = index_of(groups)
        whole.put(index, combine(whole.at(index), part, plan.how))
    return whole


def _without(whole: Partial, over: Sequence[int], axis: int | None, number: int) -> Partial:
    """One group alone, without the axes that are reduced."""
    return whole.at(tuple((number if k == axis else 0) if k in over else slice(None)
                          for k in range(whole.count.ndim)))  # fmt: skip


def cells(plan: ReducePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
    """Finished cells, from rows of PARTIALS in their order."""
    current: int | None = None
    parts: dict[int, Parts] = {}
    for row in _rows(batches):
        cell, variable, label = row["cell"], row["variable"], row["label"]
        if current is not None and cell != current:
            yield current, _finish(plan, parts)
            parts = {}
        current = cell
        of_variable = parts.setdefault(variable, {})
        part = _decode(plan, variable, cell, row)
        known = of_variable.get(label)
        of_variable[label] = part if known is None else combine(known, part, plan.how)
    if current is not None:
        yield current, _finish(plan, parts)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield {name: batch.column(name)[row].as_py() for name in PARTIALS.names}


def _finish(plan: ReducePlan, parts: dict[int, Parts]) -> dict[int, npt.NDArray[Any]]:
    return {
        variable: assemble(plan, plan.variables[variable], found)
        for variable, found in parts.items()
    }


def assemble(plan: ReducePlan, variable: Variable, parts: Parts) -> npt.NDArray[Any]:
    """The values of a cell, groups in their place."""
    labels = range(1 if plan.grouping is None else len(plan.grouping))
    values = [finish(parts[label], plan.how, variable.result) for label in labels]
    axis = plan.group_axis
    return values[0] if axis is None else np.moveaxis(np.stack(values), 0, axis)


def _encode(key: tuple[int, int], parts: Parts, first: int) -> pa.RecordBatch:
    variable, cell = key
    rows = [
        {
            "cell": cell,
            "variable": variable,
            "label": label,
            "first": first,
            "count": part.count.tobytes(),
            "value": part.value.tobytes(),
            "squares": part.squares.tobytes(),
        }
        for label, part in parts.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PARTIALS)


def _decode(plan: ReducePlan, variable: int, cell: int, row: dict[str, Any]) -> Partial:
    shape = region_shape(plan.cells.region(cell))
    dtype = value_dtype(plan.how, plan.variables[variable].dtype)

    def array(name: str, dtype: Any) -> npt.NDArray[Any]:
        data = np.frombuffer(row[name], dtype=dtype)
        return data.reshape(shape) if len(data) else data

    return Partial(array("count", np.int64), array("value", dtype), array("squares", np.float64))


# The result of a reduction as rows: labels and coordinates, then a column for each variable.

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class MakeRows:
    """Stage 2 of a reduction whose result is a DataFrame."""

    base: Session
    plan: ReducePlan
    grid: Grid
    schema: StructType

    def __call__(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limit_gc()
        opened = Opened(self.base)
        schema = arrow_schema(self.schema)
        with carrying_errors():
            for cell, values in cells(self.plan, found):
                region = self.plan.cell_region(cell)
                columns: list[BlockColumn] = [
                    CoordinateColumn(axis, self._labels(opened, dim, region[axis]))
                    for axis, dim in enumerate(self.plan.dims)
                ]
                columns += [
                    VariableColumn(values[k].reshape(-1), RAW, nan_is_null=True)
                    for k in range(len(self.plan.variables))
                ]
                yield from batches(region_shape(region), columns, schema, batch_rows=BATCH_ROWS)

    def _labels(self, opened: Opened, dim: str, along: slice) -> pa.Array:
        column = _dimension_column(self.plan, self.grid, dim)
        if self.plan.grouping is not None and dim == self.plan.grouping.name:
            return to_arrow(Values(self.plan.grouping.labels[along], None))
        found = self.grid.dimension(dim)
        return to_arrow(opened.coordinate(column, along, size=found.size if found else 0))


def row_schema(plan: ReducePlan, grid: Grid) -> StructType:
    columns = [_dimension_column(plan, grid, dim) for dim in plan.dims]
    columns += [
        _column(one.source.name, _scalar(one.source, one.result), is_dimension=False)
        for one in plan.variables
    ]
    return StructType([StructField(c.name, spark_type(c), nullable=True) for c in columns])


def _dimension_column(plan: ReducePlan, grid: Grid, dim: str) -> ColumnPlan:
    if plan.grouping is not None and dim == plan.grouping.name:
        like = plan.variables[0].source
        return _column(dim, _scalar(like, plan.grouping.labels.dtype), is_dimension=True)
    found = grid.dimension(dim)
    array = None if found is None else found.coordinate
    decoding = RAW if array is None else plan_decoding(array)
    return ColumnPlan(dim, array, decoding, is_dimension=True, nan_is_null=True)


def _column(name: str, array: ArrayDescription, *, is_dimension: bool) -> ColumnPlan:
    return ColumnPlan(name, array, RAW, is_dimension=is_dimension, nan_is_null=True)


def _scalar(like: ArrayDescription, dtype: np.dtype[Any]) -> ArrayDescription:
    return ArrayDescription(
        name=like.name, path=like.path, dims=(), shape=(), chunks=(), dtype=dtype
    )
