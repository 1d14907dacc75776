"""Columns to FlatBuffers; decode.py draws the bytes.

The layout runs forward, parents before children, so that every position is known when it is
handed out. All rows of one table type become one block of equal strides:

    vtables, one for each combination of fields that occurs
    block    row 0 | row 1 | ...    room in each row for every field that any row has,
                                    and behind it for its attachments
    for each other field that is an offset: what it points to, of all rows together

The same columns always give the same bytes. Strings are written once for each code; vtables with
equal content once in the buffer; sub-tables once for each row of their column.
Small files are encoded from records instead (record_encoder.py).
"""

from collections.abc import Buffer, Sequence
from math import prod
from typing import assert_never

import numpy as np

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.places import FEWEST_OF_GRID, Places
from frazil.flatbuf.ragged import (
    Array,
    Bools,
    Bytes1,
    Ints,
    are_long,
    even_length,
    even_step,
    run_index,
    run_mask,
)
from frazil.flatbuf.schema import (
    Field,
    Kind,
    Piece,
    String,
    TableVector,
    element_size,
    lay_out,
    pieces_of,
    vtable_of,
)
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn

MAX_SIZE = 2**31 - 1


class Target:
    """The bytes so far: arrays in the order of their positions, filled in after they are placed."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.size = 0
        self.vtables: dict[bytes, int] = {}

    def reserve(self, size: int, align: int, ahead: int = 0) -> tuple[int, Bytes1]:
        """A place for `size` zero bytes that is `ahead` bytes before a multiple of `align`."""
        self._require_room(size + align)
        part = np.zeros(size, np.uint8)
        return self.append(part, align, ahead), part

    def append(self, part: Bytes1 | bytes | bytearray, align: int, ahead: int = 0) -> int:
        """Appends a part `ahead` bytes before a multiple of `align`; returns its position."""
        padding = -(self.size + ahead) % align
        position = self.size + padding
        self._require_room(padding + len(part))
        if padding:
            self.parts.append(bytes(padding))
        self.parts.append(part)
        self.size = position + len(part)
        return position

    def vtable(self, content: bytes) -> int:
        if content not in self.vtables:
            self.vtables[content] = self.append(content, 2)
        return self.vtables[content]

    def _require_room(self, size: int) -> None:
        if self.size + size > MAX_SIZE:
            raise FormatError(
                f"table is too large: more than the {MAX_SIZE} bytes of a FlatBuffer",
                kind="serialization",
            )


def encode(table: Table, *, identifier: bytes | None = None) -> bytes:
    """A buffer whose root is the only row of `table`, with its four-byte file identifier if any.

    `decode(encode(table), table.schema).equals(table)`. Raises FormatError (kind `serialization`)
    when the result would not fit into the 2 GiB that offsets can span.
    """
    return b"".join(encode_parts(table, identifier=identifier))


def encode_parts(table: Table, *, identifier: bytes | None = None) -> list[Buffer]:
    """The buffer that `encode` returns, in parts, to be consumed once from front to back."""
    if len(table) != 1:
        raise InvalidInputError(f"the root is one row of {table.schema.name}, found {len(table)}")
    if identifier is not None and len(identifier) != 4:
        raise InvalidInputError(f"a file identifier has 4 bytes, found {identifier!r}")
    target = Target()
    _, root = target.reserve(4, 4)
    if identifier is not None:
        _, found = target.reserve(4, 4)
        found[:] = np.frombuffer(identifier, np.uint8)
    root.view("<u4")[0] = _encode_rows(target, table).first
    return target.parts


def encode_tables(tables: Sequence[Table]) -> tuple[bytes, list[Ints]]:
    """Rows of several tables in a buffer without a root, and where each row is.

    As long as a multiple of eight, and to be placed at one.
    """
    target = Target()
    places: list[Ints] = []
    for table in tables:
        if len(table):
            places.append(_encode_rows(target, table).array())
        else:
            places.append(np.zeros(0, np.int64))
    target.reserve(-target.size % 8, 1)
    return b"".join(target.parts), places


# ---- attachments ---------------------------------------------------------------------------------
#
# Vectors and strings that a row points to, placed right behind the row.
#
# A vector or string that is a row's own, and as long as that of every other row, fits between the
# row and the next one:
#
#     row 0 | index 0 | location 0 | row 1 | index 1 | location 1 | ...
#
# The offset from the field to it is then the same in every row, which compresses well: with
# varying offsets a transaction log of a million chunks was twice as large.

MAX_ATTACHED_BYTES = 512  # of one vector: longer vectors compress well anywhere


@dataclass(frozen=True, slots=True)
class Attachment:
    """One vector for each row, all of the same length."""

    length: int  # elements of a vector
    values: Array  # (n, k) the elements, as numbers or bytes
    align: int  # of the elements
    is_terminated: bool

    @property
    def size(self) -> int:
        width: int = self.values.shape[1]
        return 4 + width * self.values.itemsize + int(self.is_terminated)

    def place(self, cursor: int) -> int:
        """The first place from `cursor` on at which the vector is aligned."""
        return cursor + -(cursor + 4) % max(4, self.align)

    def write(self, block: "_Block", place: int) -> None:
        """Fills in the vectors, `place` bytes from the start of each row."""
        block.cells("u4", place)[...] = self.length
        kind, width = self.values.dtype.str[1:], self.values.shape[1]
        _fill(block.cells(kind, place + 4, width), self.values, len(block.rows.shape))


def attachment(kind: Kind, column: Column) -> Attachment | None:
    """The column's vectors, if they can be kept behind their rows."""
    if len(column) < 2:
        return None
    match column:
        case VectorColumn(values, splits):
            length = even_length(splits)
            size, align = element_size(kind)
            if not length or length * size > MAX_ATTACHED_BYTES:
                return None
            return Attachment(length, values.reshape(len(column), -1), align, is_terminated=False)
        case StringColumn():
            return _attached_strings(column, is_terminated=isinstance(kind, String))
        case _:
            return None


