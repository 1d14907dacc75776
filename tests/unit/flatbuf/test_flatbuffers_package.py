"""The `flatbuffers` package as a second opinion: it builds, we decode; we encode, it reads."""

import struct
from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import pytest
from flatbuffers import encode as fb_encode
from flatbuffers import number_types as nt
from flatbuffers import packer
from flatbuffers.table import Table as RuntimeTable

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
from frazil.flatbuf.table import SubTableColumn, Table, TableVectorColumn, UnionColumn

LEAF = TableSchema("Leaf", (Field("x", 0, Scalar("i2", -5)), Field("name", 1, String())))
OTHER = TableSchema("Other", (Field("y", 0, Scalar("f8")),))
ROW = TableSchema(
    "Row",
    (
        Field("flag", 0, Scalar("?")),
        Field("small", 1, Scalar("u1", 7)),
        Field("wide", 2, Scalar("u8")),
        Field("point", 3, Struct(16, 8)),
        Field("name", 4, String()),
        Field("blob", 5, Bytes()),
        Field("numbers", 6, ScalarVector("u4")),
        Field("longs", 7, ScalarVector("i8")),
        Field("points", 8, StructVector(16, 8)),
        Field("names", 9, StringVector()),
        Field("leaves", 10, TableVector(LEAF)),
        Field("leaf", 11, SubTable(LEAF)),
        Field("choice", 12, Union({1: LEAF, 3: OTHER})),
        Field("real", 14, Scalar("f4", 1.5)),
        Field("bits", 15, ScalarVector("?")),
    ),
)
ROOT = TableSchema("Root", (Field("rows", 0, TableVector(ROW), True), Field("title", 1, String())))
POINT = struct.Struct("<qd")

type Row = dict[str, Any]

FULL: Row = {
    "flag": True,
    "small": 9,
    "wide": 2**63 + 1,
    "point": (-3, 2.5),
    "name": "näme",
    "blob": b"\0\xff\0",
    "numbers": [1, 2**32 - 1],
    "longs": [-(2**62)],
    "points": [(1, 1.0), (2, -2.0)],
    "names": ["a", "", "a"],
    "leaves": [{"x": 3, "name": "l"}, {}],
    "leaf": {"x": 4},
    "choice": (3, {"y": 0.25}),
    "real": -0.5,
    "bits": [True, False, True],
}
ROWS: list[Row] = [
    FULL,
    {},
    {"wide": 1, "name": "näme", "numbers": []},
    {"wide": 2, "name": "other", "numbers": [5, 6, 7], "choice": (1, {"name": "c"})},
    {**FULL, "small": 7, "names": [], "leaves": [], "points": []},
]


