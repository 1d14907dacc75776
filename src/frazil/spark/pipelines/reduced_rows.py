"""The result of a reduction as rows: labels and coordinates, then a column for each variable."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from frazil.repo.session import Session
from frazil.spark.arrow_schema import arrow_schema
from frazil.spark.cf import RAW, Values, plan_decoding
from frazil.spark.description import ArrayDescription, Grid
from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.opened import Opened
from frazil.spark.pipelines.boxes import region_shape
from frazil.spark.pipelines.reduce_job import cells
from frazil.spark.pipelines.reduce_plan import ReducePlan
from frazil.spark.rows import BlockColumn, CoordinateColumn, VariableColumn, batches
from frazil.spark.schema import ColumnPlan, spark_type, to_arrow
from frazil.spark.workers import tame_gc

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class MakeRows:
    """Stage 2 of a reduction whose result is a DataFrame."""

    base: Session
    plan: ReducePlan
    grid: Grid
    schema: StructType

    def __call__(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tame_gc()
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
                    VariableColumn(values[k], RAW, nan_is_null=True)
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
