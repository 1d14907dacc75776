"""From a selection to values: find, fetch, decode, put in place."""

import os
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.buffer import NDBuffer

from frazil.assets.pool import Pool
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.batch import Batch, Item
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.pieces import Piece, parts_of, plan_pieces
from frazil.zarrstore.pipeline.placing import (
    arranged,
    bytes_of,
    put,
    put_fill_value,
    run_of,
    scratch,
)
from frazil.zarrstore.pipeline.zarr_parts import GetResult, decode_and_scatter_chunk

WAVE_BYTES = 256 << 20  # of decoded chunks that are in memory together
COPIED_BYTES = 1 << 16  # of a chunk from which on copying it is worth a thread
_PRESENT = GetResult(status="present")
_MISSING = GetResult(status="missing")

coders = Pool(os.cpu_count() or 1)


def read_batch(batch: Batch, coding: Coding, out: NDBuffer) -> tuple[GetResult, ...]:
    """Puts the selected values into `out`; says of each chunk whether there was one."""
    results: list[GetResult] = []
    for start, stop in waves(batch):
        results += _read_wave(batch.part(start, stop), coding, out)
    return tuple(results)


def waves(batch: Batch) -> list[tuple[int, int]]:
    """From, to: the chunks that are in memory together."""
    size = max(1, WAVE_BYTES // max(1, chunk_bytes(batch)))
    count = len(batch.items)
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def chunk_bytes(batch: Batch) -> int:
    """Of one decoded chunk; of a grid of unequal ones, the first."""
    spec = batch.items[0][1]
    return prod(spec.shape) * spec.dtype.to_native_dtype().itemsize


def _read_wave(batch: Batch, coding: Coding, out: NDBuffer) -> list[GetResult]:
    values = np.asarray(out.as_ndarray_like())
    if coding.is_plain and coding.layout(batch.items[0][1]) is not None:
        return _read_plain(batch, coding, values)
    data = batch.engine.fetch_chunks(batch.path, batch.index)
    place = partial(decode_into, coding, batch.drop_axes, out, values)
    return coders.map(place, list(zip(batch.items, data, strict=True)))


def decode_into(
    coding: Coding,
    drop_axes: tuple[int, ...],
    out: NDBuffer,
    values: npt.NDArray[Any],  # of `out`
    pair: tuple[Item, Data | None],
) -> GetResult:
    """One chunk: straight to its place, by way of this thread's scratch memory, or as by zarr."""
    item, data = pair
    if data is None:
        put_fill_value(item, values)
        return _MISSING
    layout = coding.layout(item[1])
    if layout is not None and coding.unpack is not None:
        place = run_of(item, values, layout)
        flat = scratch(layout.size_bytes) if place is None else bytes_of(place)
        if coding.unpack.into(data, flat):
            if place is None:
                put(item[3], values, arranged(flat, layout)[item[2]], drop_axes)
            return _PRESENT
    _, spec, selection, target, _ = item
    return decode_and_scatter_chunk(
        spec.prototype.buffer.from_bytes(data),
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
    into = [piece.target for piece in pieces]
    data = batch.engine.fetch_chunks(batch.path, batch.index, parts_of(pieces), into)
    every = list(zip(batch.items, pieces, data, strict=True))
    place = partial(_place, batch.drop_axes, values)
    if chunk_bytes(batch) < COPIED_BYTES:
        return [place(each) for each in every]
    return coders.map(place, every)


def _place(
    drop_axes: tuple[int, ...],
    values: npt.NDArray[Any],
    found: tuple[Item, Piece, Data | None],
) -> GetResult:
    item, piece, data = found
    if data is None:
        put_fill_value(item, values)
        return _MISSING
    if data is not piece.target:
        stored = arranged(np.frombuffer(data, np.uint8), piece.layout)
        put(item[3], values, stored[piece.selection], drop_axes)
    return _PRESENT
