"""What a reduction reads and makes: the boxes of its tasks, the cells of its result.

source dims    kept | over             boxes are cut along both; the reduced ones vary fastest,
                                       so that neighbouring tasks add to the same cell
result dims    kept, and the groups    a cell is one chunk: a box of kept dims, and all groups
               instead of their dim
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.cf import (
    Decoding,
    Scaled,
    Time,
    count_decoding,
    decode,
    decoded_dtype,
    plan_decoding,
)
from frazil.spark.description import ArrayDescription, Grid
from frazil.spark.pipelines.boxes import Cut, Region, choose_box
from frazil.spark.pipelines.grouping import Grouping
from frazil.spark.pipelines.partials import How, result_dtype

_PARTIAL_BYTES = 24  # of one element of a cell, on its way


@dataclass(frozen=True, slots=True)
class Variable:
    """`dtype` is of the decoded values, `result` of the reduced ones."""

    source: ArrayDescription
    decoding: Decoding
    dtype: np.dtype[Any]
    result: np.dtype[Any]

    def decoded(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """As xarray decodes: what is missing is NaN."""
        column = decode(self.decoding, stored.reshape(-1), nan_is_null=False)
        values = column.values.astype(self.dtype, copy=False)
        if column.null is not None and self.dtype.kind == "f":
            values = np.where(column.null, self.dtype.type(np.nan), values)
        return values.reshape(stored.shape)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReducePlan:
    """Axes are those of the source; `cut` has the kept ones first."""

    variables: tuple[Variable, ...]
    kept: tuple[int, ...]
    over: tuple[int, ...]
    grouping: Grouping | None
    how: How
    skipna: bool
    cut: Cut

    @property
    def tasks(self) -> int:
        return len(self.variables) * len(self.cut)

    @property
    def cells(self) -> Cut:
        """Of the result, without the groups."""
        count = len(self.kept)
        return Cut(self.cut.shape[:count], self.cut.box[:count])

    @property
    def size_bytes(self) -> int:
        return sum(prod(v.source.shape) * v.source.dtype.itemsize for v in self.variables)

    @property
    def dims(self) -> tuple[str, ...]:
        """Of the result."""
        return tuple(self._along(lambda k: self.variables[0].source.dims[k], self._group_name()))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._along(lambda k: self.variables[0].source.shape[k], self._groups()))

    @property
    def chunks(self) -> tuple[int, ...]:
        box = dict(zip(self.kept, self.cut.box, strict=False))
        return tuple(max(1, n) for n in self._along(lambda k: box[k], self._groups()))

    @property
    def group_axis(self) -> int | None:
        """In the result."""
        return None if self.grouping is None else self.dims.index(self.grouping.name)

    def locate(self, task: int) -> tuple[int, int, Region]:
        """Variable, cell, and what is read of it."""
        variable, number = divmod(task, len(self.cut))
        where = dict(zip((*self.kept, *self.over), self.cut.region(number), strict=True))
        region = tuple(where[axis] for axis in range(len(where)))
        return variable, number // prod(self.cut.counts[len(self.kept) :]), region

    def cell_region(self, cell: int) -> Region:
        """Where a cell is in the result."""
        where = dict(zip(self.kept, self.cells.region(cell), strict=True))
        return tuple(self._along(lambda k: where[k], slice(0, self._groups())))

    def _along[T](self, kept: Callable[[int], T], groups: T) -> list[T]:
        dims = self.variables[0].source.dims
        found = []
        for axis, dim in enumerate(dims):
            if axis in self.kept:
                found.append(kept(axis))
            elif self.grouping is not None and self.grouping.dim == dim:
                found.append(groups)
        return found

    def _group_name(self) -> str:
        return "" if self.grouping is None else self.grouping.name

    def _groups(self) -> int:
        return 0 if self.grouping is None else len(self.grouping)


def plan_reduce(
    grid: Grid,
    over: Sequence[str],
    how: How,
    *,
    grouping: Grouping | None,
    skipna: bool,
    max_bytes: int,
) -> ReducePlan:
    dims = tuple(d.name for d in grid.dimensions)
    unknown = [dim for dim in over if dim not in dims]
    if unknown or not over:
        raise InvalidInputError(
            f"over is {list(over)}, the dimensions are {', '.join(dims) or 'none'}"
        )
    if grouping is not None and grouping.dim not in over:
        raise InvalidInputError(f"groups of {grouping.dim!r} are reduced over it: name it in over")
    axes = tuple(k for k, dim in enumerate(dims) if dim in over)
    kept = tuple(k for k in range(len(dims)) if k not in axes)
    variables = tuple(_plan_variable(_in_order(v, dims), how) for v in grid.variables)
    _require_values(variables, axes, how)
    return ReducePlan(
        variables=variables,
        kept=kept,
        over=axes,
        grouping=grouping,
        how=how,
        skipna=skipna,
        cut=_cut(variables[0].source, kept, axes, 1 if grouping is None else len(grouping),
                 max_bytes),
    )  # fmt: skip


def _cut(
    source: ArrayDescription, kept: tuple[int, ...], over: tuple[int, ...], groups: int, limit: int
) -> Cut:
    def pick(values: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[k] for k in axes)

    units = tuple(max(1, min(c, n)) for c, n in zip(source.chunks, source.shape, strict=True))
    element = max(8 * prod(pick(units, over)), _PARTIAL_BYTES * groups)
    unit = pick(units, kept)
    cell = choose_box(pick(source.shape, kept), unit, unit, itemsize=element, max_bytes=limit)
    unit = pick(units, over)
    depth = choose_box(
        pick(source.shape, over), unit, unit, itemsize=8 * prod(cell), max_bytes=limit
    )
    return Cut((*pick(source.shape, kept), *pick(source.shape, over)), (*cell, *depth))


def _plan_variable(source: ArrayDescription, how: How) -> Variable:
    # Unlike Spark's tables, xarray takes the fill value of Zarr for a value.
    decoding = plan_decoding(replace(source, fill_value=None))
    if isinstance(decoding, Time):
        if how not in (How.MIN, How.MAX, How.COUNT):
            raise InvalidInputError(f"{source.name!r} is a time: it has no {how} here")
        decoding = count_decoding(decoding)  # the numbers are in the order of the times
    dtype = decoded_dtype(decoding, source.dtype)
    if dtype.kind in "iu" and decoding.missing and not isinstance(decoding, Scaled):
        dtype = np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    return Variable(source, decoding, dtype, result_dtype(how, dtype))


def _in_order(variable: ArrayDescription, dims: tuple[str, ...]) -> ArrayDescription:
    if variable.dims != dims:
        raise InvalidInputError(
            f"{variable.name!r} has dimensions {', '.join(variable.dims)}, expected"
            f" {', '.join(dims)} in this order: reduce it in a call of its own"
        )
    return variable


def _require_values(variables: Sequence[Variable], axes: Sequence[int], how: How) -> None:
    for one in variables:
        if how in (How.MIN, How.MAX) and one.dtype.kind != "f" and not prod(
            one.source.shape[k] for k in axes
        ):  # fmt: skip
            raise InvalidInputError(f"{one.source.name!r}: there is no {how} of no values")
