"""FlexBuffers values: encoding is undone by decoding, and damage is survived."""

from contextlib import suppress

from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from tests.examples_count import scaled

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1))
ASCII_KEYS = st.text(st.characters(min_codepoint=1, max_codepoint=127))


def values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Json]:
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | TEXT
        | st.integers(0, 2000).map(lambda size: "x" * size),
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
        max_leaves=40,
    )


@given(values(KEYS))
def test_decoding_undoes_encoding(value: Json) -> None:
    data = encode_flexbuffer(value)
    assert decode_flexbuffer(data) == value
    assert encode_flexbuffer(value) == data


@given(values(ASCII_KEYS))  # the package reads no others
def test_the_flatbuffers_package_reads_the_same(value: Json) -> None:
    assert flexbuffers.Loads(encode_flexbuffer(value)) == value


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(encode_flexbuffer(draw(values(KEYS))))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[draw(st.integers(0, len(data)) | st.just(0)) :])


@settings(max_examples=scaled(500))
@given(damaged() | st.binary())
def test_damage_is_refused_or_read(data: bytes) -> None:
    with suppress(FormatError):
        decode_flexbuffer(data)
