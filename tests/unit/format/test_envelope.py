import struct
from collections.abc import Buffer

import numpy as np
import pytest
import zstandard

from frazil.errors import FormatError
from frazil.format.envelope import (
    HEADER,
    MAGIC,
    FileType,
    decode_envelope,
    decode_header,
    encode_envelope,
    writer_name,
)
from frazil.format.limits import Limits

PAYLOAD = bytes(range(256)) * 100


def envelope(body: bytes, *, spec: int = 2, kind: int = 1, compression: int = 1) -> bytes:
    return HEADER.pack(MAGIC, b"ic-2.3.0".ljust(24), spec, kind, compression) + body


def frame(payload: bytes, *, size: bool = True, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum).compress(
        payload
    )


def test_the_header_is_39_bytes_laid_out_as_the_specification_says() -> None:
    data = encode_envelope(PAYLOAD, FileType.MANIFEST, writer="me-1.0")
    assert data[:12] == bytes.fromhex("494345f09fa78a4348554e4b")
    assert data[12:36] == b"me-1.0".ljust(24)
    assert data[36:39] == bytes([2, 2, 1])
    assert zstandard.decompress(data[39:]) == PAYLOAD


def test_an_encoded_payload_decodes_to_itself() -> None:
    data = encode_envelope(PAYLOAD, FileType.SNAPSHOT, spec_version=1, level=19)
    found = decode_envelope(data, FileType.SNAPSHOT)
    assert (found.data, found.spec_version, found.writer) == (PAYLOAD, 1, writer_name())


def test_our_name_and_version_fit_into_the_header() -> None:
    assert writer_name().startswith("frazil")
    assert len(writer_name().encode()) <= 24


def test_a_writer_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="24 bytes"):
        encode_envelope(b"", FileType.SNAPSHOT, writer="x" * 25)


def test_a_writer_name_may_be_anything() -> None:
    data = bytearray(encode_envelope(PAYLOAD, FileType.SNAPSHOT))
    data[12:36] = b"\xff" * 24
    assert decode_envelope(data, FileType.SNAPSHOT).data == PAYLOAD


@pytest.mark.parametrize("size", [0, 1, 12, 38])
def test_a_file_shorter_than_the_header_is_refused(size: int) -> None:
    with pytest.raises(FormatError, match=f"file is {size} bytes") as caught:
        decode_header(encode_envelope(PAYLOAD, FileType.SNAPSHOT)[:size])
    assert caught.value.kind == "invalid-file-format"


def test_a_foreign_file_is_refused() -> None:
    with pytest.raises(FormatError, match="not an icechunk file") as caught:
        decode_header(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert caught.value.kind == "invalid-file-format"


@pytest.mark.parametrize("spec", [0, 3, 255])
def test_another_spec_version_is_refused(spec: int) -> None:
    with pytest.raises(FormatError, match=f"format version {spec}") as caught:
        decode_envelope(envelope(frame(PAYLOAD), spec=spec), FileType.SNAPSHOT)
    assert caught.value.kind == "unsupported-spec-version"


@pytest.mark.parametrize("kind", [0, 2, 7])
def test_another_file_type_is_refused(kind: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_envelope(envelope(frame(PAYLOAD), kind=kind), FileType.SNAPSHOT)
    assert caught.value.kind == "invalid-file-format"


def test_a_payload_that_is_not_compressed_is_read() -> None:
    assert decode_envelope(envelope(PAYLOAD, compression=0), FileType.SNAPSHOT).data == PAYLOAD


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(FormatError, match="compression algorithm 2"):
        decode_envelope(envelope(PAYLOAD, compression=2), FileType.SNAPSHOT)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(frame(PAYLOAD, size=False), id="no content size"),
        pytest.param(frame(PAYLOAD, checksum=True), id="checksum"),
        pytest.param(frame(PAYLOAD[:99]) + frame(PAYLOAD[99:]), id="two frames"),
        pytest.param(frame(PAYLOAD[:99], size=False) + frame(PAYLOAD[99:]), id="mixed frames"),
        pytest.param(frame(PAYLOAD[:99]) + frame(b"") + frame(PAYLOAD[99:]), id="empty frame"),
        pytest.param(
            struct.pack("<II", 0x184D2A53, 5) + b"12345" + frame(PAYLOAD), id="skippable frame"
        ),
        pytest.param(zstandard.ZstdCompressor(level=22).compress(PAYLOAD), id="best"),
    ],
)
def test_every_legal_zstd_stream_is_read(body: bytes) -> None:
    assert decode_envelope(envelope(body), FileType.SNAPSHOT).data == PAYLOAD


@pytest.mark.parametrize("size", [True, False])
def test_a_payload_cut_off_anywhere_is_refused(*, size: bool) -> None:
    data = envelope(frame(PAYLOAD, size=size))
    for stop in range(len(data)):
        with pytest.raises(FormatError):
            decode_envelope(data[:stop], FileType.SNAPSHOT)


def test_bytes_after_the_last_frame_are_refused() -> None:
    with pytest.raises(FormatError, match="not zstd"):
        decode_envelope(envelope(frame(PAYLOAD) + b"more"), FileType.SNAPSHOT)


@pytest.mark.parametrize("compression", [0, 1])
def test_a_payload_larger_than_allowed_is_refused(compression: int) -> None:
    body = frame(PAYLOAD) if compression else PAYLOAD
    data = envelope(body, compression=compression)
    assert decode_envelope(data, FileType.SNAPSHOT, max_size=len(PAYLOAD)).data == PAYLOAD
    with pytest.raises(FormatError, match="accepted"):
        decode_envelope(data, FileType.SNAPSHOT, max_size=len(PAYLOAD) - 1)


@pytest.mark.parametrize("size", [True, False])
def test_a_decompression_bomb_is_refused_before_it_expands(*, size: bool) -> None:
    bomb = envelope(frame(bytes(1 << 28), size=size))
    assert len(bomb) < 50_000
    with pytest.raises(FormatError, match="larger than"):
        decode_envelope(bomb, FileType.SNAPSHOT, max_size=1 << 20)


def test_a_content_size_that_lies_is_refused() -> None:
    body = bytearray(frame(PAYLOAD))
    assert body[4] >> 6 == 1  # a content size of two bytes, after the descriptor
    body[5:7] = b"\xff\xff"
    with pytest.raises(FormatError, match="cannot decompress"):
        decode_envelope(envelope(bytes(body)), FileType.SNAPSHOT)


def test_a_payload_in_parts_is_the_payload() -> None:
    parts: list[Buffer] = [PAYLOAD, b"", np.arange(9, dtype=np.uint8), memoryview(PAYLOAD)]
    data = encode_envelope(parts, FileType.MANIFEST)
    whole = PAYLOAD + bytes(range(9)) + PAYLOAD
    assert decode_envelope(data, FileType.MANIFEST).data == whole
    assert zstandard.frame_content_size(data[39:]) == len(whole)


def test_whoever_allows_more_than_is_usual_gets_it() -> None:
    """Also if it is as much as the format knows: that is a limit like any other."""
    size = (256 << 20) + 1  # more than a thousand times what it is stored in, and not free
    data = encode_envelope([bytes(size)], FileType.MANIFEST, level=1)
    with pytest.raises(FormatError, match="larger than"):
        decode_envelope(data, FileType.MANIFEST)
    most = Limits(expansion=10**9).payload_bytes(len(data))
    assert most == Limits().metadata_bytes
    assert len(decode_envelope(data, FileType.MANIFEST, max_size=most).data) == size
