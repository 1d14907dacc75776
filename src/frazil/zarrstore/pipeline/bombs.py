"""Chunks that become more than anybody has memory for.

Whoever wrote an array chose the shape of its chunks and their bytes: three megabytes of zstd can
hold a hundred gigabytes, and say so or not. The decoded size of a chunk is limited; and what zarr
decodes without a limit is looked at before: by what its header says, or, where nothing is said and
the limit could be passed, by decompressing it piece by piece and keeping nothing.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zarr.abc.codec import Codec

from frazil.errors import FormatError, StorageError
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.format.zstd import measure_frames
from frazil.objectstore.protocol import Data

type Measure = Callable[[memoryview, int], int]  # bytes inside, or more than the limit

_PIECE_BYTES = 1 << 20
# The most that they can make of a byte.
_DEFLATE_RATIO, _LZMA_RATIO, _BZIP_RATIO = 1032, 10_000, 1_000_000


def require_decodable(size_bytes: int, limits: Limits) -> None:
    if size_bytes > limits.chunk_bytes:
        raise StorageError(
            f"a decoded chunk has {size_bytes} bytes, at most {limits.chunk_bytes} are accepted:"
            " Limits(chunk_bytes=...) allows more",
            kind="invalid-object-size",
        )


def require_bounded(codecs: Sequence[Codec], data: Data, expected_bytes: int) -> None:
    """Raises FormatError if the outermost of the codecs would make too much of `data`."""
    if not codecs:
        return
    measure = _MEASURES.get(type(codecs[-1]).__name__)
    if measure is None:
        return
    limit = max(DEFAULT_LIMITS.chunk_bytes, 2 * expected_bytes)
    found = measure(memoryview(data).cast("B"), limit)
    if found > limit:
        raise FormatError(f"a compressed chunk holds more than the {limit} bytes accepted")


def _in_deflate(wbits: int) -> Measure:
    def measure(data: memoryview, limit: int) -> int:
        if len(data) * _DEFLATE_RATIO <= limit:
            return 0
        opened, total, left = zlib.decompressobj(wbits), 0, bytes(data)
        try:
            while total <= limit and left and not opened.eof:
                total += len(opened.decompress(left, _PIECE_BYTES))
                left = opened.unconsumed_tail
        except zlib.error:
            return total
        return total

    return measure


def _in_stream(make: Callable[[], Any], ratio: int) -> Measure:
    def measure(data: memoryview, limit: int) -> int:
        if len(data) * ratio <= limit:
            return 0
        opened, total, left = make(), 0, bytes(data)
        try:
            while total <= limit and not opened.eof:
                part = opened.decompress(left, _PIECE_BYTES)
                if not part and opened.needs_input:
                    break
                total, left = total + len(part), b""
        except (OSError, lzma.LZMAError, EOFError):
            return total
        return total

    return measure


# By the names of zarr's classes, its own and those of numcodecs. Blosc and LZ4 say how much is
# inside in 32 bits, and are believed only if it is true.
_MEASURES: Mapping[str, Measure] = {
    "ZstdCodec": measure_frames,
    "Zstd": measure_frames,
    "GzipCodec": _in_deflate(31),
    "GZip": _in_deflate(31),
    "Zlib": _in_deflate(15),
    "BZ2": _in_stream(bz2.BZ2Decompressor, _BZIP_RATIO),
    "LZMA": _in_stream(lzma.LZMADecompressor, _LZMA_RATIO),
}
