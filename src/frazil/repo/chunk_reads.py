"""From chunk references to bytes."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from frazil.assets.chunks import require_readable_range
from frazil.assets.files import Files
from frazil.errors import IcechunkError
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, RefKind, Virtual
from frazil.objectstore.protocol import Data
from frazil.objectstore.reads import Targets
from frazil.ranges import ByteRange, Last, Range, resolve
from frazil.repo.lookup import Found


def fetch_payload(files: Files, payload: Payload, byte_range: ByteRange | None) -> Data:
    """The wanted part of a chunk, cut off at its ends."""
    match payload:
        case Inline(data):
            part = resolve(byte_range, len(data))
            return data[part.start : part.stop]
        case Native(chunk_id, offset, length):
            part = resolve(byte_range, length)
            require_readable_range(offset, part.stop - part.start, files.settings.limits)
            return files.chunks.fetch(chunk_id, Range(offset + part.start, offset + part.stop))
        case Virtual():
            return files.virtual.fetch(payload, resolve(byte_range, payload.length))


def fetch_found(
    files: Files,
    found: Sequence[Found],
    count: int,
    parts: npt.NDArray[np.int64] | None = None,
    into: Targets | None = None,
) -> list[Data | None]:
    """Chunks in bulk, each at its place in a list of `count`; whole, or these (count, 2) bytes.

    A negative start counts from the end, up to which is read then.
    Native ones may have been put into their targets, if these have their lengths; then the target
    is what is given back.
    """
    data: list[Data | None] = [None] * count
    virtual: list[tuple[ChunkRefs, npt.NDArray[np.int64]]] = []
    places: list[int] = []  # of the virtual ones
    for part in found:
        kind = part.refs.kind[part.rows]
        for row, place in _pairs(part, kind == RefKind.INLINE):
            wanted = None if parts is None else _wanted(parts, place)
            data[place] = fetch_payload(files, part.refs.payload(row), wanted)
        native, is_virtual = kind == RefKind.NATIVE, kind == RefKind.VIRTUAL
        stored = Found(part.refs, part.rows[native], part.at[native])
        fetched = _fetch_native(files, stored, parts, into)
        for place, chunk in zip(stored.at.tolist(), fetched, strict=True):
            data[place] = chunk
        virtual.append((part.refs, part.rows[is_virtual]))
        places += part.at[is_virtual].tolist()
    for place, chunk in zip(places, _fetch_virtual(files, virtual, places, parts), strict=True):
        data[place] = chunk
    return data


def _fetch_native(
    files: Files,
    found: Found,
    parts: npt.NDArray[np.int64] | None,
    into: Targets | None,
) -> list[Data]:
    refs, rows, places = found.refs, found.rows, found.at
    offset, length = refs.offset[rows], refs.length[rows]
    if parts is not None:
        begin = parts[places, 0]
        start = np.minimum(np.abs(begin).astype(np.uint64), length)
        start = np.where(begin < 0, length - start, start)
        stop = np.minimum(parts[places, 1].astype(np.uint64), length)
        length = stop - start
    if len(length):
        require_readable_range(int(offset.max()), int(length.max()), files.settings.limits)
    if parts is not None:
        offset = offset + start
    targets = None if into is None else _fitting(into, places, length)
    return files.chunks.fetch_many(refs.chunk_id[rows], offset, length, targets)


def _fitting(
    into: Targets, places: npt.NDArray[np.int64], length: npt.NDArray[np.uint64]
) -> list[memoryview | None]:
    """Targets of these chunks, as far as they are of their lengths."""
    targets = [into[place] for place in places.tolist()]
    return [
        each if each is not None and each.nbytes == size else None
        for each, size in zip(targets, length.tolist(), strict=True)
    ]


def _fetch_virtual(
    files: Files,
    found: list[tuple[ChunkRefs, npt.NDArray[np.int64]]],
    places: list[int],
    parts: npt.NDArray[np.int64] | None,
) -> Sequence[Data]:
    """Of all manifests at once: chunks of one file may have their references in several."""
    if parts is None:
        return files.virtual.fetch_many(found)
    chunks = [refs.payload(row) for refs, rows in found for row in rows.tolist()]
    wanted = [
        (chunk, resolve(_wanted(parts, place), chunk.length))
        for chunk, place in zip(chunks, places, strict=True)
        if isinstance(chunk, Virtual)
    ]
    fetched = files.virtual.fetch_parts(wanted)
    for each in fetched:
        if isinstance(each, IcechunkError):
            raise each
    return [each for each in fetched if not isinstance(each, IcechunkError)]


def _wanted(parts: npt.NDArray[np.int64], place: int) -> ByteRange:
    start, stop = parts[place].tolist()
    return Last(-start) if start < 0 else Range(start, stop)


def _pairs(part: Found, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    return zip(part.rows[chosen].tolist(), part.at[chosen].tolist(), strict=True)
