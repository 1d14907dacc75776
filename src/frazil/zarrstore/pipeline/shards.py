"""Chunks inside of chunks: of a shard only the index and what is selected is read.

All shards of a selection are read in two rounds, however many there are: first the indices, and
shards of which everything is wanted; then the chunks that the indices tell of. Those of all shards
are encoded and decoded together, on threads.
"""

import json
from collections.abc import Buffer, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.codecs import BytesCodec, Crc32cCodec
from zarr.codecs.sharding import _ShardIndex
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer, default_buffer_prototype
from zarr.core.chunk_grids import ChunkGrid
from zarr.core.indexing import get_indexer

from frazil.dataclass import dataclass
from frazil.engine.changes.chunk_reads import FoundChunks
from frazil.engine.files.caches import StoredChunk
from frazil.engine.files.chunk_objects import require_readable
from frazil.engine.files.read_meter import read_meter
from frazil.errors import FormatError, InvalidInputError
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.coding import Coding, GetResult, Unpack, fill_value_or_default
from frazil.zarrstore.pipeline.reading import (
    MISSING,
    PRESENT,
    Batch,
    Item,
    chunk_bytes,
    coders,
    decode_chunks,
    is_basic,
    require_decodable,
    waves,
)
from frazil.zarrstore.pipeline.writing import Stored, encode_chunks, require_writable

# Index in the shard, selection, place of that among the values, and whether it is the whole chunk.
type InnerChunk = tuple[tuple[int, ...], Any, Any, bool]

# Offset and length of every chunk of a shard, (*grid, 2).
type ShardIndex = npt.NDArray[np.uint64]

