"""FlatBuffers to columns.

    root      u32 at 0, distance to the root table
    table     i32 distance back to its vtable, then the fields, inline or as offsets
    vtable    u16 its own size, u16 size of the table's inline part, then for each slot
              a u16 place of the field inside the table, 0 where the table lacks it
    offset    u32, forward from where it stands, to a string, vector or table
    vector    u32 count, then the elements: scalars, structs, or offsets to strings or tables
    string    a vector of bytes, then a NUL that is not counted

All rows of one table type are decoded together, level by level: their vtables are few, so the
place of a field is looked up once for each vtable, and the field of all rows is one gather.
A single row is read number by number instead (decode_row.py).

The bytes are not trusted. Positions are checked for bounds and alignment in bulk before they are
used; evenly spaced ones, as our own encoder makes them, are not even listed (source.py).
Nothing is recursive but the schema. Since several parents may share a child, small files
could describe endless tables: what is gathered in all is limited to a multiple of the file.

https://flatbuffers.dev/internals/
"""

from collections.abc import Buffer, Iterator, Sequence
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
from frazil.flatbuf.decode_row import Row, decode_row
from frazil.flatbuf.places import Places
from frazil.flatbuf.ragged import (
    Array,
    Bools,
    Ints,
    as_readonly,
    constant,
    gather,
    make_unchecked,
    run_index,
    splits_of,
)
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
    element_size,
    inline_size,
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
    defaults,
)

MAX_SIZE = 2**31 - 1


def decode(data: Buffer, schema: TableSchema, *, max_expansion: int = 4) -> Table:
    """The root table of a buffer, as a table of one row.

    Strings keep pointing into `data`. Raises FormatError for anything that is not a buffer of this
    schema, or whose vectors, counting shared ones each time, exceed `max_expansion` times `data`.
    """
    source = source_of(data, max_expansion=max_expansion)
    return decode_at(source, schema, source.u4(0))


def source_of(data: Buffer, *, max_expansion: int = 4) -> Source:
    """The bytes of a buffer, of which nothing but the size is checked."""
    heap = np.frombuffer(data, np.uint8)
    if not 8 <= len(heap) <= MAX_SIZE:
        raise FormatError(f"buffer is {len(heap)} bytes, expected 8 to {MAX_SIZE}")
    if heap.ctypes.data % 8:
        heap = heap.copy()  # numpy would copy at every gather
    return Source(as_readonly(heap), max_expansion * len(heap))


def decode_at(source: Source, schema: TableSchema, position: int) -> Table:
    """The table at one position, as a table of one row."""
    return _decode_rows(source, schema, Places.even(1, position))


