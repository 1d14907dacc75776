"""Writes values as stored chunks: merge with existing ones, encode, store together."""

import asyncio
import threading
from collections.abc import Buffer, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.array_spec import ArraySpec

from frazil.dataclass import dataclass
from frazil.engine.commit.chunk_writer import PACK_BYTES, PACKED_BYTES, ChunkData
from frazil.engine.files.caches import StoredChunk
from frazil.engine.files.chunk_objects import ChunkFiles
from frazil.errors import ReadOnlyStoreError
from frazil.format.chunk_refs import Native
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.coding import (
    Bytes,
    Coding,
    Pack,
    Unpack,
    chunk_is_empty,
    fill_value_or_default,
    is_supported,
    merge_and_encode_chunk,
)
from frazil.zarrstore.pipeline.reading import (
    COPIED_BYTES,
    Batch,
    Item,
    Task,
    UnreadTask,
    assign,
    chunk_bytes,
    coders,
    in_units,
    in_waves,
    is_basic,
    load_chunks,
    read_stored,
    reshape_chunk,
    run_of,
    scratch,
    stored_scratch,
    writable,
)

type Stored = ChunkData | Native | None  # a chunk, the reference to it, or none

QUICK_BYTES = 1 << 18  # decoded, of chunks that are written in less than a millisecond
_COMPARED_KINDS = "biufc"  # values of these kinds are equal or not, and nothing else
_MERGED_KINDS = "biufcmM"


