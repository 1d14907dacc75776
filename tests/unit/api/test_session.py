"""The public Session and its store."""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import zarr

from frazil import (
    ChunkType,
    ConflictError,
    IcechunkStore,
    InvalidInputError,
    NodeNotFoundError,
    ObjectStoreConfig,
    ReadOnlyError,
    Repository,
    RepositoryConfig,
    S3Options,
    Session,
    SessionMode,
    SessionStateError,
    VirtualChunkContainer,
    VirtualChunkSpec,
    local_filesystem_storage,
)

INITIAL = "1CECHNKREP0F1RSTCMT0"
LOCATION = "s3://bucket/file.nc"


def u64(*values: int) -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


@pytest.fixture
def repository(repository: Repository) -> Repository:
    """One whose virtual chunks may be in a bucket."""
    config = RepositoryConfig()
    store = ObjectStoreConfig.S3(S3Options("us-east-1"))
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://bucket/", store))
    return repository.reopen(config)


@pytest.fixture
def session(repository: Repository) -> Session:
    """An array `x` of 2 by 3 chunks: inline, native, virtual, and none."""
    session = repository.writable_session("main")
    group = zarr.create_group(session.store)
    for name, values in {"x": np.arange(24).reshape(4, 6), "z": np.float64(1)}.items():
        group.create_array(name, data=np.asarray(values), chunks="auto", compressors=None)
    array = group.create_array(
        "mixed", shape=(4, 600), chunks=(2, 200), dtype="u1", compressors=None, fill_value=0
    )
    array[:2, :200] = 1
    array[3, 500] = 1
    zarr.create_array(
        session.store, name="large", shape=(2000,), chunks=(1000,), dtype="u1", compressors=None,
        fill_value=0,
    )[:1000] = 7  # fmt: skip
    session.store.set_virtual_ref("large/c/1", LOCATION, offset=5, length=6, checksum="tag")
    return session


# Session


def test_a_session_says_what_it_is(repository: Repository, session: Session) -> None:
    assert not session.read_only
    assert session.mode is SessionMode.writable
    assert session.branch == "main"
    assert session.snapshot_id == INITIAL
    assert session.has_uncommitted_changes
    assert session.config == repository.config
    assert repr(session) == (
        f"Session(read_only=False, snapshot_id='{INITIAL}', branch='main',"
        " has_uncommitted_changes=True)"
    )


def test_a_committed_session_is_read_only_at_the_new_snapshot(session: Session) -> None:
    new = session.commit("data", {"n": 1})
    assert session.read_only
    assert session.mode is SessionMode.readonly
    assert session.branch is None
    assert session.snapshot_id == new
    assert not session.has_uncommitted_changes
    assert session.store.read_only
    with pytest.raises(ReadOnlyError):
        session.discard_changes()


async def test_a_commit_can_be_awaited(repository: Repository, session: Session) -> None:
    new = await session.commit_async("data", metadata={"n": 1})
    assert repository.lookup_snapshot(new).metadata == {"n": 1}


def test_an_empty_commit_must_be_meant(repository: Repository) -> None:
    session = repository.writable_session("main")
    with pytest.raises(SessionStateError) as caught:
        session.commit("nothing")
    assert caught.value.kind == "no-changes-to-commit"
    assert repository.lookup_branch("main") == INITIAL
    new = session.commit("nothing", allow_empty=True)
    assert repository.lookup_branch("main") == new


def test_the_second_of_two_commits_is_refused_and_keeps_its_changes(
    repository: Repository,
) -> None:
    first, second = (repository.writable_session("main") for _ in range(2))
    zarr.create_group(first.store, path="a")
    zarr.create_group(second.store, path="b")
    new = first.commit("first")
    with pytest.raises(ConflictError) as caught:
        second.commit("second")
    assert caught.value.expected_parent == INITIAL
    assert caught.value.actual_parent == new
    assert second.status().new_groups >= {"/b"}


def test_a_status_is_a_diff_and_changes_can_be_discarded(session: Session) -> None:
    status = session.status()
    assert status.new_groups == {"/"}
    assert status.new_arrays == {"/x", "/z", "/mixed", "/large"}
    assert status.updated_chunks["/large"] == [[0], [1]]
    session.discard_changes()
    assert session.status().is_empty()
    assert not session.has_uncommitted_changes


