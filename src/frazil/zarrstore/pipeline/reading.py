"""Reads a selection: find, fetch, decode, place."""

import bz2
import lzma
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from itertools import batched, pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import Codec
from zarr.core.array_spec import ArraySpec

from frazil.dataclass import dataclass
from frazil.engine.files.caches import StoredChunk
from frazil.engine.files.chunk_objects import ChunkFiles
from frazil.engine.files.read_meter import read_meter
from frazil.engine.session.session import Session
from frazil.errors import FormatError, InvalidInputError, StorageError
from frazil.format.envelope import measure_frames
from frazil.format.limits import DEFAULT_LIMITS, Limits
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data
from frazil.objectstore.reads import Targets
from frazil.paths import NodePath
from frazil.zarrstore.keys import ChunkKey, parse_key
from frazil.zarrstore.pipeline.coding import (
    Bytes,
    Coding,
    GetResult,
    Layout,
    decode_and_scatter_chunk,
    fill_value_or_default,
)

# The chunks of one selection, as zarr asks for them.

# Where a chunk is stored, how it is made, the part of it that is selected, the place of that part
# among the values, and whether it is the whole chunk.
type Item = tuple[Any, ArraySpec, Any, Any, bool]

# Values, the item whose place is among them, and its stored chunk, if there is one: its bytes, or
# where they are, in a file nearby.
type UnreadTask = tuple[npt.NDArray[Any], Item, Data | StoredChunk | None]
type Task = tuple[npt.NDArray[Any], Item, Data | None]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Chunks of one array. `drop_axes` are those of a chunk that the values do not have."""

    engine: Session
    is_read_only: bool  # as a whole, or through the store that is used
    path: NodePath
    index: npt.NDArray[np.uint32]  # (n, ndim)
    items: list[Item]
    drop_axes: tuple[int, ...]

    @classmethod
    def of(cls, items: list[Item], drop_axes: tuple[int, ...]) -> "Batch":
        """`items` are of one array, and at least one."""
        first = items[0][0]
        key = parse_key(first.path)
        if not isinstance(key, ChunkKey):
            raise InvalidInputError(f"invalid zarr key format `{first.path}`")
        store, index = first.store, _indices(items, key)
        return cls(store.engine, store.read_only, key.path, index, items, drop_axes)

    def part(self, start: int, stop: int) -> "Batch":
        return replace(self, items=self.items[start:stop], index=self.index[start:stop])


def _indices(items: list[Item], first: ChunkKey) -> npt.NDArray[np.uint32]:
    """Index of each chunk, from its key: the keys of one array differ in their last segments."""
    ndim = len(first.index)
    if ndim == 0 or len(items) == 1:
        return np.array([first.index] * len(items), np.uint32).reshape(len(items), ndim)
    text: str = items[0][0].path
    start = len(text) - len("/".join(map(str, first.index)))
    numbers = "/".join([item[0].path[start:] for item in items])
    return np.fromstring(numbers, np.int64, sep="/").astype(np.uint32).reshape(-1, ndim)


# Chunks of a selection by slices and integers: of an array, or of a shard.

# Index in the grid, selection, place of that among the values, and whether it is the whole chunk,
# as far as that is inside of the array.
type ChunkOfBox = tuple[tuple[int, ...], Any, Any, bool]


@dataclass(frozen=True, slots=True)
class Box:
    """Shape of a selection, without the axes of integers, and its chunks."""

    shape: tuple[int, ...]
    chunks: Sequence[ChunkOfBox]


type Part = slice | int | npt.NDArray[np.int64]  # of an axis


@lru_cache(maxsize=8)  # most shards of a selection are wanted whole
def divide_box(
    selection: tuple[slice | int, ...], shape: tuple[int, ...], chunk: tuple[int, ...]
) -> Box | None:
    """Divides what is selected of an array of this shape; None if slices are empty or go backwards.

    Chunks are those of a regular grid.
    """
    if len(selection) == len(shape) and {*map(type, selection)} == {int}:
        return _divide_point(selection, shape, chunk)
    return divide_mesh(selection, shape, chunk)


def _divide_point(
    selection: tuple[Any, ...], shape: tuple[int, ...], chunk: tuple[int, ...]
) -> Box:
    """The chunk of a single value: as `divide_mesh`, with a third of the calls."""
    numbers, within, is_whole = [], [], True
    for place, length, size in zip(selection, shape, chunk, strict=True):
        number, inside = divmod(range(length)[place], size)
        numbers.append(number)
        within.append(inside)
        is_whole = is_whole and min(size, length - number * size) == 1
    return Box((), [(tuple(numbers), tuple(within), (), is_whole)])


def divide_mesh(
    selection: Sequence[Part], shape: tuple[int, ...], chunk: tuple[int, ...]
) -> Box | None:
    """Like `divide_box`; with ascending places along some axes, which then has no integers."""
    if len(selection) != len(shape):
        return None
    axes = [*map(_divide_axis, selection, shape, chunk)]
    numbers, within, targets, are_whole = zip(*axes, strict=True) if axes else ((), (), (), ())
    if not all(numbers):
        return None
    kept = [places for places in targets if places is not None]
    inside: Iterable[tuple[Any, ...]] = product(*within)
    if np.ndarray in map(type, selection):
        inside = map(_mesh, inside)
    are_all_whole = map(all, product(*are_whole))
    chunks = list(zip(product(*numbers), inside, product(*kept), are_all_whole, strict=True))
    return Box(tuple([places[-1].stop for places in kept]), chunks)


def _divide_axis(part: Part, length: int, size: int) -> "_Along":
    if isinstance(part, slice):
        return _divide_slice(part, length, size)
    if isinstance(part, int):
        return _divide_integer(part, length, size)
    return _divide_places(part, length, size)


class _Along(NamedTuple):
    """Chunks along one axis; none if nothing is selected, or not in ascending order."""

    numbers: Sequence[int]
    within: Sequence[Part]  # what is selected of each chunk
    targets: Sequence[slice] | None  # places of that among the values; None for an integer
    are_whole: Sequence[bool]


_NOTHING = _Along((), (), (), ())


def _divide_integer(part: int, length: int, size: int) -> _Along:
    place = range(length)[part]
    number, within = divmod(place, size)
    return _Along((number,), (within,), None, (min(size, length - number * size) == 1,))


@lru_cache(maxsize=256)  # of the shards of a selection, several are divided alike along an axis
def _divide_slice(part: slice, length: int, size: int) -> _Along:
    start, stop, step = part.indices(length)
    if step < 1 or start >= stop:
        return _NOTHING
    first, last = start // size, (stop - 1) // size
    if first == last:
        low, count = first * size, (stop - start - 1) // step + 1
        own = slice(start - low, stop - low, step)
        return _Along((first,), (own,), (slice(0, count),), (count == min(size, length - low),))
    numbers, within, targets, are_whole = [], [], [], []
    for number in range(first, last + 1):
        low, high = number * size, min((number + 1) * size, length)
        begin = max(0, -((start - low) // step))  # among the selected places
        end = (min(stop, high) - 1 - start) // step + 1
        if begin < end:  # a step may be longer than a chunk
            place = start + begin * step - low
            numbers.append(number)
            within.append(slice(place, place + (end - begin - 1) * step + 1, step))
            targets.append(slice(begin, end))
            are_whole.append(end - begin == high - low)
    return _Along(numbers, within, targets, are_whole)


def _divide_places(places: npt.NDArray[np.int64], length: int, size: int) -> _Along:
    if not len(places) or places[0] < 0 or places[-1] >= length or (np.diff(places) < 1).any():
        return _NOTHING
    if isinstance(part := _as_slice(places), slice):
        return _divide_slice(part, length, size)
    numbers = places // size
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(places)]
    targets = [slice(begin, end) for begin, end in pairwise(edges)]
    own: list[int] = numbers[edges[:-1]].tolist()
    return _Along(
        own,
        [_as_slice(places[part] - at * size) for at, part in zip(own, targets, strict=True)],
        targets,
        [
            part.stop - part.start == min(size, length - at * size)
            for at, part in zip(own, targets, strict=True)
        ],
    )


def _as_slice(places: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """A slice, if the places are evenly spaced."""
    first, last = places.item(0), places.item(-1)
    step = places.item(1) - first if len(places) > 1 else 1
    if len(places) > 2 and (np.diff(places) != step).any():
        return places
    return slice(first, last + 1, step)


def _mesh(within: tuple[Part, ...]) -> tuple[Any, ...]:
    """Makes numpy select along each axis by itself, which it does of one array, not of several."""
    if sum(isinstance(part, np.ndarray) for part in within) < 2:
        return within
    return np.ix_(
        *[
            np.arange(*part.indices(part.stop)) if isinstance(part, slice) else part
            for part in within
        ]
    )


# Placement of the values of a chunk.

_BASIC = frozenset({slice, int})
_KEPT_BYTES = 32 << 20  # of scratch memory, for each thread


def writable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, as something that others may write to: times do not let them."""
    dtype = values.dtype
    if dtype.kind in "mM":
        return values.view(np.int64)
    return values.view(f"V{dtype.itemsize}") if dtype.names else values  # a field may be a time


