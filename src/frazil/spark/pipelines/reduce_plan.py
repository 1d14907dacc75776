"""The plan of a reduction: the boxes of its tasks, the cells of its result.

source dims    kept | over             boxes are cut along both; the reduced ones vary fastest,
                                       so that neighbouring tasks add to the same cell
result dims    kept, and the groups    a cell is one chunk: a box of kept dims, and all groups
               instead of their dim
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from frazil.errors import InvalidInputError
from frazil.spark.native.tally import (
    Grouped,
    fill,
    outer_sizes,
    reduce_groups,
    spread_groups,
)
from frazil.spark.runtime.jobs import Cut, Region, choose_box
from frazil.spark.table.cf import (
    Decoding,
    Scaled,
    Time,
    Values,
    count_decoding,
    decode,
    decoded_dtype,
    plan_decoding,
)
from frazil.spark.table.description import ArrayDescription, Grid

# Positions along a dimension in groups: by the values of a coordinate, or a part of its times.
#
# `time.month` groups by the month, `region` by the values of the coordinate `region`. Groups are in
# ascending order of their labels; positions without a label are in none. As in xarray.

PARTS = (
    "year", "month", "day", "hour", "minute", "second",
    "dayofyear", "dayofweek", "weekday", "quarter", "season",
)  # fmt: skip
_SEASONS = np.array(["DJF", "MAM", "JJA", "SON"], dtype=object)

_IN_PANDAS = {"dayofyear": "day_of_year", "dayofweek": "day_of_week", "weekday": "day_of_week"}


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """`codes` (n,) is the group of each position along `dim`, -1 for none."""

    name: str
    dim: str
    labels: npt.NDArray[Any]
    codes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def split_name(text: str) -> tuple[str, str | None]:
    """`time.month` is a coordinate and a part of it."""
    name, _, part = text.partition(".")
    if part and part not in PARTS:
        raise InvalidInputError(f"groupby is {text!r}: there is {', '.join(PARTS)}")
    return name, part or None


def make_grouping(coordinate: str, part: str | None, dim: str, given: Values) -> Grouping:
    values = given.values  # noqa: PD011 -- not of pandas
    has_label = np.ones(len(values), dtype=np.bool_) if given.null is None else ~given.null
    if part is not None:
        values = _part_of(values, has_label, part, coordinate)
    if values.dtype.kind in "OTU":
        values = values.astype(object)
    labels, inverse = np.unique(values[has_label], return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[has_label] = inverse.reshape(-1)
    return Grouping(part or coordinate, dim, labels, codes)


def _part_of(
    values: npt.NDArray[Any], has_label: npt.NDArray[np.bool_], part: str, coordinate: str
) -> npt.NDArray[Any]:
    if values.dtype.kind != "M":
        raise InvalidInputError(
            f"{coordinate!r} is not a time of a usual calendar, so it has no {part}"
        )
    times = pd.DatetimeIndex(np.where(has_label, values, np.datetime64(0, "us")))
    if part == "season":
        return np.asarray(_SEASONS[np.asarray(times.month) % 12 // 3])
    return np.asarray(getattr(times, _IN_PANDAS.get(part, part)), dtype=np.int64)


# Reductions in parts: of a block, of two parts together, and the value in the end.
#
#     how        kept of each part                        value
#     count      number of values                         that
#     sum        and their sum                            that
#     mean       and their sum                            sum / number
#     min max    and the least or greatest                that
#     std        and their mean, and sum of squared       sqrt(squares / number): the population's
#                distances from it                        (ddof=0), as in xarray
#
# Parts combine in any order (Chan, Golub and LeVeque 1979 for std), though the last bits of floats
# depend on it: see reduce_job.py. Sums of floats are kept in double precision, of integers in
# 64 bits. NaN is no value if `skipna`; else it spoils the result, except of `count`, which never
# counts it. What has no values is NaN, its sum and number 0: all as in xarray.

type Array = npt.NDArray[Any]


def _nothing() -> Array:
    return np.zeros(0)


class How(StrEnum):
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"
    STD = "std"

    @classmethod
    def parse(cls, text: str) -> "How":
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(cls)
            raise InvalidInputError(f"how is {text!r}, expected one of {known}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """Arrays of one shape; those that `how` has no use for are of length 0."""

    count: npt.NDArray[np.int64]
    value: Array = field(
        default_factory=_nothing
    )  # sum, mean, or extreme; anything where count is 0
    squares: Array = field(default_factory=_nothing)

    def at(self, index: Any) -> "Partial":
        return Partial(*(each[index] if each.size else each for each in self._arrays))

    def put(self, index: Any, part: "Partial") -> None:
        for into, each in zip(self._arrays, part._arrays, strict=True):  # noqa: SLF001 -- its own
            if into.size:
                into[index] = each

    @property
    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.count, self.value, self.squares


def no_part(shape: Sequence[int], how: "How", dtype: np.dtype[Any]) -> Partial:
    """The part of no values, of this shape."""
    value = _nothing() if how is How.COUNT else np.zeros(shape, value_dtype(how, dtype))
    squares = np.zeros(shape) if how is How.STD else _nothing()
    return Partial(np.zeros(shape, np.int64), value, squares)


def result_dtype(how: How, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype of the reduced values; raises InvalidInputError for what is no number."""
    if dtype.kind not in "biuf":
        raise InvalidInputError(f"values of type {dtype} cannot be reduced")
    if how is How.COUNT:
        return np.dtype(np.int64)
    if how in (How.MEAN, How.STD):
        return dtype if dtype.kind == "f" else np.dtype(np.float64)
    if how is How.SUM:
        return {"f": dtype, "u": np.dtype(np.uint64)}.get(dtype.kind, np.dtype(np.int64))
    return dtype


