"""FlexBuffers values against bytes written by hand and by the flatbuffers package."""

import struct
import time

import pytest
from flatbuffers import flexbuffers

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer

VALUES: list[Json] = [
    None,
    True,
    False,
    0,
    255,
    256,
    2**32,
    2**64 - 1,
    -1,
    -128,
    -129,
    -(2**63),
    0.1,
    1e300,
    "",
    "ünï\0code",
    "x" * 70_000,
    [],
    [[], [[]]],
    [1, -1, 2.5, "a", None, True, {}],
    [-1, 2**40],
    list(range(300)),
    {},
    {"b": 1, "a": {"c": [1, 2], "a": "a"}, "": None},
    {f"key {n}": ["v" * n] for n in range(300)},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values_survive_and_are_read_alike_by_the_package(value: Json) -> None:
    data = encode_flexbuffer(value)
    assert decode_flexbuffer(data) == value
    assert flexbuffers.Loads(data) == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, 0),
        (-1, 1),
        (1, 2),
        (1.0, 3),
        ("s", 5),
        ({}, 9),
        ([1, 2], 10),
        (["a"], 10),
        (True, 26),
    ],
)
def test_types_are_those_that_the_reference_writes(value: Json, kind: int) -> None:
    assert encode_flexbuffer(value)[-2] >> 2 == kind


def test_keys_are_sorted_by_their_bytes() -> None:
    data = encode_flexbuffer({"b": 1, "\u00fc": 2, "a": 3, "B": 4})
    assert data == encode_flexbuffer({"B": 4, "a": 3, "b": 1, "\u00fc": 2})
    assert data.startswith(b"B\0a\0b\0\xc3\xbc\0")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x05\x04\x01", 5),
        (b"\xfb\x04\x01", -5),
        (struct.pack("<f", 2.5) + b"\x0e\x04", 2.5),
        (b"\x2c\x01\x02\x19\x01", 300),  # indirect int of two bytes
        (b"\x2c\x01\x02\x1d\x01", 300),  # indirect uint
        (struct.pack("<d", 0.1) + b"\x08\x23\x01", 0.1),  # indirect float
        (b"\x03\x01\x02\xff\x03\x2c\x01", [1, 2, -1]),  # vector of ints
        (b"\x02\x01\xff\x02\x30\x01", [1, 255]),  # vector of uints
        (b"\x02\x01\x00\x02\x90\x01", [True, False]),  # vector of bools
        (b"a\0b\0\x02\x05\x04\x02\x38\x01", ["a", "b"]),  # vector of keys
        (b"a\0b\0\x02\x05\x04\x02\x3c\x01", ["a", "b"]),  # deprecated vector of strings
        (b"\x01\xfe\x02\x40\x01", [1, -2]),  # two ints, three uints, four ints: no length
        (b"\x01\xfe\x03\x03\x50\x01", [1, 254, 3]),
        (b"\x01\x02\x03\x04\x04\x58\x01", [1, 2, 3, 4]),
        (struct.pack("<2f", 1.5, -1.0) + b"\x08\x4a\x01", [1.5, -1.0]),
        (b"key\0\x04\x10\x01", "key"),
    ],
)
def test_every_type_of_the_format_is_read(data: bytes, value: Json) -> None:
    assert decode_flexbuffer(data) == value
    assert flexbuffers.Loads(data) in (value, str(value).encode())


def test_floats_of_two_bytes_are_read() -> None:  # which the package cannot
    assert decode_flexbuffer(b"\x00\x3e\x0d\x02") == 1.5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is 0 bytes"),
        (b"\x00\x00", "is 2 bytes"),
        (b"\x00\x00\x03", "root of 3 bytes"),
        (b"\x00\x00\x08", "outside of it"),
        (b"\x09\x14\x01", "outside of it"),
        (b"\x01\x28\x01", "outside of it"),
        (b"\xff\x00\x01\x28\x01", "vector of 255"),
        (b"\x05\x0c\x01", "float of one byte"),
        (b"\x01\xff\x00\x02\x14\x01", "not UTF-8"),
        (b"\x01a\x00\x02\x64\x01", "blob"),
        (b"\x05\xfc\x01", "unknown type 63"),
        (b"ab\x02\x10\x01", "without end"),
        (b"\x00\x07\x00\x00\x24\x01", "keys of 7 bytes"),
    ],
)
def test_broken_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_flexbuffer(data)


def test_a_map_has_as_many_keys_as_values() -> None:
    data = bytearray(encode_flexbuffer({"a": 1, "b": 2}))
    assert data[-8:-3] == b"\x02\x01\x02\x08\x08"  # length, values, their types
    data[-8] = 1
    with pytest.raises(FormatError, match="map of 2 keys, 1 values"):
        decode_flexbuffer(data)


def test_a_vector_inside_itself_is_not_followed_forever() -> None:
    with pytest.raises(FormatError, match="nested more than"):
        decode_flexbuffer(bytes(100) + b"\x01\x00\x28\x02\x28\x01")


def test_shared_vectors_cannot_explode() -> None:
    # Thirty vectors, each holding the one before it eight times: 8**30 values.
    data = bytearray(b"\x00")
    target = 1
    for _ in range(30):
        start = len(data) + 1
        data += bytes([8]) + bytes(start + i - target for i in range(8)) + b"\x28" * 8
        target = start
    data += bytes([len(data) - target, 0x28, 1])
    started = time.process_time()
    with pytest.raises(FormatError, match="overlap too much"):
        decode_flexbuffer(data)
    assert time.process_time() - started < 5


def test_keys_that_end_in_one_place_cannot_explode() -> None:
    size = 50_000
    keys = size + 1 + 4
    offsets = b"".join(struct.pack("<I", keys + 4 * i - i) for i in range(size))
    data = b"k" * size + b"\0" + struct.pack("<I", size) + offsets
    data += struct.pack("<I", len(data) - keys) + bytes([14 << 2 | 2, 4])
    with pytest.raises(FormatError, match="overlap too much"):
        decode_flexbuffer(data)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (b"bytes", "not a JSON value: bytes"),
        ([object()], "not a JSON value: object"),
        ({"a\0b": 1}, "without NUL"),
        ({1: 1}, "not a key"),
        ("\ud800", "not Unicode"),
    ],
)
def test_what_cannot_be_written_is_refused(value: Json, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        encode_flexbuffer(value)


def test_nesting_has_a_limit_both_ways() -> None:
    value: Json = []
    for _ in range(127):
        value = [value]
    assert decode_flexbuffer(encode_flexbuffer(value)) == value
    for _ in range(2):
        value = [value]
    with pytest.raises(InvalidInputError, match="nested"):
        encode_flexbuffer(value)
