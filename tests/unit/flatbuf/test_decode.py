"""Bytes that lie: every offset is checked before it is followed."""

import struct
import time

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    TableSchema,
    TableVector,
    Union,
)
from frazil.flatbuf.table import Table, TableVectorColumn

WORD = TableSchema("Word", (Field("value", 0, Scalar("u4", 11)),))
WIDE = TableSchema("Wide", (Field("value", 0, Scalar("u8")),))
NAMED = TableSchema("Named", (Field("name", 0, String(), required=True),))
NUMBERS = TableSchema("Numbers", (Field("values", 0, ScalarVector("u8")),))
CHOICE = TableSchema("Choice", (Field("choice", 0, Union({1: WORD})),))


def u4(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def u2(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


def buffer(*body: bytes, slots: tuple[int, ...] = (4,), size: int = 8) -> bytes:
    """Root offset, vtable, then the root table, whose first field is the first word of `body`."""
    vtable = u2(4 + 2 * len(slots), size, *slots)
    vtable += bytes(-len(vtable) % 4)
    return u4(4 + len(vtable)) + vtable + u4(len(vtable)) + b"".join(body)


def test_the_helper_makes_a_buffer_that_decodes() -> None:
    assert decode(buffer(u4(42)), WORD).scalar("value").values.tolist() == [42]


def test_a_field_beyond_the_vtable_has_its_default() -> None:
    column = decode(buffer(u4(42), slots=()), WORD).scalar("value")
    assert column.values.tolist() == [11]
    assert column.present.tolist() == [False]


def test_rows_that_lack_a_field_have_its_default_beside_rows_that_have_it() -> None:
    schema = TableSchema("Root", (Field("words", 0, TableVector(WORD)),))
    present = np.array([True, False, True])
    words = Table.build(WORD, 3, value=ScalarColumn(np.array([1, 0, 3], np.uint32), present))
    root = Table.build(schema, 1, words=TableVectorColumn.of(words))
    values = decode(encode(root), schema).tables("words").rows.scalar("value").values
    assert values.tolist() == [1, 11, 3]


@pytest.mark.parametrize("size", range(8))
def test_too_few_bytes_are_refused(size: int) -> None:
    with pytest.raises(FormatError, match=f"buffer is {size} bytes"):
        decode(bytes(size), WORD)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (u4(400, 0, 0), "Word is outside the buffer"),
        (u4(2, 0, 0), "Word is not aligned"),
        (u4(4, 2**31, 0), "vtable of Word is outside"),
        (u4(4, 1, 0), "vtable of Word is not aligned"),
        (u4(4, 2**32 - 400, 0), "vtable of Word is outside"),
        (buffer(u4(42), slots=(2,)), "Word.value is outside its table"),
        (buffer(u4(42), slots=(8,)), "Word.value is outside its table"),
        (buffer(u4(42), size=400), "Word is outside the buffer"),
        (buffer(u4(42), size=9), "Word is outside the buffer"),
        (buffer(u4(42), size=3), "Word is outside the buffer"),
        (buffer(u4(42), u4(42), slots=(5,), size=12), "Word.value is not aligned"),
        (u4(12) + u2(3, 8, 4, 0) + u4(8, 42), "impossible size"),
        (u4(12) + u2(5, 8, 4, 0) + u4(8, 42), "impossible size"),
        (u4(12) + u2(600, 8, 4, 0) + u4(8, 42), "impossible size"),
    ],
)
def test_a_broken_table_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(data, WORD)


def test_a_number_of_eight_bytes_must_be_aligned_to_eight() -> None:
    good = buffer(u4(0, 7, 0), slots=(8,), size=16)  # the table is at 12
    bad = u4(16) + u2(6, 12, 4, 0) + u4(0) + u4(12, 7, 0, 0)  # the table is at 16
    with pytest.raises(FormatError, match=r"Wide\.value is not aligned to 8"):
        decode(bad, WIDE)
    with pytest.raises(FormatError, match=r"Wide\.value is not aligned to 8"):
        decode(good, WIDE)
    assert decode(buffer(u4(7, 0), size=12), WIDE).scalar("value").values.tolist() == [7]


def test_a_missing_required_field_names_table_and_field() -> None:
    with pytest.raises(FormatError, match=r"Named\.name is required, missing in row 0"):
        decode(buffer(u4(0), slots=(0,)), NAMED)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (u4(400), "Named.name is outside"),
        (u4(2**32 - 1), "Named.name is outside"),
        (u4(4, 1), "Named.name reaches outside"),
        (u4(4, 2**32 - 1), "Named.name reaches outside"),
        (u4(5, 0, 0), "Named.name is not aligned"),
    ],
)
def test_a_broken_string_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(buffer(body), NAMED)


def test_a_string_needs_no_terminator() -> None:
    assert decode(buffer(u4(4, 3) + b"abc"), NAMED).string("name").to_list() == [b"abc"]


