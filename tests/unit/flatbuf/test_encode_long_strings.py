"""Long strings are copied together with what lies between them, of which nothing must be left."""

import numpy as np
import pytest

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.encode import encode
from frazil.flatbuf.schema import Bytes, Field, String, TableSchema, TableVector
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Table, TableVectorColumn

ITEMS = [bytes([65 + i]) * (200 + 7 * i) for i in range(26)]


def garbled(items: list[bytes], spare: int) -> Strings:
    """The strings as far apart as an encoder puts them, with rubbish in between."""
    start, pieces, at = [], [], 0
    for item in items:
        room = -(-(len(item) + 4 + spare) // 4) * 4
        start.append(at + 4)
        pieces.append(b"\xff" * 4 + item + b"\xff" * (room - 4 - len(item)))
        at += room
    heap = np.frombuffer(b"".join(pieces), np.uint8)
    return Strings(heap, np.array(start), np.array([len(item) for item in items]))


def encoded(kind: Bytes | String, strings: Strings) -> bytes:
    rows = TableSchema("Row", (Field("text", 0, kind),))
    root = TableSchema("Root", (Field("rows", 0, TableVector(rows)),))
    table = Table.build(rows, len(strings), text=StringColumn.of(strings))
    return encode(Table.build(root, 1, rows=TableVectorColumn.of(table)))


@pytest.mark.parametrize("kind", [Bytes(), String()], ids=["bytes", "text"])
def test_rubbish_between_strings_stays_behind(kind: Bytes | String) -> None:
    together = garbled(ITEMS, spare=int(isinstance(kind, String)))
    assert encoded(kind, together) == encoded(kind, Strings.from_list(ITEMS))


@pytest.mark.parametrize("kind", [Bytes(), String()], ids=["bytes", "text"])
def test_some_strings_may_be_elsewhere(kind: Bytes | String) -> None:
    """As after a change to one row of a table that was decoded."""
    spare = int(isinstance(kind, String))
    changed = [*ITEMS[:9], b"new" * 100, *ITEMS[9:]]
    both = Strings.concat([garbled(ITEMS, spare), Strings.from_list([b"new" * 100])])
    order = np.array([*range(9), len(ITEMS), *range(9, len(ITEMS))])
    assert encoded(kind, both.take(order)) == encoded(kind, Strings.from_list(changed))
