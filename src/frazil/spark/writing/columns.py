"""Columns of a DataFrame as an array stores them: the inverse of `cf.decode` and `schema.to_arrow`.

column value                   stored value
NULL                           the fill value; NaN where the array is of floats
a value equal to a fill value  refused: it would be read as NULL
TIMESTAMP, DATE                a number, by the CF `units` of the array; refused if not exact
any, with scale_factor         (value - add_offset) / scale_factor, rounded for integers
any, with _Unsigned            the same bits as integers of the stored dtype
a number the dtype cannot hold refused
"""

from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInputError
from frazil.spark.cf import Decoding, Plain, Scaled, Time, decode, pack
from frazil.spark.writing.snapping import Snapping

type Column = npt.NDArray[Any]
type Mask = npt.NDArray[np.bool_]

_DAY_US = 86_400_000_000
_FAR_US = 2**62  # the year 148,000; no difference of two such overflows
_ROUNDING = 1e-3  # of a step of a scaled coordinate
_OWN_NULL = "fcmM"  # kinds with NaN or NaT, which are read as NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """How one column is stored. Text is in object arrays, whatever the array makes of it."""

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
        """What NULL is stored as; None if nothing can be."""
        if self.decoding.missing:
            return self.decoding.missing[0]
        if self.dtype.kind in "fc":
            return self.dtype.type(np.nan)
        return np.array("NaT", dtype=self.dtype)[()] if self.dtype.kind in "mM" else None


def encode_column(spec: StoredColumn, column: pa.Array) -> Column:
    """Stored values (n,) of an Arrow array. InvalidInputError names the column."""
    null = np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=bool)
    values = _logical(spec, column)
    stored = _stored(spec, values, null)
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
    """As `encode_column`, of values that say where a row goes: none may be missing."""
    if column.null_count:
        raise InvalidInputError(
            f"dimension {spec.name!r} is NULL in {column.null_count} rows: they have no place"
        )
    stored = _snapped(spec, column) if spec.snapping else _exact(spec, column)
    if stored.dtype.kind in _OWN_NULL and np.isnan(stored).any():
        raise InvalidInputError(f"dimension {spec.name!r} has NaN: such a row has no place")
    return stored


def _snapped(spec: StoredColumn, column: pa.Array) -> Column:
    """Values that are there as they are stored there, the others as they would be."""
    if spec.snapping is None:
        return _exact(spec, column)
    there, found = spec.snapping.find(_logical(spec, column))
    if there.all():
        return found
    stored = np.empty(len(column), dtype=spec.work_dtype)
    stored[there] = found
    stored[~there] = _exact(spec, column.filter(pa.array(~there)))
    return stored


def _exact(spec: StoredColumn, column: pa.Array) -> Column:
    """A coordinate is never rounded to another: that would move a row."""
    stored = encode_column(spec, column)
    if isinstance(spec.decoding, Scaled) and spec.dtype.kind in "iu":
        values = _logical(spec, column)
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


def _logical(spec: StoredColumn, column: pa.Array) -> Column:
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


def _stored(spec: StoredColumn, values: Column, null: Mask) -> Column:
    if spec.decoding.view:
        bare = replace(spec.decoding, view="", missing=())
        seen = replace(spec, dtype=np.dtype(spec.decoding.view), decoding=bare)
        return _stored(seen, values, null).astype(spec.dtype)
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
    """As the dtype, exactly; floats may lose bits where that was asked for."""
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
