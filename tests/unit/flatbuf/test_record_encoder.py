"""What plain records say is what the decoder, and so everybody else, reads."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.flatbuf.decode import decode
from frazil.flatbuf.record_encoder import encode_record, place_of
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

INNER = TableSchema("Inner", (Field("number", 0, Scalar("u8")), Field("name", 1, String())))
OTHER = TableSchema("Other", (Field("id", 0, Struct(12, 1)),))
OUTER = TableSchema(
    "Outer",
    (
        Field("flag", 0, Scalar("u1")),
        Field("text", 1, String()),
        Field("raw", 2, Bytes()),
        Field("numbers", 3, ScalarVector("u4")),
        Field("ids", 4, StructVector(8, 1)),
        Field("words", 5, StringVector()),
        Field("inner", 6, TableVector(INNER)),
        Field("one", 7, SubTable(INNER)),
        Field("either", 8, Union({1: INNER, 2: OTHER})),
        Field("wide", 10, Scalar("i8")),
    ),
)

inner = st.fixed_dictionaries(
    {}, optional={"number": st.integers(0, 2**64 - 1), "name": st.text(max_size=9)}
)
outer = st.fixed_dictionaries(
    {},
    optional={
        "flag": st.integers(0, 255),
        "text": st.text(max_size=20),
        "raw": st.binary(max_size=20),
        "numbers": st.lists(st.integers(0, 2**32 - 1), max_size=5),
        "ids": st.integers(0, 3).map(lambda count: bytes(range(8)) * count),
        "words": st.lists(st.text(max_size=9), max_size=4),
        "inner": st.lists(inner, max_size=4),
        "one": inner,
        "either": st.one_of(
            st.tuples(st.just(1), inner),
            st.tuples(st.just(2), st.just({"id": bytes(range(12))})),
        ),
        "wide": st.integers(-(2**63), 2**63 - 1),
    },
)


@given(outer)
def test_what_is_written_is_read(record: dict[str, object]) -> None:
    data = encode_record(OUTER, record, identifier=b"Test")
    root = decode(data, OUTER)

    assert data[4:8] == b"Test"
    for name in ("flag", "wide"):
        assert root.scalar(name).present[0] == (name in record)
        assert int(root.scalar(name).values[0]) == record.get(name, 0)
    text = record.get("text")
    assert root.string("text").text(0) == text
    assert root.string("raw").item(0) == record.get("raw")
    assert root.vector("numbers").values.tolist() == record.get("numbers", [])
    assert root.vector("ids").values.tobytes() == record.get("ids", b"")
    assert root.strings("words").strings.to_texts() == record.get("words", [])
    assert rows(root.tables("inner").rows) == record.get("inner", [])
    assert rows(root.subtable("one").rows) == ([record["one"]] if "one" in record else [])
    either = record.get("either")
    assert int(root.union("either").types[0]) == (either[0] if isinstance(either, tuple) else 0)


def rows(table: object) -> list[dict[str, object]]:
    numbers, names = table.scalar("number"), table.string("name")  # type: ignore[attr-defined]  # a Table
    return [
        ({"number": int(numbers.values[row])} if numbers.present[row] else {})
        | ({"name": names.text(row)} if names.codes[row] >= 0 else {})
        for row in range(len(numbers))
    ]


def test_the_place_of_a_slot_is_where_its_value_is() -> None:
    data = encode_record(OUTER, {"flag": 7, "wide": -3}, identifier=b"Test")
    root = int.from_bytes(data[:4], "little")

    place = place_of(data, root, 10)

    assert int.from_bytes(data[place : place + 8], "little", signed=True) == -3
