"""Tables and columns refuse what cannot be true, and travel."""

import pickle
import struct
from collections.abc import Callable

import numpy as np
import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.schema import (
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
)
from frazil.flatbuf.strings import MULTIPLIER, Strings
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn

LEAF = TableSchema("Leaf", (Field("x", 0, Scalar("u2", 7)),))
OTHER = TableSchema("Other", (Field("y", 0, Scalar("u2")),))
ROW = TableSchema(
    "Row",
    (
        Field("n", 0, Scalar("u4")),
        Field("id", 1, Struct(12, 1)),
        Field("name", 2, String()),
        Field("index", 3, ScalarVector("u4")),
        Field("ids", 4, StructVector(12, 1)),
        Field("names", 5, StringVector()),
        Field("leaf", 6, SubTable(LEAF)),
        Field("leaves", 7, TableVector(LEAF)),
        Field("choice", 8, Union({1: LEAF})),
        Field("needed", 10, Scalar("?"), required=True),
    ),
)
NEEDED = ScalarColumn.of([True, False])
ONE = np.array([0, 1])
TWO = np.array([True, True])


def leaves(*values: int) -> Table:
    return Table.build(LEAF, len(values), x=ScalarColumn.of(values, "u2"))


def rows() -> Table:
    return Table.build(
        ROW,
        2,
        n=ScalarColumn.of([1, 2], "u4"),
        id=StructColumn.of(np.arange(24, dtype=np.uint8).reshape(2, 12)),
        name=StringColumn.from_list(["a", None]),
        index=VectorColumn.regular(np.arange(6, dtype=np.uint32).reshape(2, 3)),
        ids=VectorColumn.of(np.zeros((3, 12), np.uint8), np.array([0, 1, 3])),
        names=StringVectorColumn.from_lists([["x", "y"], None]),
        leaf=SubTableColumn.of(leaves(1, 2)),
        leaves=TableVectorColumn.of(leaves(1, 2, 3), np.array([0, 3, 3])),
        choice=UnionColumn(np.array([1, 0], np.uint8), np.array([0, -1]), {1: leaves(5)}),
        needed=NEEDED,
    )


def test_fields_not_given_are_absent_with_their_defaults() -> None:
    table = Table.build(LEAF, 3)
    assert table.scalar("x").values.tolist() == [7, 7, 7]
    assert not table.scalar("x").present.any()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"wrong": NEEDED}, "no field 'wrong'"),
        ({"n": ScalarColumn.of([1], "u4")}, r"Row\.n has 1 rows, expected 2"),
        ({"n": ScalarColumn.of([1, 2], "u8")}, r"Row\.n is of uint64"),
        ({"n": StringColumn.absent(2)}, "a StringColumn, expected a ScalarColumn"),
        ({"id": StructColumn.of(np.zeros((2, 8), np.uint8))}, "12"),
        ({"index": VectorColumn.of(np.zeros(2, "i4"), np.array([0, 1, 2]))}, "of int32"),
        ({"ids": VectorColumn.regular(np.zeros((2, 1, 8), np.uint8))}, r"expected uint8 \(2, 12\)"),
        ({"leaf": SubTableColumn.of(Table.build(OTHER, 2))}, "of Other rows"),
        (
            {"leaves": TableVectorColumn.of(Table.build(OTHER, 2), np.array([0, 1, 2]))},
            "of Other rows",
        ),
        (
            {"choice": UnionColumn(np.zeros(2, np.uint8), np.full(2, -1), {})},
            "other variants",
        ),
        (
            {"choice": UnionColumn(np.array([0, 9], np.uint8), np.full(2, -1), {1: leaves()})},
            "does not know",
        ),
        ({"needed": ScalarColumn(np.zeros(2, np.bool_), np.array([True, False]))}, "required"),
    ],
)
def test_a_column_that_does_not_fit_its_field_is_refused(
    column: dict[str, Column], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Table.build(ROW, 2, **{"needed": NEEDED, **column})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScalarColumn(np.zeros(2), np.ones(3, np.bool_)), "values"),
        (
            lambda: ScalarColumn(np.zeros(2), np.ones(2)),  # type: ignore[arg-type] # on purpose
            "present is float64, expected bool",
        ),
        (lambda: StructColumn(np.zeros(2, np.uint8), TWO), "structs"),
        (lambda: StringColumn(np.array([1]), Strings.from_list(["a"])), "code"),
        (lambda: StringColumn(np.array([-2]), Strings.from_list(["a"])), "code"),
        (lambda: StringColumn(np.array([[0]]), Strings.from_list(["a"])), "shape"),
        (lambda: VectorColumn(np.zeros(2), np.array([0, 2]), TWO), "splits"),
        (lambda: VectorColumn(np.zeros(2), np.array([0, 1, 3]), TWO), "expected 0 to 2"),
        (lambda: VectorColumn(np.zeros(2), np.array([1, 1, 2]), TWO), "expected 0 to 2"),
        (lambda: VectorColumn(np.zeros(2), np.array([0, 3, 2]), TWO), "ascending"),
        (lambda: VectorColumn(np.zeros(2), np.array([0, 1, 2]), ~TWO), "not present"),
        (lambda: StringVectorColumn(ONE, StringColumn.absent(1), TWO[:1]), "absent"),
        (lambda: SubTableColumn(leaves(1), np.array([1])), "index"),
        (lambda: UnionColumn(np.array([1], np.uint8), np.array([1]), {1: leaves(1)}), "index"),
        (lambda: UnionColumn(np.array([1]), np.array([0]), {1: leaves(1)}), "types"),
        (lambda: Strings(np.zeros(3, np.uint8), np.array([1]), np.array([3])), "outside"),
        (lambda: Strings(np.zeros(3, np.uint8), np.array([-1]), np.array([1])), "outside"),
        (lambda: Strings(np.zeros(3, np.uint8), np.array([0]), np.array([1, 1])), "lengths"),
    ],
)
def test_a_column_cannot_be_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_column_is_asked_for_by_what_it_is() -> None:
    table = rows()
    assert table["n"] is table.scalar("n")
    assert table.struct("id").values.shape == (2, 12)
    assert table.strings("names").row(0) == [b"x", b"y"]
    assert table.vector("index").row(1).tolist() == [3, 4, 5]
    with pytest.raises(TypeError, match=r"Row\.n is a ScalarColumn"):
        table.string("n")
    with pytest.raises(KeyError):
        table["unknown"]


