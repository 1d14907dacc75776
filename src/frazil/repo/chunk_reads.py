"""From chunk references to bytes."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Inline, Native, Payload, RefKind, Virtual
from frazil.objectstore.protocol import Data
from frazil.ranges import ByteRange, Range, resolve
from frazil.repo.lookup import Found


def fetch_payload(files: Files, payload: Payload, byte_range: ByteRange | None) -> Data:
    """The wanted part of a chunk, cut off at its ends."""
    match payload:
        case Inline(data):
            part = resolve(byte_range, len(data))
            return data[part.start : part.stop]
        case Native(chunk_id, offset, length):
            part = resolve(byte_range, length)
            return files.chunks.fetch(chunk_id, Range(offset + part.start, offset + part.stop))
        case Virtual():
            return files.virtual.fetch(payload, resolve(byte_range, payload.length))


def fetch_found(files: Files, found: Sequence[Found], count: int) -> list[Data | None]:
    """Whole chunks in bulk, each at its place in a list of `count`."""
    data: list[Data | None] = [None] * count
    virtual: list[tuple[ChunkRefs, npt.NDArray[np.int64]]] = []
    places: list[int] = []  # of the virtual ones
    for part in found:
        kind = part.refs.kind[part.rows]
        for row, place in _pairs(part, kind == RefKind.INLINE):
            data[place] = fetch_payload(files, part.refs.payload(row), None)
        native, is_virtual = kind == RefKind.NATIVE, kind == RefKind.VIRTUAL
        rows = part.rows[native]
        fetched = files.chunks.fetch_many(
            part.refs.chunk_id[rows], part.refs.offset[rows], part.refs.length[rows]
        )
        for place, chunk in zip(part.at[native].tolist(), fetched, strict=True):
            data[place] = chunk
        virtual.append((part.refs, part.rows[is_virtual]))
        places += part.at[is_virtual].tolist()
    # Of all parts at once: chunks of one file may have their references in several manifests.
    for place, chunk in zip(places, files.virtual.fetch_many(virtual), strict=True):
        data[place] = chunk
    return data


def _pairs(part: Found, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    return zip(part.rows[chosen].tolist(), part.at[chosen].tolist(), strict=True)
