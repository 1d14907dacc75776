"""Single chunks decoded by themselves, for whoever wants to know whether they can be."""

from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any

import zarr
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.objectstore.protocol import Data
from frazil.zarrstore.encoding import METADATA_KEY


def chunk_problem(document: bytes, index: tuple[int, ...], data: Data) -> str | None:
    """What keeps the bytes from being the chunk of an array at `index`; None if nothing does.

    `document` is the array's zarr metadata. Of a shard all chunks are decoded. Chunks of unequal
    sizes are not looked at: zarr does not say where they are.
    """
    try:
        _opened(document, get_ident()).read(index, data)
    except NotImplementedError:  # zarr's answer for a rectilinear grid
        return None
    except Exception as error:  # noqa: BLE001 -- codecs raise what they like
        return f"{type(error).__name__}: {error}"
    return None


@dataclass(frozen=True, slots=True)
class _Opened:
    """An array and the one chunk that it has at a time."""

    array: Any
    stored: dict[str, Buffer]

    def read(self, index: tuple[int, ...], data: Data) -> None:
        sizes = self.array.shards or self.array.chunks
        key = self.array.metadata.encode_chunk_key(index)
        self.stored[key] = default_buffer_prototype().buffer.from_bytes(bytes(data))
        try:
            places = zip(index, sizes, strict=True)
            self.array[tuple(slice(k * size, (k + 1) * size) for k, size in places) or ...]
        finally:
            del self.stored[key]


@lru_cache(maxsize=256)  # by array: all its chunks have the same
def _opened(document: bytes, thread: int) -> _Opened:
    """An array for the use of one thread. Raises what zarr raises about its metadata.

    Failures are not cached: a codec may be registered later.
    """
    del thread
    stored = {METADATA_KEY: default_buffer_prototype().buffer.from_bytes(document)}
    return _Opened(zarr.open_array(MemoryStore(stored), mode="r", zarr_format=3), stored)
