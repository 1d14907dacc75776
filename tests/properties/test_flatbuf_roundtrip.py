"""Tables of every kind of field: encoding is undone by decoding, and damage is survived."""

import random
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
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
    Bytes,
    Field,
    Kind,
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
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn
from tests.examples_count import scaled

SCALARS = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "f4", "u8", "i8", "f8")
LEAF = TableSchema("Leaf", (Field("x", 0, Scalar("i2", -5)), Field("name", 2, String())))
EMPTY = TableSchema("Empty", ())
NODE = TableSchema(
    "Node",
    (
        *(Field(f"s_{dtype}", slot, Scalar(dtype)) for slot, dtype in enumerate(SCALARS)),
        *(Field(f"v_{dtype}", slot, ScalarVector(dtype)) for slot, dtype in enumerate(SCALARS, 20)),
        Field("default", 40, Scalar("u8", 3)),
        Field("id", 41, Struct(3, 1)),
        Field("aligned", 42, Struct(24, 8)),
        Field("text", 43, String()),
        Field("bytes", 44, Bytes()),
        Field("ids", 45, StructVector(12, 1)),
        Field("pairs", 46, StructVector(16, 8)),
        Field("texts", 47, StringVector()),
        Field("leaf", 48, SubTable(LEAF)),
        Field("leaves", 49, TableVector(LEAF)),
        Field("union", 50, Union({1: LEAF, 2: EMPTY, 200: LEAF})),
    ),
)
PARENT = TableSchema("Parent", (Field("nodes", 1, TableVector(NODE)), Field("n", 0, Scalar("u1"))))
ROOT = TableSchema("Root", (Field("parents", 0, TableVector(PARENT), True),))


class Maker:
    """Columns with random contents, drawn from one seed: hypothesis shrinks the shape only."""

    def __init__(self, seed: int, absence: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.absence = absence

    def present(self, count: int) -> npt.NDArray[np.bool_]:
        # Whole columns are there or not as often as single rows.
        return self.rng.random(count) >= self.rng.choice([0.0, self.absence, 1.0])

    def values(self, dtype: str, count: int) -> npt.NDArray[Any]:
        raw = self.rng.integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
        return raw % 2 == 1 if dtype == "?" else raw.view(dtype)

    def splits(self, present: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        low = int(self.rng.integers(0, 4))
        lengths = self.rng.integers(low, low + int(self.rng.choice([1, 4])), len(present))
        return np.concatenate([[0], np.cumsum(np.where(present, lengths, 0))]).astype(np.int64)

    def strings(self, count: int) -> StringColumn:
        items = [self.rng.bytes(int(size)) for size in self.rng.integers(0, 9, count)]
        pool = Strings.from_list([*items, b"", b"unused"])
        return StringColumn(self.rng.integers(0, count + 1, count), pool)

    def index(self, present: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int64]:
        return np.where(present, self.rng.integers(0, count, len(present)), -1)

    def column(self, kind: Kind, count: int) -> Column:
        present = self.present(count)
        match kind:
            case Scalar(dtype, default):
                return ScalarColumn(
                    np.where(present, self.values(dtype, count), np.dtype(dtype).type(default)),
                    present,
                )
            case Struct(size):
                values = self.values("u1", count * size).reshape(count, size)
                return StructColumn(values * present[:, None], present)
            case String() | Bytes():
                column = self.strings(count)
                return StringColumn(np.where(present, column.codes, -1), column.strings)
            case SubTable(schema):
                rows = self.table(schema, 1 + count)
                return SubTableColumn(rows, self.index(present, len(rows)))
            case Union(schemas):
                variants = {code: self.table(schema, 2) for code, schema in schemas.items()}
                types = np.where(present, self.rng.choice([*schemas], count), 0).astype(np.uint8)
                return UnionColumn(types, self.index(present, 2), variants)
            case _:
                return self.vectors(kind, present)

    def vectors(
        self,
        kind: ScalarVector | StructVector | StringVector | TableVector,
        present: npt.NDArray[np.bool_],
    ) -> Column:
        splits = self.splits(present)
        total = int(splits[-1])
        match kind:
            case ScalarVector(dtype):
                return VectorColumn(self.values(dtype, total), splits, present)
            case StructVector(size):
                values = self.values("u1", total * size).reshape(total, size)
                return VectorColumn(values, splits, present)
            case StringVector():
                return StringVectorColumn(splits, self.strings(total), present)
            case TableVector(schema):
                return TableVectorColumn(splits, self.table(schema, total), present)

    def table(self, schema: TableSchema, count: int) -> Table:
        columns = {field.name: self.column(field.kind, count) for field in schema.fields}
        return Table.build(schema, count, **columns)

    def root(self, parents: int) -> Table:
        return Table.build(ROOT, 1, parents=TableVectorColumn.of(self.table(PARENT, parents)))


@st.composite
def roots(draw: st.DrawFn) -> Table:
    maker = Maker(draw(st.integers(0, 2**32)), draw(st.sampled_from([0.1, 0.5, 0.9])))
    return maker.root(draw(st.integers(0, 6)))


@given(roots())
def test_decoding_undoes_encoding(table: Table) -> None:
    data = encode(table)
    decoded = decode(data, ROOT)
    assert decoded.equals(table)
    assert table.equals(decoded)
    assert encode(table) == data


@given(roots(), st.binary(min_size=1, max_size=7))
def test_a_buffer_may_start_anywhere_in_memory(table: Table, prefix: bytes) -> None:
    data = encode(table, identifier=b"ABCD")
    assert decode(memoryview(prefix + data)[len(prefix) :], ROOT).equals(table)


@given(roots(), roots(), st.randoms(use_true_random=False))
def test_taken_and_joined_rows_are_the_rows_they_were(
    left: Table, right: Table, rnd: random.Random
) -> None:
    first, second = left.tables("parents").rows, right.tables("parents").rows
    joined = Table.concat([first, second])
    assert joined.take(np.arange(len(first))).equals(first)
    assert joined.take(np.arange(len(joined)) >= len(first)).equals(second)
    order = np.array(rnd.sample(range(len(joined)), len(joined)), np.int64)
    shuffled = joined.take(order)
    assert shuffled.take(np.argsort(order)).equals(joined)
    root = Table.build(ROOT, 1, parents=TableVectorColumn.of(shuffled))
    assert decode(encode(root), ROOT).equals(root)


@given(roots(), roots())
def test_tables_are_equal_only_if_their_bytes_say_the_same(left: Table, right: Table) -> None:
    same = encode(decode(encode(left), ROOT)) == encode(decode(encode(right), ROOT))
    assert left.equals(right) or not same


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(encode(draw(roots())))
    words = st.sampled_from([0, 1, 2, 3, 4, 8, 0x7F, 0x80, 0xFF])
    for _ in range(draw(st.integers(1, 6))):
        # Damage clusters where the structure is: the low bytes of words that are small.
        place = draw(st.integers(0, len(data) - 1))
        data[place] = draw(words | st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@settings(max_examples=scaled(500))
@given(damaged())
def test_damage_is_refused_or_gives_a_table_that_can_be_used(data: bytes) -> None:
    try:
        table = decode(data, ROOT)
    except FormatError:
        return
    unions = [table.tables("parents").rows.tables("nodes").rows.union("union").types]
    if np.isin(np.concatenate(unions), [0, 1, 2, 200]).all():
        assert decode(encode(table), ROOT, max_expansion=8).equals(table)


@settings(max_examples=scaled(500))
@given(st.binary(max_size=200))
def test_noise_is_refused_or_read(data: bytes) -> None:
    with suppress(FormatError):
        decode(data, ROOT)
