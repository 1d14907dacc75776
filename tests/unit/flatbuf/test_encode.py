"""What goes into a buffer, and what does not fit."""

from itertools import pairwise

import numpy as np
import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    Struct,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import SubTableColumn, Table, TableVectorColumn, UnionColumn

NAMED = TableSchema("Named", (Field("name", 0, String()), Field("n", 1, Scalar("i4"))))
NAMES = TableSchema("Names", (Field("rows", 0, TableVector(NAMED)),))


def names(*items: str | None) -> Table:
    rows = Table.build(NAMED, len(items), name=StringColumn.from_list(items))
    return Table.build(NAMES, 1, rows=TableVectorColumn.of(rows))


def test_equal_strings_are_stored_once() -> None:
    data = encode(names("a long name", "another", "a long name", "a long name"))
    assert data.count(b"a long name\0") == 1


def test_strings_end_with_a_zero_that_is_not_counted() -> None:
    assert encode(names("four", "longer")).endswith(b"\4\0\0\0four\0\0\0\0\6\0\0\0longer\0\0")
    assert encode(names("four", "next")).endswith(b"\4\0\0\0next\0\0\0\0")


def test_strings_of_equal_length_follow_their_rows() -> None:
    first, _, second = encode(names("four", "next")).partition(b"\4\0\0\0four\0\0\0\0")
    assert first.endswith(b"\4\0\0\0")  # from the field to what comes next
    assert second[4:] == b"\4\0\0\0\4\0\0\0next\0\0\0\0"


@pytest.mark.parametrize("items", [("same", "same"), ("four", None), (None, "four"), ("", "x")])
def test_strings_that_are_shared_or_missing_or_uneven_do_not(items: tuple[str | None]) -> None:
    root = names(*items)
    assert decode(encode(root), NAMES).equals(root)


def test_vectors_behind_rows_are_aligned() -> None:
    row = TableSchema("Row", (Field("a", 0, Scalar("u1")), Field("v", 1, ScalarVector("u8"))))
    schema = TableSchema("Root", (Field("rows", 0, TableVector(row)),))
    values = np.arange(6, dtype=np.uint64).reshape(3, 2) + 0x1122334455667700
    rows = Table.build(row, 3, a=ScalarColumn.of([1, 2, 3], "u1"), v=VectorColumn.regular(values))
    root = Table.build(schema, 1, rows=TableVectorColumn.of(rows))
    data = encode(root)
    places = [data.index(each.tobytes()) for each in values]
    assert [place % 8 for place in places] == [0, 0, 0]
    assert len({after - before for before, after in pairwise(places)}) == 1
    assert decode(data, schema).equals(root)


def test_strings_that_no_row_uses_are_left_out() -> None:
    kept = names("wanted", "unwanted").tables("rows").rows.take(np.array([0]))
    root = Table.build(NAMES, 1, rows=TableVectorColumn.of(kept))
    assert b"unwanted" not in encode(root)
    assert decode(encode(root), NAMES).tables("rows").rows.string("name").to_texts() == ["wanted"]


def test_byte_vectors_have_no_terminator() -> None:
    schema = TableSchema("Blob", (Field("blob", 0, Bytes()),))
    root = Table.build(schema, 1, blob=StringColumn.from_list([b"abcd"]))
    assert encode(root).endswith(b"\x04\0\0\0abcd")


def test_an_explicit_default_is_written_and_an_absent_value_is_not() -> None:
    schema = TableSchema("Root", (Field("n", 0, Scalar("i4", -1)),))
    explicit = Table.build(schema, 1, n=ScalarColumn.of([-1], "i4"))
    silent = Table.build(schema, 1)
    assert silent.scalar("n").values.tolist() == [-1]
    assert len(encode(silent)) < len(encode(explicit))
    assert decode(encode(explicit), schema).scalar("n").present.tolist() == [True]
    assert decode(encode(silent), schema).scalar("n").present.tolist() == [False]


