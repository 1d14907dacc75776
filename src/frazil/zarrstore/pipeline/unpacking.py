"""Compressed bytes back into those that were compressed, straight to where they belong.

    zstd, blosc    into a given place, if they say themselves that they fill it
    gzip           into bytes of its own
    crc32c         compared and left off

Whatever is not exactly as expected is left to zarr, so that it fails or succeeds as zarr does.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
from numcodecs import blosc, zstd
from zarr.abc.codec import Codec
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from frazil.objectstore.protocol import Data

type Bytes = npt.NDArray[np.uint8]
type Fill = Callable[[Data, Bytes], bool]  # whether the place is now full of what was compressed

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_BLOSC_HEADER_BYTES = 16
_GZIP = 31  # zlib's number for a gzip header


@dataclass(frozen=True, slots=True)
class Unpack:
    """Checksums are compared first, then what is inside of them fills the place."""

    checksums: int = 0
    fill: Fill | None = None  # None if there is no compressor

    @property
    def is_plain(self) -> bool:
        return self.fill is None and not self.checksums

    def into(self, data: Data, place: Bytes) -> bool:
        """Whether `place` is now filled; otherwise it may hold anything."""
        for _ in range(self.checksums):
            if (opened := _without_checksum(data)) is None:
                return False
            data = opened
        if self.fill is not None:
            return self.fill(data, place)
        if len(data) != place.nbytes:
            return False
        place[:] = np.frombuffer(data, np.uint8)
        return True


def unpack_of(codecs: Sequence[Codec]) -> Unpack | None:
    """None if these are others than one of ours and checksums around it."""
    outer = list(codecs)
    fill: Fill | None = None
    if outer and (found := _FILLS.get(type(outer[0]))) is not None:
        fill = found
        outer = outer[1:]
    if not all(type(each) is Crc32cCodec for each in outer):
        return None
    return Unpack(len(outer), fill)


def _fill_zstd(data: Data, place: Bytes) -> bool:
    if zstd_size(data) != place.nbytes:
        return False
    zstd.decompress(data, place)
    return True


def zstd_size(data: Data) -> int | None:
    """How many bytes a frame says that it holds; None if it does not say so.

    See RFC 8878, section 3.1.1.1: magic number, descriptor, window, dictionary, content size.
    """
    if len(data) < 18 or data[:4] != _ZSTD_MAGIC:
        return None
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    size_bytes = (is_single, 2, 4, 8)[descriptor >> 6]
    if size_bytes == 0:
        return None
    at = 5 + (1 - is_single) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    size = int.from_bytes(data[at : at + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size


def _fill_blosc(data: Data, place: Bytes) -> bool:
    if len(data) < _BLOSC_HEADER_BYTES or int.from_bytes(data[4:8], "little") != place.nbytes:
        return False
    blosc.decompress(data, place)
    return True


def _fill_gzip(data: Data, place: Bytes) -> bool:
    opened = zlib.decompressobj(_GZIP)
    try:
        found = opened.decompress(data, place.nbytes + 1)  # more would be too much
    except zlib.error:
        return False
    if not opened.eof or opened.unused_data or len(found) != place.nbytes:
        return False
    place[:] = np.frombuffer(found, np.uint8)
    return True


def _without_checksum(data: Data) -> memoryview | None:
    if len(data) < 4:
        return None
    inside = np.frombuffer(data, np.uint8)[:-4]  # an array: the library takes no memoryview
    if google_crc32c.value(inside) != int.from_bytes(data[-4:], "little"):
        return None
    return memoryview(inside)


_FILLS: dict[Any, Fill] = {ZstdCodec: _fill_zstd, BloscCodec: _fill_blosc, GzipCodec: _fill_gzip}
