"""Aggregates of groups of cells, added up block by block, with numpy.

Along each axis of a block, positions are all one group, each its own group, or grouped by a code.
The groups of a task are the product of those along the axes; a Tally has an accumulator for each.

What counts as in Spark: NULL is left out, a NaN is the greatest number, a sum of FLOAT is a DOUBLE,
a sum of integers is exact.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

type Array = npt.NDArray[Any]
type Index = tuple[slice | npt.NDArray[np.int64], ...]

_LOW = (1 << 32) - 1
_LONGEST = (1 << 63) - 1
_PIECE_CELLS = 1 << 18  # decoded at a time: what fits into a cache


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Positions of a block along one axis, by group.

    `into` says which groups of the task these are, `sizes` how many positions each has. Where
    several groups have several positions each, they begin at `starts`, once taken in `order`.
    """

    into: slice | npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64] | None = None
    starts: npt.NDArray[np.int64] | None = None

    @property
    def is_one(self) -> bool:
        return self.starts is None and len(self.sizes) == 1


def one_group(count: int) -> Grouped:
    return Grouped(slice(0, 1), np.array([count]))


def own_groups(first: int, count: int) -> Grouped:
    return Grouped(slice(first, first + count), np.ones(count, np.int64))


def coded_groups(codes: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> Grouped:
    """Groups by code, numbered by their place in `known`, which is ascending."""
    order = None if (np.diff(codes) >= 0).all() else np.argsort(codes, kind="stable")
    ascending = codes if order is None else codes[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ascending)) + 1])
    sizes = np.diff(np.concatenate([starts, [len(codes)]]))
    return Grouped(np.searchsorted(known, ascending[starts]), sizes, order, starts)


def index_of(groups: Sequence[Grouped]) -> Index:
    """Index of the groups of a block among those of the task."""
    if all(isinstance(along.into, slice) for along in groups):
        return tuple(along.into for along in groups)
    return np.ix_(
        *(
            np.arange(along.into.start, along.into.stop)
            if isinstance(along.into, slice)
            else along.into
            for along in groups
        )
    )


def outer_sizes(groups: Sequence[Grouped]) -> npt.NDArray[np.int64]:
    """Number of cells of each group of a block."""
    sizes = np.ones((1,) * len(groups), np.int64)
    for axis, along in enumerate(groups):
        sizes = sizes * along_axis(along.sizes, axis, len(groups))
    return sizes


def along_axis(values: Array, axis: int, ndim: int) -> Array:
    return values.reshape([-1 if k == axis else 1 for k in range(ndim)])


def cut_cells(shape: Sequence[int], limit: int = _PIECE_CELLS) -> list[int]:
    """Shape of the pieces of at most `limit` cells that a block is cut into, row by row."""
    steps = list(shape)
    for axis in range(len(steps)):
        inner = prod(steps[axis + 1 :])
        steps[axis] = max(1, min(steps[axis], limit // max(1, inner)))
    return steps


class Tally:
    """Aggregates of one column by group: how many values, and what `functions` asks for."""

    def __init__(
        self, functions: Collection[str], dtype: np.dtype[Any], shape: Sequence[int], cells: int
    ) -> None:
        self.dtype = dtype
        self.functions = frozenset(functions)
        # times and booleans are numbers here
        self.plain = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        # exact in any case: the high halves of integers are added up by themselves
        self.wide = dtype.kind in "iu" and 8 * dtype.itemsize + cells.bit_length() > 62
        self.count = np.zeros(shape, np.int64)
        exact = dtype.kind in "iub"
        self.sum = np.zeros(shape if "sum" in functions else (), "i8" if exact else "f8")
        self.high = np.zeros(shape if "sum" in functions and self.wide else (), np.int64)
        self.min = np.full(shape if "min" in functions else (), _neutral(self.plain, least=True))
        self.max = np.full(shape if "max" in functions else (), _neutral(self.plain, least=False))

    def add(
        self,
        index: Index,
        groups: Sequence[Grouped],
        values: Array,
        null: npt.NDArray[np.bool_] | None,
        times: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Adds a block of values; each of them stands for `times` cells, if given."""
        count = outer_sizes(groups)
        if null is not None:
            count = count - _reduce(np.add, null, groups, np.dtype(np.int64))
        _merge(np.add, self.count, index, count if times is None else count * times)
        if values.dtype.kind in "mM":
            values = values.astype(np.int64)
        with np.errstate(all="ignore"):
            if "sum" in self.functions:
                self._add_sum(index, groups, _filled(values, null, 0), times)
            if "min" in self.functions:
                filled = _filled(values, null, _neutral(self.plain, least=True))
                _merge(np.fmin, self.min, index, _reduce(np.fmin, filled, groups, None))
            if "max" in self.functions:
                filled = _filled(values, null, _neutral(self.plain, least=False))
                _merge(np.maximum, self.max, index, _reduce(np.maximum, filled, groups, None))

    def _add_sum(
        self,
        index: Index,
        groups: Sequence[Grouped],
        values: Array,
        times: npt.NDArray[np.int64] | None,
    ) -> None:
        if self.wide and times is None:
            wide = values.astype(np.int64, copy=False)
            high = _reduce(np.add, wide >> 32, groups, self.high.dtype)
            _merge(np.add, self.high, index, high)
            values = wide & _LOW
        part = _reduce(np.add, values, groups, self.sum.dtype)
        _merge(np.add, self.sum, index, part if times is None else part * times)

    def sums(self) -> tuple[Array, list[tuple[int, int]]]:
        """Sums, flat, and what is left of those that no BIGINT can hold: (group, number) each."""
        if not self.wide or "sum" not in self.functions:
            return self.sum.reshape(-1), []
        high, low = (self.high + (self.sum >> 32)).reshape(-1), (self.sum & _LOW).reshape(-1)
        found = (high << 32) | low
        left = []
        for group in np.flatnonzero((high >> 31 != 0) & (high >> 31 != -1)).tolist():
            total = (int(high[group]) << 32) + int(low[group])
            parts = -(-abs(total) // _LONGEST)
            each, more = divmod(total, parts)
            found[group] = each
            left += [(group, each + (part <= more)) for part in range(1, parts)]
        return found, left

    def extremes(self, function: str) -> Array:
        found = self.min if function == "min" else self.max
        return found.reshape(-1).astype(self.dtype, copy=False)


def _neutral(dtype: np.dtype[Any], *, least: bool) -> Any:
    """A value that changes no minimum, or no maximum; numpy's fmin passes over NaN."""
    if dtype.kind == "f":
        return dtype.type(np.nan if least else -np.inf)
    if dtype.kind == "b":
        return least
    if dtype.kind not in "iu":
        return 0  # never asked for
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if least else limits.min)


def _filled(values: Array, null: npt.NDArray[np.bool_] | None, filler: Any) -> Array:
    return values if null is None else np.where(null, values.dtype.type(filler), values)


def _reduce(
    ufunc: np.ufunc, values: Array, groups: Sequence[Grouped], dtype: np.dtype[Any] | None
) -> Array:
    ones = tuple(k for k, along in enumerate(groups) if along.is_one)
    found: Array = ufunc.reduce(values, axis=ones, dtype=dtype, keepdims=True)
    for axis, along in enumerate(groups):
        if along.starts is not None:
            found = found if along.order is None else found.take(along.order, axis=axis)
            found = ufunc.reduceat(found, along.starts, axis=axis, dtype=dtype)
    return found


def _merge(ufunc: np.ufunc, into: Array, index: Index, part: Array) -> None:
    into[index] = ufunc(into[index], part)
