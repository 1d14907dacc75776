"""From a selection to values: find, fetch, decode, put in place."""

import os
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer

from frazil.assets.pool import Pool
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.batch import Batch, Item
from frazil.zarrstore.pipeline.bombs import require_bounded, require_decodable
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.pieces import plan_pieces
from frazil.zarrstore.pipeline.placing import arranged, put, run_of, scratch, writable
from frazil.zarrstore.pipeline.zarr_parts import (
    GetResult,
    decode_and_scatter_chunk,
    fill_value_or_default,
)

WAVE_BYTES = 256 << 20  # of decoded chunks that are in memory together
COPIED_BYTES = 1 << 16  # of a chunk from which on copying it is worth a thread
PRESENT = GetResult(status="present")
MISSING = GetResult(status="missing")

coders = Pool(os.cpu_count() or 1)


def read_batch(batch: Batch, coding: Coding, out: NDBuffer) -> tuple[GetResult, ...]:
    """Puts the selected values into `out`; says of each chunk whether there was one."""
    results: list[GetResult] = []
    if not coding.is_plain:  # of others, all of a chunk is decoded, whatever is wanted of it
        require_decodable(chunk_bytes(batch), batch.engine.files.settings.limits)
    for start, stop in waves(len(batch.items), chunk_bytes(batch)):
        results += _read_wave(batch.part(start, stop), coding, out)
    return tuple(results)


def waves(count: int, size_bytes: int) -> list[tuple[int, int]]:
    """From, to: those of `count` chunks of that size that are in memory together."""
    size = max(1, WAVE_BYTES // max(1, size_bytes))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def chunk_bytes(batch: Batch) -> int:
    """Of one decoded chunk; of a grid of unequal ones, the first."""
    return _decoded_bytes(batch.items[0][1])


def _decoded_bytes(spec: ArraySpec) -> int:
    return prod(spec.shape) * spec.dtype.to_native_dtype().itemsize


def _read_wave(batch: Batch, coding: Coding, out: NDBuffer) -> list[GetResult]:
    is_known = coding.knows(batch.items[0][1])
    if is_known and coding.is_plain:
        return _read_plain(batch, coding, np.asarray(out.as_ndarray_like()))
    data = batch.engine.fetch_chunks(batch.path, batch.index)
    every = list(zip(batch.items, data, strict=True))
    decode = _unpack if is_known else _decode
    return coders.map(partial(decode, coding, batch.drop_axes, out), every)


def put_in_place(coding: Coding, out: NDBuffer, item: Item, data: Data | None) -> GetResult:
    """One chunk, whose values have as many axes as it has itself."""
    decode = _unpack if coding.knows(item[1]) else _decode
    return decode(coding, (), out, (item, data))


def _unpack(
    coding: Coding, drop_axes: tuple[int, ...], out: NDBuffer, pair: tuple[Item, Data | None]
) -> GetResult:
    """Straight to its place, or by way of this thread's scratch memory."""
    item, data = pair
    values = np.asarray(out.as_ndarray_like())
    layout = coding.layout(item[1])
    if data is None or coding.unpack is None:
        return _decode(coding, drop_axes, out, pair)
    place = run_of(item, writable(values), layout) if layout.is_that_of(values) else None
    flat = scratch(layout.size_bytes) if place is None else np.frombuffer(place, np.uint8)
    if not coding.unpack.into(data, flat):
        return _decode(coding, drop_axes, out, pair)
    if place is None:
        put(item[3], values, arranged(flat, layout)[item[2]], drop_axes)
    return PRESENT


def _decode(
    coding: Coding, drop_axes: tuple[int, ...], out: NDBuffer, pair: tuple[Item, Data | None]
) -> GetResult:
    """As by zarr."""
    (_, spec, selection, target, _), data = pair
    if data is not None:
        require_bounded(coding.transform.codecs, data, _decoded_bytes(spec))
    return decode_and_scatter_chunk(
        None if data is None else spec.prototype.buffer.from_bytes(data),
        out,
        chunk_spec=spec,
        chunk_selection=selection,
        out_selection=target,
        drop_axes=drop_axes,
        decode=coding.transform.decode_chunk,
    )


def _read_plain(batch: Batch, coding: Coding, values: npt.NDArray[Any]) -> list[GetResult]:
    """Chunks that are stored as their values: only the bytes that are needed are fetched."""
    pieces = plan_pieces(batch.items, coding, values)
    data = batch.engine.fetch_chunks(batch.path, batch.index, pieces.parts(), pieces.targets)
    todo = [
        row
        for row, (found, target) in enumerate(zip(data, pieces.targets, strict=True))
        if found is None or found is not target
    ]

    def place(row: int) -> None:
        item, found = batch.items[row], data[row]
        if found is None:
            values[item[3]] = fill_value_or_default(item[1])
            return
        stored = arranged(np.frombuffer(found, np.uint8), pieces.layouts[row])
        put(item[3], values, stored[pieces.selections[row]], batch.drop_axes)

    if chunk_bytes(batch) < COPIED_BYTES:
        for row in todo:
            place(row)
    else:
        coders.map(place, todo)
    return [MISSING if found is None else PRESENT for found in data]