def value_dtype(how: How, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype of `Partial.value`, in the byte order of this machine."""
    if how is How.SUM and dtype.kind != "f":
        return result_dtype(how, dtype)
    return dtype.newbyteorder("=") if how in (How.MIN, How.MAX) else np.dtype(np.float64)


def reduce_block(values: Array, groups: Sequence[Grouped], how: How, *, skipna: bool) -> Partial:
    """The part that a block contributes to its groups, with as many axes as the block."""
    null = None
    if values.dtype.kind == "f" and (skipna or how is How.COUNT):
        missing = np.isnan(values)
        null = missing if missing.any() else None
    count = outer_sizes(groups)
    if null is not None:
        count = count - reduce_groups(np.add, null, groups, np.dtype(np.int64))
    dtype = value_dtype(how, values.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        match how:
            case How.COUNT:
                return Partial(count)
            case How.SUM | How.MEAN:
                return Partial(count, _sum(values, null, groups, dtype))
            case How.STD:
                return _spread(values, null, groups, count)
            case How.MIN | How.MAX:
                if not values.size:
                    return Partial(count, np.zeros(count.shape, dtype))
                least = how is How.MIN
                filled = fill(values, null, np.inf if least else -np.inf) if skipna else values
                found = reduce_groups(np.minimum if least else np.maximum, filled, groups)
                return Partial(count, found.astype(dtype, copy=False))


def combine(a: Partial, b: Partial, how: How) -> Partial:
    """Combines partial results into that of all their values."""
    count = a.count + b.count
    with np.errstate(invalid="ignore", over="ignore"):
        match how:
            case How.COUNT:
                return Partial(count)
            case How.SUM | How.MEAN:
                return Partial(count, a.value + b.value)
            case How.MIN | How.MAX:
                better = np.minimum if how is How.MIN else np.maximum
                return Partial(count, _choose(a, b, a.value, b.value, better(a.value, b.value)))
            case How.STD:
                share = b.count / np.maximum(count, 1)
                apart = b.value - a.value
                mean = a.value + apart * share
                squares = a.squares + b.squares + apart * apart * a.count * share
                return Partial(
                    count,
                    _choose(a, b, a.value, b.value, mean),
                    _choose(a, b, a.squares, b.squares, squares),
                )


def finish(part: Partial, how: How, dtype: np.dtype[Any]) -> Array:
    """The reduced values, in the type that `result_dtype` says."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        match how:
            case How.COUNT:
                return part.count
            case How.SUM:
                return part.value.astype(dtype)
            case How.MEAN:
                return np.asarray(part.value / part.count).astype(dtype)
            case How.STD:
                return np.asarray(np.sqrt(part.squares / part.count)).astype(dtype)
            case How.MIN | How.MAX:
                if dtype.kind == "f":
                    values = np.where(part.count == 0, dtype.type(np.nan), part.value)
                    return values.astype(dtype, copy=False)
                if (part.count == 0).any():
                    raise InvalidInputError(f"there is no {how} of no {dtype} values")
                return part.value.astype(dtype, copy=False)


def _sum(
    values: Array,
    null: npt.NDArray[np.bool_] | None,
    groups: Sequence[Grouped],
    dtype: np.dtype[Any],
) -> Array:
    found = reduce_groups(np.add, fill(values, null, 0), groups, dtype)
    return found.astype(dtype, copy=False)


def _spread(
    values: Array,
    null: npt.NDArray[np.bool_] | None,
    groups: Sequence[Grouped],
    count: npt.NDArray[np.int64],
) -> Partial:
    doubles = np.dtype(np.float64)
    mean = _sum(values, null, groups, doubles) / np.maximum(count, 1)
    apart = values - spread_groups(mean, groups)
    apart *= apart
    return Partial(count, mean, _sum(apart, null, groups, doubles))


def _choose(a: Partial, b: Partial, only_a: Array, only_b: Array, both: Array) -> Array:
    """A part without values has no say."""
    return np.where(b.count == 0, only_a, np.where(a.count == 0, only_b, both))


_PARTIAL_BYTES = 24  # of one element of a cell, on its way


@dataclass(frozen=True, slots=True)
class Variable:
    """`dtype` is of the decoded values, `result` of the reduced ones."""

    source: ArrayDescription
    decoding: Decoding
    dtype: np.dtype[Any]
    result: np.dtype[Any]

    def decoded(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Decodes values as xarray does: missing ones are NaN."""
        column = decode(self.decoding, stored, nan_is_null=False)
        values = column.values.astype(self.dtype, copy=False)  # noqa: PD011 -- no pandas
        return fill(values, column.null, np.nan) if self.dtype.kind == "f" else values


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
        """Cells of the result, without the groups."""
        count = len(self.kept)
        return Cut(self.cut.shape[:count], self.cut.box[:count])

    @property
    def size_bytes(self) -> int:
        return sum(prod(v.source.shape) * v.source.dtype.itemsize for v in self.variables)

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the result."""
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
        """Axis of the groups in the result."""
        return None if self.grouping is None else self.dims.index(self.grouping.name)

    def locate(self, task: int) -> tuple[int, int, Region]:
        """Variable, cell, and what is read of it."""
        variable, number = divmod(task, len(self.cut))
        where = dict(zip((*self.kept, *self.over), self.cut.region(number), strict=True))
        region = tuple(where[axis] for axis in range(len(where)))
        return variable, number // prod(self.cut.counts[len(self.kept) :]), region

    def cell_region(self, cell: int) -> Region:
        """Region of a cell in the result."""
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
