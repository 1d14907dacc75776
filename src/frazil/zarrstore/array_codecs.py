"""Chunks as zarr stores them, without a session: for those who make chunks somewhere else."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, Codec
from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.registry import get_codec_class
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError
from frazil.objectstore.protocol import Data
from frazil.zarrstore.pipeline.coding import use_fused_pipeline
from frazil.zarrstore.pipeline.shards import require_fitting_shards

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


# Decoding of single chunks, to check that they can be decoded.


def chunk_problem(document: bytes, index: tuple[int, ...], data: Data) -> str | None:
    """Returns the reason why bytes are not the chunk of an array at `index`; None if they are.

    `document` is the array's zarr metadata. Of a shard all chunks are decoded. Chunks of unequal
    sizes are not looked at: zarr does not say where they are.
    """
    try:
        _open_array(document, get_ident()).read(index, data)
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
def _open_array(document: bytes, thread: int) -> _Opened:
    """An array for the use of one thread. Raises what zarr raises about its metadata.

    Failures are not cached: a codec may be registered later.
    """
    del thread
    stored = {METADATA_KEY: default_buffer_prototype().buffer.from_bytes(document)}
    return _Opened(zarr.open_array(MemoryStore(stored), mode="r", zarr_format=3), stored)


# The codecs of an array by what they do, as zarr knows them.

type Chain = tuple[Mapping[str, Any], ...]


def split_chain(codecs: Sequence[Mapping[str, Any]]) -> tuple[Chain, Chain, Chain]:
    """Array to array, array to bytes, bytes to bytes. Raises InvalidInputError for unknown ones."""
    kinds = [_kind(str(codec["name"])) for codec in codecs]
    first, second, third = (
        tuple(codec for codec, found in zip(codecs, kinds, strict=True) if found == kind)
        for kind in range(3)
    )
    return first, second, third


def codec_object(name: str) -> Mapping[str, Any]:
    """The codec as zarr configures it by default."""
    try:
        made: Mapping[str, Any] = _class_of(name)().to_dict()
    except TypeError as error:
        raise InvalidInputError(f"codec {name!r} needs a configuration: {error}") from error
    return made


def check_document(document: bytes, where: str) -> None:
    """Raises InvalidInputError with zarr's words if it does not describe an array."""
    require_fitting_shards(document, where)
    made: dict[str, Any] = {METADATA_KEY: default_buffer_prototype().buffer.from_bytes(document)}
    store: Store = MemoryStore(made)
    try:
        zarr.open_array(store, mode="r", zarr_format=3)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InvalidInputError(f"`{where}`: {error}", kind="bad-metadata") from error


def _kind(name: str) -> int:
    found = _class_of(name)
    if issubclass(found, ArrayArrayCodec):
        return 0
    return 1 if issubclass(found, ArrayBytesCodec) else 2


def _class_of(name: str) -> type[Codec]:
    try:
        return get_codec_class(name)
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"zarr has no codec {name!r}", kind="bad-metadata") from error


# The `zarr.json` of an array that is yet to be made, as zarr itself would write it.

# A list of codecs without one of these says what comes after zarr's own choice of it.
_TO_BYTES = frozenset({"bytes", "vlen-utf8", "vlen-bytes", "sharding_indexed"})


def array_document(
    *,
    shape: Sequence[int],
    chunks: Sequence[int],
    dtype: str,
    fill_value: object,
    dims: Sequence[str],
    attributes: Mapping[str, Any],
    codecs: Sequence[Mapping[str, Any]] | None = None,
) -> bytes:
    """Raises InvalidInputError with zarr's words about what is wrong.

    `codecs` are objects of the Zarr specification; compressors alone will do.
    """
    made: dict[str, Any] = {}
    store: Store = MemoryStore(made)
    try:
        zarr.create_array(
            store,
            shape=tuple(shape),
            chunks=tuple(chunks),
            dtype=dtype,
            fill_value=fill_value,
            dimension_names=list(dims),
            attributes=dict(attributes),
            zarr_format=3,
        )
        document = json.loads(made[METADATA_KEY].to_bytes())
        if codecs is not None:
            document["codecs"] = _complete(codecs, document["codecs"])
            _require_readable(document)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"zarr refuses the array: {error}") from error
    return json.dumps(document, indent=2, allow_nan=False).encode()


def resized_document(document: bytes, shape: Sequence[int]) -> bytes:
    """The same array with another shape; the same bytes, if it has that shape."""
    old = json.loads(document)
    if old["shape"] == list(shape):
        return document
    told = {**old, "shape": list(shape)}
    return json.dumps(told, indent=2, allow_nan=False).encode()


def _complete(given: Sequence[Mapping[str, Any]], usual: list[Any]) -> list[Any]:
    names = [codec.get("name") for codec in given]
    if _TO_BYTES.intersection(map(str, names)):
        return [dict(codec) for codec in given]
    return [usual[0], *(dict(codec) for codec in given)]


def _require_readable(document: Mapping[str, Any]) -> None:
    text = json.dumps(document).encode()
    made: dict[str, Any] = {METADATA_KEY: default_buffer_prototype().buffer.from_bytes(text)}
    zarr.open_array(MemoryStore(made), mode="r", zarr_format=3)
