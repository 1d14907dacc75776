"""Columns: numpy arrays on one side, Spark and Arrow types on the other.

Spark takes an Arrow batch only if its types are exactly those of the schema, so every dtype that
Spark does not know goes to the next that holds all its values (docs/spark-facts.md 9):

    bool int8..int64 float32 float64     BOOLEAN TINYINT..BIGINT FLOAT DOUBLE
    float16                              FLOAT
    uint8 uint16 uint32 uint64           SMALLINT INT BIGINT DECIMAL(20, 0)
    complex64 complex128                 STRUCT<re, im> of FLOAT, DOUBLE
    strings; bytes and raw               STRING; BINARY
    datetime64, CF time; timedelta64     TIMESTAMP; INTERVAL DAY TO SECOND   (in microseconds)
    structured                           STRUCT of its fields
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from frazil.errors import InvalidInputError
from frazil.spark.table.cf import RAW, Decoding, Values, decoded_dtype, plan_decoding
from frazil.spark.table.description import ArrayDescription, Grid

_NUMERIC: dict[str, tuple[type[DataType], type[np.generic]]] = {
    "b1": (BooleanType, np.bool_),
    "i1": (ByteType, np.int8),
    "i2": (ShortType, np.int16),
    "i4": (IntegerType, np.int32),
    "i8": (LongType, np.int64),
    "u1": (ShortType, np.int16),
    "u2": (IntegerType, np.int32),
    "u4": (LongType, np.int64),
    "f2": (FloatType, np.float32),
    "f4": (FloatType, np.float32),
    "f8": (DoubleType, np.float64),
}
_UINT64 = pa.decimal128(20, 0)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column: the array behind it, None for the position along a dimension."""

    name: str
    array: ArrayDescription | None
    decoding: Decoding
    is_dimension: bool
    nan_is_null: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the decoded values."""
        if self.array is None:
            return np.dtype(np.int64)
        return decoded_dtype(self.decoding, self.array.dtype)


def plan_columns(grid: Grid, *, decode_cf: bool) -> tuple[ColumnPlan, ...]:
    """Dimensions first, then variables."""

    def column(name: str, array: ArrayDescription | None, *, is_dimension: bool) -> ColumnPlan:
        decoding = plan_decoding(array) if array is not None and decode_cf else RAW
        return ColumnPlan(name, array, decoding, is_dimension, nan_is_null=decode_cf)

    return (
        *(column(d.name, d.coordinate, is_dimension=True) for d in grid.dimensions),
        *(column(v.name, v, is_dimension=False) for v in grid.variables),
    )


def keep_columns(columns: Sequence[ColumnPlan], names: Sequence[str]) -> tuple[ColumnPlan, ...]:
    """The named columns, in the order of the table. Names are as Spark's: case insensitive."""
    folded = {c.name.casefold() for c in columns}
    unknown = [name for name in names if name.casefold() not in folded]
    if unknown:
        raise InvalidInputError(
            f"no column {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join(c.name for c in columns)}"
        )
    wanted = {name.casefold() for name in names}
    kept = tuple(c for c in columns if c.name.casefold() in wanted)
    return kept or tuple(columns[:1])  # Spark has no rows without a column


def spark_schema(columns: Sequence[ColumnPlan]) -> StructType:
    return StructType([StructField(c.name, spark_type(c), nullable=True) for c in columns])


def spark_type(column: ColumnPlan) -> DataType:
    found = type_of_dtype(column.dtype)
    if found is None:
        raise InvalidInputError(
            f"column {column.name!r} has dtype {column.dtype}, which has no type in Spark;"
            " leave it out with the option `variables`"
        )
    return found


def type_of_dtype(dtype: np.dtype[Any]) -> DataType | None:
    """The closest type, None if there is none."""
    code = dtype.str[1:]
    if code in _NUMERIC:
        return _NUMERIC[code][0]()
    if code == "u8":
        return DecimalType(20, 0)
    if dtype.kind == "c":
        part = FloatType() if dtype.itemsize == 8 else DoubleType()
        return StructType([StructField("re", part), StructField("im", part)])
    if dtype.names is not None:
        parts = {name: type_of_dtype(dtype[name]) for name in dtype.names}
        fields = [StructField(name, each) for name, each in parts.items() if each is not None]
        return StructType(fields) if len(fields) == len(parts) else None
    if dtype.subdtype is not None:
        return None
    return _SIMPLE[dtype.kind]() if dtype.kind in _SIMPLE else None


