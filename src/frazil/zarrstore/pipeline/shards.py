"""Chunks inside of chunks: of a shard only the index and what is selected is read.

All shards of a selection are read in two rounds, however many there are: first the indices, and
shards of which everything is wanted; then the chunks that the indices tell of. Those of all shards
are encoded and decoded together, on threads.
"""

import json
from collections.abc import Buffer, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.codecs import BytesCodec, Crc32cCodec
from zarr.codecs.sharding import _ShardIndex
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.chunk_grids import ChunkGrid
from zarr.core.indexing import get_indexer

from frazil.dataclass import dataclass
from frazil.engine.changes.chunk_reads import FoundChunks
from frazil.engine.files.caches import StoredChunk
from frazil.engine.files.chunk_objects import ChunkFiles, require_readable
from frazil.engine.files.read_meter import read_meter
from frazil.errors import FormatError, InvalidInputError
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.coding import (
    Coding,
    GetResult,
    Unpack,
    fill_value_or_default,
    with_checksum,
)
from frazil.zarrstore.pipeline.reading import (
    MISSING,
    PRESENT,
    Batch,
    ChunkOfBox,
    Item,
    Part,
    UnreadTask,
    chunk_bytes,
    coders,
    decode_chunks,
    divide_box,
    divide_mesh,
    encoded_scratch,
    in_waves,
    is_basic,
    read_stored,
    require_decodable,
    stored_scratch,
)
from frazil.zarrstore.pipeline.writing import Encoder, Stored, require_writable

# Offset and length of every chunk of a shard, (*grid, 2).
type ShardIndex = npt.NDArray[np.uint64]
type Chunks = dict[tuple[int, ...], Buffer | None]  # of a shard

_USUAL_INDEX = (BytesCodec(endian="little"), Crc32cCodec())
_ABSENT = int(np.iinfo(np.uint64).max)  # the offset of a chunk that a shard does not have
_WHOLE = np.iinfo(np.int64).max
_FEW = 16  # chunks whose places in a shard are looked up one by one