class Builder:
    """Rows of ROW written by the flatbuffers package, value by value."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(64)

    def leaf(self, leaf: Row) -> int:
        name = self.builder.CreateString(leaf["name"]) if "name" in leaf else 0
        self.builder.StartObject(2)
        if "x" in leaf:
            self.builder.PrependInt16Slot(0, leaf["x"], -5)
        if name:
            self.builder.PrependUOffsetTRelativeSlot(1, name, 0)
        return int(self.builder.EndObject())

    def other(self, other: Row) -> int:
        self.builder.StartObject(1)
        self.builder.PrependFloat64Slot(0, other["y"], 0.0)
        return int(self.builder.EndObject())

    def vector(self, size: int, align: int, items: list[Any], put: Callable[[Any], object]) -> int:
        self.builder.StartVector(size, len(items), align)
        for item in reversed(items):
            put(item)
        return int(self.builder.EndVector())

    def point(self, point: tuple[int, float]) -> int:
        self.builder.Prep(8, 16)
        self.builder.PrependFloat64(point[1])
        self.builder.PrependInt64(point[0])
        return int(self.builder.Offset())

    def offsets(self, items: list[int]) -> int:
        return self.vector(4, 4, items, self.builder.PrependUOffsetTRelative)

    def references(self, row: Row) -> dict[int, int]:
        """Everything that must be written before the row: slot -> place."""
        b = self.builder
        makers: dict[str, tuple[int, Callable[[Any], int]]] = {
            "name": (4, b.CreateString),
            "blob": (5, b.CreateByteVector),
            "numbers": (6, lambda v: self.vector(4, 4, v, b.PrependUint32)),
            "longs": (7, lambda v: self.vector(8, 8, v, b.PrependInt64)),
            "points": (8, lambda v: self.vector(16, 8, v, self.point)),
            "names": (9, lambda v: self.offsets([b.CreateSharedString(each) for each in v])),
            "leaves": (10, lambda v: self.offsets([self.leaf(each) for each in v])),
            "leaf": (11, self.leaf),
            "choice": (13, lambda v: self.leaf(v[1]) if v[0] == 1 else self.other(v[1])),
            "bits": (15, lambda v: self.vector(1, 1, v, b.PrependBool)),
        }
        return {slot: make(row[name]) for name, (slot, make) in makers.items() if name in row}

    def row(self, row: Row) -> int:
        places = self.references(row)
        b = self.builder
        b.StartObject(16)
        for slot, place in places.items():
            b.PrependUOffsetTRelativeSlot(slot, place, 0)
        if "flag" in row:
            b.PrependBoolSlot(0, row["flag"], False)
            b.ForceDefaults(True)
            b.PrependUint8Slot(1, row["small"], 7)
            b.ForceDefaults(False)
            b.PrependFloat32Slot(14, row["real"], 1.5)
            b.PrependStructSlot(3, self.point(row["point"]), 0)
        if "wide" in row:
            b.PrependUint64Slot(2, row["wide"], 0)
        if "choice" in row:
            b.PrependUint8Slot(12, row["choice"][0], 0)
        return int(b.EndObject())

    def finish(self, rows: list[Row]) -> bytes:
        vector = self.offsets([self.row(row) for row in rows])
        title = self.builder.CreateString("title")
        self.builder.StartObject(4)
        self.builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        self.builder.PrependUOffsetTRelativeSlot(1, title, 0)
        # A field of a later version, which our schema does not know
        self.builder.PrependUint32Slot(3, 99, 0)
        self.builder.Finish(self.builder.EndObject())
        return bytes(self.builder.Output())


def mask(rows: list[Row], name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([name in row for row in rows], np.bool_)


def scalars(rows: list[Row], name: str, dtype: str, default: float) -> ScalarColumn:
    values = np.array([row.get(name, default) for row in rows], dtype)
    return ScalarColumn(values, mask(rows, name))


def vectors(rows: list[Row], name: str, dtype: str) -> VectorColumn:
    lists = [row.get(name, []) for row in rows]
    flat = np.array([item for items in lists for item in items], dtype)
    splits = np.cumsum([0, *map(len, lists)])
    return VectorColumn(flat, splits, mask(rows, name))


def points(rows: list[Row]) -> VectorColumn:
    lists = [row.get("points", []) for row in rows]
    packed = b"".join(POINT.pack(*item) for items in lists for item in items)
    values = np.frombuffer(packed, np.uint8).reshape(-1, 16)
    return VectorColumn(values, np.cumsum([0, *map(len, lists)]), mask(rows, "points"))


def leaves(items: list[Row]) -> Table:
    names = StringColumn.from_list([item.get("name") for item in items])
    return Table.build(LEAF, len(items), x=scalars(items, "x", "i2", -5), name=names)


def table_of(rows: list[Row]) -> Table:
    """The same rows as columns, made without decoder or encoder."""
    packed = b"".join(POINT.pack(*row["point"]) if "point" in row else bytes(16) for row in rows)
    structs = np.frombuffer(packed, np.uint8).reshape(-1, 16)
    lists = [row.get("leaves", []) for row in rows]
    index = np.cumsum(mask(rows, "leaf")) - 1
    types = np.array([row.get("choice", (0,))[0] for row in rows], np.uint8)
    choices = {
        code: [row["choice"][1] for row in rows if row.get("choice", (0,))[0] == code]
        for code in (1, 3)
    }
    others = Table.build(OTHER, len(choices[3]), y=scalars(choices[3], "y", "f8", 0))
    numbering = np.where(types == 1, np.cumsum(types == 1), np.cumsum(types == 3)) - 1
    return Table.build(
        ROW,
        len(rows),
        flag=scalars(rows, "flag", "?", 0),
        small=scalars(rows, "small", "u1", 7),
        wide=scalars(rows, "wide", "u8", 0),
        real=scalars(rows, "real", "f4", 1.5),
        point=StructColumn(structs, mask(rows, "point")),
        name=StringColumn.from_list([row.get("name") for row in rows]),
        blob=StringColumn.from_list([row.get("blob") for row in rows]),
        numbers=vectors(rows, "numbers", "u4"),
        longs=vectors(rows, "longs", "i8"),
        bits=vectors(rows, "bits", "?"),
        points=points(rows),
        names=StringVectorColumn.from_lists([row.get("names") for row in rows]),
        leaves=TableVectorColumn(
            np.cumsum([0, *map(len, lists)]),
            leaves([item for items in lists for item in items]),
            mask(rows, "leaves"),
        ),
        leaf=SubTableColumn(
            leaves([row["leaf"] for row in rows if "leaf" in row]),
            np.where(mask(rows, "leaf"), index, -1),
        ),
        choice=UnionColumn(
            types, np.where(types == 0, -1, numbering), {1: leaves(choices[1]), 3: others}
        ),
    )


def root_of(rows: list[Row]) -> Table:
    return Table.build(
        ROOT,
        1,
        rows=TableVectorColumn.of(table_of(rows)),
        title=StringColumn.from_list(["title"]),
    )


SELECTIONS: list[list[Row]] = [[], [FULL], [{}], ROWS, ROWS * 3, [FULL] * 4, [ROWS[2], ROWS[3]] * 2]


@pytest.mark.parametrize("rows", SELECTIONS)
def test_what_the_package_builds_is_decoded(rows: list[Row]) -> None:
    decoded = decode(Builder().finish(rows), ROOT)
    assert decoded.equals(root_of(rows))


class Accessor:
    """A table read through the package's runtime accessors, the way generated code does."""

    def __init__(self, data: bytes, position: int) -> None:
        self.table = RuntimeTable(data, position)

    def place(self, slot: int) -> int:
        return int(self.table.Offset(4 + 2 * slot))

    def scalar(self, slot: int, flags: Any) -> Any:
        return self.table.Get(flags, self.place(slot) + self.table.Pos)

    def text(self, slot: int) -> bytes:
        return bytes(self.table.String(self.place(slot) + self.table.Pos))

    def inner(self, slot: int) -> "Accessor":
        return Accessor(self.table.Bytes, self.table.Indirect(self.place(slot) + self.table.Pos))

    def items(self, slot: int, size: int) -> list[int]:
        """Positions of a vector's elements."""
        start, count = self.table.Vector(self.place(slot)), self.table.VectorLen(self.place(slot))
        return [start + size * index for index in range(count)]


