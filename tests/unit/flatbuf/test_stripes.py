"""Rows of long vectors are laid out in stripes, and read like all others."""

import struct

import hypothesis.strategies as st
import numpy as np
import pytest
import zstandard
from flatbuffers.table import Table as RuntimeTable
from hypothesis import given, settings

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.ragged import splits_of
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    ScalarVector,
    String,
    TableSchema,
    TableVector,
)
from frazil.flatbuf.table import Column, Table, TableVectorColumn
from tests.examples_count import scaled

ROW = TableSchema(
    "Row",
    (
        Field("index", 0, ScalarVector("u4")),
        Field("size", 1, Scalar("u8")),
        Field("flag", 2, Scalar("u1")),
        Field("name", 3, String()),
        Field("blob", 4, Bytes()),
    ),
)
LIST = TableSchema("List", (Field("rows", 0, TableVector(ROW, striped=True), True),))
ROOT = TableSchema("Root", (Field("lists", 0, TableVector(LIST), True),))


def rows_of(count: int, *, ndim: int, names: int, seed: int = 0) -> Table:
    """Rows with `names` different names; as many as rows: each its own. 0: none."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Column] = {
        "index": VectorColumn.regular_parts([rng.integers(0, 9, (count, ndim)).astype("u4")]),
        "size": ScalarColumn.of(rng.integers(0, 2**63, count), "u8"),
        "flag": ScalarColumn.of(rng.integers(0, 2, count), "u1"),
        "blob": StringColumn.from_list([b"same"] * count),
    }
    if names:
        columns["name"] = StringColumn.from_list([f"{i % names:07}" for i in range(count)])
    return Table.build(ROW, count, **columns)


def root_of(*lists: Table) -> Table:
    lengths = np.array([len(rows) for rows in lists])
    inner = TableVectorColumn.of(Table.concat(list(lists)), splits_of(lengths))
    return Table.build(
        ROOT, 1, lists=TableVectorColumn.of(Table.build(LIST, len(lists), rows=inner))
    )


def offsets_of(data: bytes) -> tuple[int, np.ndarray]:
    """Where the offsets of the first list are, and the offsets."""
    table = RuntimeTable(data, struct.unpack_from("<I", data)[0])
    rows = RuntimeTable(data, table.Indirect(table.Vector(table.Offset(4))))
    start = rows.Vector(rows.Offset(4))
    return start, np.frombuffer(data, "<u4", rows.VectorLen(rows.Offset(4)), start)


@settings(max_examples=scaled(30))
@given(
    st.lists(st.sampled_from([1, 50, 4_095, 4_096, 4_097, 5_000, 9_999]), min_size=1, max_size=3),
    st.integers(0, 4),
    st.sampled_from([0, 1, 7, 10**6]),
)
def test_rows_in_stripes_are_the_rows_that_were_encoded(
    counts: list[int], ndim: int, names: int
) -> None:
    lists = [
        rows_of(count, ndim=ndim, names=names, seed=number) for number, count in enumerate(counts)
    ]
    root = root_of(*lists)
    assert decode(encode(root), ROOT).equals(root)


def test_the_package_reads_rows_in_stripes() -> None:
    rows = rows_of(5_000, ndim=2, names=10**6)
    data = encode(root_of(rows))
    start, offsets = offsets_of(data)
    for number in range(5_000):
        row = RuntimeTable(data, start + 4 * number + int(offsets[number]))
        index = struct.unpack_from("<2I", data, row.Vector(row.Offset(4)))
        assert list(index) == rows.vector("index").row(number).tolist()
        assert row.String(row.Pos + row.Offset(10)) == rows.string("name").item(number)


def test_offsets_repeat() -> None:
    """Which is what stripes are for."""
    count = 50_000
    data = encode(root_of(rows_of(count, ndim=3, names=0)))
    _, offsets = offsets_of(data)
    width = int(np.flatnonzero(offsets == offsets[0])[1])
    inside = np.flatnonzero(offsets[width:] == offsets[:-width])
    assert len(inside) > 0.98 * count
    assert len(zstandard.compress(offsets.tobytes())) < 0.1 * count


def test_few_rows_are_one_after_the_other() -> None:
    _, offsets = offsets_of(encode(root_of(rows_of(4_095, ndim=3, names=0))))
    assert len(set(np.diff(offsets.astype(np.int64)).tolist())) == 1


@settings(max_examples=scaled(200))
@given(st.data())
def test_damaged_stripes_are_refused_or_read(data: st.DataObject) -> None:
    damaged = bytearray(STRIPED)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged), ROOT)
    except FormatError:
        return


def test_a_copy_of_a_vtable_that_differs_counts_for_its_rows() -> None:
    """The rows of one stripe say that they have no flag."""
    rows = rows_of(5_000, ndim=1, names=0)
    data = bytearray(encode(root_of(rows)))
    start, offsets = offsets_of(bytes(data))
    row = start + int(offsets[0])
    (back,) = struct.unpack_from("<i", data, row)
    assert back < 100  # the vtable in front of the first stripe
    struct.pack_into("<H", data, row - back + 4 + 2 * 2, 0)
    found = decode(bytes(data), ROOT).tables("lists").rows.tables("rows").rows.scalar("flag")
    width = int(np.flatnonzero(offsets == offsets[0])[1])
    absent = np.flatnonzero(~found.present)
    assert absent.tolist() == list(range(0, width * len(absent), width))
    assert 100 < len(absent) <= 128


STRIPED = encode(root_of(rows_of(4_500, ndim=1, names=3)))


@pytest.mark.parametrize("ndim", [40, 70])
def test_rows_that_are_too_long_for_stripes_are_encoded_all_the_same(ndim: int) -> None:
    root = root_of(rows_of(4_200, ndim=ndim, names=1))
    assert decode(encode(root), ROOT).equals(root)
