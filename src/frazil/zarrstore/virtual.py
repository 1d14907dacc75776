"""Virtual references as callers give them, turned into columns.

A virtual reference says that a chunk is a part of a file outside of the repository. Where that
may be is defined by containers; references to places outside of them are left out if they are to be
checked.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from math import prod
from operator import index as as_int
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime
from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError, require_type
from frazil.flatbuf.columns import StringColumn, text_column, text_table
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import Checksum, ChunkRefs, ETag, LastModified, Payload, Virtual
from frazil.format.storage_config import Containers
from frazil.format.urls import normalize_location, regular_column

# Columns of text of any library that speaks Arrow, read by way of its C data interface.
#
# https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. No library is
# imported for it: pyarrow, polars, arro3 and others hand out the same three structures.

_VIEW_BYTES = 16
_INLINE_BYTES = 12  # a view of no more than that holds the text itself
_INTEGERS = {
    "c": np.int8, "C": np.uint8, "s": np.int16, "S": np.uint16,
    "i": np.int32, "I": np.uint32, "l": np.int64, "L": np.uint64,
}  # fmt: skip


@runtime_checkable
class ArrowArrayLike(Protocol):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


@runtime_checkable
class ArrowStreamLike(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", _Fill),
        ("get_next", _Fill),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def arrow_column(source: ArrowArrayLike | ArrowStreamLike) -> StringColumn:
    """A row per value, equal texts shared if they come coded; none for a null. All is copied.

    Raises TypeError for columns that are not text.
    """
    if isinstance(source, ArrowArrayLike):
        schema, array = source.__arrow_c_array__()
        # The capsules own the memory until they are gone, which is after the copy.
        return _column(_at(schema, b"arrow_schema", _Schema), _at(array, b"arrow_array", _Array))
    stream = source.__arrow_c_stream__()
    parts = list(_parts(_at(stream, b"arrow_array_stream", _Stream)))
    return StringColumn.concat(parts) if parts else StringColumn.absent(0)


def _at[T: ctypes.Structure](capsule: object, name: bytes, kind: type[T]) -> T:
    """The structure that a capsule points to."""
    pointer: Callable[..., int] = ctypes.pythonapi.PyCapsule_GetPointer
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(pointer(capsule, name))


def _parts(stream: _Stream) -> Iterator[StringColumn]:
    schema = _Schema()
    if stream.get_schema(ctypes.addressof(stream), ctypes.addressof(schema)):
        raise TypeError("the Arrow stream has no schema")
    try:
        while True:
            array = _Array()
            if stream.get_next(ctypes.addressof(stream), ctypes.addressof(array)):
                raise TypeError("the Arrow stream broke off")
            if not array.release:
                return
            try:
                yield _column(schema, array)
            finally:
                _Release(array.release)(ctypes.addressof(array))
    finally:
        if schema.release:
            _Release(schema.release)(ctypes.addressof(schema))


def _column(schema: _Schema, array: _Array) -> StringColumn:
    kind = schema.format.decode()
    present = _validity_mask(array)
    if schema.dictionary:
        if kind not in _INTEGERS:
            raise TypeError(f"Arrow codes of format {kind!r} are not whole numbers")
        table = _column(schema.dictionary.contents, array.dictionary.contents)
        raw = _buffer(array, 1, np.dtype(_INTEGERS[kind]), array.offset + array.length)
        codes = raw[array.offset :].astype(np.int64)
        return StringColumn(np.append(table.codes, -1)[np.where(present, codes, -1)], table.strings)
    strings = _strings(kind, array)
    rows = np.arange(len(strings), dtype=np.int64)
    return StringColumn(np.where(present, rows, -1), strings)


def _strings(kind: str, array: _Array) -> Strings:
    if kind == "vu":
        return _view_buffer(array)
    if kind not in {"u", "U"}:
        raise TypeError(f"an Arrow column of format {kind!r} is not text")
    width = np.dtype(np.int32 if kind == "u" else np.int64)
    if not array.length:
        return Strings.empty()
    splits = _buffer(array, 1, width, array.offset + array.length + 1)[array.offset :]
    splits = splits.astype(np.int64)
    heap = _buffer(array, 2, np.dtype(np.uint8), int(splits[-1]))
    return Strings(heap, splits[:-1], np.diff(splits))


def _view_buffer(array: _Array) -> Strings:
    """Short texts are in the views themselves, long ones in one of many buffers."""
    views = _buffer(array, 1, np.dtype(np.int32), 4 * (array.offset + array.length))
    heaps = array.n_buffers - 3
    sizes = _buffer(array, array.n_buffers - 1, np.dtype(np.int64), heaps).tolist()
    parts = [_buffer(array, 2 + at, np.dtype(np.uint8), size) for at, size in enumerate(sizes)]
    heap = np.concatenate([views.view(np.uint8), *parts])
    bases = len(views) * 4 + np.cumsum([0, *sizes])
    rows = views.reshape(-1, 4)[array.offset :].astype(np.int64)
    length = rows[:, 0]
    is_short = length <= _INLINE_BYTES
    inside = (array.offset + np.arange(len(rows))) * _VIEW_BYTES + 4
    start = np.where(is_short, inside, bases[np.where(is_short, 0, rows[:, 2])] + rows[:, 3])
    return Strings(heap, start, length)


def _validity_mask(array: _Array) -> npt.NDArray[np.bool_]:
    if not array.length or not array.null_count or not array.buffers[0]:
        return np.ones(array.length, np.bool_)
    end = array.offset + array.length
    bits = np.unpackbits(_buffer(array, 0, np.dtype(np.uint8), -(-end // 8)), bitorder="little")
    return bits[array.offset : end].astype(np.bool_)


def _buffer(array: _Array, number: int, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """A copy of one of the array's buffers."""
    address = array.buffers[number]
    if not count or not address:
        return np.zeros(count, dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype)


