"""Aggregates of groups of cells, added up block by block, with numpy.

Along each axis of a block, positions are all one group, each its own group, or grouped by a code.
The groups of a task are the product of those along the axes; a Tally has an accumulator for each.

What counts as in Spark: NULL is left out, a NaN is the greatest number, a sum of FLOAT is a DOUBLE,
a sum of integers is exact.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

type Array = npt.NDArray[Any]
type Index = tuple[slice | npt.NDArray[np.int64], ...]

_LOW = (1 << 32) - 1
_LONGEST = (1 << 63) - 1
_PIECE_CELLS = 1 << 18  # decoded at a time: what fits into a cache
_RUN_CELLS = 1 << 8  # that lie end to end, at least, in each part of a piece
_CALL_CELLS = 1 << 11  # from which on a group is worth a call of its own


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

    @property
    def is_each(self) -> bool:
        """True if every position is a group."""
        return self.starts is None and len(self.sizes) > 1


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
    numbers = np.searchsorted(known, ascending[starts])
    first, last = int(numbers[0]), int(numbers[-1])
    # a slice if they follow each other: views of accumulators instead of copies
    into = slice(first, last + 1) if last - first == len(starts) - 1 else numbers
    return Grouped(into, sizes, order, starts) if len(starts) > 1 else Grouped(into, sizes)


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


def cut_cells(shape: Sequence[int], order: Sequence[int] | None = None) -> list[int]:
    """Shape of the pieces that a block is cut into, along the axes in `order` until they fit."""
    steps = list(shape)
    for axis in range(len(steps)) if order is None else order:
        others = prod(steps) // max(1, steps[axis])
        steps[axis] = max(1, min(steps[axis], _PIECE_CELLS // max(1, others)))
    return steps


def cut_block(block: Array, groups: Sequence[Grouped]) -> list[int]:
    """Shape of the pieces that a block is reduced in.

    First it is cut where every position is a group: a piece with all that is added up to few
    groups is merged once. Not where parts of a piece would be short runs of memory.
    """
    outer = sorted(range(block.ndim), key=lambda axis: -block.strides[axis])
    run = _RUN_CELLS * block.itemsize
    first = [axis for axis in outer if groups[axis].is_each and block.strides[axis] >= run]
    return cut_cells(block.shape, [*first, *(axis for axis in outer if axis not in first)])


def piece_of(block: Array, place: Sequence[slice]) -> Array:
    """A part of a block: an array, even without axes."""
    at: Any = (*place, ...)
    piece: Array = block[at]
    return piece


def cut_places(shape: Sequence[int], steps: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Pieces of a block, each of the shape `steps` but at the ends."""
    along = [
        [slice(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(shape, steps, strict=True)
    ]
    return product(*along)


class Tally:
    """Aggregates of one column by group: how many are NULL, and what `functions` asks for.

    Blocks may have a narrower type than `dtype`, to which their values are cast.
    """

    def __init__(
        self, functions: Collection[str], dtype: np.dtype[Any], shape: Sequence[int], cells: int
    ) -> None:
        self.dtype = dtype
        self.functions = frozenset(functions)
        # times and booleans are numbers here
        plain = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        # exact in any case: the high halves of integers are added up by themselves
        self.wide = dtype.kind in "iu" and 8 * dtype.itemsize + cells.bit_length() > 62
        self.nulls = np.zeros(shape, np.int64)
        exact = dtype.kind in "iub"
        self.sum = np.zeros(shape if "sum" in functions else (), "i8" if exact else "f8")
        self.high = np.zeros(shape if "sum" in functions and self.wide else (), np.int64)
        self.min = np.full(shape if "min" in functions else (), _neutral(plain, least=True))
        self.max = np.full(shape if "max" in functions else (), _neutral(plain, least=False))

    def add(
        self,
        index: Index,
        groups: Sequence[Grouped],
        values: Array,
        null: npt.NDArray[np.bool_] | None,
        times: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Adds a block of values; each of them stands for `times` cells, if given."""
        if null is not None:
            add_counts(self.nulls, index, groups, null, times)
        if values.dtype.kind in "mM":
            values = values.astype(np.int64)
        with np.errstate(all="ignore"):
            if "sum" in self.functions:
                self._add_sum(index, groups, fill(values, null, 0), times)
            if "min" in self.functions:
                filled = fill(values, null, _neutral(values.dtype, least=True))
                _merge(np.fmin, self.min, index, reduce_groups(np.fmin, filled, groups))
            if "max" in self.functions:
                filled = fill(values, null, _neutral(values.dtype, least=False))
                _merge(np.maximum, self.max, index, reduce_groups(np.maximum, filled, groups))

    def _add_sum(
        self,
        index: Index,
        groups: Sequence[Grouped],
        values: Array,
        times: npt.NDArray[np.int64] | None,
    ) -> None:
        if self.wide:
            wide = values.astype(np.int64, copy=False)
            high = reduce_groups(np.add, wide >> 32, groups, self.high.dtype)
            _merge(np.add, self.high, index, high if times is None else high * times)
            values = wide & _LOW
        part = reduce_groups(np.add, values, groups, self.sum.dtype)
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


def add_counts(
    into: npt.NDArray[np.int64],
    index: Index,
    groups: Sequence[Grouped],
    mask: npt.NDArray[np.bool_],
    times: npt.NDArray[np.int64] | None = None,
) -> None:
    """Adds the number of cells of each group where `mask` is true."""
    if all(along.is_one for along in groups):  # many times as fast as a sum
        part: Array = np.full((1,) * len(groups), np.count_nonzero(mask))
    else:
        part = reduce_groups(np.add, mask, groups, np.dtype(np.int64))
    _merge(np.add, into, index, part if times is None else part * times)


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


def fill(values: Array, null: npt.NDArray[np.bool_] | None, filler: Any) -> Array:
    """Values with `filler` instead of NULL."""
    if null is None:
        return values
    filled = values.copy()
    np.copyto(filled, filled.dtype.type(filler), where=null)
    return filled


def reduce_groups(
    ufunc: np.ufunc, values: Array, groups: Sequence[Grouped], dtype: np.dtype[Any] | None = None
) -> Array:
    """Reduces a block to its groups, in `dtype`; what has nothing to reduce is returned as it is.

    No copy of the block is made but to bring scattered positions of a group together.
    """
    ones = tuple(k for k, along in enumerate(groups) if along.is_one and values.shape[k] != 1)
    found: Array = ufunc.reduce(values, axis=ones, dtype=dtype, keepdims=True) if ones else values
    for axis, along in enumerate(groups):
        if along.starts is not None:
            found = found if along.order is None else found.take(along.order, axis=axis)
            found = _reduce_runs(ufunc, found, axis, along.starts, dtype)
    return found


def spread_groups(values: Array, groups: Sequence[Grouped]) -> Array:
    """Values of groups for each position that is in one of several groups; others broadcast."""
    for axis, along in enumerate(groups):
        if along.starts is not None:
            numbers = np.repeat(np.arange(len(along.sizes)), along.sizes)
            if along.order is not None:
                numbers[along.order] = numbers.copy()
            values = values.take(numbers, axis=axis)
    return values


def _reduce_runs(
    ufunc: np.ufunc,
    values: Array,
    axis: int,
    starts: npt.NDArray[np.int64],
    dtype: np.dtype[Any] | None,
) -> Array:
    if values.size < _CALL_CELLS * len(starts):
        found: Array = ufunc.reduceat(values, starts, axis=axis, dtype=dtype)
        return found
    # numpy's reduceat takes 2 to 8 times as long here
    edges = pairwise([*starts.tolist(), values.shape[axis]])
    before = (slice(None),) * axis
    runs = [values[(*before, slice(start, stop))] for start, stop in edges]
    return np.concatenate(
        [ufunc.reduce(run, axis=axis, dtype=dtype, keepdims=True) for run in runs], axis=axis
    )


def _merge(ufunc: np.ufunc, into: Array, index: Index, part: Array) -> None:
    if all(isinstance(along, slice) for along in index):
        view = into[(*index, ...)]  # an array even without axes
        ufunc(view, part, out=view)
    else:
        into[index] = ufunc(into[index], part)