async def test_a_node_keeps_its_id_through_commits(
    repository: Repository, session: Session
) -> None:
    before = session.get_node_id("/x")
    session.commit("data")
    reader = repository.readonly_session("main")
    assert reader.get_node_id("/x") == await reader.get_node_id_async("/x") == before
    with pytest.raises(NodeNotFoundError):
        reader.get_node_id("/nope")
    with pytest.raises(InvalidInputError) as caught:
        reader.get_node_id("x")
    assert caught.value.kind == "invalid-path"


@pytest.mark.parametrize("committed", [False, True])
async def test_the_type_of_a_chunk(session: Session, *, committed: bool) -> None:
    if committed:
        session.commit("data")
    assert session.chunk_type("/mixed", (0, 0)) is ChunkType.inline
    assert session.chunk_type("/mixed", [0, 1]) is ChunkType.uninitialized
    assert session.chunk_type("/mixed", (9, 9)) is ChunkType.uninitialized
    assert session.chunk_type("/large", (0,)) is ChunkType.native
    assert await session.chunk_type_async("/large", [1]) is ChunkType.virtual
    with pytest.raises(InvalidInputError) as caught:
        session.chunk_type("/", ())
    assert caught.value.kind == "not-an-array"


async def test_every_chunk_has_its_coordinates_once(session: Session) -> None:
    session.commit("data")
    found = [index async for index in session.chunk_coordinates("/mixed", batch_size=1)]
    assert sorted(found) == [(0, 0), (1, 2)]


async def test_coordinates_include_changes(repository: Repository, session: Session) -> None:
    session.commit("data")
    again = repository.writable_session("main")
    array = zarr.open_array(again.store, path="mixed")
    array[:2, 200:400] = 3
    array[:2, :200] = 2
    await again.store.delete("mixed/c/1/2")
    assert sorted([index async for index in again.chunk_coordinates("/mixed")]) == [(0, 0), (0, 1)]


async def test_virtual_locations_are_listed_chunk_by_chunk(session: Session) -> None:
    session.store.set_virtual_refs_arr("large", (2,), [LOCATION] * 2, u64(0, 1), u64(1, 1))
    session.commit("data")
    assert session.all_virtual_chunk_locations() == [LOCATION] * 2
    assert await session.all_virtual_chunk_locations_async() == [LOCATION] * 2


def test_a_read_only_session_can_be_pickled(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "repository"))
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="x", data=np.arange(5))
    with pytest.raises(ValueError, match="pickle"):
        pickle.dumps(session)
    session.commit("data")
    for original in (session, repository.readonly_session("main")):
        copy = pickle.loads(pickle.dumps(original))
        assert copy.snapshot_id == original.snapshot_id
        assert copy.config == original.config
        assert np.array_equal(zarr.open_array(copy.store, path="x")[:], np.arange(5))


def test_sessions_are_equal_if_they_are_the_same(repository: Repository, session: Session) -> None:
    assert session == session.store.session
    assert session.store == session.store
    assert hash(session.store) == hash(session.store)
    assert len({session, session.store.session}) == 1
    assert session != repository.writable_session("main")
    assert session != "session"


# Store


def test_a_store_knows_its_session(session: Session) -> None:
    store = session.store
    assert isinstance(store, IcechunkStore)
    assert store.session is session
    assert store.with_read_only(read_only=True).session is session
    assert zarr.open_array(store, path="x", mode="r").store.session is session  # type: ignore[attr-defined]  # zarr knows it as a Store


def test_clearing_can_be_synchronous(session: Session) -> None:
    session.store.sync_clear()
    assert list(session.store.list()) == []
    session.commit("empty", allow_empty=True)
    with pytest.raises(ReadOnlyError):
        session.store.sync_clear()


async def test_values_cannot_be_written_in_part(session: Session) -> None:
    with pytest.raises(SessionStateError) as caught:
        await session.store.set_partial_values([("x/c/0", 0, b"1")])
    assert caught.value.kind == "unimplemented"


@pytest.mark.parametrize("path", ["large", "/large"])
async def test_chunk_references_are_listed_as_columns(session: Session, path: str) -> None:
    session.commit("data")
    (batch,) = [batch async for batch in session.store.array_chunk_iterator(path)]
    index, kinds, places, offsets, lengths, inlined = batch
    assert index.tolist() == [[0], [1]]
    assert kinds.tolist() == [ChunkType.native, ChunkType.virtual]
    assert len(places[0]) == 20
    assert places[1] == LOCATION
    assert offsets.tolist() == [0, 5]
    assert lengths.tolist() == [1000, 6]
    assert inlined == {}


