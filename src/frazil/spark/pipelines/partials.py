"""Reductions in parts: of a block, of two parts together, and the value in the end.

    how        kept of each part                        value
    count      number of values                         that
    sum        and their sum                            that
    mean       and their sum                            sum / number
    min max    and the least or greatest                that
    std        and their mean, and sum of squared       sqrt(squares / number): the population's
               distances from it                        (ddof=0), as in xarray

Parts combine in any order (Chan, Golub and LeVeque 1979 for std), though the last bits of floats
depend on it: see reduce_job.py. Sums of floats are kept in double precision, of integers in
64 bits. NaN is no value if `skipna`; else it spoils the result, except of `count`, which never
counts it. What has no values is NaN, its sum and number 0: all as in xarray.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError

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


def result_dtype(how: How, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Of the reduced values; raises InvalidInputError for what is no number."""
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
    """Of `Partial.value`."""
    if how is How.SUM and dtype.kind != "f":
        return result_dtype(how, dtype)
    return dtype if how in (How.MIN, How.MAX) else np.dtype(np.float64)


def reduce_block(values: Array, axes: Sequence[int], how: How, *, skipna: bool) -> Partial:
    """The part that a block contributes, without these axes."""
    along = tuple(axes)
    size = int(np.prod([values.shape[axis] for axis in along], dtype=np.int64))
    shape = tuple(n for axis, n in enumerate(values.shape) if axis not in along)
    valid = None
    if values.dtype.kind == "f" and (skipna or how is How.COUNT):
        missing = np.isnan(values)
        valid = ~missing if missing.any() else None
    if valid is None:
        count = np.full(shape, size, dtype=np.int64)
    else:
        count = np.asarray(valid.sum(axis=along, dtype=np.int64))
    with np.errstate(invalid="ignore", over="ignore"):
        match how:
            case How.COUNT:
                return Partial(count)
            case How.SUM | How.MEAN:
                return Partial(count, _sum(values, valid, along, value_dtype(how, values.dtype)))
            case How.STD:
                return _spread(values, valid, along, count)
            case How.MIN | How.MAX:
                return Partial(count, _extreme(values, valid, along, how) if size else
                               np.zeros(shape, dtype=values.dtype))  # fmt: skip


def combine(a: Partial, b: Partial, how: How) -> Partial:
    """As if of the values of both."""
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
                    return np.where(part.count == 0, dtype.type(np.nan), part.value)
                if (part.count == 0).any():
                    raise InvalidInputError(f"there is no {how} of no {dtype} values")
                return part.value


def _sum(values: Array, valid: Array | None, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    chosen = values if valid is None else np.where(valid, values, values.dtype.type(0))
    return np.asarray(chosen.sum(axis=axes, dtype=dtype))


def _spread(
    values: Array, valid: Array | None, axes: tuple[int, ...], count: npt.NDArray[np.int64]
) -> Partial:
    doubles = values.astype(np.float64)
    mean = _sum(doubles, valid, axes, doubles.dtype) / np.maximum(count, 1)
    apart = doubles - np.expand_dims(mean, axes)
    return Partial(count, np.asarray(mean), _sum(apart * apart, valid, axes, doubles.dtype))


def _extreme(values: Array, valid: Array | None, axes: tuple[int, ...], how: How) -> Array:
    never = np.inf if how is How.MIN else -np.inf
    chosen = values if valid is None else np.where(valid, values, values.dtype.type(never))
    return np.asarray(chosen.min(axis=axes) if how is How.MIN else chosen.max(axis=axes))


def _choose(a: Partial, b: Partial, only_a: Array, only_b: Array, both: Array) -> Array:
    """A part without values has no say."""
    return np.where(b.count == 0, only_a, np.where(a.count == 0, only_b, both))
