"""A single row is read in another way than many: to the same columns, with the same errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.decode import _decode_many, decode
from frazil.flatbuf.encode import encode
from frazil.flatbuf.places import Places
from frazil.flatbuf.schema import TableSchema
from frazil.flatbuf.table import Table
from tests.examples_count import scaled
from tests.properties.test_flatbuf_roundtrip import NODE, ROOT, Maker


@contextmanager
def single_rows_as_many() -> Iterator[None]:
    def read(source: Any, schema: TableSchema, position: int, *_: object) -> Table:
        return _decode_many(source, schema, Places.even(1, position))

    with patch("frazil.flatbuf.decode.decode_row", read):
        yield


@st.composite
def single_rows(draw: st.DrawFn) -> Table:
    """A node of every kind of field, or a root with a few of them below it."""
    maker = Maker(draw(st.integers(0, 2**32)), draw(st.sampled_from([0.1, 0.5, 0.9])))
    return maker.table(NODE, 1) if draw(st.booleans()) else maker.root(1)


def outcome(data: bytes, schema: TableSchema) -> Table | str:
    try:
        return decode(data, schema)
    except FormatError as error:
        return str(error)


def agree(left: Table | str, right: Table | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return left.equals(right)


@given(single_rows())
def test_a_single_row_is_read_as_many_rows_would_be(table: Table) -> None:
    data = encode(table)
    assert decode(data, table.schema).equals(table)
    with single_rows_as_many():
        assert decode(data, table.schema).equals(table)


@settings(max_examples=scaled(500))
@given(single_rows(), st.data())
def test_a_damaged_single_row_is_refused_for_the_same_reason(
    table: Table, data: st.DataObject
) -> None:
    content = bytearray(encode(table))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.sampled_from([0, 1, 2, 3, 4, 8, 0x7F, 0x80, 0xFF]))
    found = outcome(bytes(content), table.schema)
    with single_rows_as_many():
        assert agree(found, outcome(bytes(content), table.schema))


@settings(max_examples=scaled(300))
@given(st.binary(max_size=120))
def test_noise_is_refused_for_the_same_reason(data: bytes) -> None:
    found = outcome(data, ROOT)
    with single_rows_as_many():
        assert agree(found, outcome(data, ROOT))