@dataclass(frozen=True, slots=True, eq=False)
class Sharding:
    """A sharding codec with shards of one shape: what zarr 3.4 has under private names."""

    codec: Any
    grid: tuple[int, ...]  # chunks of a shard along each axis
    inner: ArraySpec  # of such a chunk
    inner_bytes: int
    index_bytes: int
    is_index_usual: bool
    coding: Coding | None  # of the chunks; None if they are only decoded asynchronously

    @property
    def is_index_first(self) -> bool:
        return bool(self.codec.index_location == "start")

    def decode_index(self, head: Data) -> ShardIndex:
        """Decodes the index, given alone or with its whole shard."""
        own = head[: self.index_bytes] if self.is_index_first else head[-self.index_bytes :]
        if self.is_index_usual:
            found = np.empty((*self.grid, 2), "<u8")
            if Unpack(checksums=1).into(own, found.reshape(-1).view(np.uint8)):
                return found
        stored = default_buffer_prototype().buffer.from_bytes(own)
        decoded = self.codec._decode_shard_index_sync(stored, self.grid)  # noqa: SLF001 -- zarr 3.4's
        index: ShardIndex = decoded.offsets_and_lengths
        return index

    def encode_index(self, index: ShardIndex) -> Buffer:
        if self.is_index_usual:
            return with_checksum(index.astype("<u8"))
        encoded = self.codec._encode_shard_index_sync(_ShardIndex(self.grid, index))  # noqa: SLF001 -- zarr 3.4's
        head: Buffer = encoded.as_numpy_array()
        return head

    def chunks_in_order(self) -> Iterator[tuple[int, ...]]:
        """Index of every chunk, in the order in which zarr writes them."""
        order = self.codec.subchunk_write_order
        indices: Iterator[tuple[int, ...]] = self.codec._subchunk_order_iter(self.grid, order)  # noqa: SLF001 -- zarr 3.4's
        return indices


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A codec as a key: some of those inside, such as blosc, cannot be hashed."""

    codec: Any

    def __hash__(self) -> int:
        return id(self.codec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.codec is self.codec


def sharding_of(codec: Any, spec: ArraySpec) -> Sharding:
    """`spec` is that of a shard."""
    return _sharding_of(_Same(codec), spec)


@lru_cache(maxsize=64)
def _sharding_of(same: _Same, spec: ArraySpec) -> Sharding:
    codec = same.codec
    grid = codec._get_chunks_per_shard(spec)  # noqa: SLF001 -- zarr 3.4's
    inner = codec._get_chunk_spec(spec)  # noqa: SLF001 -- same
    codecs = codec._get_inner_chunk_transform(spec).codecs  # noqa: SLF001 -- same
    return Sharding(
        codec=codec,
        grid=grid,
        inner=inner,
        inner_bytes=prod(inner.shape) * inner.dtype.to_native_dtype().itemsize,
        index_bytes=codec._shard_index_size(grid),  # noqa: SLF001 -- same
        is_index_usual=codec.index_codecs == _USUAL_INDEX,
        coding=Coding.of(codecs),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    """The chunks wanted of a shard, and where their values belong."""

    item: Item
    values: npt.NDArray[Any]  # of what is selected of the shard
    chunks: Sequence[ChunkOfBox]
    is_total: bool  # whether every chunk of it is wanted

    def places(self, index: ShardIndex) -> list[list[int]]:
        """Offset and length of each of the chunks, from the index of the shard."""
        if len(self.chunks) <= _FEW:
            return [index[chunk[0]].tolist() for chunk in self.chunks]
        rows = np.array([chunk[0] for chunk in self.chunks], np.int64)
        found: list[list[int]] = index[tuple(rows.T)].tolist()
        return found


def inner_read_bytes(codec: Any, out: npt.NDArray[Any]) -> int:
    """Bytes of the inner chunks that a selection of this shape touches, at most and about."""
    pairs = zip(out.shape, codec.chunk_shape, strict=False)  # axes that were dropped are missing
    sizes = [((n - 2) // size + 2) * size for n, size in pairs]
    missing = codec.chunk_shape[len(sizes) :]
    return int(prod(sizes) * prod(missing) * out.dtype.itemsize)


def read_shards(
    batch: Batch, sharding: Sharding, values: npt.NDArray[Any]
) -> tuple[GetResult, ...] | None:
    """Puts what is selected into `values`; None if that is not as simple as we know it."""
    if sharding.coding is None:
        return None
    size = max(values.nbytes // len(batch.items), sharding.inner_bytes)
    results: list[GetResult] = []
    for part in in_waves(batch, size):
        shards = _plan(part, sharding, values)
        if shards is None:
            return None
        results += _read_wave(part, sharding, sharding.coding, shards)
    return tuple(results)


def _read_wave(
    batch: Batch, sharding: Sharding, coding: Coding, shards: list[_Shard]
) -> list[GetResult]:
    found = batch.engine.find_chunks(batch.path, batch.index)
    opened = _open_shards(found, sharding, shards)
    require_decodable(sharding.inner_bytes, batch.engine.files.settings.limits)
    tasks = _find_tasks(found, sharding, opened)
    decode_chunks(batch.engine.files.chunks, coding, (), tasks)
    decoded = sum(own is not None for _, _, own in tasks)
    there = sum(each.index is not None for each in opened)
    read_meter.add(chunks=there, decoded=decoded * sharding.inner_bytes)
    return list(map(_result, opened))


def _plan(batch: Batch, sharding: Sharding, values: npt.NDArray[Any]) -> list[_Shard] | None:
    spec = batch.items[0][1]
    count = prod(sharding.grid)
    shards = []
    for item in batch.items:
        if item[1] is not spec or not is_basic(item[3]):
            return None
        place = _part(values, item[3])
        if batch.drop_axes:
            place = np.expand_dims(place, batch.drop_axes)
        chunks = _inner_chunks(item[2], spec.shape, sharding.inner.shape, place.shape)
        if chunks is None:
            return None
        is_total = len(chunks) >= count and len({chunk[0] for chunk in chunks}) == count
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
) -> Sequence[ChunkOfBox] | None:
    """Chunks that a selection of a shard touches; None if it does not have the shape `selected`."""
    if is_basic(selection):
        found = divide_box(selection, shape, inner)
        if found is not None:
            return found.chunks if found.shape == selected else None
    elif (parts := _mesh_parts(selection)) is not None:
        found = divide_mesh(parts, shape, inner)
        if found is not None and found.shape == selected:
            return found.chunks
    indexer = get_indexer(selection, shape=shape, chunk_grid=ChunkGrid.from_sizes(shape, inner))
    if hasattr(indexer, "sel_shape") or selected != indexer.shape:
        return None
    return list(indexer)


def _mesh_parts(selection: Any) -> list[Part] | None:
    """Places along each axis, if they are selected by arrays as `np.ix_` makes them, or by one."""
    if type(selection) is not tuple:
        return None
    parts: list[Part] = []
    arrays = [part for part in selection if isinstance(part, np.ndarray)]
    for axis, part in enumerate(selection):
        if type(part) is slice:
            parts.append(part)
            continue
        if not isinstance(part, np.ndarray) or part.dtype.kind not in "biu":
            return None
        is_open = part.ndim == len(selection) and part.size == part.shape[axis]
        if not is_open and not (part.ndim == len(arrays) == 1):
            return None
        flat = part.reshape(-1)
        parts.append(np.flatnonzero(flat) if flat.dtype.kind == "b" else flat.astype(np.int64))
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class _OpenShard:
    """A shard, the object it is in, its index, and its bytes if they had to be read at once."""

    shard: _Shard
    place: StoredChunk | None
    index: ShardIndex | None  # None if there is no such shard
    data: Data | None


def _open_shards(found: FoundChunks, sharding: Sharding, shards: list[_Shard]) -> list[_OpenShard]:
    """Reads indices, unless they are cached, and shards of which all is wanted, unless near."""
    cache, location = found.files.caches.shard_indices, sharding.codec.index_location
    grid, is_usual = sharding.grid, sharding.is_index_usual
    are_near = found.files.chunks.are_near
    stored = found.stored()
    opened = []
    for shard, place in zip(shards, stored, strict=True):
        is_cached = is_usual and place is not None and (are_near or not shard.is_total)
        index = cache.find((place, grid, location)) if is_cached and place is not None else None
        opened.append(_OpenShard(shard, place, index, None))
    missing = [row for row, each in enumerate(opened) if each.index is None]
    if not missing:
        return opened
    head = (0, sharding.index_bytes) if sharding.is_index_first else (-sharding.index_bytes, _WHOLE)
    are_whole = [shards[row].is_total and not (are_near and stored[row]) for row in missing]
    parts = np.array([(0, _WHOLE) if is_whole else head for is_whole in are_whole], np.int64)
    for row, is_whole, data in zip(missing, are_whole, found.fetch(missing, parts), strict=True):
        if data is None:
            continue
        index = sharding.decode_index(data)
        opened[row] = _OpenShard(shards[row], stored[row], index, data if is_whole else None)
        if is_usual and not is_whole and (place := stored[row]) is not None:
            cache.remember((place, grid, location), index)
    return opened


def _find_tasks(
    found: FoundChunks, sharding: Sharding, opened: list[_OpenShard]
) -> Sequence[UnreadTask]:
    """The chunks of all shards: their bytes, or None where a shard has none.

    Of those in local files there are the places, in their order: neighbours are read together.
    """
    files, inner = found.files, sharding.inner
    are_near = files.chunks.are_near
    tasks: list[UnreadTask] = []
    stored: list[StoredChunk] = []
    others: dict[int, tuple[int, int, int]] = {}  # of shards that are not in an object
    for row, each in enumerate(opened):
        shard, place, data = each.shard, each.place, each.data
        if each.index is None:
            continue
        values = shard.values
        chunks = zip(shard.places(each.index), shard.chunks, strict=True)
        for (start, length), (_, selection, target, is_whole) in (
            sorted(chunks, key=itemgetter(0)) if are_near and place is not None else chunks
        ):
            own: Data | StoredChunk | None = None
            if start == _ABSENT:
                pass
            elif data is not None:
                own = memoryview(data)[start : start + length]
            elif place is not None:
                own = place.part(start, start + length)
                stored.append(own)
            else:
                others[len(tasks)] = row, min(start, _WHOLE), min(start + length, _WHOLE)
            tasks.append((values, (None, inner, selection, target, is_whole), own))
    require_readable(stored, files.settings.limits)
    if others:
        rows = [row for row, _, _ in others.values()]
        spans = np.array([span for _, *span in others.values()], np.int64)
        for number, chunk in zip(others, found.fetch(rows, spans), strict=True):
            tasks[number] = (*tasks[number][:2], chunk)
    return tasks if are_near else read_stored(files.chunks, tasks)


def _result(opened: _OpenShard) -> GetResult:
    if opened.index is not None:
        return PRESENT
    shard = opened.shard
    shard.values[...] = fill_value_or_default(shard.item[1])
    return MISSING


# Writing. Chunks of a shard that are not touched stay as they are, byte by byte.


def write_shards(batch: Batch, sharding: Sharding, values: npt.NDArray[Any]) -> int:
    """Stores shards with these values in them, and returns how many of the first were stored.

    The others are not as simple as we know it.
    """
    if sharding.coding is None:
        return 0
    require_writable(batch)
    done = 0
    for part in in_waves(batch, chunk_bytes(batch)):
        shards = _plan(part, sharding, values)
        if shards is None:
            break
        encoded = _encode_wave(part, sharding, sharding.coding, shards)
        batch.engine.change_chunks(batch.path, part.index, encoded)
        done += len(shards)
    return done


def _encode_wave(
    batch: Batch, sharding: Sharding, coding: Coding, shards: list[_Shard]
) -> list[Stored]:
    """Whole shards to be stored, in pieces, None for those to be deleted."""
    engine = batch.engine
    old = _load_old(batch, shards)
    # Threads have a shard each, or of a few shards some chunks each.
    are_apart = len(shards) >= 2 * coders.width
    encoder = Encoder(engine.files.chunks, coding, (), are_kept=not are_apart)
    # Chunks may be in memory of this thread that the next shard uses.
    are_lent = are_apart or any(isinstance(shard, StoredChunk) for shard in old)

    def store(chunks: Chunks) -> Stored:
        pieces = _assemble(sharding, chunks)
        stored = None if pieces is None else engine.store_large(pieces)
        return b"".join(pieces) if pieces and stored is pieces and are_lent else stored

    def encode(rows: Sequence[int]) -> list[Stored]:
        chunks = _old_chunks(encoder.files, sharding, [old[row] for row in rows])
        tasks: list[Any] = [
            (
                shards[row].values,
                (None, sharding.inner, *chunk[1:]),
                None if chunk[3] else known.get(chunk[0]),
            )
            for row, known in zip(rows, chunks, strict=True)
            for chunk in shards[row].chunks
        ]
        keep = _gather(len(tasks) * sharding.inner_bytes) if are_apart else _keep
        encoded = iter(encoder.encode(tasks, keep))
        for row, known in zip(rows, chunks, strict=True):
            known.update((chunk[0], next(encoded)) for chunk in shards[row].chunks)
        return coders.map(store, chunks)

    every = range(len(shards))
    if not are_apart:
        return encode(every)
    return [made for (made,) in coders.map(lambda row: encode([row]), every)]


def _keep(chunk: Buffer) -> Buffer:
    return chunk


def _gather(size_bytes: int) -> Callable[[Buffer], Buffer]:
    """Copies chunks to memory of this thread: objects of their own would need new memory."""
    memory, end = encoded_scratch(size_bytes), 0

    def copy(chunk: Buffer) -> Buffer:
        nonlocal end
        data = np.frombuffer(chunk, np.uint8)
        start, end = end, end + data.nbytes
        if end > size_bytes:
            return data.copy()
        memory[start:end] = data  # as others do, numpy lets go of the interpreter's lock meanwhile
        return memory[start:end]

    return copy


def _load_old(batch: Batch, shards: list[_Shard]) -> list[Data | StoredChunk | None]:
    """Each shard that is overwritten in part, if it is stored, or its place; None of others."""
    partly = [
        row
        for row, shard in enumerate(shards)
        if not (shard.is_total and all(chunk[3] for chunk in shard.chunks))
    ]
    old: list[Data | StoredChunk | None] = [None] * len(shards)
    if partly:
        found = batch.engine.find_chunks(batch.path, batch.index[partly])
        for row, data in zip(partly, found.load(), strict=True):
            old[row] = data
    return old


def _old_chunks(
    files: ChunkFiles, sharding: Sharding, shards: Sequence[Data | StoredChunk | None]
) -> list[Chunks]:
    """Chunks of each shard by index; of those in local files in this thread's memory."""
    read = iter(
        files.fetch_stored(
            [shard for shard in shards if isinstance(shard, StoredChunk)], stored_scratch.view
        )
    )
    data = [next(read) if isinstance(shard, StoredChunk) else shard for shard in shards]
    return [{} if shard is None else _stored_chunks(sharding, shard) for shard in data]


