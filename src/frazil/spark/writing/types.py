"""Which array a column of a DataFrame makes, and whether it fits one that is there.

    column                          new array
    BOOLEAN, TINYINT .. DOUBLE      bool, int8 .. float64
    DECIMAL(20, 0) and shorter      uint64; int64 if shorter than 19 digits
    STRUCT<re, im>                  complex64, complex128
    STRING                          string
    TIMESTAMP, TIMESTAMP_NTZ        int64, "microseconds since 1970-01-01" or the `units` given
    DATE                            int64, "days since 1970-01-01" or the `units` given
    INTERVAL DAY TO SECOND          timedelta64[us]

Integers get the fill value that netCDF has for them, floats NaN, so that NULL has a place; text and
booleans get none.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.cf import Decoding, Time, plan_decoding
from frazil.spark.description import ArrayDescription
from frazil.spark.ingestion.metadata import json_attributes
from frazil.spark.schema import ColumnPlan, spark_type
from frazil.spark.writing.columns import StoredColumn, require_usable_scale
from frazil.spark.writing.snapping import plan_snapping

TIME_UNITS = "microseconds since 1970-01-01"
DATE_UNITS = "days since 1970-01-01"
DEFAULT_FILLS = {
    "i1": -127, "i2": -32_767, "i4": -2_147_483_647, "i8": -9_223_372_036_854_775_806,
    "u1": 255, "u2": 65_535, "u4": 4_294_967_295, "u8": 18_446_744_073_709_551_614,
}  # fmt: skip

_NUMBERS: dict[type[DataType], str] = {
    BooleanType: "bool",
    ByteType: "int8",
    ShortType: "int16",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float32",
    DoubleType: "float64",
}
_TIMES = (TimestampType, TimestampNTZType, DateType)


def new_array(
    name: str,
    kind: DataType,
    *,
    is_coordinate: bool,
    dtype: str | None = None,
    fill: Json = None,
    units: str | None = None,
    attrs: Mapping[str, Json] | None = None,
) -> ArrayDescription:
    """Dtype, attributes and fill value of a new array; its shape is not decided here."""
    told: dict[str, Any] = dict(attrs or {})
    if isinstance(kind, _TIMES):
        told["units"] = units or told.get("units") or _default_units(kind)
        told.setdefault("calendar", "proleptic_gregorian")
    elif units is not None:
        raise InvalidInputError(
            f"option 'units' names {name!r}, which is {kind.simpleString()}, no time"
        )
    stored = _stored_dtype(name, kind, dtype)
    value = None if is_coordinate and fill is None else _fill(name, stored, fill)
    if value is not None and (fill is not None or isinstance(kind, _TIMES)):
        told["_FillValue"] = value  # so that others mask it, too
    description = ArrayDescription(
        name=name, path=name, dims=(), shape=(), chunks=(), dtype=stored, attrs=told,
        fill_value=value,
    )  # fmt: skip
    decoding = _decoding_of(description)
    if isinstance(kind, _TIMES) and not isinstance(decoding, Time):
        raise InvalidInputError(
            f"column {name!r} is {kind.simpleString()}: {told['units']!r} with the calendar"
            f" {told['calendar']!r} does not count times that Spark has"
        )
    if not isinstance(kind, _TIMES) and isinstance(decoding, Time):
        raise InvalidInputError(
            f"column {name!r} is {kind.simpleString()}, but its attributes say that it counts"
            f" times ({told['units']!r}): cast it to TIMESTAMP, or leave `units` out"
        )
    return description


def _decoding_of(array: ArrayDescription) -> Decoding:
    """Raises InvalidInputError for attributes of CF that are not what they should be."""
    try:
        decoding = plan_decoding(array)
        json_attributes(array.attrs, array.dtype)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"option 'attrs': those of column {array.name!r} cannot be used: {error}"
        ) from error
    require_usable_scale(array.name, decoding)
    return decoding


def stored_column(array: ArrayDescription, *, narrows: bool = False) -> StoredColumn:
    return StoredColumn(
        name=array.name, dtype=array.dtype, decoding=plan_decoding(array), narrows=narrows
    )


def snapped_column(
    array: ArrayDescription, kind: DataType, values: npt.NDArray[Any], tolerance: float | None
) -> StoredColumn:
    """Of a coordinate that is there and has these values, stored."""
    column = stored_column(array)
    wanted = np.dtype(_NUMBERS.get(type(kind), "float64"))
    stored = values.astype(column.work_dtype)
    snapping = plan_snapping(array.name, column.decoding, stored, wanted, tolerance)
    return replace(column, snapping=snapping)


def require_near(array: ArrayDescription, kind: DataType) -> None:
    """Of a coordinate with a tolerance: any number will do for a number."""
    is_number = array.dtype.kind in "iuf" and not isinstance(plan_decoding(array), Time)
    if not is_number or type(kind) not in _NUMBERS or isinstance(kind, BooleanType):
        require_fitting(array, kind)


def require_fitting(array: ArrayDescription, kind: DataType, dtype: str | None = None) -> None:
    """Refuse a column that is neither of the type that reading gives, or a smaller one of its
    kind, nor of one that would have made this array, with the `dtype` that the caller asks for.
    """
    decoding = plan_decoding(array)
    own = spark_type(ColumnPlan(array.name, array, decoding, is_dimension=False, nan_is_null=True))
    if _fits(kind, own):
        return
    is_time = isinstance(decoding, Time)  # a number would be taken for microseconds
    if not is_time and _stored_dtype(array.name, kind, dtype) == array.dtype:
        return
    raise InvalidInputError(
        f"column {array.name!r} is {kind.simpleString()}, but the array is {array.dtype} and"
        f" takes {own.simpleString()}: cast the column",
        kind="invalid-array-metadata",
    )


def _fits(kind: DataType, own: DataType) -> bool:
    if isinstance(own, StructType) and isinstance(kind, StructType):
        return kind.names == own.names and all(
            _fits(given.dataType, wanted.dataType) for given, wanted in zip(kind, own, strict=True)
        )
    return isinstance(kind, _TAKES.get(type(own), type(own)))


_TAKES: dict[type[DataType], tuple[type[DataType], ...]] = {
    TimestampType: _TIMES,
    DoubleType: (DoubleType, FloatType, ByteType, ShortType, IntegerType),
    DecimalType: (DecimalType, LongType, IntegerType, ShortType, ByteType),
    ShortType: (ShortType, ByteType),
    IntegerType: (IntegerType, ShortType, ByteType),
    LongType: (LongType, IntegerType, ShortType, ByteType),
}


def _default_units(kind: DataType) -> str:
    return DATE_UNITS if isinstance(kind, DateType) else TIME_UNITS


def _stored_dtype(name: str, kind: DataType, wanted: str | None) -> np.dtype[Any]:
    usual = _usual_dtype(name, kind)
    if wanted is None:
        return usual
    try:
        asked = np.dtypes.StringDType() if wanted in {"string", "str"} else np.dtype(wanted)
    except (TypeError, ValueError, SyntaxError) as error:  # numpy parses lists of fields
        raise InvalidInputError(f"option 'dtypes' says {wanted!r} of {name!r}: {error}") from error
    numeric = "biufc"
    same = (usual.kind in numeric and asked.kind in numeric) or usual.kind == asked.kind
    if not same and not (usual.kind == "T" and asked.kind == "U"):
        raise InvalidInputError(
            f"option 'dtypes' says {wanted!r} of {name!r}, which is {kind.simpleString()}"
        )
    return asked


def _usual_dtype(name: str, kind: DataType) -> np.dtype[Any]:
    if type(kind) in _NUMBERS:
        return np.dtype(_NUMBERS[type(kind)])
    if isinstance(kind, _TIMES):
        return np.dtype(np.int64)
    if isinstance(kind, StringType):
        return np.dtypes.StringDType()
    if isinstance(kind, DayTimeIntervalType):
        return np.dtype("timedelta64[us]")
    if isinstance(kind, DecimalType) and kind.scale == 0 and kind.precision <= 20:
        return np.dtype(np.int64 if kind.precision < 19 else np.uint64)
    if isinstance(kind, StructType) and kind.names == ["re", "im"]:
        parts = {type(field.dataType) for field in kind}
        if parts in ({FloatType}, {DoubleType}):
            return np.dtype(np.complex64 if parts == {FloatType} else np.complex128)
    raise InvalidInputError(
        f"column {name!r} is {kind.simpleString()}, which no Zarr array can hold:"
        " cast it or leave it out"
    )


def _fill(name: str, dtype: np.dtype[Any], given: Json) -> Any:
    """In the dtype; None for those that have no value to spare."""
    if given is None:
        if dtype.str[1:] in DEFAULT_FILLS:
            return dtype.type(DEFAULT_FILLS[dtype.str[1:]])
        return dtype.type(np.nan) if dtype.kind in "fc" else None
    try:
        value = np.asarray(given).astype(dtype)[()]
        exact = np.ndim(value) == 0 and (dtype.kind not in "iub" or bool(value == given))
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or (not value and dtype.kind != "f"):
        # 0, False and "" are ordinary values, and read as such
        raise InvalidInputError(
            f"option 'fill' gives {given!r} for {name!r}: expected a value of {dtype} that is not"
            " its default"
        )
    return value
