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
from enum import IntEnum
from functools import cache
from io import BytesIO
from threading import local
from typing import TYPE_CHECKING

import zstandard

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.format.limits import DEFAULT_LIMITS
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from importlib import metadata
else:  # readers do not need it
    metadata = lazy_module("importlib.metadata")

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
    """The header of a file, and its payload, decompressed."""

    spec_version: int
    writer: str
    data: bytes


@cache
def writer_name() -> str:
    """Returns the name that files give their writer: frazil and its version."""
    try:
        return f"frazil-{metadata.version('frazil')}"
    except metadata.PackageNotFoundError:  # imported from a source tree that was never installed
        return "frazil"


def decode_header(data: Buffer) -> Header:
    """The first 39 bytes of a file of any kind."""
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
    writer: str | None = None,
) -> bytes:
    """A file with this payload, which may come in parts: they are not put together first."""
    parts = [memoryview(part) for part in (payload if isinstance(payload, list) else [payload])]
    size = sum(part.nbytes for part in parts)
    if size <= _SMALL_BYTES:
        header = encode_header(
            Header(writer or writer_name(), spec_version, file_type, COMPRESSION_ZSTD)
        )
        return header + _compressors.of(level).compress(b"".join(parts))
    return encode_envelope_stream(
        parts, size, file_type, spec_version=spec_version, level=level, writer=writer
    )


class _Compressors(threading.local):
    """Compressors by level; each thread has its own, since they are not thread-safe."""

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
    writer: str | None = None,
) -> bytes:
    """The same of a payload of `size` bytes whose parts are made as they are wanted."""
    header = encode_header(
        Header(writer or writer_name(), spec_version, file_type, COMPRESSION_ZSTD)
    )
    frame = zstandard.ZstdCompressor(level=level, write_checksum=False).compressobj(size=size)
    file = BytesIO(header)
    file.seek(len(header))
    for part in parts:
        file.write(frame.compress(memoryview(part)))
    file.write(frame.flush())
    return file.getvalue()


# -------------------------------------------------------------------------------------------------
# Reading untrusted zstd frames: complete, bounded, or refused. RFC 8878.
#
#     frame   magic 4, descriptor 1, window 0-1, dictionary id 0-4, content size 0-8,
#             blocks, checksum 0-4
#     block   3 bytes little endian: last 1 bit, type 2 bits, size 21 bits; then its content
#
# The library's streaming reader takes a frame that was cut off for its end, and its one-shot
# function believes the content size that a frame claims; so the blocks are walked first.

FRAME_MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50  # and the 15 numbers after it
MAX_BLOCK_BYTES = 1 << 17
DICTIONARY_ID_SIZES = (0, 1, 2, 4)
CONTENT_SIZE_SIZES = (0, 2, 4, 8)  # the first is 1 in a single-segment frame
_RAW, _RLE, _RESERVED = 0, 1, 3
_READ_BYTES = 1 << 20


class _OfThisThread(local):
    """Making a decompressor takes as long as decompressing a small file."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_OWN = _OfThisThread()


def decompress_frames(body: Buffer, *, max_size: int) -> bytes:
    """The contents of all frames of `body`, at most `max_size` bytes; FormatError otherwise."""
    view = memoryview(body).cast("B")
    bound, is_single = _content_bound(view)
    likely = min(max_size, max(64 * len(view), _READ_BYTES))  # as much may be taken at once
    try:
        # A frame may say how much it holds (-1: it does not), and is not believed if that is more
        # than it can.
        if is_single and 0 <= zstandard.frame_content_size(view) <= min(bound, likely):
            return _OWN.decompressor.decompress(view)  # into memory of the right size
        if bound > likely:
            return _decompress_streamed(view, max_size)
        return _OWN.decompressor.decompressobj(read_across_frames=True).decompress(view)
    except zstandard.ZstdError as error:
        raise FormatError(f"cannot decompress payload: {error}") from error


def measure_frames(body: Buffer, limit: int) -> int:
    """Size of the content of the frames, or a number above `limit`; the content is not kept.

    0 for anything but a sequence of frames: decompressing it raises the error.
    """
    view = memoryview(body).cast("B")
    try:
        bound, _ = _content_bound(view)
        claimed = zstandard.frame_content_size(view)
    except (FormatError, zstandard.ZstdError):
        return 0
    if claimed >= 0:  # as much is made room for, and no more is put there
        return claimed
    if bound <= limit:
        return bound
    total = 0
    with zstandard.ZstdDecompressor().stream_reader(view, read_across_frames=True) as reader:
        try:
            while total <= limit and (part := reader.read(_READ_BYTES)):
                total += len(part)
        except zstandard.ZstdError:
            return total
    return total


def _decompress_streamed(view: memoryview, max_size: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    with zstandard.ZstdDecompressor().stream_reader(view, read_across_frames=True) as reader:
        while part := reader.read(_READ_BYTES):
            total += len(part)
            if total > max_size:
                raise FormatError(f"payload is larger than the {max_size} bytes accepted")
            parts.append(part)
    return b"".join(parts)


def _content_bound(view: memoryview) -> tuple[int, bool]:
    """An upper bound of what the frames hold, and whether there is but one.

    Refuses what is not a row of complete frames.
    """
    if not len(view):
        raise FormatError("payload is empty")
    at = bound = 0
    is_single = False
    while at < len(view):
        magic = int.from_bytes(_take(view, at, 4), "little")
        if magic & ~0xF == SKIPPABLE_MAGIC:
            size = int.from_bytes(_take(view, at + 4, 4), "little")
            _take(view, at + 8, size)
            at += 8 + size
            continue
        if magic != FRAME_MAGIC:
            raise FormatError(f"payload is not zstd: it has {magic:#010x} at byte {at}")
        start, (at, held) = at, _walk_blocks(view, at)
        bound += held
        is_single = start == 0 and at == len(view)
    return bound, is_single


def _walk_blocks(view: memoryview, start: int) -> tuple[int, int]:
    """End of the frame at `start`, and an upper bound of the size of its content."""
    descriptor = _take(view, start + 4, 1)[0]
    single_segment = descriptor >> 5 & 1
    content_size_size = CONTENT_SIZE_SIZES[descriptor >> 6] or single_segment
    dictionary_id_size = DICTIONARY_ID_SIZES[descriptor & 3]
    at = start + 5 + (1 - single_segment) + dictionary_id_size + content_size_size
    bound = last = 0
    while not last:
        block = int.from_bytes(_take(view, at, 3), "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == _RESERVED or size > MAX_BLOCK_BYTES:
            raise FormatError(f"damaged zstd block at byte {at}")
        stored = 1 if kind == _RLE else size
        _take(view, at + 3, stored)
        bound += size if kind in {_RAW, _RLE} else MAX_BLOCK_BYTES
        at += 3 + stored
    if descriptor >> 2 & 1:
        _take(view, at, 4)
        at += 4
    return at, bound


def _take(view: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(view):
        raise FormatError(f"payload is cut off: it needs byte {at + size} of {len(view)}")
    return view[at : at + size]