# Locations of many virtual chunks, in every shape that callers have them in.


@dataclass(frozen=True, slots=True, eq=False)
class CodedLocations:
    """A table of distinct locations, and for each chunk the number of its own; -1 for none."""

    codes: npt.ArrayLike  # (n,) whole numbers
    locations: Sequence[str]


type Locations = Sequence[str] | CodedLocations | ArrowArrayLike | ArrowStreamLike


@runtime_checkable
class _HasArray(Protocol):
    def __array__(self) -> npt.NDArray[np.generic]: ...


def column_of(locations: Locations) -> StringColumn:
    """A row per chunk; none where there is no location. Nothing is checked of the texts."""
    match locations:
        case CodedLocations(codes, table):
            return _encode_texts(np.asarray(codes), table)
        case list() | tuple():
            return text_column(locations)
        case ArrowArrayLike() | ArrowStreamLike():
            return arrow_column(locations)
        case _:
            return text_column(list(locations))


def numbers_of(numbers: object) -> npt.NDArray[np.uint64]:
    """Offsets or lengths. An array must be of uint64, an Arrow column need not be."""
    if isinstance(numbers, np.ndarray) or not isinstance(numbers, _HasArray):
        return np.asarray(numbers)
    column = np.asarray(numbers)
    if column.dtype.kind not in "iu" or (len(column) and int(column.min()) < 0):
        raise TypeError(f"offsets and lengths must be whole numbers from 0 on, got {column.dtype}")
    return column.astype(np.uint64)


def _encode_texts(codes: npt.NDArray[np.generic], table: Sequence[str]) -> StringColumn:
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise TypeError(f"codes must be a 1-dimensional array of integers, got {codes.dtype}")
    numbers = codes.astype(np.int64)
    if len(numbers) and not (int(numbers.min()) >= -1 and int(numbers.max()) < len(table)):
        raise InvalidInputError(
            f"a code is not from -1 to {len(table) - 1}, the last location of the table",
            kind="invalid-virtual-ref",
        )
    return StringColumn(numbers, text_table(list(table)))


