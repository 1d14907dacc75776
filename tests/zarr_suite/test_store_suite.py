"""zarr's own suite for stores, run on frazil's.

The suite presumes a store that keeps any bytes under any key. An Icechunk repository keeps a Zarr
version 3 hierarchy, and nothing else:

    (keys)      `foo`, `foo/0/0` and `foo/c/0.0` are not keys of one, and cannot be written
    (array)     `foo/c/0` is the chunk of an array, which must be there first
    (metadata)  what is under `zarr.json` must describe a group or an array
    (empty)     a chunk of no bytes cannot be stored
    (session)   changes belong to one session, so a writable store cannot be pickled

Each override below says which of these it is for, and does what the suite does with keys and values
of a hierarchy. Everything else runs as zarr wrote it.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
    SupportsGetSync,
)
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.core.sync import _collect_aiterator
from zarr.storage._utils import _normalize_byte_range_index
from zarr.testing.store import StoreTests
from zarr.testing.utils import assert_bytes_equal

from frazil import IcechunkStore, Repository, Session, in_memory_storage, local_filesystem_storage
from frazil.errors import InvalidInputError
from frazil.zarrstore.keys import ChunkKey, MetadataKey, require_key

GROUP = b'{"zarr_format": 3, "node_type": "group"}'
DATA = b"\x01\x02\x03\x04"
LONG = DATA * 1000  # above the inline threshold: stored as an object of its own
BYTE_RANGES = [
    None,
    RangeByteRequest(1, 4),
    OffsetByteRequest(1),
    SuffixByteRequest(1),
    RangeByteRequest(10**6, 10**7),
]
CHUNKS = ["c/0", "foo/c/0", "foo/c/0/1", "foo/c", "c/c/1"]


def array_document(ndim: int) -> bytes:
    """Metadata of an array that has room for every chunk used here."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [2000] * ndim,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * ndim}},
    }
    return json.dumps(document).encode()


def make_room(session: Session, key: str) -> None:
    """The array that a chunk needs (array)."""
    chunk = require_key(key)
    if isinstance(chunk, ChunkKey) and session.engine.find_node(chunk.path) is None:
        session.engine.set_node(chunk.path, array_document(len(chunk.index)))


