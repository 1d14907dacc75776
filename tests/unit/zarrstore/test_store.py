"""A session as a zarr Store: zarr's contract, for the keys a hierarchy has."""

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
    SupportsSyncStore,
)
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, NodeNotFoundError, ReadOnlyError
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Verb
from frazil.testing.hooked_store import HookedStore
from frazil.zarrstore.pipeline.coding import ARE_THERE
from frazil.zarrstore.store import SessionStore

PIPELINES = ["BatchedCodecPipeline", *(["FusedCodecPipeline"] if ARE_THERE else [])]
PROTOTYPE = default_buffer_prototype()
GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
SMALL, LARGE = bytes(range(10)), bytes(range(256)) * 8  # below and above the inline threshold


def array_document(*counts: int) -> bytes:
    """Metadata of an array with so many chunks of one element along each dimension."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": counts,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * len(counts)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {},
    }
    return json.dumps(document).encode()


def buffer(data: bytes) -> Buffer:
    return cpu.Buffer.from_bytes(data)


async def collect(keys: AsyncIterator[str]) -> list[str]:
    return sorted([key async for key in keys])


@pytest.fixture
def store(session: Session) -> SessionStore:
    return SessionStore(session)


@pytest.fixture
async def filled(store: SessionStore) -> SessionStore:
    """Nodes whose names look like chunk keys, and chunks of both kinds."""
    for key, value in {
        "zarr.json": GROUP,
        "a/zarr.json": array_document(2, 3),
        "a/c/0/0": SMALL,
        "a/c/0/2": LARGE,
        "a/c/1/1": SMALL,
        "c/zarr.json": GROUP,
        "c/0/zarr.json": array_document(12),
        "c/0/c/1": SMALL,
        "c/0/c/11": LARGE,
        "ab/c/zarr.json": array_document(),
        "ab/c/c": SMALL,
    }.items():
        await store.set(key, buffer(value))
    return store


ALL_KEYS = [
    "a/c/0/0",
    "a/c/0/2",
    "a/c/1/1",
    "a/zarr.json",
    "ab/c/c",
    "ab/c/zarr.json",
    "c/0/c/1",
    "c/0/c/11",
    "c/0/zarr.json",
    "c/zarr.json",
    "zarr.json",
]


async def read(store: SessionStore, key: str, part: ByteRequest | None = None) -> bytes | None:
    """The value, asserted to be the same by both colours of method."""
    found = await store.get(key, PROTOTYPE, part)
    again = store.get_sync(key, byte_range=part)
    assert (None if again is None else again.to_bytes()) == (
        None if found is None else found.to_bytes()
    )
    return None if found is None else found.to_bytes()


# Reading


async def test_values_come_back_as_they_were_set(filled: SessionStore) -> None:
    assert await read(filled, "zarr.json") == GROUP
    assert await read(filled, "a/zarr.json") == array_document(2, 3)
    assert await read(filled, "a/c/0/0") == SMALL
    assert await read(filled, "a/c/0/2") == LARGE
    assert await read(filled, "c/0/c/11") == LARGE
    assert await read(filled, "ab/c/c") == SMALL


async def test_values_are_the_same_after_a_commit(
    filled: SessionStore, repository: Repository
) -> None:
    before = {key: await read(filled, key) for key in ALL_KEYS}
    filled.engine.commit("filled")
    committed = SessionStore(repository.readonly_session(Branch("main")))
    assert {key: await read(committed, key) for key in ALL_KEYS} == before
    assert await collect(committed.list()) == ALL_KEYS


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (RangeByteRequest(2, 5), slice(2, 5)),
        (RangeByteRequest(3, 3), slice(0, 0)),
        (RangeByteRequest(5, 10**6), slice(5, None)),
        (RangeByteRequest(10**6, 10**7), slice(0, 0)),
        (OffsetByteRequest(4), slice(4, None)),
        (OffsetByteRequest(10**6), slice(0, 0)),
        (SuffixByteRequest(3), slice(-3, None)),
        (SuffixByteRequest(10**6), slice(None)),
    ],
)
@pytest.mark.parametrize("key", ["zarr.json", "a/c/0/0", "a/c/0/2"])
async def test_a_range_is_cut_off_at_the_end_of_the_value(
    filled: SessionStore, key: str, part: ByteRequest, expected: slice
) -> None:
    whole = await read(filled, key)
    assert whole is not None
    assert await read(filled, key, part) == whole[expected]


@pytest.mark.parametrize(
    "key",
    ["foo", "", "x/zarr.json", "x/c/0", "c/0", "a/c/0", "a/c/0/0/0", "a/c/9/9", "a/c/0.0",
     ".zgroup", "a/.zarray", "a//c/0/0", "zarr.json/c/0", "a/c/1/0"],
)  # fmt: skip
async def test_what_is_not_there_has_no_value(filled: SessionStore, key: str) -> None:
    assert await read(filled, key) is None
    assert not await filled.exists(key)
    with pytest.raises(FileNotFoundError):
        await filled.getsize(key)
    await filled.delete(key)
    assert await collect(filled.list()) == ALL_KEYS


async def test_every_listed_key_exists_and_has_its_size(filled: SessionStore) -> None:
    for key in ALL_KEYS:
        value = await read(filled, key)
        assert value is not None
        assert await filled.exists(key)
        assert await filled.getsize(key) == len(value)


async def test_partial_values_come_in_order_with_none_for_missing_keys(
    filled: SessionStore,
) -> None:
    wanted = [("a/c/0/2", RangeByteRequest(1, 3)), ("nope", None), ("a/c/0/0", None)]
    found = await filled.get_partial_values(PROTOTYPE, (pair for pair in wanted))
    assert [None if one is None else one.to_bytes() for one in found] == [b"\x01\x02", None, SMALL]


# Writing


@pytest.mark.parametrize("key", ["foo", ".zgroup", "a/.zattrs", "a/c/0.0", "a/c/x", "a/b", ""])
async def test_an_unknown_key_cannot_be_set(filled: SessionStore, key: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await filled.set(key, buffer(SMALL))
    assert caught.value.kind == "invalid-key"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/c/0", "invalid-chunk-index"),
        ("a/c/0/3", "invalid-chunk-index"),
        ("c/c/0", "not-an-array"),
        ("c", "not-an-array"),
    ],
)
@pytest.mark.parametrize("value", [SMALL, LARGE])
async def test_a_chunk_must_belong_to_the_grid_of_an_array(
    filled: SessionStore, key: str, kind: str, value: bytes
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await filled.set(key, buffer(value))
    assert caught.value.kind == kind


async def test_a_chunk_needs_its_array(filled: SessionStore) -> None:
    with pytest.raises(NodeNotFoundError):
        await filled.set("x/c/0", buffer(SMALL))


async def test_an_empty_chunk_is_refused(filled: SessionStore) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await filled.set("a/c/0/0", buffer(b""))
    assert caught.value.kind == "zero-length-chunk"


async def test_only_buffers_are_values(store: SessionStore) -> None:
    with pytest.raises(TypeError):
        await store.set("zarr.json", GROUP)  # type: ignore[arg-type]  # what is tested


async def test_a_value_is_a_copy(filled: SessionStore) -> None:
    data = np.arange(10, dtype=np.uint8)
    await filled.set("a/c/0/0", cpu.Buffer.from_array_like(data))
    data[:] = 0
    assert await read(filled, "a/c/0/0") == SMALL


async def test_set_if_not_exists_keeps_what_is_there(filled: SessionStore) -> None:
    await filled.set_if_not_exists("a/c/0/0", buffer(b"new"))
    await filled.set_if_not_exists("a/c/0/1", buffer(b"new"))
    assert await read(filled, "a/c/0/0") == SMALL
    assert await read(filled, "a/c/0/1") == b"new"


# Deleting


async def test_deleting_metadata_deletes_the_node_and_all_below_it(filled: SessionStore) -> None:
    await filled.delete("c/zarr.json")
    assert await collect(filled.list()) == [k for k in ALL_KEYS if not k.startswith("c/")]


async def test_a_deleted_chunk_is_gone(filled: SessionStore) -> None:
    filled.delete_sync("a/c/0/2")
    assert await read(filled, "a/c/0/2") is None
    assert await collect(filled.list()) == [key for key in ALL_KEYS if key != "a/c/0/2"]


@pytest.mark.parametrize(
    "prefix", ["", "/", "a", "a/", "a/c", "a/c/", "a/c/0", "c", "c/0", "c/0/c", "ab", "ab/c", "x"]
)
@pytest.mark.parametrize("committed", [False, True])
async def test_a_directory_is_deleted_with_every_key_below_it(
    filled: SessionStore, repository: Repository, prefix: str, *, committed: bool
) -> None:
    if committed:
        filled.engine.commit("filled")
        filled = SessionStore(repository.writable_session("main"))
    below = prefix.strip("/") + "/" if prefix.strip("/") else ""
    await filled.delete_dir(prefix)
    assert await collect(filled.list()) == [key for key in ALL_KEYS if not key.startswith(below)]


async def test_clearing_leaves_nothing(filled: SessionStore) -> None:
    await filled.clear()
    assert await collect(filled.list()) == []
    assert await filled.is_empty("")


# Listing


@pytest.mark.parametrize(
    "prefix",
    ["", "a", "a/", "ab", "a/c", "a/c/", "a/c/0", "a/c/0/", "a/z", "a/zarr.json", "c", "c/", "c/0",
     "c/0/c/1", "c/0/c/1/", "ab/c", "ab/c/", "z", "x/", "/a/c/0/", "a//"],
)  # fmt: skip
async def test_a_prefix_lists_the_keys_that_start_with_it(
    filled: SessionStore, prefix: str
) -> None:
    start = prefix.removeprefix("/")
    if f"{start}/zarr.json" in ALL_KEYS:  # a node: not what is beside it
        start += "/"
    expected = [key for key in ALL_KEYS if key.startswith(start)]
    assert await collect(filled.list_prefix(prefix)) == expected


@pytest.mark.parametrize(
    "directory",
    ["", "a", "a/c", "a/c/0", "a/c/0/0", "c", "c/0", "c/0/c", "ab", "ab/c", "x", "a//b"],
)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_directory_lists_the_next_segment_of_its_keys(
    filled: SessionStore, directory: str, slash: str
) -> None:
    below = directory + "/" if directory else ""
    expected = {
        key.removeprefix(below).partition("/")[0] for key in ALL_KEYS if key.startswith(below)
    }
    assert await collect(filled.list_dir(directory + slash)) == sorted(expected)
    assert await filled.is_empty(directory + slash) == (not expected)


@pytest.mark.parametrize("directory", ["", "a", "a/c", "a/c/0", "c", "c/0/c", "ab", "x", "a/c/0/0"])
async def test_the_size_of_a_directory_is_that_of_its_values(
    filled: SessionStore, directory: str
) -> None:
    below = directory + "/" if directory else ""
    sizes = [await filled.getsize(key) for key in ALL_KEYS if key.startswith(below)]
    assert await filled.getsize_prefix(directory) == sum(sizes)


async def test_an_array_without_chunks_has_no_chunk_directory(store: SessionStore) -> None:
    await store.set("a/zarr.json", buffer(array_document(2)))
    assert await collect(store.list_dir("a")) == ["zarr.json"]


async def test_an_implied_group_is_listed_though_it_is_no_node(store: SessionStore) -> None:
    await store.set("x/y/zarr.json", buffer(GROUP))
    assert await collect(store.list_dir("")) == ["x"]
    assert not await store.exists("x/zarr.json")
    await store.delete_dir("x")
    assert await store.is_empty("")


# Read-only stores


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.set("zarr.json", buffer(GROUP)),
        lambda store: store.set("nonsense", buffer(GROUP)),
        lambda store: store.set_if_not_exists("zarr.json", buffer(GROUP)),
        lambda store: store.delete("zarr.json"),
        lambda store: store.delete_dir(""),
        lambda store: store.clear(),
    ],
)
async def test_a_read_only_store_refuses_writes(
    filled: SessionStore, write: Callable[[SessionStore], Coroutine[Any, Any, None]]
) -> None:
    reader = filled.with_read_only(read_only=True)
    assert isinstance(reader, SessionStore)
    assert reader.read_only
    with pytest.raises(ReadOnlyError) as caught:
        await write(reader)
    assert isinstance(caught.value, ValueError)  # which is what zarr promises its callers
    assert caught.value.kind == "read-only-store"
    assert await collect(reader.list()) == ALL_KEYS


async def test_a_store_is_read_only_once_its_session_was_committed(filled: SessionStore) -> None:
    filled.engine.commit("done")
    assert filled.read_only
    again = filled.with_read_only(read_only=False)
    assert again.read_only
    with pytest.raises(ReadOnlyError):
        await again.set("zarr.json", buffer(GROUP))


# Identity


def test_stores_of_one_session_are_equal_and_share_everything(
    session: Session, repository: Repository
) -> None:
    one, other = SessionStore(session), SessionStore(session)
    assert one == other
    assert hash(one) == hash(other)
    assert one != SessionStore(repository.writable_session("main"))
    one.set_sync("zarr.json", buffer(GROUP))
    assert other.get_sync("zarr.json") is not None


async def test_a_read_only_store_can_be_pickled(
    filled: SessionStore, repository: Repository
) -> None:
    filled.engine.commit("filled")
    store = SessionStore(repository.readonly_session(Branch("main")))
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read_only
    assert await collect(copy.list()) == ALL_KEYS


def test_a_writable_store_cannot_be_pickled(store: SessionStore) -> None:
    with pytest.raises(ValueError, match="pickle"):
        pickle.dumps(store)


def test_zarr_is_told_what_the_store_can_do(store: SessionStore) -> None:
    assert isinstance(store, SupportsSyncStore)
    assert store.supports_writes
    assert store.supports_deletes
    assert store.supports_listing
    assert not store.supports_partial_writes
    assert not store.supports_consolidated_metadata


# Threads and the event loop


def finished_at_once[T](work: Coroutine[Any, Any, T]) -> T:
    """Result of a coroutine that never waits; fails if it does."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    pytest.fail("the coroutine waited for something")


