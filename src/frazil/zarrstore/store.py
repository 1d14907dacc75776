"""A session as a zarr Store.

The synchronous methods do the work (`get_sync` and the like are zarr's own protocol); the
asynchronous ones answer from memory where they can and hand the rest to a thread, so that the event
loop never waits for storage.

Where zarr's contract and the reference's behaviour differ, zarr's holds: ranges are cut off at the
end of a value, an unknown key has no value and does not exist. Asking for the size of what is not
there raises an error that is both zarr's FileNotFoundError and the reference's.
"""

import asyncio
import builtins
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from frazil.dataclass import dataclass
from frazil.engine.session.session import Session
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    ReadOnlyStoreError,
    SessionStateError,
    UnknownKeyError,
    ValueNotFoundError,
)
from frazil.format.storage_config import Containers
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import Data
from frazil.paths import NodePath
from frazil.ranges import ByteRange, From, Last, Range, resolve
from frazil.twins import AsyncCloseableIterator, async_twin
from frazil.zarrstore import grib  # noqa: F401 -- registers a codec
from frazil.zarrstore import keys as listing
from frazil.zarrstore.keys import ChunkKey, Key, MetadataKey, parse_key, require_key
from frazil.zarrstore.pipeline import use_pipeline

if TYPE_CHECKING:
    from frazil.engine.files.virtual_chunks import VirtualChunks
    from frazil.format import chunk_refs as references
    from frazil.zarrstore import virtual, virtual_listing
    from frazil.zarrstore.pipeline import shards
else:  # reading metadata needs none of them
    shards = lazy_module("frazil.zarrstore.pipeline.shards")
    virtual = lazy_module("frazil.zarrstore.virtual")
    virtual_listing = lazy_module("frazil.zarrstore.virtual_listing")
    references = lazy_module("frazil.format.chunk_refs")

# Iteration for both kinds of loop, over work that is done in batches.


# Parts of files that zarr asks for one by one, fetched together.
#
# Zarr asks for several chunks in one turn of its event loop. Those that are virtual wait until the
# turn ends, and are then fetched as one plan, in which neighbours in a file share a request.


@dataclass(frozen=True, slots=True, eq=False)
class _PendingRead:
    virtual: "VirtualChunks"
    chunk: "references.Virtual"
    part: Range
    answer: "asyncio.Future[Data]"


class _OfThisThread(threading.local):
    """A loop runs in one thread, so what waits in it needs no lock."""

    def __init__(self) -> None:
        self.waiting = WeakKeyDictionary[asyncio.AbstractEventLoop, list[_PendingRead]]()
        self.running = set[asyncio.Task[None]]()  # the loop itself would let go of them


_here = _OfThisThread()


async def fetch_together(
    virtual: "VirtualChunks", chunk: "references.Virtual", part: Range
) -> Data:
    """A part of a chunk; with all others that are asked for in this turn of the loop."""
    loop = asyncio.get_running_loop()
    item = _PendingRead(virtual, chunk, part, loop.create_future())
    waiting = _here.waiting.setdefault(loop, [])
    waiting.append(item)
    if len(waiting) == 1:
        loop.call_soon(_start, loop)
    return await item.answer


def _start(loop: asyncio.AbstractEventLoop) -> None:
    by_repository: dict[int, list[_PendingRead]] = {}
    for item in _here.waiting.pop(loop):
        by_repository.setdefault(id(item.virtual), []).append(item)
    for pending in by_repository.values():
        task = loop.create_task(_read_pending(pending))
        _here.running.add(task)
        task.add_done_callback(_here.running.discard)


async def _read_pending(pending: Sequence[_PendingRead]) -> None:
    wanted = [(item.chunk, item.part) for item in pending]
    try:
        found = await asyncio.to_thread(pending[0].virtual.fetch_parts, wanted)
    except BaseException as error:
        for item in pending:
            if not item.answer.done():
                item.answer.set_exception(error)
        raise
    for item, part in zip(pending, found, strict=True):
        if item.answer.done():  # the caller was cancelled
            continue
        if isinstance(part, IcechunkError):
            item.answer.set_exception(part)
        else:
            item.answer.set_result(part)


