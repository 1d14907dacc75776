"""Records to FlatBuffers: dicts, encoded number by number.

Small files are a few tables of a few rows, for which columns cost more than the encoding itself.
A record has a value for each field that is present:

    scalar                       a number
    struct, string, bytes        bytes (or str)
    vector of scalars            numbers
    vector of structs            bytes, end to end
    vector of strings            a list
    sub-table                    a record
    vector of tables             a list of records, or UniformRows
    union                        its number and a record
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct as Packer
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    StringVector,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
    lay_out,
    pieces_of,
    vtable_of,
)

type Record = Mapping[str, Any]
type Put = Callable[["RecordTarget", Any], int]
"""Writes a value; returns where it is."""
type Pack = Callable[[bytearray, int, Any], None]
"""Writes a value in its place in the row."""

_U4, _I4 = Packer("<I"), Packer("<i")
_CODES = {
    "?": "?",
    "u1": "B",
    "i1": "b",
    "u2": "H",
    "i2": "h",
    "u4": "I",
    "i4": "i",
    "f4": "f",
    "u8": "Q",
    "i8": "q",
    "f8": "d",
}


@dataclass(frozen=True, slots=True, eq=False)
class UniformRows:
    """Tables of a vector that have the same fields, none of them strings or tables, of one size.

    `sample` is any of them; `fields` are the bytes of each in all of them, (n, size).
    """

    sample: Record
    fields: Mapping[str, npt.NDArray[np.uint8]]
    count: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a row that has certain fields."""

    blank: bytes  # as long as a row
    align: int
    vtable: bytes
    # Name and place of each field, and how it is packed or put; neither for a union.
    fields: tuple[tuple[str, int, Pack | None, Put | None], ...]
    values: dict[str, int]  # places of the values of unions