def _attached_strings(column: StringColumn, *, is_terminated: bool) -> Attachment | None:
    codes, strings = column.codes, column.strings
    if int(codes[0]) < 0 or len(strings) < len(codes):  # some rows share one, or have none
        return None
    length = int(strings.length[codes[0]])
    if length > MAX_ATTACHED_BYTES or not bool((strings.length[codes] == length).all()):
        return None
    if not bool((codes[1:] > codes[:-1]).all()):
        return None
    items = strings.take(codes).joined().reshape(len(codes), length)
    return Attachment(length, items, 1, is_terminated)


# ---- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Presence:
    """The rows that have some slots."""

    pieces: list[Piece]
    present: Bools  # (n,)
    always: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that are being filled."""

    position: int  # of the heap in the buffer
    heap: Bytes1
    rows: Places  # in the buffer; the heap has room for every cell of their grid
    places: dict[int, int]  # slot -> offset inside the row

    def cells(self, dtype: str, place: int, width: int | None = None) -> Array:
        """Numbers at a place of every cell, `width` of them or one, as a writable view."""
        kind = np.dtype(dtype).newbyteorder("<")
        shape, steps = self.rows.shape, self.rows.steps
        if width is not None:
            shape, steps = (*shape, width), (*steps, kind.itemsize)
        return np.ndarray(shape, kind, self.heap, self.rows.first - self.position + place, steps)

    def put(self, slot: int, dtype: str, values: Array, present: Bools) -> None:
        cells = self.cells(dtype, self.places[slot])
        if present.all():
            _fill(cells, values, cells.ndim)
        else:
            np.copyto(cells, values, where=present)

    def point(self, slot: int, targets: Ints, present: Bools) -> None:
        """Writes offsets from the slot to the targets, which of absent rows may be anything."""
        offsets = targets - self.rows.shifted(self.places[slot]).array()
        self.put(slot, "u4", offsets.astype(np.uint32), present)


def _fill(cells: Array, values: Array, axes: int) -> None:
    """Puts the values into the first cells of a grid with so many axes, in row-major order."""
    if axes == 1:
        cells[: len(values)] = values
        return
    block = prod(cells.shape[1:axes])
    whole = len(values) // block
    shape = (whole, *cells.shape[1:axes], *values.shape[1:])
    cells[:whole] = values[: whole * block].reshape(shape)
    if whole * block < len(values):
        _fill(cells[whole], values[whole * block :], axes - 1)


def _encode_rows(target: Target, table: Table, *, striped: bool = False) -> Places:
    """Writes all rows; returns where they are."""
    found = [_presence(table, field) for field in table.schema.fields]
    presences = [each for each in found if each is not None]
    pieces = [piece for each in presences for piece in each.pieces]
    places, stride = lay_out(pieces)
    vtables, kinds = _vtables(table, presences, places, stride)
    attached = _attachments(table, places)
    aligns = [piece.align for piece in pieces] + [each.align for each in attached.values()]
    align = max([4, *aligns])
    behind = {}
    for slot, each in attached.items():
        behind[slot] = each.place(stride)
        stride = behind[slot] + each.size
    stride += -stride % align
    stripes = None
    if striped and len(table) >= FEWEST_OF_GRID and len(vtables) == 1:
        stripes = Stripes.of(len(table), stride, len(vtables[0]), align)
    if stripes is not None:
        block = _striped_block(target, stripes, vtables[0], places)
    else:
        backs = np.array([target.vtable(vtable) for vtable in vtables], np.int64)[kinds]
        position, heap = target.reserve(stride * len(table), align)
        block = _Block(position, heap, Places.even(len(table), position, stride), places)
        block.cells("i4", 0)[:] = block.rows.array() - backs
    for field in table.schema.fields:
        if field.slot in attached:
            attached[field.slot].write(block, behind[field.slot])
            block.cells("u4", places[field.slot])[...] = behind[field.slot] - places[field.slot]
        elif field.slot in places:
            _encode_field(target, block, table, field)
    return block.rows


# ---- stripes -------------------------------------------------------------------------------------
#
# Where the rows of a vector are many, they are dealt out in turn to stripes, a band of which has as
# many stripes as there are numbers of four bytes in a row:
#
#     vector   to row 0 | to row 1 | to row 2 | ...
#     band 0   stripe 0: vtable | row 0 | row w   | row 2w   | ...
#              stripe 1: vtable | row 1 | row w+1 | row 2w+1 | ...
#              ...       w stripes
#     band 1   ...
#
# An offset is the distance from where it stands, 4 bytes further each time, and so is the row that
# it points to, w offsets later: offsets repeat after every w. With rows one after the other each
# offset is larger than the one before it, which takes 3 bytes, however well it is compressed.
# For the same reason each stripe begins with a vtable: distances to it repeat in every stripe.

_STRIPE_ROWS = 128
_WIDEST_BAND = 64  # stripes: readers recognise a grid by its first 16,384 rows


@dataclass(frozen=True, slots=True)
class Stripes:
    """The layout of `count` rows in bands of stripes."""

    count: int
    shape: tuple[int, int, int]  # bands, rows of a stripe, stripes of a band
    row: int  # bytes
    head: int  # bytes of the vtable in front of a stripe

    @classmethod
    def of(cls, count: int, row: int, vtable: int, align: int) -> "Stripes | None":
        """None if rows of so many bytes cannot be striped."""
        width = row // 4
        if row % 4 or width > _WIDEST_BAND:
            return None
        bands = -(-count // (width * _STRIPE_ROWS))
        depth = -(-count // (width * bands))  # the last band is as full as the others, or nearly
        bands = -(-count // (width * depth))
        return cls(count, (bands, depth, width), row, vtable + -vtable % align)

    @property
    def stripe(self) -> int:
        """Bytes of a stripe."""
        return self.head + self.shape[1] * self.row

    @property
    def rows_of_band(self) -> int:
        return self.shape[1] * self.shape[2]

    @property
    def band(self) -> int:
        """Bytes of a band."""
        return self.stripe * self.shape[2]

    @property
    def size(self) -> int:
        return self.band * self.shape[0]

    def places(self, position: int) -> Places:
        """Every row, of which the last band may have more than there are."""
        steps = (self.band, self.row, self.stripe)
        return Places(self.count, position + self.head, self.shape, steps)


def _striped_block(
    target: Target, stripes: Stripes, vtable: bytes, places: dict[int, int]
) -> _Block:
    position, heap = target.reserve(stripes.size, 8)
    block = _Block(position, heap, stripes.places(position), places)
    fronts = heap.reshape(-1, stripes.stripe)[:, : len(vtable)]
    fronts[:] = np.frombuffer(vtable, np.uint8)
    back = stripes.head + stripes.row * np.arange(stripes.shape[1], dtype=np.int32)
    block.cells("i4", 0)[:] = back[:, np.newaxis]
    return block


def _attachments(table: Table, places: dict[int, int]) -> dict[int, Attachment]:
    """Attachments of the rows, by slot."""
    found = (
        (field.slot, attachment(field.kind, table[field.name]))
        for field in table.schema.fields
        if field.slot in places
    )
    return {slot: each for slot, each in found if each is not None}


def _presence(table: Table, field: Field) -> _Presence | None:
    """None if no row has the field."""
    present = table[field.name].present
    if not present.any():
        return None
    return _Presence(pieces_of(field), present, bool(present.all()))


def _vtables(
    table: Table, presences: list[_Presence], places: dict[int, int], size: int
) -> tuple[list[bytes], Array]:
    """The vtables that rows have, and the number of each row's, or an array of one for all."""
    varying = [each for each in presences if not each.always]
    codes = np.zeros(len(table) if varying else 1, np.uint64)
    for bit, each in enumerate(varying):
        codes |= each.present.astype(np.uint64) << np.uint64(bit)
    found, rows = _distinct_codes(codes, len(varying))
    vtables = []
    slots = 1 + max(places, default=-1)
    for code in found.tolist():
        lacking = {
            piece.slot
            for bit, each in enumerate(varying)
            if not code >> bit & 1
            for piece in each.pieces
        }
        there = {slot: place for slot, place in places.items() if slot not in lacking}
        vtables.append(vtable_of(there, size, slots))
    return vtables, rows


