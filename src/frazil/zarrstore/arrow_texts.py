"""Columns of text of any library that speaks Arrow, read by way of its C data interface.

https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. No library is
imported for it: pyarrow, polars, arro3 and others hand out the same three structures.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings

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
    present = _present(array)
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
        return _viewed(array)
    if kind not in {"u", "U"}:
        raise TypeError(f"an Arrow column of format {kind!r} is not text")
    width = np.dtype(np.int32 if kind == "u" else np.int64)
    if not array.length:
        return Strings.empty()
    splits = _buffer(array, 1, width, array.offset + array.length + 1)[array.offset :]
    splits = splits.astype(np.int64)
    heap = _buffer(array, 2, np.dtype(np.uint8), int(splits[-1]))
    return Strings(heap, splits[:-1], np.diff(splits))


def _viewed(array: _Array) -> Strings:
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


def _present(array: _Array) -> npt.NDArray[np.bool_]:
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
