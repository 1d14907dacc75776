"""The chunk references of an array, for callers who want to see where chunks are."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs
from frazil.format.containers import Containers
from frazil.format.enums import NamedIntEnum
from frazil.format.payloads import Inline, Native, Payload, RefKind, Virtual
from frazil.ids import format_ids
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.zarrstore.virtual_listing import completed


class ChunkType(NamedIntEnum):
    """Where a chunk's bytes are."""

    uninitialized = 0
    native = 1
    virtual = 2
    inline = 3


type ChunkBatch = tuple[
    npt.NDArray[np.uint32],  # index, (n, ndim)
    npt.NDArray[np.uint8],  # ChunkType, (n,)
    list[str],  # id of the chunk object, URL of the file, or empty for an inline chunk
    npt.NDArray[np.uint64],  # offset, (n,)
    npt.NDArray[np.uint64],  # length, (n,)
    dict[int, bytes],  # row of the batch -> inline bytes
]

_TYPES = np.zeros(max(RefKind) + 1, dtype=np.uint8)  # by RefKind
_TYPES[RefKind.INLINE] = ChunkType.inline
_TYPES[RefKind.NATIVE] = ChunkType.native
_TYPES[RefKind.VIRTUAL] = ChunkType.virtual


def chunk_type(payload: Payload | None) -> ChunkType:
    match payload:
        case None:
            return ChunkType.uninitialized
        case Native():
            return ChunkType.native
        case Virtual():
            return ChunkType.virtual
        case Inline():
            return ChunkType.inline


def size_bytes(payload: Payload) -> int:
    match payload:
        case Inline(data):
            return len(data)
        case Native() | Virtual():
            return payload.length


def chunk_batches(session: Session, path: NodePath, *, batch_size: int) -> Iterator[ChunkBatch]:
    """All references of one array, at most `batch_size` at a time; none if there is no array."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    node = session.find_node(path)
    if node is None or node.array is None:
        return
    containers = session.files.settings.virtual.all_containers()
    for refs in session.chunk_refs(path):
        for start in range(0, len(refs), batch_size):
            yield _batch(refs.take(slice(start, start + batch_size)), containers)


def index_batches(
    session: Session, path: NodePath, *, batch_size: int
) -> Iterator[npt.NDArray[np.uint32]]:
    """Index of each chunk, (n, ndim). Raises if there is no array."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    for refs in session.chunk_refs(path):
        for start in range(0, len(refs), batch_size):
            yield refs.index[start : start + batch_size]


def _batch(refs: ChunkRefs, containers: Containers) -> ChunkBatch:
    # Of this batch only, or every one would turn the locations of all into text.
    locations = completed(refs.location, containers, strict=True)
    places = [text or "" for text in locations.to_texts()]
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    for row, name in zip(native.tolist(), format_ids(refs.chunk_id[native]), strict=True):
        places[row] = name
    inline = np.flatnonzero(refs.kind == RefKind.INLINE).tolist()
    inlined = {row: refs.inline.item(row) or b"" for row in inline}
    return refs.index, _TYPES[refs.kind], places, refs.offset, refs.length, inlined
