"""Small chunk objects in packs, and out of them again."""

import threading

import numpy as np
import pytest

from frazil.engine.files.object_keys import CHUNKS, chunk_key
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import (
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
    ReadOnlyError,
)
from frazil.format.chunk_refs import ChunkRefs, Inline, Native
from frazil.format.generation import Generation
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import ChunkId, SnapshotId
from frazil.maintenance.executor import ThreadExecutor, quiet_files
from frazil.maintenance.pack import PackPlan, PackResult, pack, plan_pack, plan_unpack, unpack
from frazil.maintenance.purge.purge_message import plan_purge_messages
from frazil.maintenance.purge.purge_path import plan_purge_path
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.unit.maintenance.contents import contents_of, keys
from tests.unit.maintenance.local_cluster import LocalCluster
from tests.unit.spec.written import GROUP, array_metadata, split_every

LARGE, SMALL, TINY = map(NodePath, ("/large", "/small", "/tiny"))


class PackedByCluster(MemoryStore):
    """A store whose repository is packed by a cluster."""


@pytest.fixture(params=[(MemoryStore, 1), (MemoryStore, 2), (PackedByCluster, 2)])
def repository(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Forty chunks of 100 bytes, two of 50, one of 30, and one that is large."""
    monkeypatch.setattr("frazil.maintenance.pack._ROWS_SENT", 7)
    store, version = request.param
    repository = Repository.create(store(), split_every(8), spec_version=version)
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    for path, shape in ((LARGE, (8, 6)), (SMALL, (4,)), (TINY, ())):
        session.set_node(path, array_metadata(shape, (1,) * len(shape)))
    for number in range(40):
        session.set_chunk(LARGE, divmod(number, 6), bytes([number]) * 100)
    for number in range(2):
        session.set_chunk(SMALL, (number,), bytes([100 + number]) * 50)
    session.set_chunk(SMALL, (3,), b"x" * 5000)
    session.set_chunk(TINY, (), b"t" * 30)
    session.commit("chunks")
    return repository


def planned(repository: Repository, *paths: NodePath) -> PackPlan:
    files = quiet_files(repository)
    on_cluster = isinstance(repository.store, PackedByCluster)
    executor = LocalCluster(files) if on_cluster else ThreadExecutor(files)
    chosen = paths or (NodePath("/"),)
    plan = plan_pack(repository, "main", chosen, executor, small_bytes=200, pack_bytes=1000)
    assert (plan.scattered is not None) == on_cluster
    assert len(plan.chunks) == (0 if on_cluster else plan.result().chunks)
    return plan


def packed(repository: Repository, *paths: NodePath) -> PackResult:
    return pack(repository, planned(repository, *paths))


def payload(repository: Repository, path: NodePath, *index: int) -> Native:
    found = repository.readonly_session(Branch("main")).chunk_payload(path, index)
    assert isinstance(found, Native)
    return found


def test_an_array_that_fills_packs_has_its_own_and_the_others_share(
    repository: Repository,
) -> None:
    before = contents_of(repository)
    plan = planned(repository)
    done = pack(repository, plan)
    assert (plan.packs, plan.result().chunks, plan.bytes) == (5, 43, 4130)
    assert plan.packed.tolist() == [3, 10, 10, 10, 10]
    assert (done.chunks, done.packs, done.bytes, done.references) == (43, 5, 4130, 43)
    assert contents_of(repository) == before
    one, two = payload(repository, SMALL, 0), payload(repository, TINY)
    assert one.chunk_id == two.chunk_id
    assert (one.offset, two.offset, two.length) == (0, 100, 30)


def test_neighbours_in_the_grid_are_neighbours_in_a_pack(repository: Repository) -> None:
    packed(repository)
    places = [payload(repository, LARGE, *divmod(number, 6)) for number in range(10)]
    assert {each.chunk_id for each in places} == {places[0].chunk_id}
    assert [each.offset for each in places] == list(range(0, 1000, 100))


def test_large_chunks_stay_where_they_are(repository: Repository) -> None:
    before = payload(repository, SMALL, 3)
    packed(repository)
    assert payload(repository, SMALL, 3) == before


def test_packing_twice_does_nothing_more(repository: Repository) -> None:
    packed(repository)
    tip, stored = repository.lookup_branch("main"), keys(repository.store, "")
    again = packed(repository)
    assert (again.snapshot, again.chunks, again.packs) == (None, 0, 0)
    assert repository.lookup_branch("main") == tip
    assert keys(repository.store, "") == stored


def put_together(
    repository: Repository, path: NodePath, *chunks: tuple[tuple[int, ...], int]
) -> None:
    """Chunks of so many bytes, in one object, by one commit."""
    session, name = repository.writable_session("main"), ChunkId.random()
    sizes = [size for _, size in chunks]
    repository.store.put(chunk_key(name), b"".join(bytes([size]) * size for size in sizes))
    starts = np.cumsum(sizes) - sizes
    ids = np.frombuffer(name.raw * len(chunks), dtype=np.uint8).reshape(-1, 12)
    index = np.array([each for each, _ in chunks], dtype=np.uint32)
    session.set_chunk_refs(path, ChunkRefs.native(index, ids, starts, sizes))
    session.commit("together")


def test_packs_of_a_few_chunks_are_put_together_too(repository: Repository) -> None:
    packed(repository)
    for row in range(2):
        put_together(repository, LARGE, *(((row + 6, column), 20) for column in (4, 5)))
    before, plan = contents_of(repository), planned(repository)
    assert (plan.packs, plan.result().chunks, plan.bytes) == (1, 4, 80)
    pack(repository, plan)
    assert contents_of(repository) == before
    assert [payload(repository, LARGE, 6 + k // 2, 4 + k % 2).offset for k in range(4)] == [
        0, 20, 40, 60,
    ]  # fmt: skip
    assert packed(repository).snapshot is None


def test_what_is_left_of_a_pack_is_packed_again(repository: Repository) -> None:
    packed(repository)
    session = repository.writable_session("main")
    for number in [*range(1, 10), *range(11, 20)]:
        session.set_chunk(LARGE, divmod(number, 6), b"n" * 3000)
    session.commit("most of two packs is old")
    plan = planned(repository)
    assert (plan.packs, plan.packed.tolist()) == (1, [2])
    pack(repository, plan)
    assert payload(repository, LARGE, 0, 0).chunk_id == payload(repository, LARGE, 1, 4).chunk_id
    assert packed(repository).snapshot is None


def test_a_chunk_that_is_alone_is_not_copied(repository: Repository) -> None:
    assert planned(repository, TINY).packs == 0


def test_only_arrays_below_the_paths_are_packed(repository: Repository) -> None:
    before = payload(repository, LARGE, 0, 0)
    done = packed(repository, SMALL, TINY)
    assert (done.chunks, done.packs, done.manifests) == (3, 1, 2)
    assert payload(repository, LARGE, 0, 0) == before


def test_a_path_that_is_not_there_is_an_error(repository: Repository) -> None:
    with pytest.raises(NodeNotFoundError, match="/nothing"):
        planned(repository, NodePath("/nothing"))


def test_packs_too_small_for_two_chunks_are_refused(repository: Repository) -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        plan_pack(repository, "main", small_bytes=100, pack_bytes=199)


def test_the_commit_says_that_nothing_changed(repository: Repository) -> None:
    before = repository.lookup_branch("main")
    done = packed(repository)
    assert done.snapshot is not None
    found = repository.diff(before, SnapshotId.parse(done.snapshot))
    assert (found.updated_chunks, len(found.updated_arrays)) == ({}, 0)
    assert repository.lookup_snapshot(SnapshotId.parse(done.snapshot)).metadata == {
        "frazil": {"packed": 43, "upon": str(before)}
    }


def test_a_chunk_with_several_references_is_stored_once(repository: Repository) -> None:
    session = repository.writable_session("main")
    shared = payload(repository, LARGE, 0, 0)
    session.set_chunk_refs(SMALL, ChunkRefs.from_payloads([[2]], [shared]))
    session.commit("shared")
    before, done = contents_of(repository), packed(repository)
    assert (done.chunks, done.references) == (43, 44)
    assert payload(repository, SMALL, 2) == payload(repository, LARGE, 0, 0)
    assert contents_of(repository) == before


def test_virtual_and_inline_chunks_are_not_touched(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_chunk(SMALL, (2,), b"inline")
    virtual = ChunkRefs.virtual([[7, 5]], ["s3://bucket/file"], 10, 20)
    session.set_chunk_refs(LARGE, virtual)
    session.commit("others")
    before = contents_of(repository)
    packed(repository)
    assert contents_of(repository) == before
    reading = repository.readonly_session(Branch("main"))
    assert reading.chunk_payload(SMALL, (2,)) == Inline(b"inline")
    assert reading.chunk_payload(LARGE, (7, 5)) == virtual.payload(0)


def test_what_others_committed_meanwhile_is_kept(repository: Repository) -> None:
    plan = planned(repository)
    session = repository.writable_session("main")
    session.set_chunk(LARGE, (0, 0), b"n" * 77)
    session.delete_chunk(LARGE, (0, 1))
    session.delete_node(SMALL)
    session.commit("meanwhile")
    before = contents_of(repository)
    done = pack(repository, plan)
    assert done.snapshot == str(repository.lookup_branch("main"))
    assert contents_of(repository) == before
    assert payload(repository, LARGE, 0, 2).offset > 0


def test_nothing_is_committed_if_all_chunks_are_gone_meanwhile(repository: Repository) -> None:
    plan = planned(repository)
    session = repository.writable_session("main")
    for path in (LARGE, SMALL, TINY):
        session.delete_node(path)
    tip = session.commit("gone")
    assert pack(repository, plan).snapshot is None
    assert repository.lookup_branch("main") == tip


def test_a_session_that_began_before_rebases_over_it_without_a_conflict(
    repository: Repository,
) -> None:
    session = repository.writable_session("main")
    session.set_chunk(LARGE, (0, 0), b"n" * 77)
    packed(repository)
    session.commit("after", rebasing=Rebasing(Policy()))
    reading = repository.readonly_session(Branch("main"))
    assert reading.fetch_chunk(LARGE, (0, 0)) == b"n" * 77
    assert reading.fetch_chunk(LARGE, (0, 1)) == bytes([1]) * 100
    assert payload(repository, LARGE, 0, 1).offset == 100


def test_a_writer_who_never_stops_loses_nothing_while_chunks_are_packed_and_unpacked(
    repository: Repository,
) -> None:
    stop, written = threading.Event(), list[int]()

    def keep_writing() -> None:
        number = 0
        while not stop.is_set() and number < 200:
            session = repository.writable_session("main")
            session.set_chunk(LARGE, (number % 8, 5), number.to_bytes(50))
            session.commit(f"write {number}", rebasing=Rebasing(Policy()))
            written.append(number)
            number += 1

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        while len(written) < 30 and writer.is_alive():
            packed(repository)
            unpack(repository, plan_unpack(repository, "main"))
    finally:
        stop.set()
        writer.join()
    packed(repository)
    reading = repository.readonly_session(Branch("main"))
    for row in range(8):
        newest = max(number for number in written if number % 8 == row)
        assert reading.fetch_chunk(LARGE, (row, 5)) == newest.to_bytes(50)
    assert reading.fetch_chunk(LARGE, (6, 3)) == bytes([39]) * 100
    commits = sum(
        record.message.startswith("write") for record in repository.ancestry(Branch("main"))
    )
    assert commits == len(written)


def test_unpacking_gives_each_chunk_an_object_again(repository: Repository) -> None:
    before = contents_of(repository)
    packed(repository)
    stored = keys(repository.store, CHUNKS)
    plan = plan_unpack(repository, "main")
    done = unpack(repository, plan)
    assert (done.chunks, done.packs, done.bytes, done.references) == (43, 5, 4130, 43)
    assert len(keys(repository.store, CHUNKS) - stored) == 43
    assert contents_of(repository) == before
    assert unpack(repository, plan_unpack(repository, "main")).snapshot is None


def test_only_some_paths_are_unpacked(repository: Repository) -> None:
    packed(repository)
    done = unpack(repository, plan_unpack(repository, "main", (TINY,)))
    assert (done.chunks, done.packs) == (1, 1)
    assert payload(repository, TINY).offset == 0
    assert payload(repository, SMALL, 1).offset == 50


def test_chunks_are_packed_piece_by_piece(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents_of(repository)
    plan = planned(repository)
    monkeypatch.setattr("frazil.maintenance.pack.BYTES_AT_ONCE", 1500)
    told = list[tuple[str, int, int]]()
    executor = ThreadExecutor(repository.files, lambda *each: told.append(each))
    pack(repository, plan, executor=executor)
    assert contents_of(repository) == before
    packing = [each for each in told if each[0] == "packing chunks"]
    assert plan.scattered or packing == [("packing chunks", number, 5) for number in (2, 3, 4, 5)]
    again = plan_unpack(repository, "main")
    monkeypatch.setattr("frazil.maintenance.pack.BYTES_AT_ONCE", 150)
    unpack(repository, again, executor=executor)
    assert contents_of(repository) == before
    unpacking = [each for each in told if each[0] == "unpacking chunks"]
    assert unpacking[-1] == ("unpacking chunks", 43, 43)
    assert len(unpacking) > 1


def test_a_chunk_that_is_missing_is_an_error_and_nothing_is_committed(
    repository: Repository,
) -> None:
    plan, tip = planned(repository), repository.lookup_branch("main")
    repository.store.delete([f"{CHUNKS}{payload(repository, LARGE, 0, 0).chunk_id}"])
    with pytest.raises(ObjectNotFoundError):
        pack(repository, plan)
    assert repository.lookup_branch("main") == tip


@pytest.mark.parametrize("repository", [(MemoryStore, 2)], indirect=True)  # version 1 has no status
def test_a_read_only_repository_is_not_packed(repository: Repository) -> None:
    repository.set_status(RepoStatus(Availability.READ_ONLY, 0, "closed"))
    with pytest.raises(ReadOnlyError):
        planned(repository)


def test_generations_before_version_1_are_to_be_migrated_first() -> None:
    old = Repository.create(MemoryStore(), generation=Generation.A2E, spec_version=1)
    for action in (
        lambda: planned(old),
        lambda: plan_unpack(old, "main"),
        lambda: plan_rewrite_manifests(old, "main"),
        lambda: plan_purge_path(old, LARGE),
        lambda: plan_purge_messages(old, []),
    ):
        with pytest.raises(FormatError, match="migrate it first"):
            action()
