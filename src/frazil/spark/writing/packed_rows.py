"""Rows as the Java side packs them: some dozens in one value, column by column.

Spark hands rows to Python value by value, which takes longer than all else of a write. A value
holds, in the byte order of the machine:

    8 bytes               the number of rows; all values have as many as fit, but for the last
    8 bytes per column    bits that are set where it is NULL, from the lowest on
    then column by column places for as many rows as fit
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from frazil.spark.table.schema import arrow_schema

_DTYPES: dict[type[DataType], str] = {
    BooleanType: "u1",
    ByteType: "i1",
    ShortType: "i2",
    IntegerType: "i4",
    DateType: "i4",
    FloatType: "f4",
    DoubleType: "f8",
    LongType: "i8",
    TimestampType: "i8",
    TimestampNTZType: "i8",
}


def unpack_rows(
    batches: Iterable[pa.RecordBatch], columns: StructType, capacity: int
) -> Iterator[pa.RecordBatch]:
    """Batches of these columns, of batches of values that each hold up to `capacity` rows."""
    schema = arrow_schema(columns)
    dtypes = [np.dtype(_DTYPES[type(field.dataType)]) for field in columns]
    size = 8 * (1 + len(dtypes)) + capacity * sum(dtype.itemsize for dtype in dtypes)
    for batch in batches:
        values = batch.column(0)
        if not len(values):
            continue
        yield _unpack(_bytes_of(values).reshape(len(values), size), schema, dtypes, capacity)


def _bytes_of(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Bytes of all values, one after the other."""
    wide = pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    edges = np.frombuffer(offsets, np.int64 if wide else np.int32)
    return np.frombuffer(data, np.uint8)[edges[values.offset] : edges[values.offset + len(values)]]


def _unpack(
    packed: npt.NDArray[np.uint8], schema: pa.Schema, dtypes: list[np.dtype[Any]], capacity: int
) -> pa.RecordBatch:
    heads = packed[:, : 8 * (1 + len(dtypes))].copy().view(np.uint64)
    count = (len(packed) - 1) * capacity + int(heads[-1, 0])
    at = heads.nbytes // len(packed)
    arrays = []
    for column, (field, dtype) in enumerate(zip(schema, dtypes, strict=True)):
        stop = at + capacity * dtype.itemsize
        values = packed[:, at:stop].copy().view(dtype).reshape(-1)[:count]
        arrays.append(_array(values, _nulls(heads[:, 1 + column], capacity, count), field.type))
        at = stop
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nulls(bits: npt.NDArray[np.uint64], capacity: int, count: int) -> npt.NDArray[np.bool_] | None:
    if not bits.any():
        return None
    little = bits.astype("<u8").view(np.uint8).reshape(-1, 8)
    each = np.unpackbits(little, axis=1, bitorder="little")[:, :capacity]
    return each.reshape(-1)[:count].astype(np.bool_)


def _array(
    values: npt.NDArray[np.generic], nulls: npt.NDArray[np.bool_] | None, of: pa.DataType
) -> pa.Array:
    if pa.types.is_boolean(of):
        return pa.array(values.view(np.bool_), mask=nulls)
    present = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(of, len(values), [present, pa.py_buffer(values)])
