"""From values to stored chunks: merge with what is there, encode, store together."""

from functools import partial
from typing import Any

import numpy.typing as npt
from zarr.core.buffer import NDBuffer

from frazil.errors import ReadOnlyStoreError
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.batch import Batch, Item
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.reading import coders, waves
from frazil.zarrstore.pipeline.zarr_parts import merge_and_encode_chunk


def write_batch(batch: Batch, coding: Coding, value: NDBuffer) -> None:
    """Stores the chunks with these values in them; chunks that are only fill value are deleted."""
    if batch.is_read_only:
        raise ReadOnlyStoreError("store was opened in read-only mode and does not support writing")
    for start, stop in waves(batch):
        _write_wave(batch.part(start, stop), coding, value)


def _write_wave(batch: Batch, coding: Coding, value: NDBuffer) -> None:
    engine = batch.engine
    old: list[Data | None] = [None] * len(batch.items)
    partly = [row for row, item in enumerate(batch.items) if not item[4]]
    if partly:
        for row, data in zip(
            partly, engine.fetch_chunks(batch.path, batch.index[partly]), strict=True
        ):
            old[row] = data
    encode = partial(_encode, coding, batch.drop_axes, value)
    encoded = coders.map(encode, list(zip(batch.items, old, strict=True)))
    engine.change_chunks(batch.path, batch.index, encoded)


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
