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
from frazil.zarrstore.pipeline.spans import Span, span_of
from frazil.zarrstore.pipeline.zarr_parts import (
    GetResult,
    decode_and_scatter_chunk,
    fill_value_or_default,
)

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
    stored = coding.stored_dtype(batch.items[0][1])
    if stored is not None:
        return _read_plain(batch, stored, np.asarray(out.as_ndarray_like()))
    data = batch.engine.fetch_chunks(batch.path, batch.index)
    place = partial(_decode, coding, batch.drop_axes, out)
    return coders.map(place, list(zip(batch.items, data, strict=True)))


def _decode(
    coding: Coding, drop_axes: tuple[int, ...], out: NDBuffer, pair: tuple[Item, Data | None]
) -> GetResult:
    (_, spec, selection, target, _), data = pair
    return decode_and_scatter_chunk(
        None if data is None else spec.prototype.buffer.from_bytes(data),
        out,
        chunk_spec=spec,
        chunk_selection=selection,
        out_selection=target,
        drop_axes=drop_axes,
        decode=coding.transform.decode_chunk,
    )


def _read_plain(batch: Batch, stored: np.dtype[Any], values: npt.NDArray[Any]) -> list[GetResult]:
    """Chunks that are stored as their values: only the bytes that are needed are fetched."""
    spans = [_span(item, stored.itemsize) for item in batch.items]
    data = batch.engine.fetch_chunks(batch.path, batch.index, _parts(spans))
    place = partial(_place, stored, batch.drop_axes, values)
    every = list(zip(batch.items, spans, data, strict=True))
    if chunk_bytes(batch) < COPIED_BYTES:
        return [place(each) for each in every]
    return coders.map(place, every)


def _span(item: Item, itemsize: int) -> Span | None:
    _, spec, selection, _, is_whole = item
    return None if is_whole else span_of(selection, spec.shape, itemsize)


def _parts(spans: list[Span | None]) -> npt.NDArray[np.int64] | None:
    """First and last byte wanted of each chunk; None if all are wanted whole."""
    if not any(spans):
        return None
    whole = np.iinfo(np.int64).max
    return np.array([(0, whole) if each is None else (each.start, each.stop) for each in spans])


def _place(
    stored: np.dtype[Any],
    drop_axes: tuple[int, ...],
    values: npt.NDArray[Any],
    found: tuple[Item, Span | None, Data | None],
) -> GetResult:
    (_, spec, selection, target, _), span, data = found
    if data is None:
        values[target] = fill_value_or_default(spec)
        return _MISSING
    flat = np.frombuffer(data, stored)
    if span is None:
        chosen = flat.reshape(spec.shape)[selection]
    else:
        chosen = flat.reshape(span.shape)[span.selection]
    values[target] = chosen.squeeze(axis=drop_axes) if drop_axes else chosen
    return _PRESENT