def write_batch(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> None:
    """Stores the chunks with these values in them; chunks that are only fill value are deleted."""
    for part in in_waves(batch, chunk_bytes(batch)):
        encoded = encode_batch(part, coding, values)
        batch.engine.change_chunks(batch.path, part.index, encoded)


def encode_batch(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> list[Stored]:
    """Chunks to be stored, None for those to be deleted."""
    require_writable(batch)
    encoded: list[Stored] = [None] * len(batch.items)
    for row, plain in _as_they_are(batch.items, coding, values):
        encoded[row] = plain
    todo = [row for row, made in enumerate(encoded) if made is None]
    old = _old_chunks(batch, todo)
    tasks = [(values, batch.items[row], old.get(row)) for row in todo]
    engine, size = batch.engine, chunk_bytes(batch)
    are_kept = not engine.stores_at_once(size)
    encoder = Encoder(engine.files.chunks, coding, batch.drop_axes, are_kept)
    packs = _packs(tasks, size) if are_kept and not engine.files.store.far else []
    if packs:
        made = encoder.encode_packs(packs, engine.store_packed)
    else:
        made = encoder.encode(tasks, engine.store_large)
    for row, stored in zip(todo, made, strict=True):
        encoded[row] = stored
    return encoded


_LEAST_PACK_BYTES = 4 << 20  # decoded


def _packs(tasks: Sequence[UnreadTask], size_bytes: int) -> list[Sequence[UnreadTask]]:
    """The tasks of each pack that a thread writes while it encodes; none if there are few tasks.

    Encoded chunks then need not be in memory together: new memory is what takes longest.
    """
    total, width = len(tasks) * size_bytes, coders.width
    if size_bytes < COPIED_BYTES or total < width * _LEAST_PACK_BYTES:
        return []
    count = width * -(-total // (width * PACK_BYTES))
    edges = [len(tasks) * number // count for number in range(count + 1)]
    return [tasks[start:stop] for start, stop in pairwise(edges) if start < stop]


def require_writable(batch: Batch) -> None:
    if batch.is_read_only:
        raise ReadOnlyStoreError(
            "cannot write to read-only store: store was opened in read-only mode and does not"
            " support writing"
        )


def _old_chunks(batch: Batch, rows: list[int]) -> dict[int, Data | StoredChunk | None]:
    """The chunks that are overwritten in part; of large ones nearby the place."""
    partly = [row for row in rows if not batch.items[row][4]]
    if not partly:
        return {}
    items = [batch.items[row] for row in partly]
    found = load_chunks(replace(batch, items=items, index=batch.index[partly]))
    return dict(zip(partly, found, strict=True))


def _as_they_are(
    items: list[Item], coding: Coding, values: npt.NDArray[Any]
) -> list[tuple[int, memoryview]]:
    """Whole chunks whose bytes are stored as they are in memory, and that are not empty."""
    spec: ArraySpec = items[0][1]
    if values.ndim == 0 or not (coding.is_plain and coding.knows(spec)):
        return []
    layout = coding.layout(spec)
    if not layout.is_that_of(values):
        return []
    is_wanted = _not_empty(spec, values.dtype)
    memory = writable(values)
    found = []
    for row, item in enumerate(items):
        if item[1] is not spec:
            spec = item[1]
            layout = coding.layout(spec)
        run = run_of(item, memory, layout) if item[4] else None
        if run is not None and is_wanted(values[(*item[3], ...)]):
            found.append((row, run))
    return found


def _not_empty(spec: ArraySpec, dtype: np.dtype[Any]) -> Callable[[npt.NDArray[Any]], bool]:
    """True of values that are certainly not all the fill value: the first differs.

    Whether others are is for zarr to find out, which looks at all of them.
    """
    if spec.config.write_empty_chunks:
        return lambda _: True
    if dtype.kind not in _COMPARED_KINDS:
        return lambda _: False
    fill = fill_value_or_default(spec)
    if fill != fill:  # noqa: PLR0124 -- not a number, which is the same as another such
        return lambda values: (first := values[(0,) * values.ndim]) == first
    return lambda values: bool(values[(0,) * values.ndim] != fill)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Merges chunks of an array with what was stored, and encodes them.

    Chunks without compressors `are_kept` by the caller; else they are gone with the next ones.
    """

    files: ChunkFiles
    coding: Coding
    drop_axes: tuple[int, ...]
    are_kept: bool

    def encode[T](
        self, tasks: Sequence[UnreadTask], store: Callable[[Buffer], T]
    ) -> list[T | None]:
        """Results of `store` for each chunk; None for those to be deleted."""
        if not tasks:
            return []
        spec = tasks[0][1][1]
        units = in_units(tasks, prod(spec.shape) * spec.dtype.to_native_dtype().itemsize)

        def run(unit: Sequence[UnreadTask]) -> list[T | None]:
            return [None if chunk is None else store(chunk) for chunk in self._encode_unit(unit)]

        return [chunk for chunks in coders.map(run, units) for chunk in chunks]

    def encode_packs(
        self,
        packs: Sequence[Sequence[UnreadTask]],
        store: Callable[[Iterator[Buffer | None]], list[Stored]],
    ) -> list[Stored]:
        """Like `encode`; `store` takes the chunks of a pack as they are encoded."""
        spec = packs[0][0][1][1]
        size = prod(spec.shape) * spec.dtype.to_native_dtype().itemsize

        def run(tasks: Sequence[UnreadTask]) -> list[Stored]:
            return store(
                chunk for unit in in_units(tasks, size) for chunk in self._encode_unit(unit)
            )

        return [chunk for chunks in coders.map(run, packs) for chunk in chunks]

    def _encode_unit(self, unread: Sequence[UnreadTask]) -> list[Buffer | None]:
        """Chunks are put together in one piece of memory, and encoded by one call."""
        spec = unread[0][1][1]
        dtype = spec.dtype.to_native_dtype()
        coding = self.coding
        is_alone = len(unread) == 1 and unread[0][1][4]  # and whole: it may need no copy
        if is_alone or not (coding.pack and coding.knows(spec)) or dtype.kind not in _MERGED_KINDS:
            return [self._encode(task) for task in read_stored(self.files, unread)]
        if len(unread) > 1 or not coding.is_plain:
            unread = read_stored(self.files, unread)
        merged = self._merge(unread, dtype)
        if merged is None:
            return [self._encode(task) for task in read_stored(self.files, unread)]
        chosen = [row for row, chunk in enumerate(merged) if chunk is not None]
        encoded: list[Buffer | None] = [None] * len(merged)
        packed = coding.pack.many([chunk for chunk in merged if chunk is not None])
        for row, data in zip(chosen, packed, strict=True):
            encoded[row] = data
        return encoded

    def _merge(
        self, tasks: Sequence[UnreadTask], dtype: np.dtype[Any]
    ) -> list[Bytes | None] | None:
        """Bytes of the values of each chunk, None if it is empty; None if zarr has to do it."""
        spec = tasks[0][1][1]
        layout = self.coding.layout(spec)
        rows = self._memory(len(tasks) * layout.size_bytes).reshape(len(tasks), -1)
        if not self._decode_old(tasks, rows):
            return None
        is_not_empty = _not_empty(spec, dtype)
        merged: list[Bytes | None] = []
        for flat, (values, item, stored) in zip(rows, tasks, strict=True):
            _, own, selection, target, is_whole = item
            if own is not spec or values.dtype != dtype or not values.ndim or not is_basic(target):
                return None
            chosen, chunk = values[target], reshape_chunk(flat, layout)
            if is_whole and chosen.shape == spec.shape:
                assign(chunk, chosen)
            else:
                if stored is None:
                    chunk[...] = fill_value_or_default(spec)
                chunk[selection] = np.expand_dims(chosen, self.drop_axes)
            is_empty = not is_not_empty(chunk) and _is_empty(chunk, spec)
            merged.append(None if is_empty else flat)
        return merged

    def _memory(self, size_bytes: int) -> Bytes:
        is_needed = self.are_kept and not (self.coding.pack and self.coding.pack.steps)
        return np.empty(size_bytes, np.uint8) if is_needed else scratch(size_bytes)

    def _decode_old(self, tasks: Sequence[UnreadTask], rows: npt.NDArray[np.uint8]) -> bool:
        """Puts what was stored into the rows of its chunks; False if zarr has to do it."""
        unpack = self.coding.unpack
        old = [
            (flat, data) for flat, (_, _, data) in zip(rows, tasks, strict=True) if data is not None
        ]
        if not old or unpack is None:
            return not old
        stored = [data for _, data in old if not isinstance(data, StoredChunk)]
        chunks = unpack.many(stored, rows.shape[1]) if 1 < len(stored) == len(old) else None
        if chunks is None:
            return all(self._fill(unpack, flat, data) for flat, data in old)
        for (flat, _), chunk in zip(old, chunks, strict=True):
            flat[:] = np.frombuffer(chunk, np.uint8)
        return True

    def _fill(self, unpack: Unpack, flat: Bytes, stored: Data | StoredChunk) -> bool:
        if isinstance(stored, StoredChunk):  # its values are read to where they are merged
            place, is_fitting = memoryview(flat), stored.length == flat.nbytes
            memory = (lambda _: place) if is_fitting else stored_scratch.view
            (stored,) = self.files.fetch_stored([stored], memory)
            if stored is place:
                return True
        return unpack.into(stored, flat)

    def _encode(self, task: Task) -> Buffer | None:
        """Encodes a chunk by itself."""
        coding = self.coding
        values, (_, spec, selection, target, is_whole), old = task
        is_simple = is_whole and values.ndim and is_basic(selection) and is_basic(target)
        if is_simple and coding.pack is not None and coding.axes is not None:
            chosen = values[target]
            dtype = spec.dtype.to_native_dtype()
            if chosen.shape == spec.shape and chosen.dtype == dtype and is_supported(dtype):
                return self._pack(coding.pack, spec, chosen)
        encoded = merge_and_encode_chunk(
            None if old is None else spec.prototype.buffer.from_bytes(old),
            spec.prototype.nd_buffer.from_numpy_array(values),
            chunk_spec=spec,
            chunk_selection=selection,
            out_selection=target,
            is_complete=is_whole,
            drop_axes=self.drop_axes,
            decode=coding.transform.decode_chunk,
            encode=coding.transform.encode_chunk,
        )
        return None if encoded is None else encoded.as_numpy_array()

    def _pack(self, pack: Pack, spec: ArraySpec, values: npt.NDArray[Any]) -> Buffer | None:
        """All values of a chunk, as zarr would store them; None if they are all the fill value."""
        if not _not_empty(spec, values.dtype)(values) and _is_empty(values, spec):
            return None
        layout = self.coding.layout(spec)
        if layout.is_that_of(values) and values.flags.c_contiguous:
            return pack.one(values.reshape(-1).view(np.uint8))
        flat = self._memory(layout.size_bytes)
        assign(reshape_chunk(flat, layout), values)
        return pack.one(flat)


def _is_empty(values: npt.NDArray[Any], spec: ArraySpec) -> bool:
    return bool(chunk_is_empty(spec.prototype.nd_buffer.from_numpy_array(values), spec))


# Chunks that are written one by one, but at the same time, stored together.
#
# Zarr writes the data of a new array region by region, several at a time. Those of one turn of its
# event loop wait until the turn ends, and are then stored as one: small ones share a pack. For
# those who want it:
#
#     zarr.config.set({"frazil.write_together": True})

WANTED: Final = "frazil.write_together"


@dataclass(frozen=True, slots=True, eq=False)
class _PendingWrite:
    batch: Batch
    coding: Coding
    values: npt.NDArray[Any]
    done: "asyncio.Future[None]"

    def encode(self) -> list[Stored] | BaseException:
        try:
            return encode_batch(self.batch, self.coding, self.values)
        except BaseException as error:  # noqa: BLE001 -- the caller is told
            return error


def is_enabled() -> bool:
    return bool(zarr.config.get(WANTED, False))


def may_wait(batch: Batch) -> bool:
    """True for one small chunk, which may be written with others of the same turn."""
    return len(batch.items) == 1 and chunk_bytes(batch) <= PACKED_BYTES and is_enabled()


class _OfThisThread(threading.local):
    """A loop runs in one thread, so what waits in it needs no lock."""

    def __init__(self) -> None:
        self.waiting = WeakKeyDictionary[asyncio.AbstractEventLoop, list[_PendingWrite]]()
        self.running = set[asyncio.Task[None]]()  # the loop itself would let go of them


_here = _OfThisThread()


async def write_together(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> None:
    """Like `write_batch`; with all others that are written in this turn of the loop."""
    loop = asyncio.get_running_loop()
    item = _PendingWrite(batch, coding, values, loop.create_future())
    waiting = _here.waiting.setdefault(loop, [])
    waiting.append(item)
    if len(waiting) == 1:
        loop.call_soon(_start, loop)
    await item.done


def _start(loop: asyncio.AbstractEventLoop) -> None:
    by_array: dict[tuple[int, str], list[_PendingWrite]] = {}
    for item in _here.waiting.pop(loop):
        by_array.setdefault((id(item.batch.engine), item.batch.path.text), []).append(item)
    for pending in by_array.values():
        task = loop.create_task(_write_rounds(_split_rounds(pending)))
        _here.running.add(task)
        task.add_done_callback(_here.running.discard)


def _split_rounds(pending: list[_PendingWrite]) -> list[list[_PendingWrite]]:
    """Wishes for different chunks of one array together; for the same chunk one after another."""
    rounds: list[list[_PendingWrite]] = []
    turns: dict[tuple[int, ...], int] = {}  # in which each chunk may be written next
    for item in pending:
        places = [tuple(index) for index in item.batch.index.tolist()]
        turn = max(turns.get(place, 0) for place in places)
        turns.update(dict.fromkeys(places, turn + 1))
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(item)
    return rounds


async def _write_rounds(rounds: list[list[_PendingWrite]]) -> None:
    for pending in rounds:
        await _write_pending(pending)


async def _write_pending(pending: list[_PendingWrite]) -> None:
    try:
        failures = await asyncio.to_thread(_write, pending)
    except BaseException as error:
        failures = [error] * len(pending)
        if not isinstance(error, Exception):
            _set_results(pending, failures)
            raise
    _set_results(pending, failures)


def _set_results(pending: list[_PendingWrite], failures: list[BaseException | None]) -> None:
    for item, failure in zip(pending, failures, strict=True):
        if item.done.done():  # the caller was cancelled
            continue
        if failure is None:
            item.done.set_result(None)
        else:
            item.done.set_exception(failure)


def _write(pending: list[_PendingWrite]) -> list[BaseException | None]:
    """Writes chunks and returns the error of each, if any."""
    encoded = coders.map(_PendingWrite.encode, pending)
    good = [
        (item.batch, made)
        for item, made in zip(pending, encoded, strict=True)
        if not isinstance(made, BaseException)
    ]
    if good:
        first = good[0][0]
        index = np.concatenate([batch.index for batch, _ in good])
        first.engine.change_chunks(first.path, index, [each for _, made in good for each in made])
    return [made if isinstance(made, BaseException) else None for made in encoded]
