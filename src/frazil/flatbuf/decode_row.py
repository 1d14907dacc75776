"""A single table to columns of one row; decode.py draws the bytes.

Small files are a handful of single tables, and a numpy call on one number costs twenty times as
much as plain arithmetic. So one row is read number by number, with the checks that many rows get
in bulk. What a vector in it holds is decoded as columns again.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from types import MappingProxyType

import numpy as np

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.places import Places
from frazil.flatbuf.ragged import Bools, Ints, as_readonly, make_unchecked
from frazil.flatbuf.schema import (
    Bytes,
    Kind,
    Scalar,
    ScalarVector,
    String,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
    element_size,
    inline_size,
)
from frazil.flatbuf.schema import (
    Struct as StructKind,
)
from frazil.flatbuf.source import Source, VTable
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import (
    Column,
    SubTableColumn,
    Table,
    TableVectorColumn,
    UnionColumn,
    absent_column,
)

type DecodeRows = Callable[[Source, TableSchema, Places], Table]
type DecodeStrings = Callable[[Source, str, Places], StringColumn]

_HERE: Bools = as_readonly(np.ones(1, np.bool_))
_FIRST: Ints = as_readonly(np.zeros(1, np.int64))
_I4 = Struct("<i")


@dataclass(slots=True)
class _Slot:
    """A field as the decoder needs it, looked up once for each schema."""

    name: str
    what: str  # in messages
    slot: int
    kind: Kind
    size: int
    align: int
    required: bool
    _absent: Column | None = None

    def absent(self) -> Column:
        """The column of a table without the field. Raises FormatError if it is required."""
        if self.required:
            raise FormatError(f"{self.what} is required, missing in row 0")
        if self._absent is None:
            self._absent = absent_column(self.kind, 1)
        return self._absent


@lru_cache(maxsize=256)
def _slots(schema: TableSchema) -> tuple[_Slot, ...]:
    return tuple(
        _Slot(
            field.name,
            f"{schema.name}.{field.name}",
            field.slot,
            field.kind,
            *((1, 1) if isinstance(field.kind, Union) else inline_size(field.kind)),
            field.required,
        )
        for field in schema.fields
    )


class Row:
    """A table at this position, with what its vtable says."""

    def __init__(self, source: Source, schema: TableSchema, position: int) -> None:
        source.check_one(position, 4, 4, schema.name)
        back = _I4.unpack_from(source.data, position)[0]
        self.vtable = VTable(source, position - back, schema.name)
        self.vtable.require_inside(source, position, schema.name)
        self.source = source
        self.position = position

    def cell(self, slot: int, size: int, align: int, what: str) -> int:
        """Position of the slot; 0 if the table does not have it."""
        place = self.vtable.place(slot, size, what)
        if not place:
            return 0
        cell = self.position + place
        self.source.check_one(cell, size, align, what)
        return cell

    def target(self, cell: int, what: str) -> int:
        """Target of the offset in the cell; 4 bytes at it can be read."""
        target = cell + self.source.u4(cell)
        self.source.check_one(target, 4, 4, what)
        return target

    def length(self, target: int, size: int, align: int, what: str) -> int:
        """Elements of the vector at the target, which are in bounds and aligned."""
        count = self.source.u4(target)
        if align > 4:
            self.source.check_one(target + 4, 0, align, what)
        if target + 4 + count * size > self.source.size:
            raise FormatError(f"{what} reaches outside the buffer of {self.source.size} bytes")
        return count


def decode_row(
    source: Source,
    schema: TableSchema,
    position: int,
    decode_rows: DecodeRows,
    decode_strings: DecodeStrings,
) -> Table:
    """The table at this position. What it holds many of is left to the two decoders."""
    source.spend(4)
    row = Row(source, schema, position)
    columns: dict[str, Column] = {}
    for slot in _slots(schema):
        column = _decode_slot(row, slot, decode_rows, decode_strings)
        columns[slot.name] = slot.absent() if column is None else column
    return Table(schema, 1, MappingProxyType(columns))


def _decode_slot(
    row: Row, slot: _Slot, decode_rows: DecodeRows, decode_strings: DecodeStrings
) -> Column | None:
    kind = slot.kind
    cell = row.cell(slot.slot, slot.size, slot.align, slot.what)
    if isinstance(kind, Union):
        return _decode_union(row, slot, kind, cell, decode_rows)
    if not cell:
        return None
    match kind:
        case Scalar("?"):  # any byte but 0 is true, which a numpy boolean must not hold
            return make_unchecked(
                ScalarColumn, row.source.run("u1", cell, 1).astype(np.bool_), _HERE
            )
        case Scalar(dtype):
            return make_unchecked(ScalarColumn, row.source.run(dtype, cell, 1), _HERE)
        case StructKind(size):
            return make_unchecked(
                StructColumn, row.source.run("u1", cell, size).reshape(1, size), _HERE
            )
        case _:
            return _decode_reference(row, slot, cell, decode_rows, decode_strings)


def _decode_reference(
    row: Row, slot: _Slot, cell: int, decode_rows: DecodeRows, decode_strings: DecodeStrings
) -> Column:
    target = row.target(cell, slot.what)
    match slot.kind:
        case String() | Bytes():
            length = row.length(target, 1, 1, slot.what)
            strings = make_unchecked(
                Strings, row.source.heap, np.array([target + 4]), np.array([length])
            )
            return make_unchecked(StringColumn, _FIRST, strings)
        case SubTable(schema):
            inner = decode_rows(row.source, schema, Places.even(1, target))
            return make_unchecked(SubTableColumn, inner, _FIRST)
        case _:
            return _decode_vector(row, slot, target, decode_rows, decode_strings)


def _decode_vector(
    row: Row,
    slot: _Slot,
    target: int,
    decode_rows: DecodeRows,
    decode_strings: DecodeStrings,
) -> Column:
    source, what = row.source, slot.what
    size, align = element_size(slot.kind)
    length = row.length(target, size, align, what)
    source.spend(length * size)
    splits = np.array([0, length], np.int64)
    match slot.kind:
        case ScalarVector("?"):
            return make_unchecked(
                VectorColumn, source.run("u1", target + 4, length) != 0, splits, _HERE
            )
        case ScalarVector(dtype):
            return make_unchecked(
                VectorColumn, source.run(dtype, target + 4, length), splits, _HERE
            )
        case StructVector():
            structs = source.run("u1", target + 4, length * size).reshape(length, size)
            return make_unchecked(VectorColumn, structs, splits, _HERE)
        case TableVector(schema):
            places = _elements(source, target + 4, length, what)
            return make_unchecked(
                TableVectorColumn, splits, decode_rows(source, schema, places), _HERE
            )
        case _:
            places = _elements(source, target + 4, length, what)
            return make_unchecked(
                StringVectorColumn, splits, decode_strings(source, what, places), _HERE
            )


def _elements(source: Source, first: int, count: int, what: str) -> Places:
    """Targets of the offsets of a vector."""
    if count == 1:
        places = Places.even(1, first + source.u4(first))
    else:
        places = Places.even(count, first, 4).plus(source.run("u4", first, count))
    source.check(places, 4, 4, f"element of {what}")
    return places


def _decode_union(
    row: Row, slot: _Slot, kind: Union, type_cell: int, decode_rows: DecodeRows
) -> Column | None:
    code = row.source.data[type_cell] if type_cell else 0
    cell = row.cell(slot.slot + 1, 4, 4, slot.what)
    target = row.target(cell, slot.what) if cell else -1
    if (code > 0) != (target >= 0):
        raise FormatError(f"{slot.what} has a type or a value, expected both")
    if not code:
        return None
    variants = {each: Table.empty(schema) for each, schema in kind.variants.items()}
    known = code in variants
    if known:
        variants[code] = decode_rows(row.source, kind.variants[code], Places.even(1, target))
    return UnionColumn(np.array([code], np.uint8), np.array([0 if known else -1]), variants)
