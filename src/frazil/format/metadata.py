"""Named JSON values: the metadata of snapshots and of the repository. Spec: "MetadataItem".

The value's encoding follows the version of the file it is in: FlexBuffers in version 2,
MessagePack in version 1. A migrated repository has both, in different files.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.ragged import even_length, splits_of
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.schemas import METADATA_ITEM


def decode_metadata(items: Table, *, spec_version: int = 2) -> dict[str, Json]:
    """The rows of a MetadataItem table, as they were in a file of that version."""
    names = [name or "" for name in items.string("name").to_texts()]
    values = items.string("value").to_list()
    decode = decode_flexbuffer if spec_version >= 2 else decode_msgpack
    return {name: decode(value or b"") for name, value in zip(names, values, strict=True)}


def decode_metadata_of(rows: TableVectorColumn, *, spec_version: int = 2) -> list[dict[str, Json]]:
    """Decodes the metadata of many snapshots from files of that version, together."""
    names = [name or "" for name in rows.rows.string("name").to_texts()]
    decode = decode_flexbuffer if spec_version >= 2 else decode_msgpack
    values = _decode_values(rows.rows.string("value").to_list(), decode)
    if rows.present.all() and even_length(rows.splits) == 1:  # an author, and nothing else
        return [{name: value} for name, value in zip(names, values, strict=True)]
    return [
        dict(zip(names[start:stop], values[start:stop], strict=True))
        for start, stop in pairwise(rows.splits.tolist())
    ]


def _decode_values(items: Sequence[bytes | None], decode: Callable[[bytes], Json]) -> list[Json]:
    """Decodes each distinct value once: many commits have the same author.

    Lists and objects are copied each time, since the caller may change them.
    """
    known = {item: decode(item or b"") for item in set(items)}
    values = [known[item] for item in items]
    if any(isinstance(value, list | dict) for value in known.values()):
        for at, value in enumerate(values):
            if isinstance(value, list | dict):
                values[at] = decode(items[at] or b"")
    return values


def encode_metadata(metadata: Mapping[str, Json], *, spec_version: int = 2) -> Table:
    """Rows for a file of that version, sorted by name."""
    encode = encode_flexbuffer if spec_version >= 2 else _encode_msgpack
    items = sorted(((name.encode(), value) for name, value in metadata.items()), key=itemgetter(0))
    return Table.build(
        METADATA_ITEM,
        len(items),
        name=StringColumn.of(Strings.from_list([name for name, _ in items])),
        value=StringColumn.of(Strings.from_list([encode(value) for _, value in items])),
    )


def encode_metadata_of(many: Sequence[Mapping[str, Json]]) -> TableVectorColumn:
    """Encodes the metadata of many snapshots for a file of version 2, together."""
    items = [
        (name.encode(), value)
        for metadata in many
        for name, value in sorted(metadata.items(), key=lambda item: item[0].encode())
    ]
    rows = Table.build(
        METADATA_ITEM,
        len(items),
        name=StringColumn.of(Strings.from_list([name for name, _ in items])),
        value=StringColumn.of(Strings.from_list([encode_flexbuffer(value) for _, value in items])),
    )
    counts = np.array([len(metadata) for metadata in many], dtype=np.int64)
    return TableVectorColumn.of(rows, splits_of(counts))


def _encode_msgpack(value: Json) -> bytes:
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(f"metadata cannot be stored: {error}") from error
    return packed


def decode_msgpack(data: bytes) -> Json:
    """A value of version 1. Raises FormatError unless all the bytes are one JSON value."""
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(f"metadata value is not MessagePack: {error}") from error
    return _require_json(value)


def _require_json(value: Any) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_require_json(item) for item in value]
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _require_json(item) for name, item in value.items()}
        case _:
            raise FormatError(f"metadata value is not JSON: it has a {type(value).__name__}")


def metadata_records(metadata: Mapping[str, Json]) -> list[dict[str, Any]]:
    """The same as records, for files of version 2."""
    return [
        {"name": name, "value": encode_flexbuffer(value)}
        for name, value in sorted(
            ((name.encode(), value) for name, value in metadata.items()), key=lambda item: item[0]
        )
    ]