class RecordTarget:
    """The bytes so far, from a position that is a multiple of eight on."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._vtables: dict[bytes, int] = {}

    def table(self, schema: TableSchema, record: Record) -> int:
        """Writes a table and what it points to; returns its position."""
        present = 0
        for name, bit in _bits(schema):
            if record.get(name) is not None:
                present |= bit
        layout = _layout(schema, present)
        data = self.data
        vtable = self._vtables.get(layout.vtable)
        if vtable is None:
            self.align(2)
            vtable = self._vtables[layout.vtable] = len(data)
            data += layout.vtable
        data += bytes(-len(data) % layout.align)
        position = len(data)
        data += layout.blank
        _I4.pack_into(data, position, position - vtable)
        for name, place, pack, put in layout.fields:
            at = position + place
            if pack is not None:
                pack(data, at, record[name])
            elif put is not None:
                self._point(at, put(self, record[name]))
            else:
                self._put_union(schema, name, at, position + layout.values[name], record[name])
        return position

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def _point(self, place: int, target: int) -> None:
        """Sets an offset."""
        _U4.pack_into(self.data, place, target - place)

    def _put_union(
        self, schema: TableSchema, name: str, type_place: int, place: int, value: tuple[int, Record]
    ) -> None:
        kind = schema.field(name).kind
        if not isinstance(kind, Union):
            raise TypeError(f"{schema.name}.{name} is not a union")
        self.data[type_place] = value[0]
        self._point(place, self.table(kind.variants[value[0]], value[1]))

    def elements(self, count: int, content: bytes, *, align: int = 4, end: bytes = b"") -> int:
        """A vector; `end` follows what is in it."""
        self.data += bytes(-(len(self.data) + 4) % max(4, align))
        position = len(self.data)
        self.data += _U4.pack(count) + content + end
        return position

    def offsets(self, put: Callable[[Any], int], items: Sequence[Any]) -> int:
        """A vector of offsets to the items, which are put behind it."""
        self.align(4)
        position = len(self.data)
        self.data += bytes(4 + 4 * len(items))
        _U4.pack_into(self.data, position, len(items))
        for number, item in enumerate(items):
            self._point(position + 4 + 4 * number, put(item))
        return position

    def uniform_rows(self, schema: TableSchema, rows: UniformRows) -> int:
        """A vector of offsets to the rows: copies of one, filled in field by field."""
        self.align(4)
        position, count = len(self.data), rows.count
        self.data += bytes(4 + 4 * count)
        _U4.pack_into(self.data, position, count)
        first = self.table(schema, rows.sample)
        self.data += bytes(-(len(self.data) - first) % 8)  # so that all are aligned as the first
        sample = bytes(self.data[first:])
        shifts = len(sample) * np.arange(count)
        cells = np.empty((count, len(sample)), np.uint8)
        cells[:] = np.frombuffer(sample, np.uint8)
        cells[:, :4] = raw_cells(int.from_bytes(sample[:4], "little", signed=True) + shifts, "<i4")
        for name, values in rows.fields.items():
            place = self._content(schema.field(name), first) - first
            cells[:, place : place + values.shape[1]] = values
        self.data[first:] = cells.tobytes()
        offsets = first + shifts - np.arange(position + 4, position + 4 + 4 * count, 4)
        self.data[position + 4 : position + 4 + 4 * count] = offsets.astype("<u4").tobytes()
        return position

    def _content(self, field: Field, position: int) -> int:
        """Start of the values of a field of the table at `position`, which must have it."""
        place = place_of(self.data, position, field.slot)
        if isinstance(field.kind, Scalar | Struct):
            return place
        return place + int.from_bytes(self.data[place : place + 4], "little") + 4


def raw_cells(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.uint8]:
    """The bytes of each row of numbers, (n, size)."""
    stored = np.ascontiguousarray(values, dtype=dtype)
    return stored.view(np.uint8).reshape(len(stored), -1)


def encode_record(schema: TableSchema, record: Record, *, identifier: bytes) -> bytearray:
    """A buffer whose root is the record."""
    target = RecordTarget()
    target.data += bytes(4) + identifier
    _U4.pack_into(target.data, 0, target.table(schema, record))
    return target.data


def place_of(data: bytes | bytearray, position: int, slot: int) -> int:
    """Position of a slot of the table at `position`, which must have it."""
    back = int.from_bytes(data[position : position + 4], "little", signed=True)
    at = position - back + 4 + 2 * slot
    return position + int.from_bytes(data[at : at + 2], "little")


@lru_cache(maxsize=256)
def _bits(schema: TableSchema) -> tuple[tuple[str, int], ...]:
    """Each field, and the bit that stands for it."""
    return tuple((field.name, 1 << number) for number, field in enumerate(schema.fields))


def _plan(field: Field) -> tuple[Pack | None, Put | None]:  # noqa: C901, PLR0911 -- one case a kind
    match field.kind:
        case Scalar(dtype):
            return Packer("<" + _CODES[dtype]).pack_into, None
        case Struct(size):
            return Packer(f"<{size}s").pack_into, None
        case String():
            return None, _put_text
        case Bytes():
            return None, lambda target, value: target.elements(len(value), value)
        case ScalarVector(dtype):
            packer, align = _CODES[dtype], Packer("<" + _CODES[dtype]).size
            return None, lambda target, value: target.elements(
                len(value), Packer(f"<{len(value)}{packer}").pack(*value), align=align
            )
        case StructVector(size, align):
            return None, lambda target, value: target.elements(
                len(value) // size, value, align=align
            )
        case StringVector():
            return None, lambda target, value: target.offsets(
                lambda item: _put_text(target, item), value
            )
        case TableVector(schema):
            return None, lambda target, value: _put_tables(target, schema, value)
        case SubTable(schema):
            return None, lambda target, value: target.table(schema, value)
        case Union():
            return None, None
        case _:
            assert_never(field.kind)


def _put_tables(
    target: RecordTarget, schema: TableSchema, rows: UniformRows | Sequence[Record]
) -> int:
    if isinstance(rows, UniformRows):
        return target.uniform_rows(schema, rows)
    return target.offsets(lambda item: target.table(schema, item), rows)


def _put_text(target: RecordTarget, value: bytes | str) -> int:
    content = value.encode() if isinstance(value, str) else value
    return target.elements(len(content), content, end=b"\0")


@lru_cache(maxsize=1024)
def _layout(schema: TableSchema, present: int) -> _Layout:
    """`present` has a bit for each field of the schema, the first one lowest."""
    fields = [
        field for field, (_, bit) in zip(schema.fields, _bits(schema), strict=True) if present & bit
    ]
    pieces = [piece for field in fields for piece in pieces_of(field)]
    places, size = lay_out(pieces)
    align = max([4, *(piece.align for piece in pieces)])
    return _Layout(
        blank=bytes(size + -size % align),
        align=align,
        vtable=vtable_of(places, size, 1 + max(places, default=-1)),
        fields=tuple((field.name, places[field.slot], *_plan(field)) for field in fields),
        values={
            field.name: places[field.slot + 1] for field in fields if isinstance(field.kind, Union)
        },
    )
