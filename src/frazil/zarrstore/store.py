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
from collections.abc import Callable, Iterable

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from frazil.errors import ReadOnlyStoreError, UnknownKeyError, ValueNotFoundError
from frazil.format.payloads import Inline, Virtual
from frazil.objectstore.protocol import Data
from frazil.paths import NodePath
from frazil.ranges import ByteRange, resolve
from frazil.repo.session import Session
from frazil.zarrstore import (
    grib,  # noqa: F401 -- brings a codec
    listing,
)
from frazil.zarrstore.gathering import fetch_together
from frazil.zarrstore.iterators import AsyncCloseableIterator
from frazil.zarrstore.keys import ChunkKey, Key, MetadataKey, parse_key, require_key
from frazil.zarrstore.pipeline import use_pipeline
from frazil.zarrstore.references import size_bytes
from frazil.zarrstore.requests import parse_byte_request
from frazil.zarrstore.shard_fit import require_fitting_shards


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
        """Whether writes are refused: as asked for, or because the session is read-only by now."""
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
        if self._at_hand(parsed):
            data = self._fetch(parsed, wanted)
        elif (chunk := self._virtual_at_hand(parsed)) is not None:
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

        require_fitting_shards(document, path.text, find_old)
        self.engine.set_node(path, document)

    async def set(self, key: str, value: Buffer) -> None:
        _require_buffer(value)
        if isinstance(parse_key(key), ChunkKey) and not self._stays_in_memory(value):
            await asyncio.to_thread(self.set_sync, key, value)
        else:
            await self._edit(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Does nothing if the key is there; of several that write it at once, one does."""
        self._check_writable()
        _require_buffer(value)
        match require_key(key):
            case MetadataKey(path):
                document = value.to_bytes()
                require_fitting_shards(document, path.text)
                await self._edit(self.engine.set_node_if_absent, path, document)
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
        await self._edit(self.delete_sync, key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await asyncio.to_thread(listing.delete_below, self.engine, prefix)

    async def clear(self) -> None:
        await self.delete_dir("")

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

    # What the methods above share

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyStoreError(
                "cannot write to read-only store: store was opened in read-only mode and does not"
                " support writing"
            )

    async def _edit[*Args](self, edit: Callable[[*Args], object], *args: *Args) -> None:
        """A change in memory: at once, or on a thread if it has to wait for a commit to end."""
        with self.engine.unless_busy() as free:
            if free:
                edit(*args)
                return
        await asyncio.to_thread(edit, *args)

    def _at_hand(self, key: Key | None) -> bool:
        """Whether no file need be read: for metadata, and chunks that are inline or missing."""
        if not isinstance(key, ChunkKey) or not self._has_grid(key.path, key.index):
            return True
        payload = self.engine.payload_at_hand(key.path, key.index)
        return payload is None or isinstance(payload, Inline)

    def _virtual_at_hand(self, key: Key | None) -> Virtual | None:
        """The chunk if it is virtual, and that is known without reading a file."""
        if not isinstance(key, ChunkKey) or not self._has_grid(key.path, key.index):
            return None
        payload = self.engine.payload_at_hand(key.path, key.index)
        return payload if isinstance(payload, Virtual) else None

    def _stays_in_memory(self, value: Buffer) -> bool:
        """Whether a chunk with this value is kept in its reference, not stored as an object."""
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
                return None if payload is None else size_bytes(payload)
            case _:
                return None

    def _has_grid(self, path: NodePath, index: tuple[int, ...]) -> bool:
        """Whether chunks of an array at `path` have as many indices as `index`."""
        node = self.engine.find_node(path)
        return node is not None and node.array is not None and len(node.array.shape) == len(index)


def _require_buffer(value: object) -> None:
    if not isinstance(value, Buffer):
        raise TypeError(
            "IcechunkStore.set(): `value` must be a Buffer instance."
            f" Got an instance of {type(value)} instead."
        )