_MAX_U32 = 2**32 - 1
_MAX_U64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class VirtualChunkSpec:
    """One chunk of an array and the part of a file that holds it."""

    index: Sequence[int]
    location: str
    offset: int
    length: int
    etag_checksum: str | None = None
    last_updated_at_checksum: datetime | None = None


def parse_checksum(checksum: str | datetime | None) -> Checksum | None:
    """Text is an etag; a time with a zone is the last modification, counted in whole seconds."""
    match checksum:
        case None:
            return None
        case str():
            return ETag(checksum)
        case datetime():
            seconds = from_datetime(checksum) // 1_000_000
            if not 0 < seconds <= _MAX_U32:
                raise InvalidInputError(
                    f"{checksum.isoformat()} cannot be stored as a time of last modification",
                    kind="invalid-virtual-ref",
                )
            return LastModified(seconds)
        case _:
            raise TypeError(f"{type(checksum).__name__!r} object is neither a str nor a datetime")


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRefs:
    """References that may be set, and the indices of those that no container covers."""

    refs: ChunkRefs
    refused: list[tuple[int, ...]]


def virtual_payload(
    location: str,
    *,
    offset: int,
    length: int,
    checksum: str | datetime | None,
    containers: Containers | None = None,
) -> Virtual:
    """Raises InvalidInputError also if there are containers, and none of them covers it."""
    require_type(location, str)
    parsed = parse_checksum(checksum)
    place = normalize_location(location)
    if containers is not None:
        containers.require_covered(place)
    offset, length = as_int(offset), as_int(length)
    if not (0 <= offset <= _MAX_U64 and 0 <= length <= _MAX_U64):
        raise OverflowError(f"offset {offset} or length {length} is not an unsigned 64 bit integer")
    if not length:
        raise _empty_chunk()
    return Virtual(place, offset, length, parsed)


def refs_of_specs(
    specs: Sequence[VirtualChunkSpec], *, ndim: int, containers: Containers | None = None
) -> CheckedRefs:
    """References for an array of `ndim` dimensions; of equal indices the last wins."""
    for spec in specs:
        require_type(spec, VirtualChunkSpec)
    places = regular_column(text_column([spec.location for spec in specs]))
    refused: list[tuple[int, ...]] = []
    if containers is not None:
        good = containers.covered(places.strings)[places.codes].tolist()
        refused = [tuple(spec.index) for spec, fine in zip(specs, good, strict=True) if not fine]
        specs = [spec for spec, fine in zip(specs, good, strict=True) if fine]
    payloads: list[Payload] = [_payload_of(spec, ndim) for spec in specs]
    index = np.array([spec.index for spec in specs], dtype=np.uint32).reshape(len(specs), ndim)
    return CheckedRefs(ChunkRefs.from_payloads(index, payloads), refused)


def _payload_of(spec: VirtualChunkSpec, ndim: int) -> Virtual:
    if len(spec.index) != ndim or not all(0 <= place <= _MAX_U32 for place in spec.index):
        raise InvalidInputError(
            f"invalid chunk index {list(spec.index)} for an array of {ndim} dimensions",
            kind="invalid-chunk-index",
        )
    etag, modified = spec.etag_checksum, spec.last_updated_at_checksum
    return virtual_payload(
        spec.location,
        offset=spec.offset,
        length=spec.length,
        checksum=modified if etag is None else etag,
    )


