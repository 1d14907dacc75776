"""Codecs of an array, and how they encode and decode its chunks."""

import threading
import zlib
from collections.abc import Buffer, Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, cast

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
import zstandard
from numcodecs import blosc, zstd
from zarr.abc.codec import Codec
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.codec_pipeline import BatchedCodecPipeline

from frazil.dataclass import dataclass
from frazil.objectstore.protocol import Data

# Parts of zarr that the pipeline is made of, and that zarr has from version 3.4 on.

_missing: Any = None
try:
    from zarr.abc.codec import GetResult
    from zarr.core.chunk_utils import (
        ChunkTransform,
        chunk_is_empty,
        decode_and_scatter_chunk,
        fill_value_or_default,
        merge_and_encode_chunk,
    )
    from zarr.core.codec_pipeline import FusedCodecPipeline, codecs_from_list_unchecked
except ImportError:
    ARE_THERE = False
    ChunkTransform = FusedCodecPipeline = _missing  # type: ignore[misc]  # nothing uses them then
    GetResult = dict  # type: ignore[assignment,misc]  # what it is
    codecs_from_list_unchecked = chunk_is_empty = decode_and_scatter_chunk = _missing
    fill_value_or_default = merge_and_encode_chunk = _missing
else:
    ARE_THERE = True

__all__ = [
    "ARE_THERE",
    "ChunkTransform",
    "FusedCodecPipeline",
    "GetResult",
    "chunk_is_empty",
    "codecs_from_list_unchecked",
    "decode_and_scatter_chunk",
    "fill_value_or_default",
    "merge_and_encode_chunk",
]


# Compressed bytes back into those that were compressed, straight to where they belong.
#
#     zstd, blosc    into a given place, if they say themselves that they fill it
#     gzip           into bytes of its own
#     crc32c         compared and left off
#
# Data that is not exactly as expected is left to zarr, so that it fails or succeeds as zarr does.

type Bytes = npt.NDArray[np.uint8]
type Fill = Callable[[Data, Bytes], bool]  # whether the place is now full of what was compressed

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_ZSTD_BLOCK_BYTES = 1 << 17  # of content, at most; a block is decoded as a whole
_ZSTD_RUN = 1  # a block of one byte that is repeated
_ZSTD_HAS_CHECKSUM = 4  # a bit of the frame header's descriptor
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

    def leaves_out(self, size_bytes: int) -> bool:
        """True if a chunk of this size has blocks that need not be decoded if they are unwanted."""
        return self.fill is _fill_zstd and size_bytes > _ZSTD_BLOCK_BYTES

    def into(self, data: Data, place: Bytes, wanted_bytes: int | None = None) -> bool:
        """Decodes into `place`; returns False if it was not filled, and may hold anything.

        The rest of the place, after `wanted_bytes`, may be left as it is.
        """
        for _ in range(self.checksums):
            if (opened := _without_checksum(data)) is None:
                return False
            data = opened
        if self.fill is not None:
            unwanted = 0 if wanted_bytes is None else place.nbytes - wanted_bytes
            if unwanted >= _ZSTD_BLOCK_BYTES and self.leaves_out(place.nbytes):
                start = place[:wanted_bytes]
                return _fill_zstd_start(data, start, place.nbytes) or _fill_zstd(data, place)
            return self.fill(data, place)
        if len(data) != place.nbytes:
            return False
        place[:] = np.frombuffer(data, np.uint8)
        return True

    def decompress(self, data: Data, size_bytes: int) -> Data | None:
        """Decodes a small zstd chunk into new memory, which is faster than into scratch memory.

        None for large chunks and other compressors, and if the chunk is not as expected.
        """
        if self.fill is not _fill_zstd or size_bytes > _ZSTD_BLOCK_BYTES:
            return None
        for _ in range(self.checksums):
            if (opened := _without_checksum(data)) is None:
                return None
            data = opened
        return _decompress_zstd(data, size_bytes)


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


# Small chunks by zstandard, with a context that is kept; large ones by numcodecs, which makes a new
# one each time but has faster code: for decoding that is worth it from a megabyte on.

_KEPT_CONTEXT_BYTES = 1 << 20  # decoded


def _fill_zstd(data: Data, place: Bytes) -> bool:
    if place.nbytes <= _KEPT_CONTEXT_BYTES and _fill_zstd_start(data, place, place.nbytes):
        return True
    if zstd_size(data) != place.nbytes:
        return False
    zstd.decompress(data, place)
    return True