def _distinct_codes(codes: Array, bits: int) -> tuple[Array, Array]:
    if bits > 16:
        found, rows = np.unique(codes, return_inverse=True)
        return found, rows
    small = codes.astype(np.intp)
    found = np.flatnonzero(np.bincount(small, minlength=1))
    numbers = np.zeros(1 << bits, np.intp)
    numbers[found] = np.arange(len(found))
    return found, numbers[small]


def _encode_field(target: Target, block: _Block, table: Table, field: Field) -> None:
    column = table[field.name]
    present = column.present
    match column:
        case ScalarColumn(values):
            block.put(field.slot, values.dtype.str[1:].replace("b1", "?"), values, present)
        case StructColumn(values):
            block.put(field.slot, f"V{values.shape[1]}", _opaque(values), present)
        case StringColumn():
            targets = _encode_strings(target, column, terminated=isinstance(field.kind, String))
            block.point(field.slot, targets, present)
        case VectorColumn() | StringVectorColumn() | TableVectorColumn():
            block.point(field.slot, _encode_vectors(target, field, column), present)
        case SubTableColumn(rows, index):
            block.point(field.slot, _encode_rows(target, rows).array()[index], present)
        case UnionColumn():
            _encode_union(target, block, field, column)
        case _:
            assert_never(column)