# Zarr's byte requests as ours.


def parse_byte_request(request: ByteRequest | None) -> ByteRange | None:
    match request:
        case None:
            return None
        case RangeByteRequest(start, end) if 0 <= start <= end:
            return Range(start, end)
        case OffsetByteRequest(offset) if offset >= 0:
            return From(offset)
        case SuffixByteRequest(suffix) if suffix >= 0:
            return Last(suffix)
        case _:
            raise InvalidInputError(
                f"Unexpected byte_range, got {request}.", kind="invalid-byte-range"
            )


async def _edit_or_wait(store: "SessionStore", edit: Callable[[], object]) -> None:
    """Makes a change in memory: at once, or on a thread if it has to wait for a commit."""
    with store.engine.unless_busy() as free:
        if free:
            edit()
            return
    await asyncio.to_thread(edit)


class SessionStore(Store):
    """The hierarchy of one session, under the keys of Zarr version 3.

    Holds nothing itself: stores of one session see each other's writes at once.
    """

    def __init__(
        self,
        engine: Session,
        read_only: bool | None = None,  # noqa: FBT001 -- positional in the reference too
    ) -> None:
        super().__init__(read_only=bool(read_only) or engine.read_only)
        self.engine = engine
        use_pipeline()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionStore) and self.engine == other.engine

    def __hash__(self) -> int:
        return hash(self.engine)

    @property
    def read_only(self) -> bool:
        """True if writes are refused: as asked for, or because the session has become read-only."""
        return self._read_only or self.engine.read_only

    def with_read_only(
        self,
        read_only: bool = False,  # noqa: FBT001, FBT002 -- zarr's signature
    ) -> Store:
        """The same session behind another store. A read-only session stays read-only."""
        return type(self)(self.engine, read_only)

    supports_writes = True
    supports_deletes = True
    supports_listing = True
    supports_consolidated_metadata = False  # a snapshot is consolidated by nature

    # Reading

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        data = self._fetch(parse_key(key), parse_byte_request(byte_range))
        if data is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        parsed, wanted = parse_key(key), parse_byte_request(byte_range)
        if self._needs_no_file(parsed):
            data = self._fetch(parsed, wanted)
        elif (chunk := self._cached_virtual(parsed)) is not None:
            part = resolve(wanted, chunk.length)
            data = await fetch_together(self.engine.files.virtual, chunk, part)
        else:
            data = await asyncio.to_thread(self._fetch, parsed, wanted)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> builtins.list[Buffer | None]:
        wanted = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return await asyncio.gather(*wanted)

    async def exists(self, key: str) -> bool:
        return await self._find_size(parse_key(key)) is not None

    async def getsize(self, key: str) -> int:
        parsed = parse_key(key)
        size = await self._find_size(parsed)
        if size is not None:
            return size
        if parsed is None:
            raise UnknownKeyError(f"invalid zarr key format `{key}`", "invalid-key")
        node = self.engine.find_node(parsed.path)
        if node is not None and node.array is None:
            raise UnknownKeyError(f"there is not an array at `{parsed.path}`", "not-an-array")
        missing = "node" if node is None else "chunk"
        raise ValueNotFoundError(f"{missing} not found at `{key}`", f"{missing}-not-found")

    # Writing

    def set_sync(self, key: str, value: Buffer) -> None:
        self._check_writable()
        _require_buffer(value)
        match require_key(key):
            case MetadataKey(path):
                self._set_node(path, value.to_bytes())
            case ChunkKey(path, index):
                self.engine.set_chunk(path, index, value.as_numpy_array())

    def _set_node(self, path: NodePath, document: bytes) -> None:
        def find_old() -> bytes | None:
            old = self.engine.find_node(path)
            return None if old is None else old.user_data

        shards.require_fitting_shards(document, path.text, find_old)
        self.engine.set_node(path, document)

    async def set(self, key: str, value: Buffer) -> None:
        _require_buffer(value)
        if isinstance(parse_key(key), ChunkKey) and not self._stays_in_memory(value):
            await asyncio.to_thread(self.set_sync, key, value)
        else:
            await _edit_or_wait(self, partial(self.set_sync, key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Does nothing if the key is there; of several that write it at once, one does."""
        self._check_writable()
        _require_buffer(value)
        match require_key(key):
            case MetadataKey(path):
                document = value.to_bytes()
                shards.require_fitting_shards(document, path.text)
                await _edit_or_wait(self, partial(self.engine.set_node_if_absent, path, document))
            case ChunkKey(path, index):
                data = value.as_numpy_array()
                await asyncio.to_thread(self.engine.set_chunk_if_absent, path, index, data)

    def delete_sync(self, key: str) -> None:
        """Deleting a node's metadata deletes the node, with its chunks and all nodes below it."""
        self._check_writable()
        match parse_key(key):
            case MetadataKey(path):
                self.engine.delete_node(path)
            case ChunkKey(path, index) if self._has_grid(path, index):
                self.engine.delete_chunk(path, index)
            case _:
                pass  # no such value, so it is gone

    async def delete(self, key: str) -> None:
        await _edit_or_wait(self, partial(self.delete_sync, key))

    async def set_partial_values(
        self, key_start_values: Iterable[tuple[str, int, bytes | bytearray | memoryview]]
    ) -> None:
        """Raises an error: chunks are replaced as a whole."""
        del key_start_values
        raise SessionStateError(
            "store method `set_partial_values` is not implemented by Icechunk",
            kind="unimplemented",
        )

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await asyncio.to_thread(listing.delete_below, self.engine, prefix)

    async def clear(self) -> None:
        await self.delete_dir("")

    def sync_clear(self) -> None:
        self._check_writable()
        listing.delete_below(self.engine, "")

    # Virtual references. Paths of arrays may be given with or without a leading slash.

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        *,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        validate_container: bool = True,
    ) -> None:
        """Makes a chunk a virtual reference to a part of a file.

        The file must be in a virtual chunk container, unless that is not to be checked.
        """
        self._check_writable()
        chunk = require_key(key)
        if not isinstance(chunk, ChunkKey):
            raise SessionStateError(
                f"this operation is not allowed: use .set to modify metadata for key {key}",
                kind="not-allowed",
            )
        payload = virtual.virtual_payload(
            location,
            offset=offset,
            length=length,
            checksum=checksum,
            containers=_containers(self.engine, checked=validate_container),
        )
        index = np.array([chunk.index], dtype=np.uint32).reshape(1, len(chunk.index))
        self.engine.set_chunk_refs(chunk.path, references.ChunkRefs.from_payloads(index, [payload]))

    set_virtual_ref_async = async_twin(set_virtual_ref, run=_edit_or_wait)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: "builtins.list[virtual.VirtualChunkSpec]",
        *,
        validate_containers: bool = True,
    ) -> builtins.list[tuple[int, ...]] | None:
        """Makes chunks virtual references: all of them, or none if one is invalid.

        Those whose file is in no virtual chunk container are left out, and their indices returned;
        unless that is not to be checked.
        """
        self._check_writable()
        path = NodePath.from_key_prefix(array_path)
        array = self.engine.node(path).array
        if array is None:
            raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
        containers = _containers(self.engine, checked=validate_containers)
        checked = virtual.refs_of_specs(chunks, ndim=len(array.shape), containers=containers)
        self.engine.set_chunk_refs(path, checked.refs)
        return checked.refused or None

    set_virtual_refs_async = async_twin(set_virtual_refs)

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: "virtual.Locations",
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: datetime | str | None = None,
    ) -> builtins.list[tuple[int, ...]] | None:
        """Makes a block of chunks virtual references, last dimension fastest.

        The block begins at chunk `arr_offset`; chunks with an empty location stay as they are.
        Locations are given one by one, as CodedLocations, or as an Arrow column. Chunks whose file
        is in no virtual chunk container are left out, and their indices returned, unless that is
        not to be checked.
        """
        self._check_writable()
        checked = virtual.refs_of_grid(
            chunk_grid_shape,
            locations,
            offsets,
            lengths,
            first=arr_offset,
            checksum=checksum,
            containers=_containers(self.engine, checked=validate_containers),
        )
        self.engine.set_chunk_refs(NodePath.from_key_prefix(array_path), checked.refs)
        return checked.refused or None

    set_virtual_refs_arr_async = async_twin(set_virtual_refs_arr)

    # Listing

    def list(self) -> AsyncCloseableIterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> AsyncCloseableIterator[str]:
        return AsyncCloseableIterator(listing.keys_with_prefix(self.engine, prefix))

    def list_dir(self, prefix: str) -> AsyncCloseableIterator[str]:
        return AsyncCloseableIterator(listing.names_below(self.engine, prefix))

    async def is_empty(self, prefix: str) -> bool:
        return await asyncio.to_thread(listing.is_empty, self.engine, prefix)

    async def getsize_prefix(self, prefix: str) -> int:
        return await asyncio.to_thread(listing.size_below, self.engine, prefix)

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> "AsyncCloseableIterator[virtual_listing.ChunkBatch]":
        """Lists all chunk references of an array, in columns; none if there is no such array."""
        path = NodePath.from_key_prefix(array_path)
        batches = virtual_listing.chunk_batches(self.engine, path, batch_size=batch_size)
        return AsyncCloseableIterator([batch] for batch in batches)

    # Helpers of the methods above

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyStoreError(
                "cannot write to read-only store: store was opened in read-only mode and does not"
                " support writing"
            )

    def _needs_no_file(self, key: Key | None) -> bool:
        """True if no file need be read: for metadata, and chunks that are inline or missing."""
        if not isinstance(key, ChunkKey) or not self._has_grid(key.path, key.index):
            return True
        payload = self.engine.cached_payload(key.path, key.index)
        return payload is None or isinstance(payload, references.Inline)

    def _cached_virtual(self, key: Key | None) -> "references.Virtual | None":
        """The chunk if it is virtual, and that is known without reading a file."""
        if not isinstance(key, ChunkKey) or not self._has_grid(key.path, key.index):
            return None
        payload = self.engine.cached_payload(key.path, key.index)
        return payload if isinstance(payload, references.Virtual) else None

    def _stays_in_memory(self, value: Buffer) -> bool:
        """True if a chunk with this value is kept inline, not stored as an object."""
        return len(value) <= self.engine.chunk_writer().inline_threshold_bytes

    def _fetch(self, key: Key | None, wanted: ByteRange | None) -> Data | None:
        match key:
            case MetadataKey(path):
                node = self.engine.find_node(path)
                if node is None:
                    return None
                part = resolve(wanted, len(node.user_data))
                return node.user_data[part.start : part.stop]
            case ChunkKey(path, index) if self._has_grid(path, index):
                return self.engine.fetch_chunk(path, index, wanted)
            case _:
                return None

    async def _find_size(self, key: Key | None) -> int | None:
        match key:
            case MetadataKey(path):
                node = self.engine.find_node(path)
                return None if node is None else len(node.user_data)
            case ChunkKey(path, index) if self._has_grid(path, index):
                payload = await asyncio.to_thread(self.engine.chunk_payload, path, index)
                return None if payload is None else virtual_listing.size_bytes(payload)
            case _:
                return None

    def _has_grid(self, path: NodePath, index: tuple[int, ...]) -> bool:
        """True if chunks of an array at `path` have as many indices as `index`."""
        node = self.engine.find_node(path)
        return node is not None and node.array is not None and len(node.array.shape) == len(index)


def _require_buffer(value: object) -> None:
    if not isinstance(value, Buffer):
        raise TypeError(
            "IcechunkStore.set(): `value` must be a Buffer instance."
            f" Got an instance of {type(value)} instead."
        )


def _containers(session: Session, *, checked: bool) -> Containers | None:
    return session.files.settings.virtual.all_containers() if checked else None