class ZstdContexts(threading.local):
    """Contexts of Zstandard that a thread keeps: making one takes 7 to 20 us."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self._compressor: tuple[int, bool, zstandard.ZstdCompressor] | None = None

    def compress(self, data: Any, level: int, *, checksum: bool) -> bytes:
        """Only the context of the last level is kept: those of high levels are large."""
        kept = self._compressor
        if kept is None or kept[:2] != (level, checksum):
            known = min(level, zstandard.MAX_COMPRESSION_LEVEL)
            made = zstandard.ZstdCompressor(known, write_checksum=checksum)
            kept = self._compressor = level, checksum, made
        return kept[2].compress(data)


zstd_contexts = ZstdContexts()


def _decompress_zstd(data: Data, content_bytes: int) -> Data | None:
    """Decodes one frame that records this content size and is followed by nothing; else None."""
    try:
        if zstandard.frame_content_size(data) != content_bytes:
            return None
        return zstd_contexts.decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _fill_zstd_start(data: Data, place: Bytes, content_bytes: int) -> bool:
    """Fills the place with the first bytes of a frame of this content, and leaves the rest packed.

    Not if the frame has a checksum, which is of all of its content.
    """
    if not is_zstd_frame(data, content_bytes) or data[4] & _ZSTD_HAS_CHECKSUM:
        return False
    try:
        with zstd_contexts.decompressor.stream_reader(data) as content:
            return bool(content.readinto(place) == place.nbytes)
    except zstandard.ZstdError:
        return False


def zstd_size(data: Data) -> int | None:
    """Returns the content size of a Zstandard frame; None if the frame does not record it.

    See RFC 8878, section 3.1.1.1: magic number, descriptor, window, dictionary, content size.
    """
    return _zstd_header(data)[0]


def _zstd_header(data: Data) -> tuple[int | None, int]:
    """Returns the content size of a frame, if it records it, and the length of its header."""
    if len(data) < 18 or data[:4] != _ZSTD_MAGIC:
        return None, 0
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    size_bytes = (is_single, 2, 4, 8)[descriptor >> 6]
    if size_bytes == 0:
        return None, 0
    at = 5 + (1 - is_single) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    size = int.from_bytes(data[at : at + size_bytes], "little")
    return (size + 256 if size_bytes == 2 else size), at + size_bytes


def is_zstd_frame(data: Data, content_bytes: int) -> bool:
    """True if the data is one frame that records this content size, and nothing after it.

    Decoding the start of a frame does not look at what follows. Blocks are followed by their
    headers (RFC 8878, section 3.1.1.2).
    """
    size, at = _zstd_header(data)
    if size != content_bytes:
        return False
    stop, is_last = len(data), 0
    while not is_last and at + 3 <= stop:
        block = int.from_bytes(data[at : at + 3], "little")
        is_last = block & 1
        at += 3 + (1 if block >> 1 & 3 == _ZSTD_RUN else block >> 3)
    return bool(is_last) and at + (data[4] & _ZSTD_HAS_CHECKSUM) == stop  # it has four bytes


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


# The other way: the bytes of values into what is stored, by the calls that zarr makes in the end.
# They leave the interpreter's lock while they work; what zarr does around them does not.

type Step = Callable[[Any], Buffer]  # of any kind of memory


@dataclass(frozen=True, slots=True)
class Pack:
    """Encodes by these steps."""

    steps: tuple[Step, ...]

    def encode(self, data: Buffer) -> Buffer:
        for step in self.steps:
            data = step(data)
        return data


def pack_of(codecs: Sequence[Codec]) -> Pack | None:
    """None if there are others than zstd, blosc and checksums; a subclass is another one."""
    if not all(type(each) in _STEPS for each in codecs):
        return None
    return Pack(tuple(_STEPS[type(each)](each) for each in codecs))


def _zstd_step(codec: Any) -> Step:
    """Makes the bytes that zarr's codec makes, if its library has the same Zstandard version."""
    return partial(_compress_zstd, level=codec.level, checksum=codec.checksum)


def _compress_zstd(data: Any, *, level: int, checksum: bool) -> Buffer:
    if memoryview(data).nbytes > _ZSTD_BLOCK_BYTES:
        compressed: Buffer = zstd.compress(data, level, checksum)
        return compressed
    return zstd_contexts.compress(data, level, checksum=checksum)


def _blosc_step(codec: Any) -> Step:
    return cast("Step", codec._blosc_codec.encode)  # noqa: SLF001 -- zarr 3.4's


def with_checksum(data: Any) -> bytes:
    flat = np.frombuffer(data, np.uint8)
    return b"".join((flat, google_crc32c.value(flat).to_bytes(4, "little")))


_STEPS: dict[Any, Callable[[Any], Step]] = {
    ZstdCodec: _zstd_step,
    BloscCodec: _blosc_step,
    Crc32cCodec: lambda _: with_checksum,
}