def test_text_that_is_not_utf8_is_refused_when_it_is_asked_for() -> None:
    column = decode(buffer(u4(4, 1) + b"\xff"), NAMED).string("name")
    assert column.item(0) == b"\xff"
    with pytest.raises(FormatError, match="not UTF-8"):
        column.text(0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (u4(8, 0, 1, 0, 0), "is not aligned to 8"),
        (u4(4, 2**29, 0, 0), "reaches outside"),
        (u4(4, 2**32 - 1, 0, 0), "reaches outside"),
        (u4(4, 2, 0, 0), "reaches outside"),
    ],
)
def test_a_broken_vector_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(buffer(body), NUMBERS)


@pytest.mark.parametrize("slots", [(4, 0), (0, 8)])
def test_a_union_needs_both_its_type_and_its_value(slots: tuple[int, int]) -> None:
    data = buffer(u4(1, 0), slots=slots, size=12)
    with pytest.raises(FormatError, match=r"Choice\.choice"):
        decode(data, CHOICE)


def test_an_unknown_union_type_is_kept_without_a_value() -> None:
    column = decode(buffer(u4(9, 4, 0), slots=(4, 8), size=12), CHOICE).union("choice")
    assert (column.types.tolist(), column.index.tolist()) == ([9], [-1])


def test_any_byte_but_zero_is_true() -> None:
    schema = TableSchema("Flag", (Field("flag", 0, Scalar("?")),))
    assert decode(buffer(u4(0x80)), schema).scalar("flag").values.view("u1").tolist() == [1]


LEAVES = TableSchema("Leaves", (Field("values", 0, ScalarVector("u1")),))
NEST = TableSchema("Nest", (Field("nests", 0, TableVector(LEAVES)),))
BOMB = TableSchema("Bomb", (Field("nests", 0, TableVector(NEST)),))


def shared_vectors(count: int) -> bytes:
    """`count` nests that share one vector of `count` tables that share one vector of bytes."""
    first, second = 20, 20 + 4 + 4 * count + 8
    outer = u4(count, *(second - 8 - (first + 4 + 4 * i) for i in range(count)))
    third = second + 4 + 4 * count
    inner = u4(count, *(third - (second + 4 + 4 * i) for i in range(count)))
    vtable = 4
    head = u4(12) + u2(6, 8, 4, 0) + u4(12 - vtable, 4)
    nest = struct.pack("<iI", second - 8 - vtable, 4)
    leaf = struct.pack("<iI", third - vtable, 4) + u4(count) + bytes(count)
    return head + outer + nest + inner + leaf


def test_sharing_is_read_as_long_as_it_stays_small() -> None:
    table = decode(shared_vectors(2), BOMB)
    nests = table.tables("nests").rows
    assert nests.tables("nests").splits.tolist() == [0, 2, 4]
    assert nests.tables("nests").rows.vector("values").splits.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("count", [1000, 100_000])
def test_vectors_that_share_children_cannot_explode(count: int) -> None:
    data = shared_vectors(count)
    started = time.process_time()
    with pytest.raises(FormatError, match="overlap too much"):
        decode(data, BOMB)
    assert time.process_time() - started < 5


def test_a_vtable_for_every_row_does_not_slow_decoding_down() -> None:
    count = 200_000
    rows = np.zeros((count, 8), "<u2")  # vtable of 6 bytes, padding, table of 8 bytes
    rows[:, :3] = 6, 8, 4
    words = rows.view("<u4")
    words[:, 2], words[:, 3] = 8, np.arange(count)
    base = 24 + 4 * count
    places = 24 + 4 * np.arange(count)
    offsets = base + 16 * np.arange(count) + 8 - places
    head = u4(12) + u2(6, 8, 4, 0) + u4(8, 4, count)
    data = head + offsets.astype("<u4").tobytes() + rows.tobytes()
    schema = TableSchema("Root", (Field("words", 0, TableVector(WORD)),))
    started = time.process_time()
    values = decode(data, schema).tables("words").rows.scalar("value").values
    assert np.array_equal(values, np.arange(count))
    assert time.process_time() - started < 2


def test_strings_point_into_the_decoded_bytes() -> None:
    schema = TableSchema("Root", (Field("names", 0, TableVector(NAMED)), Field("blob", 1, Bytes())))
    names = Table.build(NAMED, 3, name=StringColumn.from_list(["same", "other", "same"]))
    root = Table.build(
        schema,
        1,
        names=TableVectorColumn.of(names),
        blob=StringColumn.from_list([b"\0" * 1000]),
    )
    data = encode(root)
    decoded = decode(data, schema)
    column = decoded.tables("names").rows.string("name")
    assert len(column.strings) == 2
    assert column.to_texts() == ["same", "other", "same"]
    assert np.shares_memory(column.strings.heap, np.frombuffer(data, np.uint8))
    assert column.strings.heap is decoded.string("blob").strings.heap


def test_decoded_columns_cannot_be_changed() -> None:
    schema = TableSchema("Root", (Field("n", 0, Scalar("u4")), Field("v", 1, ScalarVector("u4"))))
    vectors = VectorColumn.regular(np.array([[1, 2]], np.uint32))
    root = decode(encode(Table.build(schema, 1, n=ScalarColumn.of([1], "u4"), v=vectors)), schema)
    with pytest.raises(ValueError, match="read-only"):
        root.scalar("n").values[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        root.vector("v").values[0] = 2