def read_leaf(leaf: Accessor) -> Row:
    found: Row = {}
    if leaf.place(0):
        found["x"] = leaf.scalar(0, nt.Int16Flags)
    if leaf.place(1):
        found["name"] = leaf.text(1).decode()
    return found


def read_point(data: bytes, place: int) -> tuple[int, float]:
    assert place % 8 == 0
    number, real = POINT.unpack_from(data, place)
    return number, real


def read_choice(row: Accessor) -> tuple[int, Row]:
    code = row.scalar(12, nt.Uint8Flags)
    inner = row.inner(13)
    return code, read_leaf(inner) if code == 1 else {"y": inner.scalar(0, nt.Float64Flags)}


def read_row(row: Accessor) -> Row:
    data = row.table.Bytes
    get = row.table.Get
    readers: dict[str, tuple[int, Callable[[int], Any]]] = {
        "flag": (0, lambda s: row.scalar(s, nt.BoolFlags)),
        "small": (1, lambda s: row.scalar(s, nt.Uint8Flags)),
        "wide": (2, lambda s: row.scalar(s, nt.Uint64Flags)),
        "point": (3, lambda s: read_point(data, row.place(s) + row.table.Pos)),
        "name": (4, lambda s: row.text(s).decode()),
        "blob": (5, row.text),
        "numbers": (6, lambda s: [get(nt.Uint32Flags, p) for p in row.items(s, 4)]),
        "longs": (7, lambda s: [get(nt.Int64Flags, p) for p in row.items(s, 8)]),
        "points": (8, lambda s: [read_point(data, p) for p in row.items(s, 16)]),
        "names": (9, lambda s: [row.table.String(p).decode() for p in row.items(s, 4)]),
        "leaves": (
            10,
            lambda s: [read_leaf(Accessor(data, row.table.Indirect(p))) for p in row.items(s, 4)],
        ),
        "leaf": (11, lambda s: read_leaf(row.inner(s))),
        "choice": (12, lambda _: read_choice(row)),
        "real": (14, lambda s: row.scalar(s, nt.Float32Flags)),
        "bits": (15, lambda s: [get(nt.BoolFlags, p) for p in row.items(s, 1)]),
    }
    return {name: read(slot) for name, (slot, read) in readers.items() if row.place(slot)}


@pytest.mark.parametrize("rows", SELECTIONS)
@pytest.mark.parametrize("identifier", [None, b"TEST"])
def test_what_we_encode_is_read_by_the_package(rows: list[Row], identifier: bytes | None) -> None:
    data = encode(root_of(rows), identifier=identifier)
    root = Accessor(data, fb_encode.Get(packer.uoffset, data, 0))
    assert root.text(1) == b"title"
    places = [root.table.Indirect(place) for place in root.items(0, 4)]
    assert [read_row(Accessor(data, place)) for place in places] == rows
    assert identifier is None or data[4:8] == identifier


def test_numbers_of_eight_bytes_are_aligned_from_the_start_of_the_buffer() -> None:
    for rows in SELECTIONS:
        data = encode(root_of(rows))
        root = Accessor(data, fb_encode.Get(packer.uoffset, data, 0))
        for place in root.items(0, 4):
            row = Accessor(data, root.table.Indirect(place))
            if row.place(2):
                assert (row.place(2) + row.table.Pos) % 8 == 0
            if row.place(7):
                assert row.table.Vector(row.place(7)) % 8 == 0