def test_rows_of_one_pattern_share_a_vtable() -> None:
    few = len(encode(names(*["x", None] * 2)))
    many = len(encode(names(*["x", None] * 52)))
    assert many - few == 100 * (4 + 8)  # an offset in the vector and a row, nothing else


def test_more_than_sixteen_varying_fields_have_their_patterns() -> None:
    fields = tuple(Field(f"f{slot}", slot, Scalar("u2")) for slot in range(20))
    schema = TableSchema("Row", fields)
    root = TableSchema("Root", (Field("rows", 0, TableVector(schema)),))
    present = np.random.default_rng(1).random((20, 300)) < 0.5
    columns = {
        field.name: ScalarColumn(np.where(mask, 5, 0).astype(np.uint16), mask)
        for field, mask in zip(fields, present, strict=True)
    }
    rows = Table.build(schema, 300, **columns)
    table = Table.build(root, 1, rows=TableVectorColumn.of(rows))
    assert decode(encode(table), root).equals(table)


def test_shared_sub_tables_are_stored_once() -> None:
    big = TableSchema("Big", (Field("bytes", 0, Struct(1000, 1)),))
    holder = TableSchema("Holder", (Field("big", 0, SubTable(big)),))
    root = TableSchema("Root", (Field("rows", 0, TableVector(holder)),))
    one = Table.build(big, 1, bytes=StructColumn.of(np.ones((1, 1000), np.uint8)))
    column = SubTableColumn(one, np.zeros(50, np.int64))
    rows = Table.build(holder, 50, big=column)
    table = Table.build(root, 1, rows=TableVectorColumn.of(rows))
    data = encode(table)
    assert len(data) < 3000
    assert decode(data, root, max_expansion=20).equals(table)


def test_the_identifier_stands_after_the_root_offset() -> None:
    data = encode(names("x"), identifier=b"Ichk")
    assert data[4:8] == b"Ichk"
    assert decode(data, NAMES).equals(names("x"))


@pytest.mark.parametrize("identifier", [b"", b"abc", b"abcde"])
def test_an_identifier_has_four_bytes(identifier: bytes) -> None:
    with pytest.raises(InvalidInputError, match="4 bytes"):
        encode(names(), identifier=identifier)


@pytest.mark.parametrize("count", [0, 2])
def test_the_root_is_one_row(count: int) -> None:
    with pytest.raises(InvalidInputError, match="one row of Named"):
        encode(Table.build(NAMED, count))


def test_a_buffer_beyond_two_gibibytes_is_refused_before_it_is_made() -> None:
    heap = np.zeros(1 << 20, np.uint8)
    count = 2100
    # All the strings are the same megabyte, but each has a code of its own.
    strings = Strings(heap, np.zeros(count, np.int64), np.full(count, len(heap)))
    rows = Table.build(NAMED, count, name=StringColumn.of(strings))
    with pytest.raises(FormatError, match="too large") as caught:
        encode(Table.build(NAMES, 1, rows=TableVectorColumn.of(rows)))
    assert caught.value.kind == "serialization"


def test_a_union_type_that_nobody_knows_cannot_be_written() -> None:
    schema = TableSchema("Choice", (Field("choice", 0, Union({1: NAMED})),))
    unknown = UnionColumn(np.array([9], np.uint8), np.array([-1]), {1: Table.empty(NAMED)})
    with pytest.raises(InvalidInputError, match="does not know"):
        encode(Table(schema, 1, {"choice": unknown}))


def test_a_row_wider_than_a_vtable_can_say_is_refused() -> None:
    schema = TableSchema("Huge", tuple(Field(f"f{n}", n, Struct(40_000, 1)) for n in range(2)))
    wide = StructColumn.of(np.zeros((1, 40_000), np.uint8))
    with pytest.raises(InvalidInputError, match="larger than FlatBuffers allow"):
        encode(Table.build(schema, 1, f0=wide, f1=wide))