class IcechunkStoreTests(StoreTests[IcechunkStore, cpu.Buffer]):
    store_cls = IcechunkStore
    buffer_cls = cpu.Buffer

    # What the suite asks of whoever uses it

    @pytest.fixture
    def repository(self) -> Repository:
        raise NotImplementedError

    @pytest.fixture
    def store_kwargs(self, repository: Repository) -> dict[str, Any]:
        return {"session": repository.writable_session("main"), "read_only": False}

    async def set(self, store: IcechunkStore, key: str, value: Buffer) -> None:
        make_room(store.session, key)
        match require_key(key):
            case MetadataKey(path):
                store.session.engine.set_node(path, value.to_bytes())
            case ChunkKey(path, index):
                store.session.engine.set_chunk(path, index, value.to_bytes())

    async def get(self, store: IcechunkStore, key: str) -> Buffer:
        engine = store.session.engine
        match require_key(key):
            case MetadataKey(path):
                data: bytes | memoryview | None = engine.node(path).user_data
            case ChunkKey(path, index):
                data = engine.fetch_chunk(path, index)
        assert data is not None
        return self.buffer_cls.from_bytes(data)

    def test_store_repr(self, store: IcechunkStore) -> None:
        assert repr(store) == (
            "IcechunkStore(read_only=False, snapshot_id='1CECHNKREP0F1RSTCMT0', branch='main')"
        )

    def test_store_supports_writes(self, store: IcechunkStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: IcechunkStore) -> None:
        assert store.supports_listing

    # Overrides: reading

    @pytest.mark.parametrize("key", CHUNKS)
    @pytest.mark.parametrize("data", [DATA, LONG])
    @pytest.mark.parametrize("byte_range", BYTE_RANGES)
    async def test_get(
        self, store: IcechunkStore, key: str, data: bytes, byte_range: ByteRequest
    ) -> None:
        """(keys), (empty)."""
        await super().test_get(store, key, data, byte_range)

    async def test_get_many(self, store: IcechunkStore) -> None:
        """(keys): the suite's are `0` to `9`."""
        keys = [f"c/{number}" for number in range(10)]
        for key in keys:
            await self.set(store, key, self.buffer_cls.from_bytes(key.encode()))
        requests = [(key, default_buffer_prototype(), None) for key in keys]
        found = await _collect_aiterator(store._get_many(requests))
        assert sorted((key, value.to_bytes()) for key, value in found if value is not None) == [
            (key, key.encode()) for key in keys
        ]

    @pytest.mark.parametrize("key", CHUNKS)
    @pytest.mark.parametrize("data", [DATA, LONG])
    async def test_getsize(self, store: IcechunkStore, key: str, data: bytes) -> None:
        """(keys), (empty)."""
        await super().test_getsize(store, key, data)

    async def test_getsize_prefix(self, store: IcechunkStore) -> None:
        """(array): the array `c` beside the array `cc`."""
        make_room(store.session, "c/c/0/0")
        make_room(store.session, "cc/c/0")
        keys = ["c/c/0/0", "c/c/0/1", "c/c/1/0", "c/c/1/1"]
        value = self.buffer_cls.from_bytes(DATA)
        await store._set_many([(key, value) for key in [*keys, "cc/c/0"]])
        assert await store.getsize_prefix("c/c") == len(DATA) * len(keys)
        assert await store.getsize_prefix("c") == len(DATA) * len(keys) + len(array_document(2))

    @pytest.mark.parametrize(
        "key_ranges",
        [
            [],
            [("zarr.json", RangeByteRequest(0, 2))],
            [("foo/c/0", RangeByteRequest(0, 2)), ("zarr.json", None)],
            [
                ("c/0/0", RangeByteRequest(0, 2)),
                ("c/0/1", SuffixByteRequest(2)),
                ("c/0/2", OffsetByteRequest(2)),
            ],
        ],
    )
    async def test_get_partial_values(
        self, store: IcechunkStore, key_ranges: list[tuple[str, ByteRequest]]
    ) -> None:
        """(metadata): values are not the names of their keys. Compared with slices, not `get`."""
        whole = {key: GROUP if key.endswith("zarr.json") else LONG for key, _ in key_ranges}
        for key, value in whole.items():
            await self.set(store, key, self.buffer_cls.from_bytes(value))
        found = await store.get_partial_values(
            default_buffer_prototype(), (pair for pair in key_ranges)
        )
        expected = [self._part(whole[key], byte_range) for key, byte_range in key_ranges]
        assert [None if one is None else one.to_bytes() for one in found] == expected

    def _part(self, value: bytes, byte_range: ByteRequest | None) -> bytes:
        start, stop = _normalize_byte_range_index(self.buffer_cls.from_bytes(value), byte_range)
        return value[start:stop]

    # Overrides: writing and deleting

    @pytest.mark.parametrize("key", CHUNKS)
    @pytest.mark.parametrize("data", [DATA, LONG])
    async def test_set(self, store: IcechunkStore, key: str, data: bytes) -> None:
        """(keys), (array), (empty)."""
        make_room(store.session, key)
        await super().test_set(store, key, data)

    async def test_set_metadata(self, store: IcechunkStore) -> None:
        """(metadata): the part of `test_set` with the key `zarr.json`."""
        await super().test_set(store, "zarr.json", GROUP)
        for data in (DATA, b""):
            with pytest.raises(InvalidInputError):
                await store.set("zarr.json", self.buffer_cls.from_bytes(data))

    @pytest.mark.parametrize("key", ["foo", "0", "foo/0/0", "foo/c/0.0"])
    async def test_set_refuses_what_a_hierarchy_has_no_place_for(
        self, store: IcechunkStore, key: str
    ) -> None:
        """(keys): the ones the suite uses."""
        with pytest.raises(InvalidInputError):
            await store.set(key, self.buffer_cls.from_bytes(DATA))
        assert await store.is_empty("")

    async def test_set_not_open(self, store_not_open: IcechunkStore) -> None:
        """(array)."""
        make_room(store_not_open.session, "c/0")
        await super().test_set_not_open(store_not_open)

    async def test_set_many(self, store: IcechunkStore) -> None:
        """(keys), (array), (metadata)."""
        make_room(store.session, "foo/c/0/0")
        values = {"zarr.json": GROUP, "foo/c/0/0": DATA, "foo/c/0/1": LONG}
        await store._set_many((k, self.buffer_cls.from_bytes(v)) for k, v in values.items())
        for key, value in values.items():
            assert (await self.get(store, key)).to_bytes() == value

    async def test_set_if_not_exists(self, store: IcechunkStore) -> None:
        """(keys)."""
        old, new = self.buffer_cls.from_bytes(b"0000"), self.buffer_cls.from_bytes(b"1111")
        await self.set(store, "c/0", old)
        await store.set_if_not_exists("c/0", new)
        await store.set_if_not_exists("c/1", new)
        assert await self.get(store, "c/0") == old
        assert await self.get(store, "c/1") == new

    async def test_exists(self, store: IcechunkStore) -> None:
        """(metadata)."""
        assert not await store.exists("foo")
        assert not await store.exists("foo/zarr.json")
        await store.set("foo/zarr.json", self.buffer_cls.from_bytes(GROUP))
        assert await store.exists("foo/zarr.json")

    async def test_delete(self, store: IcechunkStore) -> None:
        """(metadata)."""
        await store.set("foo/zarr.json", self.buffer_cls.from_bytes(GROUP))
        await store.delete("foo/zarr.json")
        assert not await store.exists("foo/zarr.json")

    async def test_delete_dir(self, store: IcechunkStore) -> None:
        """(metadata), (array)."""
        for key in ("zarr.json", "foo-bar/zarr.json"):
            await store.set(key, self.buffer_cls.from_bytes(GROUP))
        await store.set("foo/zarr.json", self.buffer_cls.from_bytes(array_document(1)))
        await store.set("foo/c/0", self.buffer_cls.from_bytes(DATA))
        await store.delete_dir("foo")
        assert await store.exists("zarr.json")
        assert await store.exists("foo-bar/zarr.json")
        assert not await store.exists("foo/zarr.json")
        assert not await store.exists("foo/c/0")

    async def test_with_read_only_store(self, open_kwargs: dict[str, Any]) -> None:
        """(keys)."""
        reader = await self.store_cls.open(**{**open_kwargs, "read_only": True})
        value = self.buffer_cls.from_bytes(GROUP)
        writer = reader.with_read_only(read_only=False)
        assert not writer._is_open
        assert not writer.read_only
        await writer.set("zarr.json", value)
        await writer.delete("zarr.json")
        for store in (reader, reader.with_read_only(read_only=True)):
            assert store.read_only
            for refused in (store.set("zarr.json", value), store.delete("zarr.json")):
                with pytest.raises(ValueError, match="read-only mode and does not support writing"):
                    await refused

    # Overrides: listing

    async def test_is_empty(self, store: IcechunkStore) -> None:
        """(keys)."""
        assert await store.is_empty("")
        await self.set(store, "foo/bar/zarr.json", self.buffer_cls.from_bytes(GROUP))
        assert not await store.is_empty("")
        assert await store.is_empty("fo")
        assert not await store.is_empty("foo/")
        assert not await store.is_empty("foo")
        assert await store.is_empty("spam/")

    async def test_clear(self, store: IcechunkStore) -> None:
        """(keys)."""
        await self.set(store, "c/0", self.buffer_cls.from_bytes(DATA))
        await store.clear()
        assert await store.is_empty("")

    async def test_list(self, store: IcechunkStore) -> None:
        """(metadata), (array), (empty)."""
        assert await _collect_aiterator(store.list()) == ()
        await store.set("foo/zarr.json", self.buffer_cls.from_bytes(array_document(1)))
        keys = [f"foo/c/{number}" for number in range(10)]
        await store._set_many((key, self.buffer_cls.from_bytes(DATA)) for key in keys)
        assert sorted(await _collect_aiterator(store.list())) == [*keys, "foo/zarr.json"]

    async def test_list_prefix(self, store: IcechunkStore) -> None:
        """(metadata)."""
        prefixes = ("", "a/", "a/b/", "a/b/c/")
        keys = [prefix + "zarr.json" for prefix in prefixes]
        await store._set_many((key, self.buffer_cls.from_bytes(GROUP)) for key in keys)
        for prefix in prefixes:
            found = await _collect_aiterator(store.list_prefix(prefix))
            assert sorted(found) == sorted(key for key in keys if key.startswith(prefix))

    async def test_list_empty_path(self, store: IcechunkStore) -> None:
        """(metadata), (array), (empty)."""
        for key in ("foo/bar/c/1", "foo/baz/c/0"):
            await self.set(store, key, self.buffer_cls.from_bytes(DATA))
        keys = ["foo/bar/c/1", "foo/bar/zarr.json", "foo/baz/c/0", "foo/baz/zarr.json"]
        assert sorted(await _collect_aiterator(store.list())) == keys
        assert sorted(await _collect_aiterator(store.list_prefix(""))) == keys
        assert sorted(await _collect_aiterator(store.list_prefix("foo/bar/"))) == keys[:2]

    async def test_list_dir(self, store: IcechunkStore) -> None:
        """(keys), (metadata), (array)."""
        assert await _collect_aiterator(store.list_dir("")) == ()
        assert await _collect_aiterator(store.list_dir("foo")) == ()
        await self.set(store, "foo/bar/c/1", self.buffer_cls.from_bytes(DATA))
        await self.set(store, "foo/zarr.json", self.buffer_cls.from_bytes(GROUP))
        await self.set(store, "foo/bar/zarr.json", self.buffer_cls.from_bytes(array_document(1)))
        for slash in ("", "/"):
            found = await _collect_aiterator(store.list_dir("foo" + slash))
            assert sorted(found) == ["bar", "zarr.json"]
            found = await _collect_aiterator(store.list_dir("foo/bar" + slash))
            assert sorted(found) == ["c", "zarr.json"]

    # Overrides: the synchronous methods, whose keys are `sync_get`, `parity_delete` and such (keys)

    def test_get_sync(self, store: IcechunkStore) -> None:
        store.session.engine.set_node(require_key("c/0").path, array_document(1))
        store.session.engine.set_chunk(require_key("c/0").path, (0,), DATA)
        found = self._require_get_sync(store).get_sync("c/0")
        assert found is not None
        assert found.to_bytes() == DATA

    def test_set_sync(self, store: IcechunkStore) -> None:
        make_room(store.session, "c/0")
        self._require_set_sync(store).set_sync("c/0", self.buffer_cls.from_bytes(DATA))
        assert store.session.engine.fetch_chunk(require_key("c/0").path, (0,)) == DATA

    def test_delete_sync(self, store: IcechunkStore) -> None:
        make_room(store.session, "c/0")
        self._require_set_sync(store).set_sync("c/0", self.buffer_cls.from_bytes(DATA))
        self._require_delete_sync(store).delete_sync("c/0")
        assert self._require_get_sync(store).get_sync("c/0") is None

    @pytest.mark.parametrize("direction", ["set_async_get_sync", "set_sync_get_async"])
    async def test_sync_async_set_get_parity(self, store: IcechunkStore, direction: str) -> None:
        make_room(store.session, "c/0")
        value = self.buffer_cls.from_bytes(LONG)
        if direction == "set_async_get_sync":
            await store.set("c/0", value)
            found = self._require_get_sync(store).get_sync("c/0")
        else:
            self._require_set_sync(store).set_sync("c/0", value)
            found = await store.get("c/0", default_buffer_prototype())
        assert found is not None
        assert_bytes_equal(found, value)

    async def test_delete_sync_visible_to_async_get(self, store: IcechunkStore) -> None:
        await self.set(store, "c/0", self.buffer_cls.from_bytes(DATA))
        self._require_delete_sync(store).delete_sync("c/0")
        assert await store.get("c/0", default_buffer_prototype()) is None

    @pytest.mark.parametrize("byte_range", BYTE_RANGES)
    async def test_get_sync_byte_range_parity(
        self, store: IcechunkStore, byte_range: ByteRequest | None
    ) -> None:
        await self.set(store, "c/0", self.buffer_cls.from_bytes(LONG))
        getter: SupportsGetSync = self._require_get_sync(store)
        found = getter.get_sync("c/0", byte_range=byte_range)
        again = await store.get("c/0", default_buffer_prototype(), byte_range)
        assert found is not None
        assert again is not None
        assert_bytes_equal(found, again)

    # Overrides: pickling

    async def test_serializable_store(self, store: IcechunkStore) -> None:
        """(session): a writable store is refused, a read-only one arrives with its data."""
        await self.set(store, "c/0", self.buffer_cls.from_bytes(LONG))
        with pytest.raises(ValueError, match="pickle"):
            pickle.dumps(store)
        store.session.commit("now read-only")
        copy = pickle.loads(pickle.dumps(store))
        assert copy.read_only
        assert copy.session.snapshot_id == store.session.snapshot_id
        assert (await self.get(copy, "c/0")).to_bytes() == LONG


class TestInMemory(IcechunkStoreTests):
    @pytest.fixture
    def repository(self) -> Repository:
        return Repository.create(in_memory_storage())


class TestOnLocalFilesystem(IcechunkStoreTests):
    @pytest.fixture
    def repository(self, tmp_path: Path) -> Repository:
        return Repository.create(local_filesystem_storage(tmp_path / "repository"))
