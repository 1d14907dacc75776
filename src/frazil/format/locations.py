"""Locations of virtual chunks, compressed one by one with a dictionary that they share.

Spec: "ChunkRef". Each `compressed_location` is a zstd frame of its own; the manifest holds the
dictionary. Reading one location takes one small decompression, so a manifest is decoded without
touching them, and all are decompressed together, once, when a column of them is wanted.
"""

from threading import Lock
from typing import Self, cast

import numpy as np
import numpy.typing as npt
import zstandard

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import Ints, splits_of
from frazil.flatbuf.strings import Strings
from frazil.format.envelope import CONTENT_SIZE_SIZES, DICTIONARY_ID_SIZES, FRAME_MAGIC

MAX_COMPRESSIBLE_BYTES = 1024  # the reference cannot read back what was longer
MAX_LOCATION_BYTES = 1 << 20
MAX_TABLE_BYTES = 1 << 31
_LEAST_SAMPLE_BYTES = 8  # zstd learns nothing from less
_WORTHWHILE = 0.5  # each location costs time whenever it is read: no less a gain than this


@dataclass(frozen=True, slots=True)
class LocationCompression:
    """Settings for the compression of locations in a manifest."""

    min_num_chunks: int = 1000
    max_samples: int = 100
    max_dictionary_bytes: int = 2048
    level: int = 3


@dataclass(frozen=True, slots=True, eq=False)
class EncodedLocations:
    """The columns of a manifest that say where virtual chunks are."""

    plain: StringColumn  # (n,)
    compressed: StringColumn  # (n,)
    dictionary: bytes | None


class Frames:
    """Distinct stored locations, some of them compressed; decompressed at most once."""

    def __init__(self, stored: Strings, is_frame: npt.NDArray[np.bool_], dictionary: bytes) -> None:
        self.stored = stored
        self.is_frame = is_frame  # (m,)
        self.dictionary = dictionary
        self._prepared = zstandard.ZstdCompressionDict(dictionary)
        self._lock = Lock()
        self._resolved: tuple[Ints, Strings] | None = None

    def __reduce__(self) -> tuple[object, ...]:  # a lock cannot be pickled
        return (Frames, (self.stored, self.is_frame, self.dictionary))

    def item(self, code: int) -> bytes:
        data = self.stored.item(code)
        if not self.is_frame[code]:
            return data
        try:
            if zstandard.frame_content_size(data) > MAX_LOCATION_BYTES:
                raise FormatError("a chunk location is too large")
            decompressor = zstandard.ZstdDecompressor(dict_data=self._prepared)
            return decompressor.decompress(data, max_output_size=MAX_LOCATION_BYTES)
        except zstandard.ZstdError as error:
            raise FormatError(f"cannot decompress a chunk location: {error}") from error

    def taken(self, codes: Ints) -> "Frames":
        return Frames(self.stored.take(codes), self.is_frame[codes], self.dictionary)

    def resolved(self) -> tuple[Ints, Strings]:
        """A code for each stored location, and the distinct locations so numbered."""
        with self._lock:
            if self._resolved is None:
                codes, distinct = self.stored.unique()
                first = np.zeros(len(distinct), dtype=np.int64)
                first[codes[::-1]] = np.arange(len(codes), dtype=np.int64)[::-1]
                self._resolved = codes, self._decompress(distinct, self.is_frame[first])
            return self._resolved

    def _decompress(self, stored: Strings, is_frame: npt.NDArray[np.bool_]) -> Strings:
        frames = stored.take(np.flatnonzero(is_frame)).compact()
        if not len(frames):
            return stored
        texts = _decompress_all(frames, self._prepared)
        both = Strings.concat([stored, texts])
        place = np.arange(len(stored), dtype=np.int64)
        place[is_frame] = len(stored) + np.arange(len(frames))
        return both.take(place)