_SIMPLE: dict[str, type[DataType]] = {
    "U": StringType,
    "T": StringType,
    "O": StringType,
    "S": BinaryType,
    "V": BinaryType,
    "M": TimestampType,
    "m": DayTimeIntervalType,
}


def to_arrow(column: Values) -> pa.Array:
    """The column in the Arrow type that Spark expects of its dtype."""
    values, null = column.values, column.null
    code = values.dtype.str[1:]
    if code in _NUMERIC:
        return from_numbers(values.astype(_NUMERIC[code][1], copy=False), null)
    if values.dtype.names is not None:
        return _from_structs(values, null)
    return _CONVERTERS[values.dtype.kind](values, null)


type _Mask = npt.NDArray[np.bool_] | None


def from_numbers(
    values: npt.NDArray[Any], null: _Mask = None, kind: pa.DataType | None = None
) -> pa.Array:
    """Numbers (n,) of a dtype that Arrow has, as they are in memory; of `kind` if it is not theirs.

    `pa.array` would import pandas, which takes longer than most tasks.
    """
    is_bool = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_bool else np.ascontiguousarray(values)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    count = 0 if null is None else int(np.count_nonzero(null))
    buffers = [valid, pa.py_buffer(data)]
    return pa.Array.from_buffers(
        kind or pa.from_numpy_dtype(values.dtype), len(values), buffers, null_count=count
    )


def _from_uint64(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    return pa.array(values, mask=null).cast(_UINT64)


def _from_complex(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    parts = [
        from_numbers(values.real),
        from_numbers(values.imag),
    ]
    mask = None if null is None else from_numbers(null)
    return pa.StructArray.from_arrays(parts, names=["re", "im"], mask=mask)


def _from_structs(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    names = values.dtype.names or ()
    fields = [np.ascontiguousarray(values[name]) for name in names]
    missing = [np.isnat(field) if field.dtype.kind in "mM" else None for field in fields]
    parts = [to_arrow(Values(*each)) for each in zip(fields, missing, strict=True)]
    mask = None if null is None else from_numbers(null)
    return pa.StructArray.from_arrays(parts, names=list(names), mask=mask)


def _from_text(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    return pa.array(values.astype(object), mask=null, type=pa.string())


def _from_bytes(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    if values.dtype.kind == "V":
        return pa.array([v.tobytes() for v in values], mask=null, type=pa.binary())
    return pa.array(values.astype(object), mask=null, type=pa.binary())


def _from_datetime(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    micros = values.astype("datetime64[us]", copy=False).view(np.int64)
    return from_numbers(micros, null, pa.timestamp("us", tz="UTC"))


def _from_timedelta(values: npt.NDArray[Any], null: _Mask) -> pa.Array:
    micros = values.astype("timedelta64[us]", copy=False).view(np.int64)
    return from_numbers(micros, null, pa.duration("us"))


_CONVERTERS: dict[str, Callable[[npt.NDArray[Any], _Mask], pa.Array]] = {
    "u": _from_uint64,
    "c": _from_complex,
    "U": _from_text,
    "T": _from_text,
    "O": _from_text,
    "S": _from_bytes,
    "V": _from_bytes,
    "M": _from_datetime,
    "m": _from_timedelta,
}


# Arrow schema that Spark requires of batches, exactly (docs/spark-facts.md 3).

# PySpark 4.1 takes no zone: there it is always UTC
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Times are in UTC."""
    return to_arrow_schema(schema, **_UTC)


# Columns as one Parquet file, for who wants a file rather than a job.


def write_parquet(columns: Mapping[str, npt.NDArray[Any]], file: str | os.PathLike[str]) -> None:
    """Columns of equal length; NaT becomes NULL, NaN stays."""
    from pyarrow.parquet import write_table  # noqa: PLC0415 - nothing that a task needs

    write_table(pa.table({name: pa.array(each) for name, each in columns.items()}), file)


def quote_name(name: str) -> str:
    """Quotes a column's name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