def _stored_chunks(sharding: Sharding, data: Data) -> Chunks:
    places = sharding.decode_index(data)
    index = np.argwhere(places[..., 0] != _ABSENT)
    view, chunks = memoryview(data), dict[tuple[int, ...], Buffer | None]()
    for at, (start, length) in zip(
        map(tuple, index.tolist()), places[tuple(index.T)].tolist(), strict=True
    ):
        if start + length > len(view):
            raise FormatError(
                f"a shard has {len(view)} bytes, and a chunk of its grid {sharding.grid} that ends"
                f" at {start + length}: it is damaged, and was not changed"
            )
        chunks[at] = view[start : start + length]
    return chunks


def _assemble(sharding: Sharding, chunks: Chunks) -> tuple[Buffer, ...] | None:
    """Pieces of a shard of these chunks, in the order that zarr has; None if there are none."""
    parts = [
        (place, memoryview(chunk))
        for place in sharding.chunks_in_order()
        if (chunk := chunks.get(place)) is not None
    ]
    parts = [(place, view) for place, view in parts if view.nbytes]
    if not parts:
        return None
    index = np.full((*sharding.grid, 2), _ABSENT, np.uint64)
    length = np.array([view.nbytes for _, view in parts], np.uint64)
    start = np.cumsum(length) - length
    if sharding.is_index_first:
        start += np.uint64(sharding.index_bytes)
    places = np.array([place for place, _ in parts]).reshape(len(parts), -1)
    index[tuple(places.T)] = np.stack([start, length], axis=1)
    head, pieces = sharding.encode_index(index), [view for _, view in parts]
    return (head, *pieces) if sharding.is_index_first else (*pieces, head)


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
