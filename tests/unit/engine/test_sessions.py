"""Sessions: what is written is read back, before and after the commit, and by nobody else."""

import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from frazil.engine.changes.pending import UNTOUCHED
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.format.chunk_refs import ChunkRefs, Inline, Native
from frazil.format.config import RepositoryConfig
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import ROOT, NodePath
from frazil.ranges import Last, Range

GROUP = b'{"zarr_format": 3, "node_type": "group"}'
A = NodePath("/a")
BIG = bytes(range(256)) * 4  # above the inline threshold

type MakeArray = Callable[..., bytes]


def committed(
    repository: Repository, metadata: bytes, chunks: Mapping[tuple[int, ...], bytes]
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, metadata)
    for index, data in chunks.items():
        session.set_chunk(A, index, data)
    session.commit("first")


def reader(repository: Repository) -> Session:
    return repository.readonly_session(Branch("main"))


def test_a_session_reads_its_own_writes_and_nobody_elses(
    repository: Repository, make_array: MakeArray
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(4))
    session.set_chunk(A, (0,), b"xy")
    session.set_chunk(A, (1,), BIG)

    assert session.fetch_chunk(A, (0,)) == b"xy"
    assert bytes(session.fetch_chunk(A, (1,)) or b"") == BIG
    assert reader(repository).find_node(A) is None

    session.commit("now everybody does")
    assert reader(repository).node(A).user_data == make_array(4)
    assert bytes(reader(repository).fetch_chunk(A, (1,)) or b"") == BIG


def test_small_chunks_are_inline_and_larger_ones_are_objects(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(4), {(0,): b"x" * 512, (1,): b"x" * 513})
    session = reader(repository)

    assert isinstance(session.chunk_payload(A, (0,)), Inline)
    payload = session.chunk_payload(A, (1,))
    assert isinstance(payload, Native)
    assert (payload.offset, payload.length) == (0, 513)


def test_the_inline_threshold_is_configurable(store: MemoryStore, make_array: MakeArray) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    committed(Repository.create(store, config), make_array(4), {(0,): b"x"})

    assert isinstance(reader(Repository.open(store)).chunk_payload(A, (0,)), Native)


def test_parts_of_chunks_are_read_and_cut_off_at_the_end(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(4), {(0,): b"small", (1,): BIG})
    session = reader(repository)

    for index, data in {(0,): b"small", (1,): BIG}.items():
        assert bytes(session.fetch_chunk(A, index, Range(1, 3)) or b"") == data[1:3]
        assert bytes(session.fetch_chunk(A, index, Last(2)) or b"") == data[-2:]
        assert bytes(session.fetch_chunk(A, index, Range(1, 9999)) or b"") == data[1:]


def test_many_chunks_are_fetched_in_bulk_with_pending_ones_on_top(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(10), {(i,): BIG + bytes([i]) for i in range(4)})
    session = repository.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    session.delete_chunk(A, (2,))

    wanted = np.array([[3], [1], [2], [0], [4], [77]], dtype=np.uint32)
    found = [None if part is None else bytes(part) for part in session.fetch_chunks(A, wanted)]

    assert found == [BIG + b"\3", b"new", None, BIG + b"\0", None, None]


def test_chunks_packed_in_one_object_are_read_with_one_request(
    repository: Repository, make_array: MakeArray
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(8))
    packed = session.chunk_writer().put_chunk(bytes(range(200)) * 10)
    assert isinstance(packed, Native)
    chunk_id = np.frombuffer(packed.chunk_id.raw * 4, dtype=np.uint8).reshape(4, 12)
    index = np.arange(4, dtype=np.uint32).reshape(4, 1)
    session.set_chunk_refs(A, ChunkRefs.native(index, chunk_id, [0, 10, 20, 30], [10, 10, 10, 10]))
    session.commit("packed")
    counting = Counting(repository.store)
    session = Repository.open(counting).readonly_session(Branch("main"))
    session.chunk_payload(A, (0,))
    counting.clear()

    found = session.fetch_chunks(A, index[::-1])

    assert [bytes(part or b"") for part in found] == [
        bytes(range(at, at + 10)) for at in (30, 20, 10, 0)
    ]
    assert len(counting.reads) == 1


def test_deleting_a_node_deletes_everything_below_it_and_nothing_beside_it(
    repository: Repository, make_array: MakeArray
) -> None:
    session = repository.writable_session("main")
    for path in ["/", "/g", "/g-x", "/gx"]:
        session.set_node(NodePath(path), GROUP)
    for path in ["/g/a", "/g/h/b"]:
        session.set_node(NodePath(path), make_array(2))
    session.commit("tree")

    session = repository.writable_session("main")
    session.delete_node(NodePath("/g"))

    assert [node.path.text for node in session.nodes()] == ["/", "/g-x", "/gx"]
    session.commit("pruned")
    assert [node.path.text for node in reader(repository).nodes()] == ["/", "/g-x", "/gx"]


