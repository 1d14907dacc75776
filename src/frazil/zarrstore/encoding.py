"""Chunks as zarr stores them, without a session: for those who make chunks somewhere else."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.fused import use_fused_pipeline

METADATA_KEY = "zarr.json"


def encode_region(
    document: bytes, region: tuple[slice, ...], values: npt.NDArray[Any]
) -> dict[tuple[int, ...], Data]:
    """Encoded chunks by index, of a region that covers whole chunks of the array `document` tells.

    Chunks are what zarr's own codec pipeline makes of the values, on threads: the last ones are
    padded with the fill value, and those that hold nothing else are left out.
    """
    made: dict[str, Any] = {
        METADATA_KEY: default_buffer_prototype().buffer.from_bytes(document),
    }
    store: Store = MemoryStore(made)
    array = zarr.open_array(store, mode="r+", zarr_format=3)
    use_fused_pipeline(array)
    array[region] = values
    del made[METADATA_KEY]
    return {_index(key): memoryview(chunk.as_numpy_array()) for key, chunk in made.items()}


def decode_chunk(document: bytes, data: Data) -> npt.NDArray[Any]:
    """Values of an array that has one chunk, of its whole shape."""
    buffer = default_buffer_prototype().buffer
    made: dict[str, Any] = {METADATA_KEY: buffer.from_bytes(document)}
    ndim = len(json.loads(document)["shape"])
    made["/".join(["c", *["0"] * ndim])] = buffer.from_bytes(data)
    array = zarr.open_array(MemoryStore(made), mode="r", zarr_format=3)
    return np.asarray(array[...])


def _index(key: str) -> tuple[int, ...]:
    """`c/1/2`, or `c` for an array of no dimensions."""
    return tuple(int(part) for part in key.split("/")[1:])
