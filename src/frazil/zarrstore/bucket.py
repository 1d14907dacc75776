"""A Zarr store in a bucket that others write, as a zarr Store to read from."""

import asyncio
import builtins
from collections.abc import AsyncIterator, Iterable

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from frazil.errors import ObjectNotFoundError, ReadOnlyStoreError
from frazil.objectstore.protocol import ObjectStore
from frazil.zarrstore.store import parse_byte_request


class BucketStore(Store):
    """The keys below `root` of an object store."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, store: ObjectStore, root: str) -> None:
        super().__init__(read_only=True)
        self._store = store
        self._root = root

    def __eq__(self, other: object) -> bool:
        mine = (self._store, self._root)
        return isinstance(other, BucketStore) and mine == (other._store, other._root)

    def __hash__(self) -> int:
        return hash((id(self._store), self._root))

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        wanted = parse_byte_request(byte_range)
        try:
            found = await asyncio.to_thread(self._store.get, f"{self._root}/{key}", wanted)
        except ObjectNotFoundError:
            return None
        return prototype.buffer.from_bytes(found.data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> builtins.list[Buffer | None]:
        wanted = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return await asyncio.gather(*wanted)

    async def exists(self, key: str) -> bool:
        try:
            await asyncio.to_thread(self._store.head, f"{self._root}/{key}")
        except ObjectNotFoundError:
            return False
        return True

    async def set(self, key: str, value: Buffer) -> None:
        del value
        raise ReadOnlyStoreError(f"cannot write {key!r}: the store can only be read")

    async def delete(self, key: str) -> None:
        raise ReadOnlyStoreError(f"cannot delete {key!r}: the store can only be read")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in await asyncio.to_thread(self._keys, prefix):
            yield key

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        keys = await asyncio.to_thread(self._keys, folder)
        for name in sorted({key.removeprefix(folder).partition("/")[0] for key in keys}):
            yield name

    def _keys(self, prefix: str) -> builtins.list[str]:
        start = f"{self._root}/"
        return [info.key.removeprefix(start) for info in self._store.list(start + prefix)]
