"""A single row to a table; encode.py describes the layout, of which this is the block of one row.

Small files are a handful of single tables, and a numpy call on one number costs twenty times as
much as plain arithmetic. So one row is put together number by number, to the same bytes. What a
vector in it holds is encoded as columns again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import assert_never

import numpy as np

from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.layout import lay_out, pieces_of, vtable_of
from frazil.flatbuf.ragged import Array, Ints
from frazil.flatbuf.schema import Field, String, TableSchema, element_size
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn
from frazil.flatbuf.target import Target

type EncodeRows = Callable[[Target, Table], tuple[int, int]]
"""Writes all rows; returns where the first one is, and the distance between rows."""
type EncodeStrings = Callable[[Target, StringColumn], Ints]
"""Writes texts; returns where that of each row is."""

_I4, _U4 = Struct("<i"), Struct("<I")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Of a row that has certain fields."""

    fields: tuple[tuple[Field, int], ...]  # and their places
    places: dict[int, int]  # by slot
    stride: int
    align: int
    vtable: bytes


@lru_cache(maxsize=1024)
def _layout(schema: TableSchema, present: int) -> _Layout:
    """`present` has a bit for each field of the schema, the first one lowest."""
    fields = [field for bit, field in enumerate(schema.fields) if present >> bit & 1]
    pieces = [piece for field in fields for piece in pieces_of(field)]
    places, size = lay_out(pieces)
    align = max([4, *(piece.align for piece in pieces)])
    return _Layout(
        fields=tuple((field, places[field.slot]) for field in fields),
        places=places,
        stride=size + -size % align,
        align=align,
        vtable=vtable_of(places, size, 1 + max(places, default=-1)),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A table that is placed, and being filled."""

    position: int
    content: bytearray

    def put(self, place: int, data: bytes) -> None:
        self.content[place : place + len(data)] = data

    def point(self, place: int, target: int) -> None:
        self.put(place, _U4.pack(target - self.position - place))


def encode_row(
    target: Target, table: Table, encode_rows: EncodeRows, encode_strings: EncodeStrings
) -> tuple[int, int]:
    """Like `encode_rows`, of a table of one row. What the row holds many of is left to the two."""
    present = 0
    for bit, column in enumerate(table.columns.values()):
        present |= _is_there(column) << bit
    layout = _layout(table.schema, present)
    vtable = target.vtable(layout.vtable)
    content = bytearray(layout.stride)
    row = _Row(target.append(content, layout.align), content)
    row.put(0, _I4.pack(row.position - vtable))
    for field, place in layout.fields:
        column = table.columns[field.name]
        match column:
            case ScalarColumn(values):
                row.put(place, _bytes_of(values))
            case StructColumn(values):
                row.put(place, values.tobytes())
            case StringColumn(codes, strings):
                data = strings.item(codes.item(0))
                extra = int(isinstance(field.kind, String))  # texts end with a zero
                row.point(place, _put_elements(target, len(data), data, 1, extra))
            case UnionColumn():
                row.put(place, _bytes_of(column.types))
                value = _put_union(target, field, column, encode_rows)
                row.point(layout.places[field.slot + 1], value)
            case SubTableColumn(rows, index):
                base, stride = encode_rows(target, rows)
                row.point(place, base + stride * index.item(0))
            case _:
                row.point(place, _put_vector(target, field, column, encode_rows, encode_strings))
    return row.position, layout.stride


def _is_there(column: Column) -> bool:
    match column:
        case StringColumn(codes):
            return codes.item(0) >= 0
        case SubTableColumn(_, index):
            return index.item(0) >= 0
        case UnionColumn(types):
            return types.item(0) > 0
        case _:
            return bool(column.present.item(0))


def _bytes_of(values: Array) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _put_vector(
    target: Target,
    field: Field,
    column: VectorColumn | StringVectorColumn | TableVectorColumn,
    encode_rows: EncodeRows,
    encode_strings: EncodeStrings,
) -> int:
    """Where the vector is."""
    match column:
        case VectorColumn(values):
            _, align = element_size(field.kind)
            return _put_elements(target, len(values), _bytes_of(values), align)
        case StringVectorColumn(_, strings):
            return _put_offsets(target, len(strings), lambda: encode_strings(target, strings))
        case TableVectorColumn(_, rows):
            return _put_offsets(target, len(rows), lambda: _put_rows(target, rows, encode_rows))
        case _:
            assert_never(column)


def _put_rows(target: Target, rows: Table, encode_rows: EncodeRows) -> Ints:
    base, stride = encode_rows(target, rows)
    return np.arange(base, base + stride * len(rows), stride, dtype=np.int64)


def _put_elements(target: Target, count: int, data: bytes, align: int, extra: int = 0) -> int:
    """A vector of `count` elements, followed by `extra` zero bytes."""
    align = max(4, align)
    padding = extra + -(4 + len(data) + extra) % align
    return target.append(_U4.pack(count) + data + bytes(padding), align, 4)


def _put_offsets(target: Target, count: int, put_items: Callable[[], Ints]) -> int:
    """A vector of offsets to the items, which are put behind it."""
    content = bytearray(4 + 4 * count)
    content[:4] = _U4.pack(count)
    position = target.append(content, 4)
    if count:
        cells = np.arange(position + 4, position + 4 + 4 * count, 4, dtype=np.int64)
        content[4:] = (put_items() - cells).astype("<u4").tobytes()
    return position


def _put_union(target: Target, field: Field, column: UnionColumn, encode_rows: EncodeRows) -> int:
    position = -1
    for code, rows in column.variants.items():
        if len(rows):
            base, stride = encode_rows(target, rows)
            if code == column.types.item(0):
                position = base + stride * column.index.item(0)
    if position < 0:
        raise InvalidInputError(f"{field.name} has a type that the union does not know")
    return position