class CompressedLocations(StringColumn):
    """A column of locations that are decompressed when they are first looked at."""

    __slots__ = ("_codes", "_frames")
    _codes: Ints
    _frames: Frames

    def __init__(self, codes: Ints, frames: Frames) -> None:
        object.__setattr__(self, "_codes", codes)
        object.__setattr__(self, "_frames", frames)

    def __reduce__(self) -> tuple[object, ...]:
        return (CompressedLocations, (self._codes, self._frames))

    @property
    def codes(self) -> Ints:
        return np.append(self._frames.resolved()[0], -1)[self._codes]

    @property
    def strings(self) -> Strings:
        return self._frames.resolved()[1]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        return self._codes >= 0

    @property
    def num_bytes(self) -> int:
        """Memory that the column takes when decompressed, without decompressing it."""
        return self._codes.nbytes + 144 * len(self._frames.stored)

    def __len__(self) -> int:
        return len(self._codes)

    def item(self, row: int) -> bytes | None:
        code = int(self._codes[row])
        return None if code < 0 else self._frames.item(code)

    def text(self, row: int) -> str | None:
        data = self.item(row)
        return None if data is None else Strings.from_list([data]).text(0)

    def take(self, rows: Ints | slice) -> Self:
        return type(self)(self._codes[rows], self._frames)

    def pruned(self) -> Self:
        """Over the frames that the rows use, so that only these will be decompressed."""
        used = np.zeros(len(self._frames.stored) + 1, dtype=np.bool_)
        used[self._codes] = True  # -1 marks the extra place at the end
        if used[:-1].all():
            return self
        kept = np.flatnonzero(used[:-1])
        renumbered = np.full(len(used), -1, dtype=np.int64)
        renumbered[kept] = np.arange(len(kept))
        return type(self)(renumbered[self._codes], self._frames.taken(kept))


def decode_locations(encoded: EncodedLocations, algorithm: int) -> StringColumn:
    """One location per row; compressed ones win over plain ones."""
    compressed = encoded.compressed
    if not compressed.present.any():
        return encoded.plain
    if algorithm > 1:
        raise FormatError(f"unknown location compression algorithm {algorithm}")
    if algorithm == 1 and not encoded.dictionary:
        raise FormatError("locations are compressed, but the manifest has no dictionary")
    stored = compressed.strings
    if len(encoded.plain.strings):
        stored = Strings.concat([stored, encoded.plain.strings])
    is_frame = np.zeros(len(stored), dtype=np.bool_)
    is_frame[: len(compressed.strings)] = algorithm == 1  # 0 meant raw bytes in spec 2.0's text
    plain = np.where(encoded.plain.present, encoded.plain.codes + len(compressed.strings), -1)
    codes = np.where(compressed.present, compressed.codes, plain)
    return CompressedLocations(codes, Frames(stored, is_frame, encoded.dictionary or b""))


def encode_locations(
    locations: StringColumn, compression: LocationCompression | None
) -> EncodedLocations:
    """Compressed if asked for and worthwhile; locations that are shared are stored once anyway."""
    column = locations.pruned()
    plain = EncodedLocations(column, StringColumn.absent(len(column)), None)
    texts = column.strings
    if compression is None or len(texts) < max(compression.min_num_chunks, 1):
        return plain
    dictionary = _train(texts, compression)
    if dictionary is None:
        return plain
    is_short = texts.length <= MAX_COMPRESSIBLE_BYTES
    frames = _compress_all(texts.take(np.flatnonzero(is_short)), dictionary, compression.level)
    frame_of = np.append(np.where(is_short, np.cumsum(is_short) - 1, -1), -1)
    return EncodedLocations(
        StringColumn(np.where(np.append(is_short, True)[column.codes], -1, column.codes), texts),
        StringColumn(frame_of[column.codes], frames),
        dictionary.as_bytes(),
    )