def test_a_node_created_and_deleted_leaves_no_change(
    repository: Repository, make_array: MakeArray
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(4))
    session.set_chunk(A, (0,), b"x")
    session.delete_node(A)

    assert not session.has_uncommitted_changes
    with pytest.raises(SessionStateError) as caught:
        session.commit("nothing")
    assert caught.value.kind == "no-changes-to-commit"


def test_a_node_that_is_deleted_and_created_again_is_another_node(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(4), {(0,): b"old"})
    old_id = reader(repository).node(A).id
    session = repository.writable_session("main")
    session.delete_node(A)
    session.set_node(A, make_array(4))

    assert session.fetch_chunk(A, (0,)) is None
    status = session.status()
    assert status.new_arrays == status.deleted_arrays == {A}
    session.commit("replaced")
    assert reader(repository).node(A).id != old_id
    assert reader(repository).fetch_chunk(A, (0,)) is None


def test_shrinking_an_array_drops_its_outer_chunks_for_good(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(8), {(i,): bytes([65 + i]) for i in range(4)})
    for length in (4, 8):
        session = repository.writable_session("main")
        session.set_node(A, make_array(length))
        session.commit(f"now {length}")

    found = [reader(repository).fetch_chunk(A, (i,)) for i in range(4)]
    assert found == [b"A", b"B", None, None]


def test_other_attributes_keep_the_manifests(repository: Repository, make_array: MakeArray) -> None:
    committed(repository, make_array(8), {(0,): b"A"})
    before = reader(repository).node(A)
    session = repository.writable_session("main")
    session.set_node(A, make_array(8, units="m"))
    session.commit("attributes")

    after = reader(repository).node(A)
    assert after.array == before.array
    assert after.id == before.id


def test_equal_metadata_is_no_change(repository: Repository, make_array: MakeArray) -> None:
    committed(repository, make_array(8), {})
    session = repository.writable_session("main")
    session.set_node(A, make_array(8))

    assert not session.has_uncommitted_changes


def test_a_moved_branch_is_a_conflict_and_loses_nothing(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(8), {})
    mine, theirs = (repository.writable_session("main") for _ in range(2))
    mine.set_chunk(A, (0,), b"mine")
    theirs.set_chunk(A, (1,), b"theirs")
    tip = theirs.commit("faster")

    with pytest.raises(ConflictError) as caught:
        mine.commit("slower")

    assert caught.value.kind == "commit-conflict"
    assert caught.value.actual_parent == str(tip)
    assert caught.value.expected_parent == str(mine.snapshot_id)
    assert repository.lookup_branch("main") == tip
    assert mine.fetch_chunk(A, (0,)) == b"mine"
    assert mine.has_uncommitted_changes


def test_after_its_commit_a_session_is_read_only_at_the_new_snapshot(
    repository: Repository, make_array: MakeArray
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(8))
    snapshot = session.commit("done")

    assert session.snapshot_id == snapshot
    assert session.branch is None
    assert session.node(A).user_data == make_array(8)
    with pytest.raises(ReadOnlyError):
        session.set_node(A, make_array(4))


def test_writing_to_a_read_only_session_is_refused(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(8), {})
    session = reader(repository)

    writes: list[Callable[[], object]] = [
        lambda: session.set_node(A, make_array(4)),
        lambda: session.delete_node(A),
        lambda: session.set_chunk(A, (0,), b"x"),
        lambda: session.delete_chunk(A, (0,)),
        lambda: session.delete_chunks_under(A, ()),
        lambda: session.set_chunk_refs(A, ChunkRefs.empty(1)),
        lambda: session.set_chunk_if_absent(A, (0,), b"x"),
        session.discard_changes,
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError):
            write()
    with pytest.raises(SessionStateError) as caught:
        session.commit("x")
    assert caught.value.kind == "commit-not-allowed"


@pytest.mark.parametrize(
    ("index", "data", "kind"),
    [
        ((4,), b"x", "invalid-chunk-index"),
        ((0, 0), b"x", "invalid-chunk-index"),
        ((), b"x", "invalid-chunk-index"),
        ((0,), b"", "zero-length-chunk"),
    ],
)
def test_chunks_that_cannot_be_are_refused(
    repository: Repository, make_array: MakeArray, index: tuple[int, ...], data: bytes, kind: str
) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(8))

    with pytest.raises(InvalidInputError) as caught:
        session.set_chunk(A, index, data)

    assert caught.value.kind == kind


def test_chunks_belong_to_arrays(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)

    with pytest.raises(InvalidInputError) as caught:
        session.fetch_chunk(ROOT, (0,))
    assert caught.value.kind == "not-an-array"
    with pytest.raises(NodeNotFoundError):
        session.set_chunk(A, (0,), b"x")


def test_a_group_does_not_turn_into_an_array(repository: Repository, make_array: MakeArray) -> None:
    session = repository.writable_session("main")
    session.set_node(A, GROUP)

    with pytest.raises(AlreadyExistsError):
        session.set_node(A, make_array(4))