async def test_inline_chunks_are_listed_with_their_bytes(session: Session) -> None:
    batches = list(session.store.array_chunk_iterator("mixed", batch_size=1))
    assert [batch[0].tolist() for batch in batches] == [[[0, 0]], [[1, 2]]]
    assert [batch[2] for batch in batches] == [[""], [""]]
    assert batches[0][5] == {0: bytes([1]) * 400}
    (scalar,) = session.store.array_chunk_iterator("z")
    assert scalar[0].shape == (1, 0)


@pytest.mark.parametrize("path", ["nope", "", "/"])
def test_no_array_has_no_references(session: Session, path: str) -> None:
    assert list(session.store.array_chunk_iterator(path)) == []


async def test_virtual_references_can_be_set_in_three_ways(session: Session) -> None:
    store = session.store
    when = datetime(2024, 1, 1, tzinfo=UTC)
    store.set_virtual_ref("mixed/c/0/0", LOCATION, offset=1, length=2)
    await store.set_virtual_ref_async("mixed/c/0/1", LOCATION, offset=2, length=3, checksum=when)
    specs = [VirtualChunkSpec([0, 2], LOCATION, 3, 4), VirtualChunkSpec([1, 0], LOCATION, 4, 5)]
    assert store.set_virtual_refs("/mixed", specs) is None
    assert await store.set_virtual_refs_async("mixed", specs[:1]) is None
    locations = [LOCATION, ""]
    assert store.set_virtual_refs_arr(
        "mixed", (1, 2), locations, u64(5, 6), u64(6, 7), arr_offset=(1, 1), checksum="tag"
    ) is None  # fmt: skip
    assert await store.set_virtual_refs_arr_async("mixed", (1, 1), [LOCATION], u64(1), u64(2)) is (
        None
    )
    session.commit("virtual")
    (batch,) = store.array_chunk_iterator("mixed")
    assert batch[0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert batch[1].tolist() == [ChunkType.virtual] * 5 + [ChunkType.inline]
    assert batch[3].tolist() == [1, 2, 3, 4, 5, 0]
    assert batch[4].tolist()[:5] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("nonsense", "invalid-key"),
        ("mixed/c/9/9", "invalid-chunk-index"),
        ("mixed/c/0", "invalid-chunk-index"),
        ("c/0", "not-an-array"),
    ],
)
def test_a_virtual_reference_must_be_of_a_chunk(session: Session, key: str, kind: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        session.store.set_virtual_ref(key, LOCATION, offset=0, length=1)
    assert caught.value.kind == kind


def test_metadata_cannot_be_virtual(session: Session) -> None:
    with pytest.raises(SessionStateError) as caught:
        session.store.set_virtual_ref("mixed/zarr.json", LOCATION, offset=0, length=1)
    assert caught.value.kind == "not-allowed"


def test_virtual_references_need_an_array(session: Session) -> None:
    store = session.store
    with pytest.raises(NodeNotFoundError):
        store.set_virtual_refs_arr("nope", (1,), [LOCATION], u64(1), u64(1))
    with pytest.raises(NodeNotFoundError):
        store.set_virtual_refs("nope", [VirtualChunkSpec([0], LOCATION, 0, 1)])
    with pytest.raises(InvalidInputError):
        store.set_virtual_refs("", [VirtualChunkSpec([0], LOCATION, 0, 1)])


def test_of_many_references_all_are_set_or_none(repository: Repository) -> None:
    store = repository.writable_session("main").store
    zarr.create_array(store, name="x", shape=(4,), chunks=(1,), dtype="u1")
    ones = u64(*[1] * 5)
    with pytest.raises(InvalidInputError):
        store.set_virtual_refs_arr("x", (5,), [LOCATION] * 5, ones, ones)
    assert list(store.array_chunk_iterator("x")) == []


def test_a_read_only_store_takes_no_virtual_references(session: Session) -> None:
    store = session.store.with_read_only(read_only=True)
    with pytest.raises(ReadOnlyError):
        store.set_virtual_ref("mixed/c/0/0", LOCATION, offset=0, length=1)
    with pytest.raises(ReadOnlyError):
        store.set_virtual_refs("mixed", [])
    with pytest.raises(ReadOnlyError):
        store.set_virtual_refs_arr("mixed", (1, 1), [LOCATION], u64(1), u64(1))
