"""The codecs of an array by what they do, as zarr knows them."""

from collections.abc import Mapping, Sequence
from typing import Any

import zarr
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, Codec
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.registry import get_codec_class
from zarr.storage import MemoryStore

from frazil.errors import InvalidInputError
from frazil.zarrstore.encoding import METADATA_KEY
from frazil.zarrstore.shard_fit import require_fitting_shards

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
    """The codec as zarr configures it when nothing is said."""
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