def _opaque(values: Bytes1) -> Array:
    """(n, size) bytes as n items of that size, so that they move as one."""
    return np.ascontiguousarray(values).view(f"V{values.shape[1]}")[:, 0]


def _encode_union(target: Target, block: _Block, field: Field, column: UnionColumn) -> None:
    targets = np.full(len(column), -1, np.int64)
    for code, rows in column.variants.items():
        if len(rows):
            mine = column.types == code
            targets[mine] = _encode_rows(target, rows).array()[column.index[mine]]
    if bool(((targets < 0) & column.present).any()):
        raise InvalidInputError(f"{field.name} has a type that the union does not know")
    block.put(field.slot, "u1", column.types, column.present)
    block.point(field.slot + 1, targets, column.present)


def _encode_strings(target: Target, column: StringColumn, *, terminated: bool) -> Ints:
    """Position of each row's string; of rows without one, any."""
    column = column.pruned()
    strings = column.strings
    vectors = _Vectors.reserve(target, strings.length, 1, 1, extra=int(terminated))
    if len(strings) and are_long(strings.length):
        _copy_long(strings, vectors)
    else:
        vectors.fill(np.dtype("u1"), strings.joined())
    return vectors.positions[column.codes]


def _copy_long(strings: Strings, vectors: "_Vectors") -> None:
    """Each string to its place, by itself: they are long, and need not be put together first.

    Neighbours that are as far apart in their heap as they will be here are copied in one go: all
    those of a table that was decoded, but for what was changed in it.
    """
    source, target = memoryview(np.ascontiguousarray(strings.heap)), memoryview(vectors.heap)
    places, start, length = vectors.positions - vectors.base + 4, strings.start, strings.length
    edges = np.flatnonzero(np.diff(places) != np.diff(start)) + 1
    first, last = np.append(0, edges), np.append(edges - 1, len(start) - 1)
    size = start[last] + length[last] - start[first]
    runs = zip(places[first].tolist(), start[first].tolist(), size.tolist(), strict=True)
    for place, begin, count in runs:
        target[place : place + count] = source[begin : begin + count]
    if len(first) < len(start):
        vectors.clear_between()


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors with their lengths written and their elements not yet."""

    positions: Ints  # (k,) of the vectors' lengths, in the buffer
    lengths: Ints  # (k,)
    size: int  # of an element
    base: int  # position of the first vector
    heap: Bytes1

    @staticmethod
    def reserve(
        target: Target, lengths: Ints, size: int, align: int, *, extra: int = 0
    ) -> "_Vectors":
        """Room for vectors of these many elements, each followed by `extra` zero bytes."""
        align = max(4, align)
        sizes = lengths * size
        sizes += 4 + extra + align - 1
        sizes -= sizes % align
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        base, heap = target.reserve(total, align, 4)
        starts = ends - sizes
        step = even_step(starts)
        if step:
            np.ndarray((len(starts),), "<u4", heap, 0, (step,))[:] = lengths
        elif len(starts):
            heap.view("<u4")[starts // 4] = lengths
        return _Vectors(starts + base, lengths, size, base, heap)

    def clear_between(self) -> None:
        """Rewrites the lengths and zeros between byte vectors that were copied in one go."""
        starts = self.positions - self.base
        ends, stops = starts + 4 + self.lengths, np.append(starts[1:], len(self.heap))
        for byte in range(4):  # of a terminator, or to fill up
            beyond = ends + byte
            self.heap[beyond[beyond < stops]] = 0
        self.heap.view("<u4")[starts // 4] = self.lengths

    def elements(self) -> Ints:
        """Position of every element in the buffer."""
        if len(self.positions) == 1:
            places = np.arange(int(self.lengths[0]), dtype=np.int64)
            return places * self.size + (int(self.positions[0]) + 4)
        first = self.positions - self.base
        return run_index(first // self.size, self.lengths) * self.size + (self.base + 4)

    def fill(self, dtype: np.dtype[np.generic], values: Array) -> None:
        """Writes the elements of all vectors, end to end in `values`, as items of `dtype`."""
        if not len(values):
            return
        unit = dtype.itemsize
        lengths = self.lengths * (self.size // unit)
        starts = (self.positions - self.base) // unit
        body = self.heap[4:]
        body = body[: len(body) // unit * unit].view(dtype.newbyteorder("<"))
        first, step = int(lengths[0]), even_step(starts)
        if step is not None and bool((lengths == first).all()):
            runs = np.ndarray((len(starts), first), body.dtype, self.heap, 4, (step * unit, unit))
            runs[:] = values.reshape(len(starts), first)
        else:
            body[run_mask(starts, lengths, len(body))] = values


def _encode_vectors(
    target: Target, field: Field, column: VectorColumn | StringVectorColumn | TableVectorColumn
) -> Ints:
    """Position of each row's vector; of rows without one, any."""
    lengths = np.diff(column.splits)
    present = column.present
    always = bool(present.all())
    size, align = element_size(field.kind)
    vectors = _Vectors.reserve(target, lengths if always else lengths[present], size, align)
    match column:
        case VectorColumn(values):
            flat = values.reshape(-1) if values.ndim > 1 else values
            vectors.fill(flat.dtype, flat)
        case StringVectorColumn(_, strings):
            targets = _encode_strings(target, strings, terminated=True)
            vectors.fill(np.dtype("u4"), (targets - vectors.elements()).astype(np.uint32))
        case TableVectorColumn(_, rows):
            if len(rows):
                kind = field.kind
                striped = isinstance(kind, TableVector) and kind.striped
                offsets = _encode_rows(target, rows, striped=striped).array()
                offsets -= vectors.elements()
                vectors.fill(np.dtype("u4"), offsets.astype(np.uint32))
        case _:
            assert_never(column)
    if always:
        return vectors.positions
    positions = np.zeros(len(present), np.int64)
    positions[present] = vectors.positions
    return positions
