"""Columns of a DataFrame as an array stores them: the inverse of `cf.decode` and `schema.to_arrow`.

column value                   stored value
NULL                           the fill value; NaN where the array is of floats
a value equal to a fill value  refused: it would be read as NULL
TIMESTAMP, DATE                a number, by the CF `units` of the array; refused if not exact
any, with scale_factor         (value - add_offset) / scale_factor, rounded for integers
any, with _Unsigned            the same bits as integers of the stored dtype
a number the dtype cannot hold refused
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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
from frazil.spark.table.cf import Decoding, Plain, Scaled, Time, decode, pack, plan_decoding
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.documents import json_attributes
from frazil.spark.table.schema import ColumnPlan, spark_type

# Rows that mean a coordinate value without having its stored bits. Pure, picklable.
#
# A row is at a coordinate value if it has what reading gives for it, in the type of its column:
#
#     coordinate                          column       at 0.1 is
#     float64                             FLOAT        the nearest float to 0.1
#     floats that count hours or days     TIMESTAMP    the microsecond that is read
#     scaled                              DOUBLE       stored * scale_factor + add_offset
#     datetime64[ns]                      TIMESTAMP    its microsecond
#
# With a tolerance, the nearest value that is no farther away; in seconds for times.

type Column = npt.NDArray[Any]
type Mask = npt.NDArray[np.bool_]

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Snapping:
    """Values of a coordinate that is there: as a column would say them, and as they are stored."""

    said: Column  # (n,) ascending, none twice
    stored: Column  # (n,) in that order
    tolerance: float  # in the units of `said`

    def find(self, values: Column) -> tuple[Mask, Column]:
        """Returns a mask of values, (m,), that match a coordinate value, and the stored values."""
        if not len(self.said):
            return np.zeros(len(values), dtype=bool), self.stored
        values = values.astype(self.said.dtype)
        after = np.minimum(np.searchsorted(self.said, values), len(self.said) - 1)
        before = np.maximum(after - 1, 0)
        nearer = _distance(values, self.said[before]) < _distance(values, self.said[after])
        nearest = np.where(nearer, before, after)
        at = _distance(values, self.said[nearest]) <= self.tolerance
        return at, self.stored[nearest[at]]


def plan_snapping(
    name: str,
    decoding: Decoding,
    stored: Column,
    wanted: np.dtype[Any],
    tolerance: float | None,
) -> Snapping | None:
    """Plans how rows of the dtype `wanted` find coordinate values; None if only by equal bits.

    Raises InvalidInputError if rows could not tell two values apart, or a tolerance means nothing.
    """
    is_time = isinstance(decoding, Time) or stored.dtype.kind in "mM"
    if stored.dtype.kind not in "iufmM":
        if tolerance is not None:
            raise InvalidInputError(f"a tolerance for {name!r}, whose values are no numbers")
        return None
    if tolerance is None and not _is_inexact(decoding, stored.dtype, wanted):
        return None
    values = decode(decoding, stored)
    known = np.ones(len(stored), dtype=bool) if values.null is None else ~values.null
    said = _to_column_type(values.values[known], wanted, is_time=is_time)
    order = np.argsort(said, kind="stable")
    said = said[order]
    twice = np.flatnonzero(said[1:] == said[:-1])
    if len(twice):
        raise InvalidInputError(
            f"two values of the coordinate {name!r} are both {said[twice[0]]} in the type of the"
            " column: rows cannot say which they mean"
        )
    unit = _SECOND_US if is_time else 1
    return Snapping(said, stored[known][order], (tolerance or 0.0) * unit)


def require_tolerances(given: Mapping[str, float], dims: tuple[str, ...]) -> None:
    for name, tolerance in given.items():
        if name not in dims:
            raise InvalidInputError(
                f"option 'tolerance' names {name!r}; the dimensions are {', '.join(dims)}"
            )
        if not 0 <= tolerance < np.inf:
            raise InvalidInputError(
                f"option 'tolerance' is {tolerance} for {name!r}, expected a number, 0 or more"
            )


def _is_inexact(decoding: Decoding, stored: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """True if decoded values may not encode to the same bits."""
    if isinstance(decoding, Scaled):
        return True
    if isinstance(decoding, Time):
        return stored.kind == "f" or decoding.is_packed or decoding.per_unit > 1
    if stored.kind in "mM":
        return bool(np.dtype(f"{stored.kind}8[us]") < stored)
    return stored.kind == "f" and wanted.kind == "f" and wanted.itemsize < stored.itemsize


def _to_column_type(values: Column, wanted: np.dtype[Any], *, is_time: bool) -> Column:
    if is_time:
        unit = "m8[us]" if values.dtype.kind == "m" else "M8[us]"
        return values.astype(unit).view(np.int64)
    if values.dtype.kind in "iu" and wanted.kind in "iu":
        return values.astype(np.int64)
    return values.astype(np.float32 if wanted == np.float32 else np.float64)


def _distance(one: Column, other: Column) -> Column:
    with np.errstate(invalid="ignore"):  # infinities
        if one.dtype.kind == "f":
            exact = one == other
            return np.where(exact, 0.0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
        return np.abs(one - other)


_DAY_US = 86_400_000_000
_FAR_US = 2**62  # the year 148,000; no difference of two such overflows
_ROUNDING = 1e-3  # of a step of a scaled coordinate
_OWN_NULL = "fcmM"  # kinds with NaN or NaT, which are read as NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """Storage of one column. Text is in object arrays, for every type of the array."""

    name: str
    dtype: np.dtype[Any]
    decoding: Decoding
    narrows: bool = False  # whether the caller asked for floats of fewer bits
    snapping: Snapping | None = None  # of a coordinate that is there

    @property
    def work_dtype(self) -> np.dtype[Any]:
        return np.dtype(object) if self.dtype.kind in "TUO" else self.dtype

    @property
    def null(self) -> Any:
        """Stored representation of NULL; None if there is none."""
        if self.decoding.missing:
            return self.decoding.missing[0]
        if self.dtype.kind in "fc":
            return self.dtype.type(np.nan)
        return np.array("NaT", dtype=self.dtype)[()] if self.dtype.kind in "mM" else None


def encode_column(spec: StoredColumn, column: pa.Array) -> Column:
    """Stored values (n,) of an Arrow array. InvalidInputError names the column."""
    null = np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=bool)
    values = _logical_values(spec, column)
    stored = _store(spec, values, null)
    _require_no_fill(spec, stored, null)
    if null.any():
        if spec.null is None:
            raise InvalidInputError(
                f"column {spec.name!r} has a NULL, and its array ({spec.dtype}) no value to store"
                " for it: give one with the option `fill`"
            )
        stored[null] = spec.null
    return stored


def encode_coordinate(spec: StoredColumn, column: pa.Array) -> Column:
    """Encodes values that locate a row as `encode_column` does: none may be missing."""
    if column.null_count:
        raise InvalidInputError(
            f"dimension {spec.name!r} is NULL in {column.null_count} rows: they have no place"
        )
    stored = _snap(spec, column) if spec.snapping else _encode_exact(spec, column)
    if stored.dtype.kind in _OWN_NULL and np.isnan(stored).any():
        raise InvalidInputError(f"dimension {spec.name!r} has NaN: such a row has no place")
    return stored


def _snap(spec: StoredColumn, column: pa.Array) -> Column:
    """Values that are there as they are stored there, the others as they would be."""
    if spec.snapping is None:
        return _encode_exact(spec, column)
    there, found = spec.snapping.find(_logical_values(spec, column))
    if there.all():
        return found
    stored = np.empty(len(column), dtype=spec.work_dtype)
    stored[there] = found
    stored[~there] = _encode_exact(spec, column.filter(pa.array(~there)))
    return stored


def _encode_exact(spec: StoredColumn, column: pa.Array) -> Column:
    """A coordinate is never rounded to another: that would move a row."""
    stored = encode_column(spec, column)
    if isinstance(spec.decoding, Scaled) and spec.dtype.kind in "iu":
        values = _logical_values(spec, column)
        said = values.astype(np.float64)
        off = np.abs(decode(spec.decoding, stored).values - said)
        noise = np.finfo(values.dtype).eps * np.abs(said) if values.dtype.kind == "f" else 0.0
        wrong = np.flatnonzero(off > _ROUNDING * abs(spec.decoding.scale) + noise)
        if len(wrong):
            raise InvalidInputError(
                f"column {spec.name!r}: {said[wrong[0]]} lies between two values that its array"
                f" can hold, which are {abs(spec.decoding.scale)} apart"
            )
    return stored


def text_of(spec: StoredColumn, value: object) -> str:
    """A stored value, for a message."""
    if isinstance(spec.decoding, Time):
        return str(decode(spec.decoding, np.array([value], dtype=spec.dtype)).values[0])
    return str(value)


def _logical_values(spec: StoredColumn, column: pa.Array) -> Column:
    """Numbers, objects (text, bytes), or microseconds for what is a time."""
    kind = column.type
    if pa.types.is_struct(kind):
        dtype = np.complex64 if kind.field("re").type == pa.float32() else np.complex128
        parts = [_numbers(column.field(name), 0.0) for name in ("re", "im")]
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _numbers(column.cast(pa.int64()), 0)
    if pa.types.is_date(kind):
        return _numbers(column.cast(pa.int32()), 0).astype(np.int64) * _DAY_US
    if pa.types.is_primitive(kind):
        return _numbers(column, fill=False if pa.types.is_boolean(kind) else 0)
    if pa.types.is_decimal(kind):
        return _from_decimal(spec, column)
    empty = b"" if pa.types.is_binary(kind) else ""
    return np.asarray(column.fill_null(empty).to_numpy(zero_copy_only=False), dtype=object)


def _numbers(column: pa.Array, fill: float) -> Column:
    filled = column.fill_null(fill) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _from_decimal(spec: StoredColumn, column: pa.Array) -> Column:
    target = pa.uint64() if spec.dtype.kind == "u" else pa.int64()
    try:
        return _numbers(column.cast(target), 0)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"column {spec.name!r}: {error}") from error


def _store(spec: StoredColumn, values: Column, null: Mask) -> Column:
    if spec.decoding.view:
        bare = replace(spec.decoding, view="", missing=())
        seen = replace(spec, dtype=np.dtype(spec.decoding.view), decoding=bare)
        return _store(seen, values, null).astype(spec.dtype)
    match spec.decoding:
        case Plain():
            return _cast(spec, values, null)
        case Scaled():
            require_usable_scale(spec.name, spec.decoding)
            packed = pack(spec.decoding, values, spec.dtype)
            if spec.dtype.kind in "iu":
                null |= np.isnan(values.astype(np.float64))
                packed = np.where(null | np.isnan(packed), 0, packed)
            return _cast(spec, packed, null, rounds=True)
        case Time(unit_us, epoch_us) as time:
            if time.is_packed or time.per_unit > 1:
                return _packed_time(spec, time, values, null)
            return _stored_time(spec, values, null, unit_us, epoch_us)
        case _:
            assert_never(spec.decoding)


def require_usable_scale(name: str, decoding: Decoding) -> None:
    """Refuse a scale that no value could be divided by."""
    if isinstance(decoding, Scaled) and (
        not decoding.scale or not np.isfinite([decoding.scale, decoding.offset]).all()
    ):
        raise InvalidInputError(
            f"column {name!r}: its array has scale_factor {decoding.scale} and add_offset"
            f" {decoding.offset}, by which nothing can be packed"
        )


def _stored_time(
    spec: StoredColumn, micros: Column, null: Mask, unit_us: int, epoch_us: int
) -> Column:
    since = _micros_since(spec, micros, null, epoch_us)
    if spec.dtype.kind == "f":
        with np.errstate(over="ignore"):  # found out below
            stored = (since / np.float64(unit_us)).astype(spec.dtype)
        _require_exact_times(spec, stored, micros, null)
        return stored
    whole, rest = np.divmod(since, np.int64(unit_us))
    if rest.any():
        wrong = np.datetime64(int(micros[np.flatnonzero(rest)[0]]), "us")
        raise InvalidInputError(
            f"column {spec.name!r}: {wrong} is no whole number of the units the array counts in"
        )
    stored = _cast(spec, whole, null)
    _require_exact_times(spec, stored, micros, null)
    return stored


def _micros_since(spec: StoredColumn, micros: Column, null: Mask, epoch_us: int) -> Column:
    if not abs(epoch_us) < _FAR_US or (np.abs(micros.astype(np.float64)) >= _FAR_US).any():
        raise InvalidInputError(f"column {spec.name!r} has times too far from 1970 to be counted")
    return np.where(null, 0, micros - np.int64(epoch_us))


def _require_exact_times(spec: StoredColumn, stored: Column, micros: Column, null: Mask) -> None:
    """Refuse a time that would be read as another: floats have gaps, larger ones wider."""
    back = decode(replace(spec.decoding, missing=()), stored)
    same = back.values.astype("M8[us]").view(np.int64) == micros
    if back.null is not None:
        same &= ~back.null
    wrong = np.flatnonzero(~(same | null))
    if len(wrong):
        given, read = np.datetime64(int(micros[wrong[0]]), "us"), back.values[wrong[0]]
        raise InvalidInputError(
            f"column {spec.name!r}: {given} cannot be stored as {spec.dtype} in the units of its"
            f" array, it would be read as {read}; times are never rounded: choose another dtype"
            " or other units, or round the column"
        )


def _packed_time(spec: StoredColumn, time: Time, micros: Column, null: Mask) -> Column:
    """Times that are counted in packed numbers, or in nanoseconds: what reads back as the same."""
    since = _micros_since(spec, micros, null, time.epoch_us)
    if time.is_packed:
        count = since.astype(np.float64) * time.per_unit / time.unit_us
        stored = _cast(spec, pack(time, count, spec.dtype), null, rounds=True)
    else:
        if np.abs(since).max(initial=0) > np.iinfo(np.int64).max // time.per_unit:
            raise InvalidInputError(f"column {spec.name!r}: a time is too far for nanoseconds")
        stored = _cast(spec, since * time.per_unit, null, rounds=True)
    _require_exact_times(spec, stored, micros, null)
    return stored


def _cast(spec: StoredColumn, values: Column, null: Mask, *, rounds: bool = False) -> Column:
    """Casts to the dtype, exactly; floats may lose precision where that was requested."""
    dtype = spec.work_dtype
    if dtype.kind in "mM":
        return _cast_time(spec, values)
    if dtype.kind == "O" or values.dtype.kind == "O":
        return _cast_text(spec, values)
    if values.dtype == dtype:
        return values.copy()
    with np.errstate(invalid="ignore", over="ignore"):
        out = values.astype(dtype)
        if (rounds or spec.narrows) and values.dtype.kind in "fc" and dtype.kind in "fc":
            same = np.isfinite(out) | ~np.isfinite(values)
        else:
            # there and back: numpy compares int64 with uint64 and with floats in float64
            same = out.astype(values.dtype) == values
            if dtype.kind in "iu":
                same &= (out < 0) == (values < 0)
            if dtype.kind in "fc":
                same |= np.isnan(out) & np.isnan(values)
    wrong = np.flatnonzero(~(same | null))
    if len(wrong):
        raise InvalidInputError(
            f"column {spec.name!r}: {values[wrong[0]]} does not fit into {spec.dtype}"
        )
    return out


def _cast_time(spec: StoredColumn, micros: Column) -> Column:
    kind = "datetime64[us]" if spec.dtype.kind == "M" else "timedelta64[us]"
    times = micros.astype(np.int64).view(kind)
    out = times.astype(spec.dtype)
    if (out.astype(kind) != times).any():
        raise InvalidInputError(f"column {spec.name!r}: a time does not fit into {spec.dtype}")
    return out


def _cast_text(spec: StoredColumn, values: Column) -> Column:
    longest = {"U": spec.dtype.itemsize // 4, "S": spec.dtype.itemsize, "V": spec.dtype.itemsize}
    limit = longest.get(spec.dtype.kind)
    if limit is not None:
        for value in values:
            if len(value) > limit:
                raise InvalidInputError(
                    f"column {spec.name!r}: {value!r} does not fit into {spec.dtype}"
                )
    return values.astype(spec.work_dtype)


def _require_no_fill(spec: StoredColumn, stored: Column, null: Mask) -> None:
    for missing in spec.decoding.missing:
        if bool(((stored == missing) & ~null).any()):
            raise InvalidInputError(
                f"column {spec.name!r} has the value {missing}, which its array stores for NULL:"
                " choose another with the option `fill`"
            )


# The array that a column of a DataFrame makes, and checks against an existing one.
#
#     column                          new array
#     BOOLEAN, TINYINT .. DOUBLE      bool, int8 .. float64
#     DECIMAL(20, 0) and shorter      uint64; int64 if shorter than 19 digits
#     STRUCT<re, im>                  complex64, complex128
#     STRING                          string
#     TIMESTAMP, TIMESTAMP_NTZ        int64, "microseconds since 1970-01-01" or the `units` given
#     DATE                            int64, "days since 1970-01-01" or the `units` given
#     INTERVAL DAY TO SECOND          timedelta64[us]
#
# Integers get the fill value that netCDF has for them, floats NaN, so that NULL has a place; text
# and booleans get none.

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
    """Returns the column of an existing coordinate with these stored values."""
    column = stored_column(array)
    wanted = np.dtype(_NUMBERS.get(type(kind), "float64"))
    stored = values.astype(column.work_dtype)
    snapping = plan_snapping(array.name, column.decoding, stored, wanted, tolerance)
    return replace(column, snapping=snapping)


def require_near(array: ArrayDescription, kind: DataType) -> None:
    """Checks values of a coordinate with a tolerance: any number is allowed for a number."""
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
    """Fill value in the dtype; None for dtypes that have no value to spare."""
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