def test_a_column_can_be_replaced() -> None:
    table = rows().replace(n=ScalarColumn.of([8, 9], "u4"))
    assert table.scalar("n").values.tolist() == [8, 9]
    assert table.string("name").to_list() == [b"a", None]
    assert not table.equals(rows())


def test_tables_travel_by_pickle() -> None:
    table = rows()
    assert pickle.loads(pickle.dumps(table)).equals(table)


def test_a_decoded_table_equals_the_one_that_was_encoded() -> None:
    schema = TableSchema("Root", (Field("rows", 0, TableVector(ROW)),))
    root = Table.build(schema, 1, rows=TableVectorColumn.of(rows()))
    assert decode(encode(root), schema).tables("rows").rows.equals(rows())


@pytest.mark.parametrize("name", [field.name for field in ROW.fields])
def test_equality_looks_at_every_column(name: str) -> None:
    table = rows()
    swapped = table.columns[name].take(np.array([1, 0]))
    assert not table.replace(**{name: swapped}).equals(table)


def test_only_tables_of_one_schema_are_put_together() -> None:
    with pytest.raises(InvalidInputError, match="one schema"):
        Table.concat([leaves(1), Table.build(OTHER, 1)])
    with pytest.raises(InvalidInputError, match="one schema"):
        Table.concat([])


def test_strings_of_one_heap_are_joined_without_copying_it() -> None:
    strings = Strings.from_list(["aa", "b", "c"])
    joined = Strings.concat([strings.take(np.array([2])), strings.take(np.array([0]))])
    assert joined.heap is strings.heap
    assert joined.to_texts() == ["c", "aa"]
    assert Strings.concat([]).to_list() == []


def test_strings_of_several_heaps_are_joined_without_what_nobody_uses() -> None:
    column = StringColumn.from_list(["unused" * 100, "a", None]).take(np.array([1, 2]))
    joined = StringColumn.concat([column, StringColumn.from_list(["b"])])
    assert joined.to_texts() == ["a", None, "b"]
    assert len(joined.strings.heap) == 2


def test_a_compact_copy_holds_nothing_else() -> None:
    strings = Strings.from_list(["aa", "b", "c"]).take(np.array([2, 0, 2]))
    compact = strings.compact()
    assert compact.heap.tobytes() == b"caac"
    assert compact.equals(strings)


