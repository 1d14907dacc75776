"""Reading zstd frames from strangers: complete, bounded, or refused. RFC 8878.

    frame   magic 4, descriptor 1, window 0-1, dictionary id 0-4, content size 0-8,
            blocks, checksum 0-4
    block   3 bytes little endian: last 1 bit, type 2 bits, size 21 bits; then its content

The library's streaming reader takes a frame that was cut off for its end, and its one-shot
function believes the content size that a frame claims; so the blocks are walked first.
"""

from collections.abc import Buffer
from threading import local

import zstandard

from frazil.errors import FormatError

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
    """How much the frames hold, or a number above `limit`; nothing of it is kept.

    0 for what is no row of frames: whoever decompresses it will be told.
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
    """Where the frame at `start` ends, and an upper bound of its content."""
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