def decode_batch(
    buffers: Sequence[Buffer], schema: TableSchema, *, max_expansion: int = 4
) -> Table:
    """The root tables of several buffers, a row each, for the price of little more than one.

    Each row is what `decode` of its buffer gives. Raises FormatError if one of them is damaged;
    which one, only decoding each alone can tell.
    """
    parts = [np.frombuffer(data, np.uint8) for data in buffers]
    if any(len(part) < 8 for part in parts):
        raise FormatError("a buffer is shorter than 8 bytes")
    # Offsets are relative, so buffers may stand one after another, each where numbers are aligned.
    starts = splits_of(np.array([-(-len(part) // 8) * 8 for part in parts], np.int64))
    if starts[-1] > MAX_SIZE:
        raise FormatError(f"buffers are {starts[-1]} bytes, expected up to {MAX_SIZE}")
    heap = np.zeros(int(starts[-1]), np.uint8)
    for part, start in zip(parts, starts.tolist(), strict=False):
        heap[start : start + len(part)] = part
    ends = starts[:-1] + np.array([len(part) for part in parts], np.int64)
    source = Source.of_many(as_readonly(heap), (starts[:-1], ends), expansion=max_expansion)
    roots = starts[:-1] + source.at("u4", Places.of(starts[:-1]))
    source.require_same_buffer(starts[:-1], roots, 4, schema.name)
    return _decode_rows(source, schema, Places.of(roots))


def _copy_values(values: Array) -> Array:
    """The values apart from the buffer; equal ones in the room of one."""
    is_whole = values.dtype.kind in "iu"  # 0.0 equals -0.0 and is another value
    if is_whole and len(values) and bool((values == values[0]).all()):
        return np.broadcast_to(values[0], values.shape)
    return np.ascontiguousarray(values)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Positions of one field, in the rows that have it."""

    places: Places  # k
    rows: Ints | None  # (k,) the rows; None for all

    def present(self, count: int) -> Bools:
        if self.rows is None:
            return constant(True, np.bool_, count)
        present = np.zeros(count, np.bool_)
        present[self.rows] = True
        return present

    def spread(self, values: Array, base: Array) -> Array:
        """`base` with the values in the rows that have the field."""
        if self.rows is None:
            return values
        base[self.rows] = values
        return base

    def lengths(self, lengths: Ints, count: int) -> Ints:
        return lengths if self.rows is None else self.spread(lengths, np.zeros(count, np.int64))


def _merge_copies(source: Source, vtables: Places) -> Places:
    """The same vtables; if all are copies of one, as striped rows have them, only that one."""
    if vtables.is_even or not vtables.cells:
        return vtables
    copies = vtables.without_repeats()
    lengths = source.units("u2")[copies // 2].astype(np.int64)
    if lengths[0] % 2 or (lengths != lengths[0]).any() or copies.max() + lengths[0] > source.size:
        return vtables
    words = gather(source.units("u2"), copies // 2, lengths // 2).reshape(len(copies), -1)
    return Places.even(vtables.count, int(copies[0])) if (words == words[0]).all() else vtables


class _Rows:
    """Tables of one schema at these positions, with what their vtables say."""

    def __init__(self, source: Source, schema: TableSchema, places: Places) -> None:
        self.source = source
        self.schema = schema
        self.starts = places
        self.count = places.count
        source.check(places, 4, 4, schema.name)
        source.spend_at(places, 4)
        vtables = places.minus(source.at("i4", places))
        source.check(vtables, 4, 2, f"vtable of {schema.name}")
        if source.bounds is not None:
            what = f"vtable of {schema.name}"
            source.require_same_buffer(places.array(), vtables.array(), 4, what)
        codes, vtables = _merge_copies(source, vtables).distinct(2)
        self.codes: Ints | None = None  # (n,) into the vtables, if there are several
        if vtables.count == 1:
            self.vtable = VTable(source, vtables.first, schema.name)
            self.vtable.require_inside(source, places.highest, schema.name)
        else:
            self.codes = codes
            self._read_vtables(codes, vtables.array())
        if source.bounds is not None:
            self._require_own_buffers(vtables.array())

    def _require_own_buffers(self, vtables: Ints) -> None:
        """Requires of many buffers that each row, and each vtable, ends in the one it is in."""
        source, name, starts = self.source, self.schema.name, self.starts.array()
        lengths = source.units("u2")[vtables // 2].astype(np.int64)
        source.require_same_buffer(vtables, vtables, lengths, f"vtable of {name}")
        sizes = self.vtable.size if self.codes is None else self.sizes[self.codes]
        source.require_same_buffer(starts, starts, sizes, name)

    def _read_vtables(self, codes: Ints, vtables: Ints) -> None:
        """Sets `sizes` (k,) and `places` (k, slots) of the k vtables."""
        name, units = self.schema.name, self.source.units("u2")
        words = vtables // 2
        lengths = units[words].astype(np.int64)
        self.sizes = units[words + 1].astype(np.int64)
        ends = vtables + lengths
        if bool((lengths < 4).any() | (lengths % 2).any()) or int(ends.max()) > self.source.size:
            raise FormatError(f"vtable of {name} has an impossible size")
        end = int((self.starts.array() + self.sizes[codes]).max())
        if int(self.sizes.min()) < 4 or end > self.source.size:
            raise FormatError(f"{name} is outside the buffer of {self.source.size} bytes")
        self.places = np.zeros((len(vtables), self.schema.slot_count), np.uint16)
        for slot in range(self.schema.slot_count):
            has = np.flatnonzero(lengths >= 6 + 2 * slot)
            self.places[has, slot] = units[words[has] + 2 + slot]

    def cells(self, field: Field, slot: int, size: int, align: int) -> _Cells | None:
        """Positions of the slot in the rows; None if no row has it."""
        what = f"{self.schema.name}.{field.name}"
        if self.codes is None:
            place = self.vtable.place(slot, size, what)
            cells = _Cells(self.starts.shifted(place), None) if place else None
        else:
            cells = self._varying_cells(self.codes, slot, size, what)
        if cells is not None:
            self.source.check(cells.places, size, align, what)
        return cells

    def _varying_cells(self, codes: Ints, slot: int, size: int, what: str) -> _Cells | None:
        places = self.places[:, slot].astype(np.int64)
        if bool(((places > 0) & ((places < 4) | (places + size > self.sizes))).any()):
            raise FormatError(f"{what} is outside its table")
        first = int(places[0])
        if bool((places == first).all()):
            return _Cells(self.starts.shifted(first), None) if first else None
        by_row = places[codes]
        rows = np.flatnonzero(by_row)
        return _Cells(Places.of(self.starts.array()[rows] + by_row[rows]), rows)

    def targets(self, field: Field, cells: _Cells) -> Places:
        """Targets of the offsets in the cells; 4 bytes at each can be read."""
        targets = cells.places.plus(self.source.at("u4", cells.places))
        what = f"{self.schema.name}.{field.name}"
        self.source.check(targets, 4, 4, what)
        if self.source.bounds is not None:
            self.source.require_same_buffer(cells.places.array(), targets.array(), 4, what)
        return targets


def _decode_rows(source: Source, schema: TableSchema, places: Places) -> Table:
    match places.count:
        case 0:
            return Table.empty(schema)
        case 1 if source.bounds is None:
            return decode_row(source, schema, places.first, _decode_rows, _decode_strings)
        case _:
            return _decode_many(source, schema, places)


def _decode_many(source: Source, schema: TableSchema, places: Places) -> Table:
    rows = _Rows(source, schema, places)
    columns: dict[str, Column] = {}
    for field in schema.fields:
        column = _decode_field(rows, field)
        if field.required and not column.present.all():
            row = int(np.argmin(column.present))
            raise FormatError(f"{schema.name}.{field.name} is required, missing in row {row}")
        columns[field.name] = column
    return Table(schema, rows.count, MappingProxyType(columns))


def _decode_field(rows: _Rows, field: Field) -> Column:
    if isinstance(field.kind, Union):
        return _decode_union(rows, field, field.kind)
    cells = rows.cells(field, field.slot, *inline_size(field.kind))
    if cells is None:
        return absent_column(field.kind, rows.count)
    match field.kind:
        case Scalar():
            return _decode_scalar(rows, field.kind, cells)
        case Struct(size):
            return _decode_struct(rows, size, cells)
        case _:
            return _decode_reference(rows, field, cells)


def _decode_reference(rows: _Rows, field: Field, cells: _Cells) -> Column:
    targets = rows.targets(field, cells)
    match field.kind:
        case String() | Bytes():
            column = _decode_strings(rows.source, f"{rows.schema.name}.{field.name}", targets)
            if cells.rows is None:
                return column
            return make_unchecked(
                StringColumn,
                cells.spread(column.codes, np.full(rows.count, -1, np.int64)),
                column.strings,
            )
        case SubTable(schema):
            inner = _decode_rows(rows.source, schema, targets)
            index = np.arange(targets.count, dtype=np.int64)
            return make_unchecked(
                SubTableColumn, inner, cells.spread(index, np.full(rows.count, -1, np.int64))
            )
        case _:
            return _decode_vector(rows, field, cells, targets)


def _decode_scalar(rows: _Rows, kind: Scalar, cells: _Cells) -> ScalarColumn:
    if kind.dtype == "?":  # any byte but 0 is true, which a numpy boolean must not hold
        values = rows.source.at("u1", cells.places).astype(np.bool_)
    else:
        values = _copy_values(rows.source.at(kind.dtype, cells.places))
    if cells.rows is not None:
        values = cells.spread(values, defaults(kind.dtype, kind.default, rows.count))
    return make_unchecked(ScalarColumn, values, cells.present(rows.count))


def _decode_struct(rows: _Rows, size: int, cells: _Cells) -> StructColumn:
    lengths = constant(size, np.int64, cells.places.count)
    values = rows.source.runs("u1", cells.places, lengths).reshape(-1, size)
    if cells.rows is not None:
        values = cells.spread(values, np.zeros((rows.count, size), np.uint8))
    return make_unchecked(StructColumn, values, cells.present(rows.count))


def _measure(source: Source, what: str, targets: Places, size: int, align: int) -> Ints:
    """Elements of the vectors at the targets, which are in bounds and aligned."""
    found = source.at("u4", targets)
    if align > 4:
        source.check(targets.shifted(4), 0, align, what)
    if not targets.count:
        return found.astype(np.int64)
    if bool((found == found[0]).all()):
        lengths = constant(int(found[0]), np.int64, targets.count)
        end = targets.highest + int(found[0]) * size
    else:
        lengths = found.astype(np.int64)
        end = int((targets.array() + lengths * size).max())
    if end + 4 > source.size:
        raise FormatError(f"{what} reaches outside the buffer of {source.size} bytes")
    if source.bounds is not None:
        source.require_same_buffer(targets.array(), targets.array(), 4 + lengths * size, what)
    return lengths


def _decode_strings(source: Source, what: str, targets: Places) -> StringColumn:
    codes, found = targets.distinct(4)
    lengths = _measure(source, what, found, 1, 1)
    strings = make_unchecked(Strings, source.heap, found.shifted(4).array(), lengths)
    return make_unchecked(StringColumn, codes, strings)


def _decode_vector(rows: _Rows, field: Field, cells: _Cells, targets: Places) -> Column:
    source = rows.source
    size, align = element_size(field.kind)
    lengths = _measure(source, f"{rows.schema.name}.{field.name}", targets, size, align)
    source.spend_at(targets, lengths * size)
    splits = splits_of(cells.lengths(lengths, rows.count))
    present = cells.present(rows.count)
    match field.kind:
        case ScalarVector(dtype):
            values = source.runs("u1" if dtype == "?" else dtype, targets.shifted(4), lengths)
            return make_unchecked(
                VectorColumn, values.astype(np.bool_) if dtype == "?" else values, splits, present
            )
        case StructVector():
            heap = source.runs("u1", targets.shifted(4), _scale_lengths(lengths, size))
            return make_unchecked(VectorColumn, heap.reshape(-1, size), splits, present)
        case TableVector(schema):
            elements = _decode_offsets(rows, field, targets, lengths)
            return make_unchecked(
                TableVectorColumn, splits, _decode_rows(source, schema, elements), present
            )
        case _:
            elements = _decode_offsets(rows, field, targets, lengths)
            strings = _decode_strings(source, f"{rows.schema.name}.{field.name}", elements)
            return make_unchecked(StringVectorColumn, splits, strings, present)


def _scale_lengths(lengths: Ints, size: int) -> Ints:
    if len(lengths) and not lengths.strides[0]:
        return constant(int(lengths[0]) * size, np.int64, len(lengths))
    return lengths * size


def _decode_offsets(rows: _Rows, field: Field, targets: Places, lengths: Ints) -> Places:
    """Targets of the elements of vectors of offsets."""
    offsets = rows.source.runs("u4", targets.shifted(4), lengths)
    if targets.count == 1:
        places = Places.even(len(offsets), targets.first + 4, 4).plus(offsets)
    else:
        places = Places.of(run_index(targets.array() // 4 + 1, lengths) * 4 + offsets)
    what = f"element of {rows.schema.name}.{field.name}"
    rows.source.check(places, 4, 4, what)
    if rows.source.bounds is not None:
        here = np.repeat(targets.array(), lengths)
        rows.source.require_same_buffer(here, places.array(), 4, what)
    return places


def _decode_union(rows: _Rows, field: Field, kind: Union) -> UnionColumn:
    types = np.zeros(rows.count, np.uint8)
    type_cells = rows.cells(field, field.slot, 1, 1)
    if type_cells is not None:
        types = type_cells.spread(rows.source.at("u1", type_cells.places), types)
    targets = np.full(rows.count, -1, np.int64)
    cells = rows.cells(field, field.slot + 1, 4, 4)
    if cells is not None:
        targets = cells.spread(rows.targets(field, cells).array(), targets)
    if not np.array_equal(types > 0, targets >= 0):
        raise FormatError(f"{rows.schema.name}.{field.name} has a type or a value, expected both")
    index = np.full(rows.count, -1, np.int64)
    variants = {code: Table.empty(schema) for code, schema in kind.variants.items()}
    for code in np.flatnonzero(np.bincount(types)).tolist():
        if code not in variants:
            continue
        mine = np.flatnonzero(types == code)
        index[mine] = np.arange(len(mine))
        places = Places.of(targets[mine])
        variants[code] = _decode_rows(rows.source, kind.variants[code], places)
    return UnionColumn(types, index, variants)


# -------------------------------------------------------------------------------------------------
# One table of a sorted vector, found without decoding the others.


class SortedTables:
    """The tables of a vector of the root, which should ascend by a string that each has.

    Whether they do is not checked, nor is any table that is not looked at.
    """

    def __init__(self, data: Buffer, root: TableSchema, vector: str, key: str) -> None:
        """`vector` and `key` are names of fields, of the root and of the tables."""
        field = root.field(vector)
        if not isinstance(field.kind, TableVector):
            raise TypeError(f"{root.name}.{vector} is no vector of tables")
        self._source = source_of(data)
        self._schema = field.kind.schema
        self._slot = self._schema.field(key).slot
        self._what = f"{self._schema.name}.{key}"
        what = f"{root.name}.{vector}"
        row = Row(self._source, root, self._source.u4(0))
        place = _required_target(row, field.slot, what)
        self.count = row.length(place, 4, 4, what)
        self._first = place + 4

    def each_key(self) -> Iterator[bytes]:
        """Keys in the order in which the tables are listed."""
        return map(self._key, range(self.count))

    def find(self, key: bytes) -> Table | None:
        """A table of one row; None if there is none where it should be."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < key:
                low = middle + 1
            else:
                high = middle
        if low == self.count or self._key(low) != key:
            return None
        # What may be gathered is limited for each table, not for all that are ever asked for.
        source = Source(self._source.heap, self._source.budget)
        return decode_at(source, self._schema, self._place(low))

    def _place(self, index: int) -> int:
        cell = self._first + 4 * index
        return cell + self._source.u4(cell)

    def _key(self, index: int) -> bytes:
        row = Row(self._source, self._schema, self._place(index))
        place = _required_target(row, self._slot, self._what)
        start = place + 4
        return bytes(self._source.data[start : start + row.length(place, 1, 1, self._what)])


def _required_target(row: Row, slot: int, what: str) -> int:
    """Target of the offset in a slot."""
    cell = row.cell(slot, 4, 4, what)
    if not cell:
        raise FormatError(f"{what} is required, and missing")
    return row.target(cell, what)
