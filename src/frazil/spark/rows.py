"""From blocks of arrays to batches of rows, in Arrow.

The last dimension varies fastest. A coordinate column repeats a few values many times, so it is
taken from a short Arrow array by row number; nothing is done per row in Python.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.spark.cf import Decoding, decode
from frazil.spark.plan import iterate_rows
from frazil.spark.schema import to_arrow


@dataclass(frozen=True, slots=True, eq=False)
class CoordinateColumn:
    """Values along one axis of the block."""

    axis: int
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class VariableColumn:
    """A block of stored values, in the axes' order."""

    block: npt.NDArray[Any]
    decoding: Decoding
    nan_is_null: bool


type BlockColumn = CoordinateColumn | VariableColumn


def batches(
    shape: Sequence[int], columns: Sequence[BlockColumn], schema: pa.Schema, *, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a block of `shape`, at most `batch_rows` at a time, exactly of `schema`."""
    makers = [_maker(shape, column) for column in columns]
    for start, stop in iterate_rows(prod(shape), batch_rows):
        arrays = [make(start, stop) for make in makers]
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names).cast(schema)


def _maker(shape: Sequence[int], column: BlockColumn) -> Callable[[int, int], pa.Array]:
    match column:
        case CoordinateColumn(axis, values):
            inner, count = prod(shape[axis + 1 :]), shape[axis]

            def take(start: int, stop: int) -> pa.Array:
                return values.take(pa.array(np.arange(start, stop) // inner % count))

            return take
        case VariableColumn(block, decoding, nan_is_null):
            flat = block.reshape(-1)

            def convert(start: int, stop: int) -> pa.Array:
                return to_arrow(decode(decoding, flat[start:stop], nan_is_null=nan_is_null))

            return convert
