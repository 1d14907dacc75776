"""From values to stored chunks: merge with what is there, encode, store together."""

from collections.abc import Buffer, Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer

from frazil.errors import ReadOnlyStoreError
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.batch import Batch, Item
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.placing import run_of, writable
from frazil.zarrstore.pipeline.reading import chunk_bytes, coders, waves
from frazil.zarrstore.pipeline.zarr_parts import fill_value_or_default, merge_and_encode_chunk

_COMPARED_KINDS = "biufc"  # values of these kinds are equal or not, and nothing else


def write_batch(batch: Batch, coding: Coding, value: NDBuffer) -> None:
    """Stores the chunks with these values in them; chunks that are only fill value are deleted."""
    for start, stop in waves(len(batch.items), chunk_bytes(batch)):
        part = batch.part(start, stop)
        encoded = encode_batch(part, coding, value)
        batch.engine.change_chunks(batch.path, part.index, encoded)


def encode_batch(batch: Batch, coding: Coding, value: NDBuffer) -> list[Buffer | None]:
    """Chunks to be stored, None for those to be deleted."""
    if batch.is_read_only:
        raise ReadOnlyStoreError(
            "cannot write to read-only store: store was opened in read-only mode and does not"
            " support writing"
        )
    encoded: list[Buffer | None] = [None] * len(batch.items)
    for row, plain in _as_they_are(batch.items, coding, value):
        encoded[row] = plain
    todo = [row for row, made in enumerate(encoded) if made is None]
    old = _old_chunks(batch, todo)
    encode = partial(_encode, coding, batch.drop_axes, value)
    pairs = [(batch.items[row], old.get(row)) for row in todo]
    for row, made in zip(todo, coders.map(encode, pairs), strict=True):
        encoded[row] = made
    return encoded


def _old_chunks(batch: Batch, rows: list[int]) -> dict[int, Data | None]:
    """What there is of the chunks that are overwritten in part."""
    partly = [row for row in rows if not batch.items[row][4]]
    if not partly:
        return {}
    found = batch.engine.fetch_chunks(batch.path, batch.index[partly])
    return dict(zip(partly, found, strict=True))


def _as_they_are(
    items: list[Item], coding: Coding, value: NDBuffer
) -> list[tuple[int, memoryview]]:
    """Whole chunks whose bytes are stored as they are in memory, and that are not empty."""
    values = np.asarray(value.as_ndarray_like())
    spec: ArraySpec = items[0][1]
    if values.ndim == 0 or not (coding.is_plain and coding.knows(spec)):
        return []
    layout = coding.layout(spec)
    if not layout.is_that_of(values):
        return []
    is_wanted = _not_empty(spec, values)
    memory = writable(values)
    found = []
    for row, item in enumerate(items):
        if item[1] is not spec:
            spec = item[1]
            layout = coding.layout(spec)
        run = run_of(item, memory, layout) if item[4] else None
        if run is not None and is_wanted(item[3]):
            found.append((row, run))
    return found


def _not_empty(spec: ArraySpec, values: npt.NDArray[Any]) -> Callable[[Any], bool]:
    """Whether the values at a place are certainly not all the fill value: the first is another.

    Whether others are is for zarr to find out, which looks at all of them.
    """
    if spec.config.write_empty_chunks:
        return lambda _: True
    if values.dtype.kind not in _COMPARED_KINDS:
        return lambda _: False
    fill = fill_value_or_default(spec)
    if fill != fill:  # noqa: PLR0124 -- not a number, which is the same as another such
        return lambda target: values[_first(target)] == values[_first(target)]
    return lambda target: values[_first(target)] != fill


def _first(target: tuple[Any, ...]) -> tuple[int, ...]:
    """Of the places of a chunk, which are integers and slices that are not empty."""
    return tuple([part if type(part) is int else part.start or 0 for part in target])


def _encode(
    coding: Coding, drop_axes: tuple[int, ...], value: NDBuffer, pair: tuple[Item, Data | None]
) -> npt.NDArray[Any] | None:
    (_, spec, selection, target, is_whole), old = pair
    encoded = merge_and_encode_chunk(
        None if old is None else spec.prototype.buffer.from_bytes(old),
        value,
        chunk_spec=spec,
        chunk_selection=selection,
        out_selection=target,
        is_complete=is_whole,
        drop_axes=drop_axes,
        decode=coding.transform.decode_chunk,
        encode=coding.transform.encode_chunk,
    )
    return None if encoded is None else encoded.as_numpy_array()