def test_what_is_in_memory_is_answered_without_a_thread(store: SessionStore) -> None:
    finished_at_once(store.set("a/zarr.json", buffer(array_document(2))))
    finished_at_once(store.set("a/c/0", buffer(SMALL)))
    found = finished_at_once(store.get("a/zarr.json", PROTOTYPE))
    assert found is not None
    assert found.to_bytes() == array_document(2)
    assert finished_at_once(store.exists("a/zarr.json"))
    assert finished_at_once(store.get("nonsense", PROTOTYPE)) is None
    finished_at_once(store.delete("a/c/0"))


class GatedStore(HookedStore[MemoryStore]):
    """A store in which chunks are out of reach until the gate is opened."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), before=self._wait)
        self.gate = threading.Event()

    def _wait(self, verb: Verb, key: str) -> None:
        if verb == "get" and key.startswith("chunks/"):
            assert self.gate.wait(timeout=120)


async def test_the_event_loop_goes_on_while_storage_is_slow() -> None:
    objects = GatedStore()
    store = SessionStore(Repository.create(objects).writable_session("main"))
    await store.set("a/zarr.json", buffer(array_document(2)))
    await store.set("a/c/0", buffer(LARGE))
    reading = asyncio.create_task(store.get("a/c/0", PROTOTYPE))
    await asyncio.sleep(0.01)
    assert not reading.done()
    objects.gate.set()  # reached only if the loop is free
    found = await reading
    assert found is not None
    assert found.to_bytes() == LARGE


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_both_pipelines_of_zarr_work_on_it(session: Session, pipeline: str) -> None:
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
        values = np.arange(10_000).reshape(100, 100)
        array = zarr.create_array(
            SessionStore(session), name="x", data=values, chunks=(30, 40), shards=(60, 80)
        )
        array[5:35, 70:] = 0
        values[5:35, 70:] = 0
        assert np.array_equal(zarr.open_array(SessionStore(session), path="x")[:], values)
