"""Writes values as stored chunks: merge with existing ones, encode, store together."""

import asyncio
import threading
from collections.abc import Buffer, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
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
    Layout,
    chunk_is_empty,
    fill_value_or_default,
    is_supported,
    merge_and_encode_chunk,
)
from frazil.zarrstore.pipeline.reading import (
    COPIED_BYTES,
    Batch,
    Item,
    UnreadTask,
    assign,
    chunk_bytes,
    coders,
    decoded_bytes,
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

        def run(unit: Sequence[UnreadTask]) -> list[T | None]:
            return [None if chunk is None else store(chunk) for chunk in self._encode_unit(unit)]

        units = in_units(tasks, decoded_bytes(tasks[0][1][1]))
        return [chunk for chunks in coders.map(run, units) for chunk in chunks]

    def encode_packs(
        self,
        packs: Sequence[Sequence[UnreadTask]],
        store: Callable[[Iterator[Buffer | None]], list[Stored]],
    ) -> list[Stored]:
        """Like `encode`; `store` takes the chunks of a pack as they are encoded."""
        size = decoded_bytes(packs[0][0][1][1])

        def run(tasks: Sequence[UnreadTask]) -> list[Stored]:
            return store(
                chunk for unit in in_units(tasks, size) for chunk in self._encode_unit(unit)
            )

        return [chunk for chunks in coders.map(run, packs) for chunk in chunks]

    def _encode_unit(self, tasks: Sequence[UnreadTask]) -> Iterator[Buffer | None]:
        """Encodes a chunk when it is asked for; None if it is empty."""
        spec = tasks[0][1][1]
        is_not_empty = _not_empty(spec, spec.dtype.to_native_dtype())
        if not self.coding.is_plain:  # values of plain ones are read to where they are merged
            tasks = read_stored(self.files, tasks)
        return (self._encode(task, is_not_empty) for task in tasks)

    def _encode(
        self, task: UnreadTask, is_not_empty: Callable[[npt.NDArray[Any]], bool]
    ) -> Buffer | None:
        values, (_, spec, selection, target, is_whole), old = task
        pack, dtype = self.coding.pack, spec.dtype.to_native_dtype()
        if (
            pack is None
            or self.coding.axes is None
            or not (values.ndim and values.dtype == dtype and is_basic(target))
            or not is_supported(dtype)
        ):
            return self._encode_by_zarr(task)
        chosen = values[target]
        layout = self.coding.layout(spec)
        if is_whole and is_basic(selection) and chosen.shape == spec.shape:
            if not is_not_empty(chosen) and _is_empty(chosen, spec):
                return None
            if layout.is_that_of(chosen) and chosen.flags.c_contiguous:
                return pack.encode(chosen.reshape(-1).view(np.uint8))
            flat = self._memory(layout.size_bytes)
            assign(reshape_chunk(flat, layout), chosen)
            return pack.encode(flat)
        merged = self._stored_values(layout, spec, old) if dtype.kind in _MERGED_KINDS else None
        if merged is None:
            return self._encode_by_zarr(task)
        chunk = reshape_chunk(merged, layout)
        chunk[selection] = np.expand_dims(chosen, self.drop_axes)
        is_empty = not is_not_empty(chunk) and _is_empty(chunk, spec)
        return None if is_empty else pack.encode(merged)

    def _memory(self, size_bytes: int) -> Bytes:
        is_needed = self.are_kept and not (self.coding.pack and self.coding.pack.steps)
        return np.empty(size_bytes, np.uint8) if is_needed else scratch(size_bytes)

    def _stored_values(
        self, layout: Layout, spec: ArraySpec, stored: Data | StoredChunk | None
    ) -> Bytes | None:
        """Values of a chunk before it is changed; None if zarr has to decode it."""
        unpack, flat = self.coding.unpack, self._memory(layout.size_bytes)
        if stored is None:
            reshape_chunk(flat, layout)[...] = fill_value_or_default(spec)
            return flat
        if isinstance(stored, StoredChunk):
            place, is_fitting = memoryview(flat), stored.length == flat.nbytes
            memory = (lambda _: place) if is_fitting else stored_scratch.view
            (stored,) = self.files.fetch_stored([stored], memory)
            if stored is place:
                return flat
        return flat if unpack is not None and unpack.into(stored, flat) else None

    def _encode_by_zarr(self, task: UnreadTask) -> Buffer | None:
        ((values, (_, spec, selection, target, is_whole), old),) = read_stored(self.files, [task])
        encoded = merge_and_encode_chunk(
            None if old is None else spec.prototype.buffer.from_bytes(old),
            spec.prototype.nd_buffer.from_numpy_array(values),
            chunk_spec=spec,
            chunk_selection=selection,
            out_selection=target,
            is_complete=is_whole,
            drop_axes=self.drop_axes,
            decode=self.coding.transform.decode_chunk,
            encode=self.coding.transform.encode_chunk,
        )
        return None if encoded is None else encoded.as_numpy_array()


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
