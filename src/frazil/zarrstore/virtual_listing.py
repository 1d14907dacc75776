"""Locations of a session's virtual chunks, as columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, RefKind, Virtual
from frazil.format.config import NamedIntEnum
from frazil.format.storage_config import Containers
from frazil.format.urls import VCC, replace_strings, starts_with
from frazil.ids import format_ids
from frazil.paths import ROOT, NodePath

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VirtualChunkTable:
    """One row per virtual chunk. Texts are given once, and by number in each row."""

    arrays: list[str]  # paths
    locations: list[str]  # complete: relative ones have the prefix of their container
    etags: list[str]
    array: Ints  # (n,) into arrays
    index: Ints  # (n, most dimensions of any array), -1 where the array has fewer
    location: Ints  # (n,) into locations
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,)
    etag: Ints  # (n,) into etags, -1 if the chunk has none
    last_modified: npt.NDArray[np.uint32]  # (n,) Unix seconds, 0 if the chunk has none

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"VirtualChunkTable({len(self)} chunks in {len(self.locations)} files)"

    def to_dict(self) -> dict[str, Any]:
        """Plain columns, one value per chunk, as a DataFrame takes them."""
        width = (self.index >= 0).sum(axis=1)
        pairs = zip(self.index.tolist(), width.tolist(), strict=True)
        etags: list[str | None] = [*self.etags, None]
        return {
            "array": [self.arrays[code] for code in self.array.tolist()],
            "index": [tuple(index[:ndim]) for index, ndim in pairs],
            "location": [self.locations[code] for code in self.location.tolist()],
            "offset": self.offset,
            "length": self.length,
            "etag": [etags[code] for code in self.etag.tolist()],
            "last_modified": self.last_modified,
        }

    def files(self) -> dict[str, Any]:
        """One row per file: its location, how many chunks are in it and how many bytes of it."""
        count = len(self.locations)
        sizes = np.zeros(count, np.uint64)
        np.add.at(sizes, self.location, self.length)
        chunks = np.bincount(self.location, minlength=count)
        return {"location": list(self.locations), "chunks": chunks, "bytes": sizes}


def virtual_chunks(
    session: Session, *, prefix: str | None = None, path: NodePath = ROOT
) -> VirtualChunkTable:
    """Lists virtual chunks of arrays at or below `path`, in files whose full location begins with
    `prefix`.

    A location that is relative to an unknown container stays as it is.
    """
    containers = session.files.settings.virtual.all_containers()
    found: list[tuple[str, ChunkRefs]] = []
    for array, refs in _virtual_refs(session, path):
        kept = refs
        if prefix is not None:
            complete = complete_locations(refs.location, containers, strict=False)
            hit = starts_with(complete.strings, prefix.encode())[complete.codes]
            kept = refs.take(np.flatnonzero(hit))
        if len(kept):
            found.append((array, kept))
    return _table(found, containers)


def virtual_locations(session: Session) -> list[str]:
    """Returns the location of each virtual chunk, one entry per chunk. Raises if a container is not
    known.
    """
    containers = session.files.settings.virtual.all_containers()
    return [
        text
        for _, refs in _virtual_refs(session, ROOT)
        for text in complete_locations(refs.location, containers, strict=True).to_texts()
        if text is not None
    ]


def complete_locations(
    locations: StringColumn, containers: Containers, *, strict: bool
) -> StringColumn:
    """Every location with the prefix of its container."""

    def complete(item: bytes) -> bytes:
        try:
            return containers.complete(item.decode()).encode()
        except InvalidInputError:
            if strict:
                raise
            return item

    column = locations.pruned()
    relative = starts_with(column.strings, VCC.encode())
    return StringColumn(column.codes, replace_strings(column.strings, relative, complete))


def _virtual_refs(session: Session, path: NodePath) -> Iterator[tuple[str, ChunkRefs]]:
    for node in session.nodes(path):
        if node.array is None:
            continue
        for refs in session.chunk_refs(node.path):
            rows = np.flatnonzero(refs.kind == RefKind.VIRTUAL)
            if len(rows):
                yield str(node.path), refs if len(rows) == len(refs) else refs.take(rows)


def _table(found: Sequence[tuple[str, ChunkRefs]], containers: Containers) -> VirtualChunkTable:
    arrays = list(dict.fromkeys(array for array, _ in found))
    number = {array: code for code, array in enumerate(arrays)}
    parts = [refs for _, refs in found]
    empty = StringColumn.absent(0)
    columns = [complete_locations(refs.location, containers, strict=False) for refs in parts]
    locations = _distinct(StringColumn.concat([empty, *columns]))
    etags = _distinct(StringColumn.concat([empty, *(refs.etag for refs in parts)]))
    counts = [len(refs) for refs in parts]
    numbers = np.array([number[array] for array, _ in found], np.int64)
    return VirtualChunkTable(
        arrays=arrays,
        locations=locations.strings.to_texts(),
        etags=etags.strings.to_texts(),
        array=np.repeat(numbers, counts),
        index=_indices(parts),
        location=locations.codes,
        offset=_join([refs.offset for refs in parts], np.uint64),
        length=_join([refs.length for refs in parts], np.uint64),
        etag=etags.codes,
        last_modified=_join([refs.last_modified for refs in parts], np.uint32),
    )


def _distinct(column: StringColumn) -> StringColumn:
    """Equal texts once, however often the parts have them."""
    pruned = column.pruned()
    codes, strings = pruned.strings.unique()
    return StringColumn(np.append(codes, -1)[pruned.codes], strings)


def _indices(parts: Sequence[ChunkRefs]) -> Ints:
    width = max((refs.ndim for refs in parts), default=0)
    index = np.full((sum(map(len, parts)), width), -1, np.int64)
    at = 0
    for refs in parts:
        index[at : at + len(refs), : refs.ndim] = refs.index
        at += len(refs)
    return index


def _join(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])


# The chunk references of an array, for callers who want to see where chunks are.


class ChunkType(NamedIntEnum):
    """Kind of storage of a chunk's bytes."""

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
    locations = complete_locations(refs.location, containers, strict=True)
    places = [text or "" for text in locations.to_texts()]
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    for row, name in zip(native.tolist(), format_ids(refs.chunk_id[native]), strict=True):
        places[row] = name
    inline = np.flatnonzero(refs.kind == RefKind.INLINE).tolist()
    inlined = {row: refs.inline.item(row) or b"" for row in inline}
    return refs.index, _TYPES[refs.kind], places, refs.offset, refs.length, inlined
