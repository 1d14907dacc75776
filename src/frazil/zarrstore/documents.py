"""The `zarr.json` of an array that is yet to be made, as zarr itself would write it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError
from frazil.zarrstore.encoding import METADATA_KEY

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
