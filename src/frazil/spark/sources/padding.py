"""Chunks at the edge of an array that are not full, made full: in Zarr all are of one shape."""

import json

import numpy as np

from frazil.spark.sources.stored import StoredAs
from frazil.zarrstore.array_codecs import decode_chunk, encode_region


def pad_chunk(stored: StoredAs, shape: tuple[int, ...], data: bytes) -> bytes:
    """What holds values of this `shape`, encoded again with the fill value after them.

    Empty if there is nothing but the fill value.
    """
    values = decode_chunk(_document(stored, shape), data)
    fill = json.loads(stored.fill or "0")
    full = np.full(stored.chunks, np.nan if fill == "NaN" else fill, values.dtype)
    full[tuple(slice(0, length) for length in shape)] = values
    everywhere = tuple(slice(0, length) for length in stored.chunks)
    made = encode_region(_document(stored, stored.chunks), everywhere, full)
    return b"".join(bytes(chunk) for chunk in made.values())


def _document(stored: StoredAs, shape: tuple[int, ...]) -> bytes:
    """`zarr.json` of an array of one such chunk."""
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": stored.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": json.loads(stored.fill or "0"),
            "codecs": json.loads(stored.codecs),
            "attributes": {},
        }
    ).encode()