def test_nothing_can_be_created_below_an_array(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(4), {})
    session = repository.writable_session("main")

    with pytest.raises(InvalidInputError) as caught:
        session.set_node(A.child("g").child("b"), GROUP)

    assert caught.value.kind == "not-a-group"


def test_children_are_listed_also_where_only_deeper_nodes_exist(repository: Repository) -> None:
    session = repository.writable_session("main")
    for path in ["/x/y/z", "/x-1", "/x", "/w"]:
        session.set_node(NodePath(path), GROUP)

    assert session.child_names(ROOT) == ["w", "x", "x-1"]
    assert session.child_names(NodePath("/x")) == ["y"]
    session.commit("tree")
    assert reader(repository).child_names(NodePath("/x")) == ["y"]


def test_all_references_are_listed_with_pending_changes_applied(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(10), {(i,): bytes([i + 1]) for i in range(4)})
    session = repository.writable_session("main")
    session.set_chunk(A, (1,), b"new")
    session.set_chunk(A, (4,), b"more")
    session.delete_chunk(A, (3,))

    listed = {
        tuple(index): refs.payload(row)
        for refs in session.chunk_refs(A)
        for row, index in enumerate(refs.index.tolist())
    }

    assert listed == {
        (0,): Inline(b"\1"),
        (1,): Inline(b"new"),
        (2,): Inline(b"\3"),
        (4,): Inline(b"more"),
    }


def test_chunks_are_deleted_by_the_start_of_their_index(
    repository: Repository, make_array: MakeArray
) -> None:
    chunks: dict[tuple[int, ...], bytes] = {
        (i, j): bytes([1 + i, j]) for i in range(3) for j in range(3)
    }
    committed(repository, make_array(6, 6), chunks)
    session = repository.writable_session("main")
    session.delete_chunks_under(A, (1,))
    session.commit("one row less")

    left = {tuple(i) for refs in reader(repository).chunk_refs(A) for i in refs.index.tolist()}
    assert left == {index for index in chunks if index[0] != 1}


def test_a_read_only_session_can_be_pickled(repository: Repository, make_array: MakeArray) -> None:
    committed(repository, make_array(8), {(0,): BIG})
    session = reader(repository)
    later = repository.writable_session("main")
    later.delete_chunk(A, (0,))
    later.commit("gone by now")

    copy = pickle.loads(pickle.dumps(session))

    assert copy.snapshot_id == session.snapshot_id
    assert bytes(copy.fetch_chunk(A, (0,))) == BIG


def test_a_writable_session_cannot_be_pickled(repository: Repository) -> None:
    with pytest.raises(ValueError, match="cannot be pickled"):
        pickle.dumps(repository.writable_session("main"))


def test_threads_may_share_a_session(repository: Repository, make_array: MakeArray) -> None:
    session = repository.writable_session("main")
    session.set_node(A, make_array(400))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: session.set_chunk(A, (i,), b"%d" % i), range(200)))
    session.commit("together")

    found = reader(repository).fetch_chunks(A, np.arange(200, dtype=np.uint32).reshape(-1, 1))
    assert [bytes(part or b"") for part in found] == [b"%d" % i for i in range(200)]


def test_of_many_that_set_a_missing_chunk_one_does(
    repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(8), {(0,): b"old"})
    session = repository.writable_session("main")
    assert not session.set_chunk_if_absent(A, (0,), b"new")

    with ThreadPoolExecutor(8) as threads:
        done = list(
            threads.map(lambda i: session.set_chunk_if_absent(A, (1,), b"%d" % i), range(64))
        )

    assert done.count(True) == 1
    assert session.fetch_chunk(A, (0,)) == b"old"
    assert session.fetch_chunk(A, (1,)) == b"%d" % done.index(True)


def test_what_is_known_without_reading_a_file_is_told_apart(
    store: MemoryStore, repository: Repository, make_array: MakeArray
) -> None:
    committed(repository, make_array(8), {(0,): b"A"})
    session = reader(Repository.open(store))

    assert session.cached_payload(A, (0,)) is UNTOUCHED
    assert session.cached_payload(A, (1,)) is None  # outside all manifests
    session.chunk_payload(A, (0,))
    assert session.cached_payload(A, (0,)) == Inline(b"A")


def test_discarded_changes_are_gone(repository: Repository, make_array: MakeArray) -> None:
    committed(repository, make_array(8), {(0,): b"A"})
    session = repository.writable_session("main")
    session.set_chunk(A, (0,), b"B")
    session.set_node(NodePath("/b"), GROUP)
    session.discard_changes()

    assert not session.has_uncommitted_changes
    assert session.fetch_chunk(A, (0,)) == b"A"
    assert session.find_node(NodePath("/b")) is None


def test_an_empty_commit_is_made_on_request(repository: Repository) -> None:
    before = repository.lookup_branch("main")

    snapshot = repository.writable_session("main").commit("empty", allow_empty=True)

    assert repository.lookup_branch("main") == snapshot
    assert repository.lookup_snapshot(snapshot).parent_id == before
    assert list(repository.readonly_session(Exactly(snapshot)).nodes()) == []
