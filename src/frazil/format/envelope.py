"""The envelope of every metadata file. Spec: "Binary File Format".

offset  size  field
   0     12   magic          "ICE" U+1F9CA "CHUNK", UTF-8
  12     24   writer         text, space padded; informative only
  36      1   spec version   1 or 2 (2 for 2.1 as well)
  37      1   file type      a FileType
  38      1   compression    0 none, 1 zstd
  39          payload        one or more zstd frames, whose content size may be absent
"""

import struct
import threading
from collections.abc import Buffer, Iterable
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO

import zstandard

from frazil.errors import FormatError
from frazil.format.limits import DEFAULT_LIMITS
from frazil.format.zstd import decompress_frames

MAGIC = "ICE🧊CHUNK".encode()
HEADER = struct.Struct("<12s24sBBB")
NEWEST_SPEC_VERSION = 2
COMPRESSION_NONE, COMPRESSION_ZSTD = 0, 1
# Up to here to set up a compressor takes a good part of the time: so it is kept. It grows with what
# it has compressed, which is why it is not kept for more than this.
_SMALL_BYTES = 1 << 17


class FileType(IntEnum):
    SNAPSHOT = 1
    MANIFEST = 2
    ATTRIBUTES = 3  # never written
    TRANSACTION_LOG = 4
    CHUNK = 5  # never written
    REPO_INFO = 6


@dataclass(frozen=True, slots=True)
class Header:
    writer: str
    spec_version: int
    file_type: FileType
    compression: int


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a file says about itself, and its payload, decompressed."""

    spec_version: int
    writer: str
    data: bytes


def _writer_name() -> str:
    try:
        return f"frazil-{version('frazil')}"
    except PackageNotFoundError:  # imported from a source tree that was never installed
        return "frazil"


WRITER = _writer_name()


def decode_header(data: Buffer) -> Header:
    """The first 39 bytes, of whatever kind of file."""
    view = memoryview(data).cast("B")
    if len(view) < HEADER.size:
        raise FormatError(
            f"file is {len(view)} bytes, its header alone needs {HEADER.size}",
            kind="invalid-file-format",
        )
    magic, writer, spec_version, file_type, compression = HEADER.unpack_from(view)
    if magic != MAGIC:
        raise FormatError(
            f"not an icechunk file: it starts with {magic!r}", kind="invalid-file-format"
        )
    if not 1 <= spec_version <= NEWEST_SPEC_VERSION:
        raise FormatError(
            f"file uses format version {spec_version}, versions 1 to {NEWEST_SPEC_VERSION}"
            " are supported",
            kind="unsupported-spec-version",
        )
    if compression not in {COMPRESSION_NONE, COMPRESSION_ZSTD}:
        raise FormatError(
            f"unknown compression algorithm {compression}", kind="invalid-file-format"
        )
    try:
        known_type = FileType(file_type)
    except ValueError as error:
        raise FormatError(f"unknown file type {file_type}", kind="invalid-file-format") from error
    return Header(
        writer.decode("utf-8", "replace").rstrip(" "), spec_version, known_type, compression
    )


def encode_header(header: Header) -> bytes:
    name = header.writer.encode()
    if len(name) > 24:
        raise ValueError(f"writer name {header.writer!r} is longer than 24 bytes")
    return HEADER.pack(
        MAGIC, name.ljust(24), header.spec_version, header.file_type, header.compression
    )


def decode_envelope(data: Buffer, expected: FileType, *, max_size: int | None = None) -> Envelope:
    """The payload of a file that must be of type `expected`.

    A payload of more than `max_size` bytes is refused before that much memory is used. By default
    that is what Limits allow for a file of this size.
    """
    header = decode_header(data)
    if header.file_type is not expected:
        raise FormatError(
            f"file is of type {header.file_type.name}, expected {expected.name}",
            kind="invalid-file-format",
        )
    body = memoryview(data).cast("B")[HEADER.size :]
    if max_size is None:
        max_size = DEFAULT_LIMITS.payload_bytes(len(body))
    if header.compression == COMPRESSION_ZSTD:
        payload = decompress_frames(body, max_size=max_size)
    else:
        payload = bytes(body)
    if len(payload) > max_size:
        raise FormatError(f"payload is {len(payload)} bytes, at most {max_size} are accepted")
    return Envelope(header.spec_version, header.writer, payload)


def encode_envelope(
    payload: Buffer | list[Buffer],
    file_type: FileType,
    *,
    spec_version: int = NEWEST_SPEC_VERSION,
    level: int = 3,
    writer: str = WRITER,
) -> bytes:
    """A file with this payload, which may come in parts: they are not put together first."""
    parts = [memoryview(part) for part in (payload if isinstance(payload, list) else [payload])]
    size = sum(part.nbytes for part in parts)
    if size <= _SMALL_BYTES:
        header = encode_header(Header(writer, spec_version, file_type, COMPRESSION_ZSTD))
        return header + _compressors.of(level).compress(b"".join(parts))
    return encode_envelope_stream(
        parts, size, file_type, spec_version=spec_version, level=level, writer=writer
    )


class _Compressors(threading.local):
    """By level; each thread has its own, as none can do two things at a time."""

    def __init__(self) -> None:
        self._known: dict[int, zstandard.ZstdCompressor] = {}

    def of(self, level: int) -> zstandard.ZstdCompressor:
        found = self._known.get(level)
        if found is None:
            found = zstandard.ZstdCompressor(level=level, write_checksum=False)
            self._known[level] = found
        return found


_compressors = _Compressors()


def encode_envelope_stream(
    parts: Iterable[Buffer],
    size: int,
    file_type: FileType,
    *,
    spec_version: int = NEWEST_SPEC_VERSION,
    level: int = 3,
    writer: str = WRITER,
) -> bytes:
    """The same of a payload of `size` bytes whose parts are made as they are wanted."""
    header = encode_header(Header(writer, spec_version, file_type, COMPRESSION_ZSTD))
    frame = zstandard.ZstdCompressor(level=level, write_checksum=False).compressobj(size=size)
    file = BytesIO(header)
    file.seek(len(header))
    for part in parts:
        file.write(frame.compress(memoryview(part)))
    file.write(frame.flush())
    return file.getvalue()