_KINDS = "biufcmMSUV"  # numbers, times, texts of one length, structures: any bytes are a value


@dataclass(frozen=True, slots=True)
class Layout:
    """Memory layout of a chunk's values in the bytes that its compressors are given."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    back: tuple[int, ...] | None  # how the axes are put back in order, None if they are in order
    size_bytes: int

    @classmethod
    def of(
        cls,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        back: tuple[int, ...] | None = None,
    ) -> "Layout":
        return cls(dtype, shape, back, prod(shape) * dtype.itemsize)

    def is_that_of(self, values: npt.NDArray[Any]) -> bool:
        """True if values have this layout in memory."""
        return self.back is None and self.dtype == values.dtype


@dataclass(frozen=True, slots=True)
class Coding:
    """`unpack` undoes the compressors, `pack` are these; None if there are others than we know."""

    transform: ChunkTransform
    unpack: Unpack | None
    axes: tuple[tuple[int, ...], ...] | None  # of each transposition; None if there is more to do
    endian: str | None = None
    pack: Pack | None = None

    @classmethod
    def of(cls, codecs: tuple[Codec, ...]) -> "Coding | None":
        """None if a codec only works asynchronously."""
        try:
            transform = ChunkTransform(codecs=codecs)
        except TypeError:
            return None
        at = next((n for n, each in enumerate(codecs) if type(each) is BytesCodec), None)
        if at is None or not all(type(each) is TransposeCodec for each in codecs[:at]):
            return cls(transform, None, None)
        serializer: Any = codecs[at]
        axes = tuple(tuple(each.order) for each in codecs[:at] if isinstance(each, TransposeCodec))
        endian = getattr(serializer.endian, "value", serializer.endian)
        outer = codecs[at + 1 :]
        return cls(transform, unpack_of(outer), axes, endian, pack_of(outer))

    @property
    def is_plain(self) -> bool:
        """True if a chunk is stored as its values and nothing else."""
        return self.axes is not None and self.unpack is not None and self.unpack.is_plain

    def knows(self, spec: ArraySpec) -> bool:
        """True if these chunks can be decoded here; zarr decodes all others."""
        return (
            self.axes is not None
            and self.unpack is not None
            and is_supported(spec.dtype.to_native_dtype())
        )

    def layout(self, spec: ArraySpec) -> Layout:
        """Layout of a chunk that is known."""
        return _layout(spec.dtype.to_native_dtype(), spec.shape, self.axes or (), self.endian)


@lru_cache
def is_supported(dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in _KINDS or dtype.hasobject or dtype.itemsize == 0:
        return False
    if dtype.fields is not None:
        return all(is_supported(each[0]) for each in dtype.fields.values())
    if dtype.subdtype is not None:
        return is_supported(dtype.subdtype[0])
    return dtype.kind not in "mM" or np.datetime_data(dtype)[0] != "generic"  # numpy loses a scale


@lru_cache
def _layout(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    axes: tuple[tuple[int, ...], ...],
    endian: str | None,
) -> Layout:
    stored = dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">")
    order = tuple(range(len(shape)))
    for each in axes:
        order = tuple(order[axis] for axis in each)
    is_moved = order != tuple(range(len(shape)))
    back = tuple(np.argsort(order).tolist()) if is_moved else None
    return Layout.of(stored, tuple(shape[axis] for axis in order), back)


# zarr's faster codec pipeline: from version 3.4 on it decodes chunks on threads.
#
# A region of many small chunks is read in less than half the time of the default pipeline, which
# has a coroutine for each. Which one is used is the user's choice; these are for arrays of our own.


def fused_pipeline(coding: Coding, batch_size: int) -> FusedCodecPipeline:
    codecs = coding.transform.codecs
    first, second, third = codecs_from_list_unchecked(codecs)
    return FusedCodecPipeline(
        codecs=codecs,
        array_array_codecs=first,
        array_bytes_codec=second,
        bytes_bytes_codecs=third,
        sync_transform=coding.transform,
        batch_size=batch_size,
    )


def use_fused_pipeline(array: "zarr.Array[Any]") -> None:
    """Changes how `array` reads and writes from now on, if this zarr and its codecs allow it."""
    usual = array.async_array.codec_pipeline
    if not ARE_THERE or type(usual) is not BatchedCodecPipeline:
        return
    coding = Coding.of(tuple(usual))
    if coding is not None:
        fused = fused_pipeline(coding, usual.batch_size)
        object.__setattr__(array.async_array, "codec_pipeline", fused)  # frozen, but ours alone