_USUAL_INDEX = (BytesCodec(endian="little"), Crc32cCodec())
_ABSENT = np.iinfo(np.uint64).max  # the offset of a chunk that a shard does not have
_WHOLE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    """The chunks wanted of a shard, and where their values belong."""

    item: Item
    values: npt.NDArray[Any]  # of what is selected of the shard
    chunks: Sequence[InnerChunk]
    is_total: bool  # whether every chunk of it is wanted

    @property
    def index(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Index of the chunks along each axis."""
        ndim = len(self.item[1].shape)
        return tuple(np.array([chunk[0] for chunk in self.chunks], np.int64).reshape(-1, ndim).T)


def inner_read_bytes(codec: Any, out: NDBuffer) -> int:
    """Bytes of the inner chunks that a selection of this shape touches, at most and about."""
    pairs = zip(out.shape, codec.chunk_shape, strict=False)  # axes that were dropped are missing
    sizes = [((n - 2) // size + 2) * size for n, size in pairs]
    missing = codec.chunk_shape[len(sizes) :]
    return int(prod(sizes) * prod(missing) * out.dtype.itemsize)


def read_shards(batch: Batch, codec: Any, out: NDBuffer) -> tuple[GetResult, ...] | None:
    """Puts what is selected into `out`; None if that is not as simple as we know it."""
    spec = batch.items[0][1]
    coding = Coding.of(codec._get_inner_chunk_transform(spec).codecs)  # noqa: SLF001 -- zarr 3.4's
    if coding is None:
        return None
    values = np.asarray(out.as_ndarray_like())
    itemsize = spec.dtype.to_native_dtype().itemsize
    size = max(values.size // len(batch.items), prod(codec.chunk_shape)) * itemsize
    results: list[GetResult] = []
    for start, stop in waves(len(batch.items), size):
        part = batch.part(start, stop)
        shards = _plan(part, codec, values)
        if shards is None:
            return None
        results += _read_wave(part, codec, coding, shards)
    return tuple(results)


def _read_wave(batch: Batch, codec: Any, coding: Coding, shards: list[_Shard]) -> list[GetResult]:
    spec = batch.items[0][1]
    found = batch.engine.find_chunks(batch.path, batch.index)
    stored = found.stored()
    whole, indices = _fetch_indices(found, stored, codec, shards)
    places = [
        None if index is None else index[shard.index]
        for shard, index in zip(shards, indices, strict=True)
    ]
    inner = codec._get_chunk_spec(spec)  # noqa: SLF001 -- zarr 3.4's
    inner_bytes = prod(inner.shape) * inner.dtype.to_native_dtype().itemsize
    require_decodable(inner_bytes, batch.engine.files.settings.limits)
    tasks = [
        (shard.values, (None, inner, *chunk[1:]), own)
        for shard, data in zip(shards, _fetch_chunks(found, stored, whole, places), strict=True)
        for chunk, own in zip(shard.chunks, data, strict=False)  # none of a missing shard
    ]
    decode_chunks(batch.engine.files.chunks, coding, (), tasks)
    decoded = sum(own is not None for _, _, own in tasks)
    there = sum(index is not None for index in indices)
    read_meter.add(chunks=there, decoded=decoded * inner_bytes)
    return list(map(_result, shards, indices))


def _plan(batch: Batch, codec: Any, values: npt.NDArray[Any]) -> list[_Shard] | None:
    spec = batch.items[0][1]
    count = prod(n // size for n, size in zip(spec.shape, codec.chunk_shape, strict=True))
    shards = []
    for item in batch.items:
        if item[1] is not spec or not is_basic(item[3]):
            return None
        place = np.expand_dims(_part(values, item[3]), batch.drop_axes)
        chunks = _inner_chunks(item[2], spec.shape, codec.chunk_shape, place.shape)
        if chunks is None:
            return None
        is_total = len({chunk[0] for chunk in chunks}) == count
        shards.append(_Shard(item, place, chunks, is_total))
    return shards


def _part(values: npt.NDArray[Any], target: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Values at a place; a single value may be given for all places."""
    if values.ndim or not target:
        return values[(*target, ...)]
    return np.broadcast_to(
        values, [each.stop - each.start for each in target if type(each) is slice]
    )


def _inner_chunks(
    selection: Any, shape: tuple[int, ...], inner: tuple[int, ...], selected: tuple[int, ...]
) -> Sequence[InnerChunk] | None:
    """Chunks that a selection of a shard touches; None if it does not have the shape `selected`."""
    if is_basic(selection):
        found = _basic_chunks(selection, shape, inner)
        if found is not None:
            return found[1] if found[0] == selected else None
    indexer = get_indexer(selection, shape=shape, chunk_grid=ChunkGrid.from_sizes(shape, inner))
    if hasattr(indexer, "sel_shape") or selected != indexer.shape:
        return None
    return list(indexer)


@lru_cache(maxsize=8)  # most shards of a selection are wanted whole
def _basic_chunks(
    selection: tuple[slice | int, ...], shape: tuple[int, ...], inner: tuple[int, ...]
) -> tuple[tuple[int, ...], Sequence[InnerChunk]] | None:
    """The shape of what is selected, and its chunks; None if slices are empty or have steps."""
    if len(selection) != len(shape):
        return None
    axes: list[list[Any]] = []
    selected: list[int] = []
    for part, length, size in zip(selection, shape, inner, strict=True):
        if isinstance(part, int):
            place = range(length)[part]
            axes.append([(place // size, place % size, None, False)])
            continue
        start, stop, step = part.indices(length)
        if step != 1 or start >= stop:
            return None
        along = []
        for at in range(start // size, (stop - 1) // size + 1):
            first, last = max(start, at * size), min(stop, (at + 1) * size)
            own = slice(first - at * size, last - at * size)
            along.append((at, own, slice(first - start, last - start), last - first == size))
        axes.append(along)
        selected.append(stop - start)
    chunks = []
    for parts in product(*axes):
        index, within, target, is_whole = zip(*parts, strict=True) if parts else ((), (), (), ())
        chunks.append((index, within, tuple(t for t in target if t is not None), all(is_whole)))
    return tuple(selected), chunks


def _fetch_indices(
    found: FoundChunks, stored: list[StoredChunk | None], codec: Any, shards: list[_Shard]
) -> tuple[list[Data | None], list[ShardIndex | None]]:
    """Shards of which all is wanted, unless they are near, and the index of each that there is."""
    grid = codec._get_chunks_per_shard(shards[0].item[1])  # noqa: SLF001 -- zarr 3.4's
    cache, location = found.files.caches.shard_indices, codec.index_location
    is_usual = codec.index_codecs == _USUAL_INDEX
    are_near = found.files.chunks.are_near
    is_whole = [
        shard.is_total and (place is None or not are_near)
        for shard, place in zip(shards, stored, strict=True)
    ]
    whole: list[Data | None] = [None] * len(shards)
    indices: list[ShardIndex | None] = [
        cache.find((place, grid, location))
        if is_usual and place is not None and not is_whole[row]
        else None
        for row, place in enumerate(stored)
    ]
    missing = [row for row, index in enumerate(indices) if index is None]
    size = codec._shard_index_size(grid)  # noqa: SLF001 -- same
    part = (0, size) if location == "start" else (-size, _WHOLE)
    parts = np.array([(0, _WHOLE) if is_whole[row] else part for row in missing], np.int64)
    heads = found.fetch(missing, parts) if missing else ()
    for row, head in zip(missing, heads, strict=True):
        if head is not None:
            indices[row] = index = _decode_index(codec, grid, head)
            if is_whole[row]:
                whole[row] = head
            elif is_usual and (place := stored[row]) is not None:
                cache.remember((place, grid, location), index)
    return whole, indices


def _decode_index(codec: Any, grid: tuple[int, ...], head: Data) -> ShardIndex:
    """Decodes the index, given alone or with its whole shard."""
    size = codec._shard_index_size(grid)  # noqa: SLF001 -- zarr 3.4's
    own = head[:size] if codec.index_location == "start" else head[-size:]
    if codec.index_codecs == _USUAL_INDEX:
        found = np.empty((*grid, 2), "<u8")
        if Unpack(checksums=1).into(own, found.reshape(-1).view(np.uint8)):
            return found
    stored = default_buffer_prototype().buffer.from_bytes(own)
    index: ShardIndex = codec._decode_shard_index_sync(  # noqa: SLF001 -- same
        stored, grid
    ).offsets_and_lengths
    return index


def _fetch_chunks(
    shards: FoundChunks,
    stored: list[StoredChunk | None],
    whole: list[Data | None],
    places: list[npt.NDArray[np.uint64] | None],
) -> Iterator[list[Data | StoredChunk | None]]:
    """The chunks of each shard, None for those that it does not have; places of near ones."""
    spans = [
        []
        if shard is not None or found is None
        else [(at, at + length) for at, length in found.tolist() if at != _ABSENT]
        for shard, found in zip(whole, places, strict=True)
    ]
    fetched = _fetch_spans(shards, stored, spans)
    for row, (shard, found) in enumerate(zip(whole, places, strict=True)):
        own = iter(fetched[row])
        chunks: list[Data | StoredChunk | None] = []
        for start, length in () if found is None else found.tolist():
            if start == _ABSENT:
                chunks.append(None)
            elif shard is not None:
                chunks.append(memoryview(shard)[start : start + length])
            else:
                chunks.append(next(own))
        yield chunks


def _fetch_spans(
    shards: FoundChunks, stored: list[StoredChunk | None], spans: list[list[tuple[int, int]]]
) -> list[Sequence[Data | StoredChunk | None]]:
    """Bytes of spans of each shard, cut off at its end: those in objects are read together.

    Of those in local files, there are their places.
    """
    parts = [
        place.part(start, stop)
        for place, own in zip(stored, spans, strict=True)
        if place is not None
        for start, stop in own
    ]
    require_readable(parts, shards.files.settings.limits)
    rows = [row for row, place in enumerate(stored) if place is None for _ in spans[row]]
    others = [
        (min(start, _WHOLE), min(stop, _WHOLE))
        for place, own in zip(stored, spans, strict=True)
        if place is None
        for start, stop in own
    ]
    chunks = shards.files.chunks
    own_parts = iter(parts if chunks.are_near else chunks.fetch_stored(parts))
    other_parts = iter(shards.fetch(rows, np.array(others, np.int64)) if rows else ())
    return [
        list(islice(other_parts if place is None else own_parts, len(own)))
        for place, own in zip(stored, spans, strict=True)
    ]


def _result(shard: _Shard, index: ShardIndex | None) -> GetResult:
    if index is not None:
        return PRESENT
    shard.values[...] = fill_value_or_default(shard.item[1])
    return MISSING


# Writing. Chunks of a shard that are not touched stay as they are, byte by byte.


def write_shards(batch: Batch, codec: Any, value: NDBuffer) -> int:
    """Stores shards with these values in them, and returns how many of the first were stored.

    The others are not as simple as we know it.
    """
    spec = batch.items[0][1]
    coding = Coding.of(codec._get_inner_chunk_transform(spec).codecs)  # noqa: SLF001 -- zarr 3.4's
    values = np.asarray(value.as_ndarray_like())
    if coding is None:
        return 0
    require_writable(batch)
    done = 0
    for start, stop in waves(len(batch.items), chunk_bytes(batch)):
        part = batch.part(start, stop)
        shards = _plan(part, codec, values)
        if shards is None:
            break
        batch.engine.change_chunks(
            batch.path, part.index, _encode_wave(part, codec, coding, shards)
        )
        done = stop
    return done


def _encode_wave(batch: Batch, codec: Any, coding: Coding, shards: list[_Shard]) -> list[Stored]:
    """Whole shards to be stored, in pieces, None for those to be deleted."""
    spec = batch.items[0][1]
    old = _old_shards(batch, codec, shards)
    inner = codec._get_chunk_spec(spec)  # noqa: SLF001 -- zarr 3.4's

    def encode(row: int) -> Stored:
        shard, chunks = shards[row], old[row]
        tasks: list[Any] = [
            (shard.values, (None, inner, *chunk[1:]), None if chunk[3] else chunks.get(chunk[0]))
            for chunk in shard.chunks
        ]
        encoded = encode_chunks(coding, (), tasks, lambda data: data)
        chunks.update(zip([chunk[0] for chunk in shard.chunks], encoded, strict=True))
        old[row] = {}
        made = _assemble(codec, spec, chunks)
        return None if made is None else batch.engine.store_large(made)

    # Threads have a shard each, or of a few shards some chunks each.
    every = range(len(shards))
    return coders.map(encode, every) if len(every) >= 2 * coders.width else [*map(encode, every)]


def _old_shards(
    batch: Batch, codec: Any, shards: list[_Shard]
) -> list[dict[tuple[int, ...], Buffer | None]]:
    """Stored chunks of each shard by index; none of shards that are overwritten altogether."""
    partly = [
        row
        for row, shard in enumerate(shards)
        if not (shard.is_total and all(chunk[3] for chunk in shard.chunks))
    ]
    found: list[dict[tuple[int, ...], Buffer | None]] = [{} for _ in shards]
    if partly:
        stored = batch.engine.fetch_chunks(batch.path, batch.index[partly])
        for row, data in zip(partly, stored, strict=True):
            if data is not None:
                found[row] = _stored_chunks(codec, shards[row].item[1], data)
    return found


def _stored_chunks(codec: Any, spec: ArraySpec, data: Data) -> dict[tuple[int, ...], Buffer | None]:
    grid = codec._get_chunks_per_shard(spec)  # noqa: SLF001 -- zarr 3.4's
    places = _decode_index(codec, grid, data)
    index = np.argwhere(places[..., 0] != _ABSENT)
    chunks: dict[tuple[int, ...], Buffer | None] = {}
    for at, (start, length) in zip(
        map(tuple, index.tolist()), places[tuple(index.T)].tolist(), strict=True
    ):
        if start + length > len(data):
            raise FormatError(
                f"a shard has {len(data)} bytes, and a chunk of its grid {grid} that ends at"
                f" {start + length}: it is damaged, and was not changed"
            )
        chunks[at] = memoryview(data)[start : start + length]
    return chunks


def _assemble(
    codec: Any, spec: ArraySpec, chunks: dict[tuple[int, ...], Buffer | None]
) -> tuple[Buffer, ...] | None:
    """Pieces of a shard of these chunks, in the order that zarr has; None if there are none."""
    grid = codec._get_chunks_per_shard(spec)  # noqa: SLF001 -- zarr 3.4's
    index = np.full((*grid, 2), _ABSENT, np.uint64)
    is_first = codec.index_location == "start"
    at = codec._shard_index_size(grid) if is_first else 0  # noqa: SLF001 -- same
    parts: list[Buffer] = []
    for place in codec._subchunk_order_iter(grid, codec.subchunk_write_order):  # noqa: SLF001 -- same
        chunk = chunks.get(place)
        if chunk is not None and (length := memoryview(chunk).nbytes):
            index[place] = at, length
            at += length
            parts.append(chunk)
    if not parts:
        return None
    head = codec._encode_shard_index_sync(_ShardIndex(grid, index)).as_numpy_array()  # noqa: SLF001 -- same
    return (head, *parts) if is_first else (*parts, head)


# Inner chunks that do not fit into their shard once it is transposed. Pure, on `zarr.json`.


def find_shard_misfit(document: Mapping[str, Any]) -> str | None:
    """Describes inner chunks that do not fit into their shard, if the array has such.

    Zarr compares them with the shard as it is before it is transposed. If they fit only then,
    values are lost: there is no place in the shard for some of the inner chunks.
    """
    match document.get("chunk_grid"):
        case {"name": "regular", "configuration": {"chunk_shape": [*sizes]}}:
            lengths = [[size] for size in sizes]
        case {"name": "rectilinear", "configuration": {"chunk_shapes": [*edges]}}:
            lengths = [_edge_lengths(each) for each in edges]
        case _:
            return None
    if not all(_are_sizes(each) for each in lengths):
        return None  # the caller refuses it
    return _misfit(lengths, document.get("codecs"))


def _edge_lengths(edges: Any) -> list[Any]:
    """Sizes of chunks along one dimension: an integer, a list of them, or of [size, count]."""
    listed = edges if isinstance(edges, list | tuple) else [edges]
    return [edge[0] if isinstance(edge, list | tuple) and edge else edge for edge in listed]


def _are_sizes(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int) and value > 0 for value in values)


def _misfit(lengths: list[list[int]], codecs: Any) -> str | None:
    """`lengths` are those that a chunk can have along each axis."""
    for codec in codecs if isinstance(codecs, list | tuple) else ():
        match codec:
            case {"name": "transpose", "configuration": {"order": [*order]}}:
                if {*map(str, order)} != {*map(str, range(len(lengths)))}:
                    return None  # zarr refuses it
                lengths = [lengths[int(axis)] for axis in order]
            case {"name": "sharding_indexed", "configuration": {"chunk_shape": [*inner]}}:
                if len(inner) != len(lengths) or not _are_sizes(inner):
                    return None  # zarr refuses it
                for size, outer in zip(inner, lengths, strict=True):
                    if any(length % size for length in outer):
                        shard = tuple(min(each, default=0) for each in lengths)
                        return (
                            f"inner chunks of shape {tuple(inner)} do not fit into the shard, which"
                            f" is {shard} once it is transposed: values would be lost"
                        )
                return _misfit([[size] for size in inner], codec["configuration"].get("codecs"))
            case {"name": "numcodecs.packbits"}:
                return None  # gives the values another shape
    return None


def require_fitting_shards(
    document: bytes, where: str, find_old: Callable[[], bytes | None] = lambda: None
) -> None:
    """Raises InvalidInputError for a new array whose shards would lose values.

    An array that is there already, which `find_old` finds, may keep such codecs: its other
    metadata can be changed.
    """
    problem = _misfit_in(document)
    if problem is None:
        return
    old = find_old()
    if old is None or _misfit_in(old) is None:
        raise InvalidInputError(f"`{where}`: {problem}", kind="bad-metadata")


def _misfit_in(document: bytes) -> str | None:
    if b'"sharding_indexed"' not in document or b'"transpose"' not in document:
        return None
    try:
        parsed = json.loads(document)
    except ValueError:
        return None  # the caller refuses it
    return find_shard_misfit(parsed) if isinstance(parsed, dict) else None