def test_lengths_are_zero_where_there_is_no_string() -> None:
    assert StringColumn.from_list(["abc", None, ""]).lengths().tolist() == [3, 0, 0]
    assert StringColumn.absent(2).lengths().tolist() == [0, 0]
    assert StringColumn.of(Strings.from_list(["abc"])).text(0) == "abc"
    assert StringColumn.from_list([None]).text(0) is None
    assert StringColumn.from_list([None]).item(0) is None


@pytest.mark.parametrize(
    "items",
    [
        [],
        ["b", "a", "b", "", "a", ""],
        ["a\0", "a", "a\0\0", "a\0"],
        ["x" * size for size in range(300)] * 2,
        ["same length", "SAME length"] * 50,
    ],
)
def test_distinct_strings_are_numbered_in_the_order_they_are_seen(items: list[str]) -> None:
    codes, distinct = Strings.from_list(items).unique()
    assert distinct.to_texts() == list(dict.fromkeys(items))
    assert distinct.take(codes).to_texts() == items


def test_strings_whose_digests_collide_are_told_apart() -> None:
    def digest(word: int) -> int:
        product = word * int(MULTIPLIER) % 2**64
        return product ^ product >> 29

    # Second words that make up for the difference that the first words make
    first = struct.pack("<QQ", 1, 5)
    second = struct.pack("<QQ", 2, 5 ^ digest(1) ^ digest(2))
    assert digest(5 ^ digest(1)) == digest(5 ^ digest(1) ^ digest(2) ^ digest(2))
    codes, distinct = Strings.from_list([first, second, first]).unique()
    assert distinct.to_list() == [first, second]
    assert codes.tolist() == [0, 1, 0]


def test_rows_of_one_column_are_joined_by_code() -> None:
    column = StringColumn.from_list(["a", "b"])
    joined = StringColumn.concat([column.take(np.array([1])), column])
    assert joined.strings is column.strings
    assert joined.to_texts() == ["b", "a", "b"]


def test_equal_lengths_are_known() -> None:
    assert rows().vector("index").length == 3
    assert rows().vector("ids").length is None


def test_numbers_of_different_types_are_not_equal() -> None:
    assert not ScalarColumn.of([1], "u4").equals(ScalarColumn.of([1], "i4"))
    assert ScalarColumn.of([np.nan]).equals(ScalarColumn.of([np.nan]))


def test_shared_sub_tables_equal_the_same_ones_unshared() -> None:
    shared = SubTableColumn(leaves(4), np.array([0, -1, 0]))
    apart = SubTableColumn(leaves(9, 4, 4), np.array([1, -1, 2]))
    assert shared.equals(apart)
    assert Table.concat([leaves(4)]).equals(leaves(4))
    assert rows().subtable("leaf").rows.equals(leaves(1, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scalar("u3"), "u3"),
        (lambda: ScalarVector("x"), "x"),
        (lambda: Struct(12, 3), "12 bytes aligned to 3"),
        (lambda: StructVector(12, 8), "12 bytes aligned to 8"),
        (lambda: Union({0: LEAF}), "1 to 255"),
        (lambda: Union({256: LEAF}), "1 to 255"),
        (lambda: TableSchema("T", (Field("a", 0, String()), Field("a", 1, String()))), "one name"),
        (lambda: TableSchema("T", (Field("a", 1, String()), Field("b", 1, String()))), "twice"),
        (lambda: TableSchema("T", (Field("a", 0, Union({})), Field("b", 1, String()))), "twice"),
        (lambda: TableSchema("T", (Field("a", -1, String()),)), "negative"),
    ],
)
def test_a_schema_cannot_be_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_schema_knows_its_fields() -> None:
    assert ROW.field("leaf").slot == 6
    assert ROW.slot_count == 11
    assert hash(ROW) == hash(pickle.loads(pickle.dumps(ROW)))
    with pytest.raises(KeyError, match="Row has no field 'wrong'"):
        ROW.field("wrong")


@pytest.mark.parametrize("odd", ["plain", "\N{SNOWMAN} and more", ""])
def test_many_strings_become_the_texts_they_were(odd: str) -> None:
    texts = [f"text {i}" for i in range(40_000)]
    texts[20_000] = odd
    strings = Strings.from_list(texts)
    assert strings.to_texts() == texts
    backwards = np.arange(len(texts))[::-1]
    assert strings.take(backwards).to_texts() == texts[::-1]


def test_bytes_that_are_not_text_are_refused_wherever_they_are() -> None:
    strings = Strings.from_list([b"fine", b"\xff"])
    with pytest.raises(FormatError, match="UTF-8"):
        strings.to_texts()