def run_of(item: Item, values: npt.NDArray[Any], layout: Layout) -> memoryview | None:
    """The place of an item's values among writable ones, if they lie there end to end.

    None if they do not, or are not all the values there are of `layout`: that of the chunk, or of
    the part of it that they are in. It is the caller who knows that they are stored just so.
    """
    selection, target = item[2], item[3]
    if not (is_basic(target) and is_basic(selection)):
        return None  # values would be copied, or may be in another order
    place = memoryview(values[(*target, ...)])  # an array even if it is a single value
    return place if place.nbytes == layout.size_bytes and place.c_contiguous else None


def put(
    target: Any, values: npt.NDArray[Any], chosen: npt.NDArray[Any], drop_axes: tuple[int, ...]
) -> None:
    """Places the selected part of a chunk; `drop_axes` are its axes that the values do not have."""
    chosen = chosen.squeeze(axis=drop_axes) if drop_axes else chosen
    if is_basic(target):
        assign(values[(*target, ...)], chosen)
    else:
        values[target] = chosen


_ROW_BYTES = 512  # up to which numpy takes about as long to begin a row as to copy it


def assign(place: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Copies all values to `place`; of many, short rows as one item each."""
    row_bytes = place.shape[-1] * place.itemsize if place.ndim else 0
    if (
        place.itemsize < row_bytes <= _ROW_BYTES
        and place.nbytes >= COPIED_BYTES
        and place.shape == values.shape
        and place.dtype == values.dtype
        and place.strides[-1] == values.strides[-1] == place.itemsize
    ):
        row = np.dtype(f"V{row_bytes}")
        place.view(row)[...] = values.view(row)
    else:
        place[...] = values


def reshape_chunk(flat: Data | Bytes, layout: Layout) -> npt.NDArray[Any]:
    """The values of a chunk, in the shape of the chunk, in the memory of its bytes."""
    if len(flat) != layout.size_bytes:
        raise ValueError(f"a chunk has {len(flat)} bytes, and its values {layout.size_bytes}")
    stored = np.ndarray(layout.shape, layout.dtype, flat)
    return stored if layout.back is None else stored.transpose(layout.back)


class _Scratch(threading.local):
    """Memory that a thread uses for one chunk after another: new memory costs more than a copy.

    A call makes what an earlier one returned useless.
    """

    def __init__(self) -> None:
        self._held = np.empty(0, np.uint8)

    def __call__(self, size_bytes: int) -> Bytes:
        if size_bytes > _KEPT_BYTES:
            return np.empty(size_bytes, np.uint8)
        if len(self._held) < size_bytes:
            self._held = np.empty(size_bytes, np.uint8)
        return self._held[:size_bytes]

    def view(self, size_bytes: int) -> memoryview | None:
        """None if so much is not kept: memory for it is made once the bytes are known to exist."""
        return None if size_bytes > _KEPT_BYTES else memoryview(self(size_bytes))


scratch = _Scratch()  # of decoded chunks
stored_scratch = _Scratch()  # of chunks as they are stored
encoded_scratch = _Scratch()  # of chunks of a shard that is not complete


def is_basic(selection: Any) -> bool:
    """True if the selection has slices and integers only: then numpy returns views."""
    return type(selection) is tuple and _BASIC.issuperset(map(type, selection))


# Byte ranges of a plain chunk that a selection needs.
#
# The values of a chunk lie in C order. A selection of few places along the first axes, and of any
# along the others, needs one run of bytes: that of the rows between its first and its last.

WORTHWHILE_BYTES = 1 << 15  # a request for less is not worth a plan of its own


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `stop` are an array of this shape, of which `selection` is wanted."""

    start: int
    stop: int
    shape: tuple[int, ...]
    selection: tuple[Any, ...]


def span_of(selection: Any, shape: tuple[int, ...], itemsize: int) -> Span | None:
    """None if the whole chunk might as well be fetched."""
    whole = prod(shape) * itemsize
    if whole < WORTHWHILE_BYTES or not isinstance(selection, tuple) or len(selection) != len(shape):
        return None
    first, inner = 0, whole  # where the span starts, and the bytes of one place along the axis
    narrowed: list[Any] = []
    kept: list[int] = []
    for part, length in zip(selection, shape, strict=True):
        places = _places(part, length)
        if not places or places.step < 0:
            return None
        inner //= length
        first += places[0] * inner
        kept.append(places[-1] + 1 - places[0])
        narrowed.append(0 if isinstance(part, int) else slice(0, kept[-1], places.step))
        if kept[-1] > 1:
            break
    size, axes = kept[-1] * inner, len(kept)
    if whole - size < WORTHWHILE_BYTES:
        return None
    return Span(first, first + size, (*kept, *shape[axes:]), (*narrowed, *selection[axes:]))


def _places(part: Any, length: int) -> range:
    """The places that are selected along an axis; none if that is not a plain selection."""
    if isinstance(part, int):
        return range(length)[part : part + 1]
    return range(length)[part] if isinstance(part, slice) else range(0)


# Byte ranges of plain chunks that a selection needs, and their targets in memory.

_WHOLE = np.iinfo(np.int64).max


@dataclass(slots=True)
class Pieces:
    """Parts of items: the bytes of an array of known layout, and the selection wanted of each.

    Where all of it is wanted just as it is stored, there is a target for it.
    """

    layouts: list[Layout] = field(default_factory=list)
    selections: list[Any] = field(default_factory=list)
    targets: list[memoryview | None] = field(default_factory=list)
    spans: dict[int, Span] = field(default_factory=dict)  # of items that are not read whole

    def parts(self) -> npt.NDArray[np.int64] | None:
        """First and last byte wanted of each chunk, (n, 2); None if all are wanted whole."""
        if not self.spans:
            return None
        parts = np.zeros((len(self.layouts), 2), np.int64)
        parts[:, 1] = _WHOLE
        for row, span in self.spans.items():
            parts[row] = span.start, span.stop
        return parts


def plan_pieces(items: list[Item], coding: Coding, values: npt.NDArray[Any]) -> Pieces:
    """Plans the parts of items that the coding knows, at least one."""
    pieces = Pieces()
    place = writable(values)
    spec = items[0][1]
    whole = coding.layout(spec)
    is_direct = whole.is_that_of(values)
    for row, item in enumerate(items):
        if item[1] is not spec:
            spec = item[1]
            whole = coding.layout(spec)
        layout, selection = whole, item[2]
        if not item[4] and layout.back is None:
            span = span_of(selection, layout.shape, layout.dtype.itemsize)
            if span is not None:
                pieces.spans[row] = span
                layout, selection = Layout.of(layout.dtype, span.shape), span.selection
        pieces.layouts.append(layout)
        pieces.selections.append(selection)
        pieces.targets.append(run_of(item, place, layout) if is_direct else None)
    return pieces


# Decompression bombs: chunks that decode to more than fits in memory.
#
# The writer of an array chose the shape of its chunks and their bytes: three megabytes of zstd can
# hold a hundred gigabytes, and say so or not. The decoded size of a chunk is limited; and what zarr
# decodes without a limit is looked at before: by what its header says, or, where it has no size
# and the limit could be passed, by decompressing it piece by piece and keeping nothing.

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


WAVE_BYTES = 256 << 20  # of decoded chunks that are in memory together
QUICK_BYTES = 2 << 20  # decoded in a millisecond or two
UNIT_BYTES = 1 << 20  # of decoded chunks that a thread takes at a time
_LEAST_UNIT_BYTES = UNIT_BYTES // 4
_QUICK_UNIT_BYTES = 1 << 16  # the same where all are decoded in a millisecond or two
COPIED_BYTES = 1 << 16  # of a chunk from which on copying it is worth a thread
_SPAN_RATIO = 8  # bytes that are read of a plain chunk for each that is wanted
PRESENT = GetResult(status="present")
MISSING = GetResult(status="missing")

coders = Pool(os.cpu_count() or 1)


def read_batch(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> tuple[GetResult, ...]:
    """Puts what is selected into `values`; says of each chunk whether there was one."""
    results: list[GetResult] = []
    if not coding.is_plain:  # of others, the whole chunk is decoded
        require_decodable(chunk_bytes(batch), batch.engine.files.settings.limits)
    for part in in_waves(batch, chunk_bytes(batch)):
        results += _read_wave(part, coding, values)
    return tuple(results)


def is_near(batch: Batch) -> bool:
    """True if all chunks are in files of this machine or in memory."""
    files = batch.engine.files
    return not files.store.far and not files.settings.virtual.grants


def in_waves(batch: Batch, size_bytes: int) -> list[Batch]:
    """Divides a batch into chunks of that size that are in memory together."""
    count, size = len(batch.items), max(1, WAVE_BYTES // max(1, size_bytes))
    if count <= size:
        return [batch]
    return [batch.part(start, start + size) for start in range(0, count, size)]


def chunk_bytes(batch: Batch) -> int:
    """Size of one decoded chunk; in an irregular grid, of the first."""
    return decoded_bytes(batch.items[0][1])


def read_bytes(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> int:
    """Decoded bytes that a selection needs, about: of chunks that are plain only a part is read."""
    whole = len(batch.items) * chunk_bytes(batch)
    return min(whole, _SPAN_RATIO * values.nbytes) if coding.is_plain else whole


def decoded_bytes(spec: ArraySpec) -> int:
    return prod(spec.shape) * spec.dtype.to_native_dtype().itemsize


def _read_wave(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> list[GetResult]:
    if coding.knows(batch.items[0][1]) and coding.is_plain:
        return _read_plain(batch, coding, values)
    data = load_chunks(batch)
    there = sum(each is not None for each in data)
    read_meter.add(chunks=there, decoded=there * chunk_bytes(batch))
    tasks = [(values, item, own) for item, own in zip(batch.items, data, strict=True)]
    return decode_chunks(batch.engine.files.chunks, coding, batch.drop_axes, tasks)


def in_units[T](tasks: Sequence[T], size_bytes: int) -> list[Sequence[T]]:
    """Divides tasks for chunks of that size: one call of a codec each, and some for each thread."""
    wanted = min(UNIT_BYTES, max(_LEAST_UNIT_BYTES, len(tasks) * size_bytes // coders.width))
    return _divide_tasks(tasks, wanted // max(1, size_bytes))


def _divide_tasks[T](tasks: Sequence[T], count: int) -> list[Sequence[T]]:
    """So many tasks each."""
    # `batched` makes room for all that it is asked for, however few there are.
    return [*batched(tasks, max(1, min(count, len(tasks))))]


def decode_chunks(
    files: ChunkFiles, coding: Coding, drop_axes: tuple[int, ...], tasks: Sequence[UnreadTask]
) -> list[GetResult]:
    """Puts chunks into their places; says of each whether there was one."""
    if not tasks:
        return []
    spec = tasks[0][1][1]
    size = decoded_bytes(spec)
    decode = (
        _Unpacker(coding, drop_axes, spec, coding.layout(spec)).unpack_unit
        if coding.knows(spec)
        else partial(_decode_unit, coding, drop_axes)
    )
    total = len(tasks) * size
    if total <= QUICK_BYTES:  # threads would wait for each other's turn to read
        units = _divide_tasks(read_stored(files, tasks), _QUICK_UNIT_BYTES // max(1, size))
        results = coders.map(decode, units, at_most=max(1, total // _LEAST_UNIT_BYTES))
    else:
        results = coders.map(lambda unit: decode(read_stored(files, unit)), in_units(tasks, size))
    return [result for some in results for result in some]


def read_stored(files: ChunkFiles, tasks: Sequence[UnreadTask]) -> Sequence[Task]:
    """Tasks with the bytes of their chunks, those that are read now in this thread's memory."""
    stored = [data for _, _, data in tasks if isinstance(data, StoredChunk)]
    read = iter(files.fetch_stored(stored, stored_scratch.view))
    return [
        (values, item, next(read) if isinstance(data, StoredChunk) else data)
        for values, item, data in tasks
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Unpacker:
    """Decodes chunks whose compressors are known; most of them have one spec."""

    coding: Coding
    drop_axes: tuple[int, ...]
    spec: ArraySpec
    layout: Layout  # of that spec

    def unpack_unit(self, tasks: Sequence[Task]) -> list[GetResult]:
        return list(map(self._unpack, tasks))

    def _unpack(self, task: Task) -> GetResult:
        """Straight to its place, or by way of memory that is used for the next chunk again."""
        values, item, data = task
        layout = self.layout if item[1] is self.spec else self.coding.layout(item[1])
        unpack, size = self.coding.unpack, layout.size_bytes
        if data is None or unpack is None:
            return _decode(self.coding, self.drop_axes, task)
        if item[4] and (place := _run_for(layout, item, values)) is not None:
            is_done = unpack.into(data, np.frombuffer(place, np.uint8))
            return PRESENT if is_done else _decode(self.coding, self.drop_axes, task)
        content: Data | Bytes | None = unpack.decompress(data, size)
        if content is None:
            content = scratch(size)
            wanted = _wanted_bytes(item[2], layout) if unpack.leaves_out(size) else size
            if not unpack.into(data, content, wanted):
                return _decode(self.coding, self.drop_axes, task)
        put(item[3], values, reshape_chunk(content, layout)[item[2]], self.drop_axes)
        return PRESENT


def _run_for(layout: Layout, item: Item, values: npt.NDArray[Any]) -> memoryview | None:
    """The place of a whole chunk, if its values lie there end to end."""
    rows = values.shape[-1:]
    are_parts = rows != layout.shape[-1:] and prod(rows) * values.itemsize < layout.size_bytes
    if are_parts or not layout.is_that_of(values):  # rows of the chunk are parts of longer rows
        return None
    return run_of(item, writable(values), layout)


def _wanted_bytes(selection: Any, layout: Layout) -> int:
    """Bytes of a chunk up to the last one selected; all of them if selected by arrays."""
    if layout.back is not None or not is_basic(selection) or len(selection) != len(layout.shape):
        return layout.size_bytes
    last = 0
    for part, length in zip(selection, layout.shape, strict=True):
        places = _places(part, length)
        if not places:
            return layout.size_bytes
        last = last * length + max(places[0], places[-1])
    return (last + 1) * layout.dtype.itemsize


def _decode_unit(
    coding: Coding, drop_axes: tuple[int, ...], tasks: Sequence[Task]
) -> list[GetResult]:
    return [_decode(coding, drop_axes, task) for task in tasks]


def _decode(coding: Coding, drop_axes: tuple[int, ...], task: Task) -> GetResult:
    """Decodes a chunk with zarr."""
    values, (_, spec, selection, target, _), data = task
    if data is not None:
        require_bounded(coding.transform.codecs, data, decoded_bytes(spec))
    return decode_and_scatter_chunk(
        None if data is None else spec.prototype.buffer.from_bytes(data),
        spec.prototype.nd_buffer.from_numpy_array(values),
        chunk_spec=spec,
        chunk_selection=selection,
        out_selection=target,
        drop_axes=drop_axes,
        decode=coding.transform.decode_chunk,
    )


def _read_plain(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> list[GetResult]:
    """Chunks that are stored as their values: only the bytes that are needed are fetched."""
    pieces = plan_pieces(batch.items, coding, values)
    files = batch.engine.files.chunks
    data = load_chunks(batch, pieces.parts(), pieces.targets)
    sizes = [
        each.size_bytes
        for each, found in zip(pieces.layouts, data, strict=True)
        if found is not None
    ]
    read_meter.add(chunks=len(sizes), decoded=sum(sizes))
    todo = [
        row
        for row, (found, target) in enumerate(zip(data, pieces.targets, strict=True))
        if found is None or found is not target
    ]

    def place(row: int) -> None:
        item, found, target = batch.items[row], data[row], pieces.targets[row]
        if found is None:
            values[item[3]] = fill_value_or_default(item[1])
            return
        if isinstance(found, StoredChunk):
            is_fitting = target is not None and target.nbytes == found.length
            (found,) = files.fetch_stored(
                [found], (lambda _: target) if is_fitting else stored_scratch.view
            )
            if found is target:
                return
        stored = reshape_chunk(found, pieces.layouts[row])
        put(item[3], values, stored[pieces.selections[row]], batch.drop_axes)

    if chunk_bytes(batch) < COPIED_BYTES:
        for row in todo:
            place(row)
    else:
        coders.map(place, todo)
    return [MISSING if found is None else PRESENT for found in data]


def load_chunks(
    batch: Batch, parts: npt.NDArray[np.int64] | None = None, targets: Targets | None = None
) -> Sequence[Data | StoredChunk | None]:
    """Chunks of a batch, or these parts; of large ones nearby the place, to be read on threads."""
    if batch.engine.files.chunks.are_near and chunk_bytes(batch) >= COPIED_BYTES:
        return batch.engine.find_chunks(batch.path, batch.index).load(parts)
    return batch.engine.fetch_chunks(batch.path, batch.index, parts, targets)
