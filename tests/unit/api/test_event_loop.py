"""No asynchronous method keeps the event loop waiting for storage, or for another's commit."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.buffer.cpu import Buffer

from frazil import (
    ConflictDetector,
    IcechunkStore,
    RepoAvailability,
    Repository,
    RepoStatus,
    Session,
    Storage,
    VirtualChunkSpec,
    twins,
)
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Prefixed
from tests.unit.api.gated import Gated, no_standstill

PROTOTYPE = default_buffer_prototype()
GROUP = Buffer.from_bytes(b'{"zarr_format": 3, "node_type": "group"}')
CHUNK = Buffer.from_bytes(b"x" * 8)
LARGE = Buffer.from_bytes(b"x" * 8000)


@pytest.fixture
def store() -> Gated:
    return Gated(MemoryStore())


@pytest.fixture
def repository(store: Gated) -> Repository:
    """Two commits of one array with inline chunks and one with chunk objects."""
    made = Repository.create(Storage(store))
    with made.transaction("main", message="arrays") as target:
        group = zarr.open_group(target, mode="w")
        group.create_array("small", shape=(8,), chunks=(2,), dtype="i4", compressors=None)
        group.create_array("large", shape=(4000,), chunks=(1000,), dtype="i8", compressors=None)
        group["small"][:] = np.arange(8)  # type: ignore[index]  # an array, to zarr perhaps a group
        group["large"][:] = np.arange(4000)  # type: ignore[index]  # same
    made.create_tag("v1", made.lookup_branch("main"))
    return made


def cold(repository: Repository) -> Repository:
    """One that has nothing in memory."""
    return Repository.open(repository.storage)


async def held(store: Gated, work: Awaitable[object]) -> object:
    """Lets the work come to the gate, and opens it when the loop has been seen to go on."""
    async with no_standstill():
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.03)
        store.open()
        return await task


# Each method that reads or writes storage, with its gate closed.

type Call = Callable[[Repository], Awaitable[object]]

OF_REPOSITORY: dict[str, Call] = {
    "open_async": lambda repo: Repository.open_async(repo.storage),
    "open_or_create_async": lambda repo: Repository.open_or_create_async(repo.storage),
    "create_async": lambda repo: Repository.create_async(
        Storage(Prefixed(repo.storage.store, "another"))
    ),
    "exists_async": lambda repo: Repository.exists_async(repo.storage),
    "fetch_config_async": lambda repo: Repository.fetch_config_async(repo.storage),
    "fetch_spec_version_async": lambda repo: Repository.fetch_spec_version_async(repo.storage),
    "readonly_session_async": lambda repo: repo.readonly_session_async("main"),
    "writable_session_async": lambda repo: repo.writable_session_async("main"),
    "rearrange_session_async": lambda repo: repo.rearrange_session_async("main"),
    "reopen_async": lambda repo: repo.reopen_async(),
    "save_config_async": lambda repo: repo.save_config_async(),
    "list_branches_async": lambda repo: repo.list_branches_async(),
    "lookup_branch_async": lambda repo: repo.lookup_branch_async("main"),
    "list_tags_async": lambda repo: repo.list_tags_async(),
    "lookup_tag_async": lambda repo: repo.lookup_tag_async("v1"),
    "delete_tag_async": lambda repo: repo.delete_tag_async("v1"),
    "get_metadata_async": lambda repo: repo.get_metadata_async(),
    "set_metadata_async": lambda repo: repo.set_metadata_async({"a": 1}),
    "update_metadata_async": lambda repo: repo.update_metadata_async({"a": 1}),
    "get_status_async": lambda repo: repo.get_status_async(),
    "set_status_async": lambda repo: repo.set_status_async(RepoStatus(RepoAvailability.online)),
    "feature_flags_async": lambda repo: repo.feature_flags_async(),
    "ancestry_graph_async": lambda repo: repo.ancestry_graph_async(branch="main"),
    "inspect_repo_info_async": lambda repo: repo.inspect_repo_info_async(),
    "async_ancestry": lambda repo: anext(repo.async_ancestry(branch="main")),
    "ops_log_async": lambda repo: anext(repo.ops_log_async()),
}


@pytest.mark.parametrize("name", sorted(OF_REPOSITORY))
async def test_no_request_of_a_repository_is_made_on_the_event_loop(
    repository: Repository, store: Gated, name: str
) -> None:
    fresh = cold(repository)
    store.close()
    await held(store, OF_REPOSITORY[name](fresh))


def test_every_asynchronous_method_hands_its_work_to_a_thread() -> None:
    """Those not called above: made by `async_twin`, or by hand around such a twin."""
    for kind in (Repository, Session, IcechunkStore):
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction):
            if name.endswith("_async"):
                is_made = method.__code__.co_filename == twins.__file__
                assert is_made or name == "total_chunks_storage_async", f"{kind.__name__}.{name}"


async def everything(items: AsyncIterator[object]) -> list[object]:
    return [item async for item in items]


OF_COLD_STORE: dict[str, Callable[[IcechunkStore], Awaitable[object]]] = {
    "get": lambda store: store.get("small/c/1", PROTOTYPE),
    "get_chunk_object": lambda store: store.get("large/c/1", PROTOTYPE),
    "get_partial_values": lambda store: store.get_partial_values(PROTOTYPE, [("small/c/1", None)]),
    "exists": lambda store: store.exists("small/c/1"),
    "getsize": lambda store: store.getsize("large/c/1"),
    "getsize_prefix": lambda store: store.getsize_prefix("small"),
    "is_empty": lambda store: store.is_empty("small/c"),
    "list": lambda store: everything(store.list()),
    "list_prefix": lambda store: everything(store.list_prefix("small/")),
    "list_dir": lambda store: everything(store.list_dir("small/c")),
    "chunk_iterator": lambda store: everything(store.array_chunk_iterator("large")),
    "chunk_type": lambda store: store.session.chunk_type_async("/large", (1,)),
    "chunk_coordinates": lambda store: everything(store.session.chunk_coordinates("/large")),
    "virtual": lambda store: store.session.all_virtual_chunk_locations_async(),
    "set": lambda store: store.set("large/c/2", LARGE),
    "set_if_not_exists": lambda store: store.set_if_not_exists("large/c/2", LARGE),
    "delete_dir": lambda store: store.delete_dir("large/c"),
    "commit": lambda store: store.session.commit_async("nothing", allow_empty=True),
    "amend": lambda store: store.session.amend_async("nothing", allow_empty=True),
    "flush": lambda store: store.session.flush_async("nothing"),
    "rebase": lambda store: store.session.rebase_async(ConflictDetector()),
}


@pytest.mark.parametrize("name", sorted(OF_COLD_STORE))
async def test_no_request_of_a_session_is_made_on_the_event_loop(
    repository: Repository, store: Gated, name: str
) -> None:
    session = cold(repository).writable_session("main")
    store.close()
    await held(store, OF_COLD_STORE[name](session.store))


# While a commit is under way.


@pytest.fixture(params=["commit_async", "commit on a thread", "amend_async", "flush_async"])
def begin(request: pytest.FixtureRequest) -> Callable[[Session], Awaitable[object]]:
    return {
        "commit_async": lambda session: session.commit_async("changes"),
        "commit on a thread": lambda session: asyncio.to_thread(session.commit, "changes"),
        "amend_async": lambda session: session.amend_async("changes"),
        "flush_async": lambda session: session.flush_async("changes"),
    }[request.param]


async def test_whoever_reads_goes_on_while_a_commit_waits_for_storage(
    repository: Repository, begin: Callable[[Session], Awaitable[object]]
) -> None:
    gate = Gated(repository.storage.store, reads_pass=True)
    session = Repository.open(Storage(gate)).writable_session("main")
    target = session.store
    await target.set("small/c/0", CHUNK)
    gate.close()
    async with no_standstill():
        commit = asyncio.ensure_future(begin(session))
        await gate.request_arrives()
        for _ in range(2):  # the first reads files, the second has them in memory
            found = await target.get("small/c/0", PROTOTYPE)
            assert found is not None
            assert found.to_bytes() == CHUNK.to_bytes()
            assert await target.get("small/c/1", PROTOTYPE) is not None
            assert await target.get("large/c/1", PROTOTYPE) is not None
            assert await target.get("zarr.json", PROTOTYPE) is not None
            assert await target.exists("large/c/3")
            assert "small/c/0" in [key async for key in target.list()]
            assert {name async for name in target.list_dir("")} == {"zarr.json", "small", "large"}
            assert await session.get_node_id_async("/small")
            assert session.status().updated_chunks == {"/small": [[0]]}
            assert session.has_uncommitted_changes
            assert len([one async for one in session.chunk_coordinates("/small")]) == 4
        assert not commit.done()
        gate.open()
        await commit
    assert session.read_only
    found = await target.get("small/c/0", PROTOTYPE)
    assert found is not None
    assert found.to_bytes() == CHUNK.to_bytes()


WRITES: dict[str, Callable[[IcechunkStore], Awaitable[object]]] = {
    "metadata": lambda store: store.set("new/zarr.json", GROUP),
    "a small chunk": lambda store: store.set("small/c/1", CHUNK),
    "a large chunk": lambda store: store.set("large/c/1", LARGE),
    "new metadata": lambda store: store.set_if_not_exists("new/zarr.json", GROUP),
    "a new chunk": lambda store: store.set_if_not_exists("small/c/1", CHUNK),
    "no chunk": lambda store: store.delete("small/c/1"),
    "no node": lambda store: store.delete("small/zarr.json"),
    "nothing": lambda store: store.delete_dir("small"),
    "one reference": lambda store: store.set_virtual_ref_async(
        "small/c/1", "file:///f", offset=0, length=8, validate_container=False
    ),
    "references": lambda store: store.set_virtual_refs_async(
        "small", [VirtualChunkSpec([1], "file:///f", 0, 8)], validate_containers=False
    ),
}


@pytest.mark.parametrize("what", sorted(WRITES))
async def test_whoever_writes_waits_for_the_commit_without_stopping_the_loop(
    repository: Repository, what: str
) -> None:
    gate = Gated(repository.storage.store, reads_pass=True)
    session = Repository.open(Storage(gate)).writable_session("main")
    target = session.store
    await target.set("small/c/0", CHUNK)
    gate.close()
    async with no_standstill():
        commit = asyncio.ensure_future(session.commit_async("changes"))
        await gate.request_arrives()
        write = asyncio.ensure_future(WRITES[what](target))
        await asyncio.sleep(0.03)
        if not write.done():  # `set_if_not_exists` of a chunk that exists need not wait
            gate.open()
        outcome = (await asyncio.gather(write, return_exceptions=True))[0]
        gate.open()
        await commit
    assert outcome is None or "read-only" in str(outcome)
    assert (outcome is None) == (what == "a new chunk")
    assert not session.has_uncommitted_changes
    assert not session.status().updated_chunks


async def test_a_merge_that_compares_chunks_lets_others_read(repository: Repository) -> None:
    gate = Gated(repository.storage.store)
    session = Repository.open(Storage(gate)).writable_session("main")
    forks = [session.fork(), session.fork()]
    for fork in forks:  # equal bytes in different objects: they are read to find that out
        await fork.store.set("large/c/0", LARGE)
    gate.close()
    async with no_standstill():
        merge = asyncio.ensure_future(session.merge_async(*forks))
        await gate.request_arrives()
        assert await session.get_node_id_async("/small")
        assert await session.store.get("zarr.json", PROTOTYPE) is not None
        assert not merge.done()
        gate.open()
        await merge
    assert session.status().updated_chunks == {"/large": [[0]]}


async def test_a_history_can_be_closed_before_its_end(repository: Repository) -> None:
    for history in (
        repository.async_ancestry(branch="main"),
        repository.ops_log_async(),
        repository.ancestry(branch="main"),
    ):
        await anext(history)
        await history.aclose()
        assert [one async for one in history] == []