def _train(
    texts: Strings, compression: LocationCompression
) -> zstandard.ZstdCompressionDict | None:
    """A dictionary from evenly spaced samples; None where zstd makes none or gains little."""
    count = min(len(texts), compression.max_samples)
    rows = np.linspace(0, len(texts) - 1, count).astype(np.int64)
    samples: list[bytes | bytearray | memoryview[int]] = [
        sample for sample in texts.take(rows).to_list() if sample
    ]
    if 2 * sum(len(sample) < _LEAST_SAMPLE_BYTES for sample in samples) >= len(samples):
        return None
    total = sum(map(len, samples))
    enough = samples * (1 + compression.max_dictionary_bytes // total)
    try:
        dictionary = zstandard.train_dictionary(
            compression.max_dictionary_bytes, enough, level=compression.level
        )
    except zstandard.ZstdError:
        return None
    compressor = _compressor(dictionary, compression.level)
    packed = sum(len(compressor.compress(sample)) for sample in samples)
    return dictionary if packed <= total * _WORTHWHILE else None


def _compressor(dictionary: zstandard.ZstdCompressionDict, level: int) -> zstandard.ZstdCompressor:
    # The manifest has one dictionary, so that no frame needs to name it.
    return zstandard.ZstdCompressor(level=level, dict_data=dictionary, write_dict_id=False)


def _compress_all(texts: Strings, dictionary: zstandard.ZstdCompressionDict, level: int) -> Strings:
    compressor = _compressor(dictionary, level)
    return _strings_from_segments(compressor.multi_compress_to_buffer(_segments(texts.compact())))


def _decompress_all(frames: Strings, dictionary: zstandard.ZstdCompressionDict) -> Strings:
    sizes = _content_sizes(frames)
    if int(sizes.max()) > MAX_LOCATION_BYTES or int(sizes.sum()) > MAX_TABLE_BYTES:
        raise FormatError("a chunk location is too large")
    try:
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
        if int(sizes.min()) > 0:
            return _strings_from_segments(
                decompressor.multi_decompress_to_buffer(
                    _segments(frames), decompressed_sizes=sizes.astype("<u8").tobytes()
                )
            )
        return _decompress_singly(frames, decompressor)
    except zstandard.ZstdError as error:
        raise FormatError(f"cannot decompress the chunk locations: {error}") from error


def _decompress_singly(frames: Strings, decompressor: zstandard.ZstdDecompressor) -> Strings:
    """Decompresses frames that do not state their content size."""
    texts: list[bytes] = []
    total = 0
    for frame in frames.to_list():
        texts.append(decompressor.decompress(frame, max_output_size=MAX_LOCATION_BYTES))
        total += len(texts[-1])
        if total > MAX_TABLE_BYTES:
            raise FormatError("the chunk locations are too large")
    return Strings.from_list(texts)


def _content_sizes(frames: Strings) -> Ints:
    """Content size that each frame states; 0 where it states none or an impossible one."""
    heap = np.append(frames.heap, np.zeros(18, dtype=np.uint8))  # room to look at any header

    def number(at: Ints, size: int) -> Ints:
        return sum(
            (heap[at + place].astype(np.int64) << 8 * place for place in range(size)),
            start=np.zeros(len(at), dtype=np.int64),
        )

    descriptor = heap[frames.start + 4].astype(np.int64)
    single_segment = descriptor >> 5 & 1
    at = frames.start + 6 - single_segment
    at = at + np.array(DICTIONARY_ID_SIZES, dtype=np.int64)[descriptor & 3]
    field_size = np.array(CONTENT_SIZE_SIZES, dtype=np.int64)[descriptor >> 6]
    field_size = np.where(field_size == 0, single_segment, field_size)
    sizes = np.zeros(len(frames), dtype=np.int64)
    for size, bias in ((1, 0), (2, 256), (4, 0), (7, 0)):  # the eighth byte is checked below
        mine = field_size == (8 if size == 7 else size)
        sizes[mine] = number(at[mine], size) + bias
    is_huge = (field_size == 8) & (heap[np.minimum(at + 7, len(heap) - 1)] != 0)
    is_frame = (number(frames.start, 4) == FRAME_MAGIC) & (frames.length >= 6)
    if is_huge.any() or not is_frame.all():
        raise FormatError("a compressed chunk location is not a zstd frame")
    return sizes


def _segments(items: Strings) -> zstandard.BufferWithSegments:
    """Strings that lie end to end, as the library takes them."""
    places = np.stack([items.start, items.length], axis=1).astype("<u8")
    return zstandard.BufferWithSegments(items.heap.tobytes(), places.tobytes())


def _strings_from_segments(buffers: zstandard.BufferWithSegmentsCollection) -> Strings:
    # Segments are buffers, which their type does not say; a list of them costs less than copies.
    items = cast("list[bytes]", list(map(buffers.__getitem__, range(len(buffers)))))
    length = np.fromiter(map(len, items), np.int64, len(items))
    heap = np.frombuffer(b"".join(items), dtype=np.uint8)
    return Strings(heap, splits_of(length)[:-1], length)