def refs_of_grid(
    grid_shape: Sequence[int],
    locations: Locations,
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
    *,
    first: Sequence[int] | None,
    checksum: str | datetime | None,
    containers: Containers | None = None,
) -> CheckedRefs:
    """One reference per cell of a block of chunks, last dimension fastest.

    The block begins at chunk `first`; an empty location leaves its cell out.
    """
    places, offsets, lengths = column_of(locations), numbers_of(offsets), numbers_of(lengths)
    _require_alike(grid_shape, places, offsets, lengths)
    index = _block(_start(grid_shape, first), grid_shape)
    if not _are_all_given(places):
        kept = np.flatnonzero(places.lengths() > 0)
        places, index = places.take(kept), index[kept]
        offsets, lengths = offsets[kept], lengths[kept]
    places = regular_column(places.pruned())
    refused: list[tuple[int, ...]] = []
    if containers is not None and len(places):
        covered = containers.covered(places.strings)[places.codes]
        if not covered.all():
            refused = [tuple(cell) for cell in index[~covered].tolist()]
            kept = np.flatnonzero(covered)
            places, index = places.take(kept), index[kept]
            offsets, lengths = offsets[kept], lengths[kept]
    if not lengths.all():
        raise _empty_chunk()
    return CheckedRefs(_refs(index, places, offsets, lengths, parse_checksum(checksum)), refused)


def _are_all_given(places: StringColumn) -> bool:
    """True if every row has a location; for most columns the table of locations tells."""
    if len(places) and int(places.codes.min()) >= 0 and bool((places.strings.length > 0).all()):
        return True
    return bool((places.lengths() > 0).all())


def _refs(
    index: npt.NDArray[np.uint32],
    places: StringColumn,
    offsets: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    checksum: Checksum | None,
) -> ChunkRefs:
    match checksum:
        case ETag(value):
            # One string, cited by all rows.
            etags = StringColumn(np.zeros(len(places), dtype=np.int64), text_table([value]))
            return ChunkRefs.virtual(index, places, offsets, lengths, etag=etags)
        case LastModified(seconds):
            return ChunkRefs.virtual(index, places, offsets, lengths, last_modified=seconds)
        case None:
            return ChunkRefs.virtual(index, places, offsets, lengths)


def _start(grid_shape: Sequence[int], first: Sequence[int] | None) -> tuple[int, ...]:
    start = (0,) * len(grid_shape) if first is None else tuple(first)
    if len(start) != len(grid_shape):
        raise ValueError(
            f"arr_offset length ({len(start)}) != chunk_grid_shape length ({len(grid_shape)})"
        )
    if any(
        not 0 <= at <= at + size <= _MAX_U32 for at, size in zip(start, grid_shape, strict=True)
    ):
        raise InvalidInputError(
            f"a block of {tuple(grid_shape)} chunks from {start} on does not fit into an array",
            kind="invalid-chunk-index",
        )
    return start


def _empty_chunk() -> InvalidInputError:
    return InvalidInputError(
        "zero-length chunk: no valid chunk is ever zero bytes long; to say that a chunk is not"
        " stored at all, delete it",
        kind="zero-length-chunk",
    )


def _block(start: Sequence[int], shape: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Index of each cell of a block, (n, ndim), last dimension fastest."""
    index = np.empty((*shape, len(shape)), dtype=np.uint32)
    for axis, (at, size) in enumerate(zip(start, shape, strict=True)):
        places = np.arange(at, at + size, dtype=np.uint32)
        index[..., axis] = places.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return index.reshape(prod(shape), len(shape))


def _require_alike(
    grid_shape: Sequence[int],
    locations: StringColumn,
    offsets: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
) -> None:
    for name, column in (("offsets", offsets), ("lengths", lengths)):
        if column.dtype != np.uint64 or column.ndim != 1:
            raise TypeError(
                f"{name} must be a 1-dimensional array of uint64,"
                f" got {column.ndim} dimensions of {column.dtype}"
            )
    if not len(locations) == len(offsets) == len(lengths):
        raise ValueError("locations, offsets, and lengths must have the same length")
    if prod(grid_shape) != len(locations):
        raise ValueError(
            f"product of chunk_grid_shape ({prod(grid_shape)}) != array length ({len(locations)})"
        )
