"""Sessions that work for another one, and what becomes of their changes."""

import pickle
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.fork import ForkedSession, fork, merge
from frazil.engine.session.session import Session
from frazil.errors import ReadOnlyError, SessionStateError
from frazil.format.chunk_refs import ChunkRefs
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import ROOT, NodePath
from tests.unit.engine.conftest import GROUP, array_metadata

A, B, NEW = NodePath("/a"), NodePath("/b"), NodePath("/new")
G, BELOW = NodePath("/g"), NodePath("/g/x")
STORED = bytes(600)  # too long to be kept in its reference

type MakeArray = Callable[..., bytes]


@pytest.fixture
def session(repository: Repository, make_array: MakeArray) -> Session:
    """A clean one; /a and /b have 4 x 4 chunks, of which (0, 0) is written."""
    first = repository.writable_session("main")
    first.set_node(ROOT, GROUP)
    first.set_node(G, GROUP)
    for path in (A, B):
        first.set_node(path, make_array(8, 8))
        first.set_chunk(path, (0, 0), b"first")
    first.commit("first")
    return repository.writable_session("main")


def refused(session: Session, *forks: Session) -> str:
    """Why a merge was refused; the session is as it was."""
    before = session.copy_changes()
    with pytest.raises(SessionStateError) as caught:
        merge(session, forks)
    assert caught.value.kind == "merge-failed"
    after = session.copy_changes()
    assert (after.edited, after.created, after.updated, after.deleted, set(after.chunks)) == (
        (before.edited, before.created, before.updated, before.deleted, set(before.chunks))
    )
    return str(caught.value)


def told(session: Session) -> dict[str, object]:
    """Its status, in values that can be compared."""
    status = session.status()
    found: dict[str, object] = {each.name: getattr(status, each.name) for each in fields(status)}
    chunks = {path: index.tolist() for path, index in status.updated_chunks.items()}
    return found | {"updated_chunks": chunks}


# Forking


def test_a_fork_is_writable_and_belongs_to_no_branch(session: Session) -> None:
    worker = fork(session)
    assert not worker.read_only
    assert worker.mode == "writable"
    assert worker.branch is None
    assert worker.snapshot_id == session.snapshot_id
    assert not worker.has_uncommitted_changes


def test_a_read_only_session_cannot_be_forked(repository: Repository) -> None:
    with pytest.raises(SessionStateError) as caught:
        fork(repository.readonly_session(Branch("main")))
    assert caught.value.kind == "cannot-fork-read-only-session"


def test_forking_stores_nothing_even_with_changes_pending(
    store: MemoryStore, session: Session, make_array: MakeArray
) -> None:
    session.set_node(NEW, make_array(4, 4))
    session.set_chunk(NEW, (0, 0), b"new")
    before = list(store.list())
    worker = fork(session)
    pickle.loads(pickle.dumps(worker))
    assert list(store.list()) == before


def test_forking_a_clean_session_asks_nothing_of_the_store(
    store: MemoryStore, session: Session
) -> None:
    counting = Counting(store)
    worker = Repository.open(counting).writable_session("main")
    assert session.snapshot_id == worker.snapshot_id
    counting.clear()
    fork(worker)
    assert counting.reads == ()


def test_a_fork_sees_what_was_pending_and_not_what_comes_later(
    session: Session, make_array: MakeArray
) -> None:
    session.set_node(NEW, make_array(4, 4))
    session.set_chunk(NEW, (0, 0), b"new")
    session.set_chunk(A, (1, 1), b"pending")
    session.delete_chunk(A, (0, 0))
    session.delete_node(B)
    worker = pickle.loads(pickle.dumps(fork(session)))
    session.set_chunk(A, (2, 2), b"later")
    session.discard_changes()
    assert not worker.has_uncommitted_changes
    assert told(worker) == told(Session(worker.files, worker.clock, worker.base))
    assert worker.fetch_chunk(NEW, (0, 0)) == b"new"
    assert worker.fetch_chunk(A, (1, 1)) == b"pending"
    assert worker.fetch_chunk(A, (0, 0)) is None
    assert worker.fetch_chunk(A, (2, 2)) is None
    assert worker.find_node(B) is None
    wanted = np.array([[0, 0], [1, 1], [2, 2]], dtype=np.uint32)
    assert worker.fetch_chunks(A, wanted) == [None, b"pending", None]
    assert [refs.index.tolist() for refs in worker.chunk_refs(A)] == [[[1, 1]]]
    worker.set_chunk(A, (0, 0), b"own")
    assert worker.fetch_chunks(A, wanted) == [b"own", b"pending", None]
    worker.discard_changes()
    assert worker.fetch_chunks(A, wanted) == [None, b"pending", None]


def test_a_fork_of_a_fork_sees_both(session: Session, make_array: MakeArray) -> None:
    session.set_node(NEW, make_array(4, 4))
    session.set_chunk(NEW, (0, 0), b"one")
    middle = fork(session)
    middle.set_chunk(NEW, (0, 1), b"two")
    middle.delete_node(B)
    last: ForkedSession = pickle.loads(pickle.dumps(fork(middle)))
    last.set_chunk(NEW, (1, 1), b"three")
    assert [last.fetch_chunk(NEW, i) for i in ((0, 0), (0, 1))] == [b"one", b"two"]
    assert last.find_node(B) is None
    merge(middle, [last])
    merge(session, [middle])
    found = [session.fetch_chunk(NEW, i) for i in ((0, 0), (0, 1), (1, 1))]
    assert found == [b"one", b"two", b"three"]
    assert session.find_node(B) is None


def test_a_fork_travels_with_its_changes(session: Session, make_array: MakeArray) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), STORED)
    worker.set_node(NEW, make_array(2))
    worker.delete_node(B)
    there = pickle.loads(pickle.dumps(worker))
    assert isinstance(there, ForkedSession)
    assert there.fetch_chunk(A, (1, 1)) == STORED
    assert there.find_node(NEW) is not None
    assert there.find_node(B) is None
    assert told(there) == told(worker)


def test_copies_of_a_fork_share_what_they_read_and_nothing_else(session: Session) -> None:
    data = pickle.dumps(fork(session))
    one, two = (pickle.loads(data) for _ in range(2))
    assert one.files is two.files  # or every task of a worker would read the snapshot again
    one.set_chunk(A, (1, 1), b"one")
    two.set_chunk(A, (1, 2), b"two")
    assert two.fetch_chunk(A, (1, 1)) is None
    assert not pickle.loads(data).has_uncommitted_changes
    merge(session, [one, two])
    assert session.fetch_chunk(A, (1, 2)) == b"two"


def test_a_pickled_fork_refers_only_to_what_is_durable(repository: Repository) -> None:
    synced: list[str] = []

    class Noting(MemoryStore):
        def sync(self) -> None:
            synced.append("sync")

    noting = Noting()
    session = Repository.create(noting).writable_session("main")
    session.set_node(ROOT, GROUP)
    worker = fork(session)
    synced.clear()
    pickle.dumps(worker)
    assert synced == []  # nothing was stored by it
    worker.set_node(A, b'{"zarr_format": 3, "node_type": "array", "shape": [2], "chunk_grid":'
                    b' {"name": "regular", "configuration": {"chunk_shape": [2]}}}')  # fmt: skip
    worker.set_chunk(A, (0,), STORED)
    pickle.dumps(worker)
    assert synced == ["sync"]
    del repository


def test_the_pickle_of_a_fork_does_not_hold_whole_manifests(session: Session) -> None:
    many = ChunkRefs.virtual(
        [[i, j] for i in range(4) for j in range(4)],
        [f"file:///{'x' * 10_000}{number}" for number in range(16)],
        0,
        1,
    )
    worker = fork(session)
    worker.set_chunk_refs(A, many.take(np.array([3], dtype=np.int64)))
    assert len(pickle.dumps(worker)) < 20_000


@pytest.mark.parametrize("attempt", ["commit", "amend", "flush"])
def test_a_fork_cannot_be_committed(session: Session, attempt: str) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), b"own")
    with pytest.raises(SessionStateError) as caught:
        getattr(worker, attempt)("mine")
    assert caught.value.kind == "commit-not-allowed"


# Merging


def test_chunks_nodes_and_deletions_of_forks_come_together(
    repository: Repository, session: Session, make_array: MakeArray
) -> None:
    workers = [fork(session) for _ in range(4)]
    for number, worker in enumerate(workers):
        worker.set_chunk(A, (number, 1), STORED + bytes([number]))
        worker.set_node(NodePath(f"/new{number}"), make_array(2))
        worker.set_chunk(NodePath(f"/new{number}"), (0,), bytes([number]) * 3)
    workers[0].delete_chunk(A, (0, 0))
    workers[1].delete_node(B)
    merge(session, [pickle.loads(pickle.dumps(worker)) for worker in workers])
    session.commit("together")
    now = repository.readonly_session(Branch("main"))
    for number in range(4):
        assert now.fetch_chunk(A, (number, 1)) == STORED + bytes([number])
        assert now.fetch_chunk(NodePath(f"/new{number}"), (0,)) == bytes([number]) * 3
    assert now.fetch_chunk(A, (0, 0)) is None
    assert now.find_node(B) is None


def test_a_merge_is_all_or_nothing(session: Session, make_array: MakeArray) -> None:
    good, bad, worse = fork(session), fork(session), fork(session)
    good.set_chunk(A, (1, 1), b"good")
    for worker in (bad, worse):
        worker.set_node(NEW, make_array(2))
    assert "/new" in refused(session, good, bad, worse)
    assert not session.has_uncommitted_changes


def test_merging_twice_changes_nothing_more(session: Session, make_array: MakeArray) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), STORED)
    worker.set_node(NEW, make_array(2))
    worker.delete_node(B)
    worker.set_node(B, make_array(6, 6))
    worker.set_chunk(B, (0, 0), b"again")
    merge(session, [worker, pickle.loads(pickle.dumps(worker))])
    once = told(session)
    merge(session, [worker])
    assert told(session) == once


def test_a_fork_goes_on_after_its_merge(session: Session) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), b"one")
    merge(session, [worker])
    worker.set_chunk(A, (1, 2), b"two")
    merge(session, [worker])
    assert session.fetch_chunk(A, (1, 2)) == b"two"


def test_merging_a_session_with_itself_does_nothing(session: Session) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), b"one")
    merge(worker, [worker])
    assert worker.fetch_chunk(A, (1, 1)) == b"one"


def test_only_forks_are_merged_and_only_into_writable_sessions(
    repository: Repository, session: Session
) -> None:
    worker = fork(session)
    for target, other in ((worker, session), (session, repository.writable_session("main"))):
        with pytest.raises(SessionStateError) as caught:
            merge(target, [other])
        assert caught.value.kind == "merge-not-allowed"
    with pytest.raises(ReadOnlyError):
        merge(repository.readonly_session(Branch("main")), [worker])


def test_a_fork_of_another_snapshot_is_refused(repository: Repository, session: Session) -> None:
    worker = fork(session)
    worker.set_chunk(A, (1, 1), b"one")
    session.set_chunk(A, (2, 2), b"two")
    session.commit("moved on")
    assert "snapshot" in refused(repository.writable_session("main"), worker)


# Contradictions


@pytest.mark.parametrize(
    ("one", "two"),
    [(b"one", b"two"), (STORED, STORED[1:] + b"x"), (b"one", None), (None, b"one"), (b"x", STORED)],
)
def test_two_writers_of_one_chunk_are_refused(
    session: Session, one: bytes | None, two: bytes | None
) -> None:
    workers = [fork(session), fork(session)]
    for worker, data in zip(workers, (one, two), strict=True):
        if data is None:
            worker.delete_chunk(A, (0, 0))
        else:
            worker.set_chunk(A, (0, 0), data)
        worker.set_chunk(B, (1, 1), b"the same")
    assert refused(session, *workers).endswith("/a: [0, 0]")


@pytest.mark.parametrize("data", [b"small", STORED, None])
def test_two_writers_that_agree_are_not(session: Session, data: bytes | None) -> None:
    workers = [fork(session), fork(session)]
    for worker in workers:
        if data is None:
            worker.delete_chunk(A, (0, 0))
        else:
            worker.set_chunk(A, (0, 0), data)
    merge(session, workers)
    assert session.fetch_chunk(A, (0, 0)) == data


def test_what_the_session_wrote_since_counts_as_a_writer(session: Session) -> None:
    session.set_chunk(A, (1, 1), b"before")
    worker = fork(session)
    worker.set_chunk(A, (1, 1), b"changed by the fork")
    merge(session, [worker])
    assert session.fetch_chunk(A, (1, 1)) == b"changed by the fork"
    late = fork(session)
    session.set_chunk(A, (1, 1), b"since")
    late.set_chunk(A, (1, 1), b"late")
    assert "/a: [1, 1]" in refused(session, late)


def test_many_contested_chunks_are_counted_not_listed(session: Session) -> None:
    workers = [fork(session), fork(session)]
    for number, worker in enumerate(workers):
        for index in np.ndindex(4, 4):
            worker.set_chunk(A, index, bytes([number + 1]))
    assert refused(session, *workers).endswith("[2, 1] and 6 more")


def test_metadata_can_be_updated_by_one_or_alike(session: Session, make_array: MakeArray) -> None:
    one, two, three = fork(session), fork(session), fork(session)
    one.set_node(A, make_array(8, 8, unit="K"))
    two.set_node(A, make_array(8, 8, unit="K"))
    three.set_node(A, make_array(8, 8, unit="C"))
    two.set_chunk(A, (1, 1), b"chunk")
    merge(session, [one, two])
    assert session.node(A).user_data == make_array(8, 8, unit="K")
    assert session.fetch_chunk(A, (0, 0)) == b"first"
    assert "updated the same arrays: /a" in refused(session, three)


def test_a_fork_may_update_or_delete_what_was_pending(
    session: Session, make_array: MakeArray
) -> None:
    session.set_node(A, make_array(8, 8, unit="K"))
    session.set_node(NEW, make_array(4))
    session.set_chunk(NEW, (0,), b"x")
    session.set_node(NodePath("/other"), make_array(4))
    worker = fork(session)
    worker.set_node(A, make_array(8, 8, unit="C"))
    worker.set_node(NodePath("/other"), make_array(4, name="z"))
    worker.delete_node(NEW)
    merge(session, [worker])
    assert session.node(A).user_data == make_array(8, 8, unit="C")
    assert session.node(NodePath("/other")).user_data == make_array(4, name="z")
    assert session.find_node(NEW) is None
    session.commit("all")


type Act = Callable[[Session, MakeArray], None]


def delete(path: NodePath) -> Act:
    return lambda session, _: session.delete_node(path)


def chunk(path: NodePath, *index: int) -> Act:
    return lambda session, _: session.set_chunk(path, index, b"chunk")


def update(path: NodePath, *shape: int, side: int = 2) -> Act:
    return lambda session, make: session.set_node(path, make(*shape, chunk=side))


def attributes(path: NodePath) -> Act:
    return lambda session, _: session.set_node(path, GROUP[:-1] + b', "attributes": {"x": 1}}')


def create_group(path: NodePath) -> Act:
    return lambda session, _: session.set_node(path, GROUP)


def recreate(path: NodePath) -> Act:
    def act(session: Session, make: MakeArray) -> None:
        session.delete_node(path)
        session.set_node(path, make(8, 8))

    return act


CONTRADICTIONS: dict[str, tuple[Act, Act, str]] = {
    "delete, write": (delete(A), chunk(A, 1, 1), "Arrays were both deleted and modified: /a"),
    "delete, update": (delete(A), update(A, 9, 9), "Arrays were both deleted and modified: /a"),
    "recreate, write": (recreate(A), chunk(A, 1, 1), "Arrays were both deleted and modified"),
    "recreate, delete": (recreate(A), delete(A), "Arrays were both deleted and modified: /a"),
    "group, its child": (delete(G), update(BELOW, 2), "Groups were both deleted and modified: /g"),
    "group, attributes": (delete(G), attributes(G), "Groups were both deleted and modified: /g"),
    "two new arrays": (update(NEW, 2), update(NEW, 2), "created the same arrays: /new"),
    "two new groups": (create_group(NEW), create_group(NEW), "created the same groups: /new"),
    "array and group": (update(NEW, 2), create_group(NEW), "created the same"),
    "array, its child": (update(NEW, 2), update(NEW.child("x"), 2), "/new"),
    "two shapes": (update(A, 10, 8), update(A, 8, 10), "updated the same arrays: /a"),
    "other chunks": (update(A, 8, 8, side=4), chunk(A, 1, 1), "redefined and written to: /a"),
    "cut off": (update(A, 4, 4), chunk(A, 3, 3), "cut and written to where they end: /a"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("who", ["two forks", "the session and a fork"])
def test_contradictions_are_refused_in_either_order(
    session: Session, make_array: MakeArray, name: str, who: str, *, turned: bool
) -> None:
    one, two, why = CONTRADICTIONS[name]
    if turned:
        one, two = two, one
    worker, other = fork(session), fork(session)
    two(worker, make_array)
    if who == "two forks":
        one(other, make_array)
        assert why in refused(session, other, worker)
        assert not session.has_uncommitted_changes
    else:
        one(session, make_array)
        assert why in refused(session, worker)


AGREEMENTS: dict[str, tuple[Act, Act]] = {
    "both delete": (delete(A), delete(A)),
    "both delete a group": (delete(G), delete(G)),
    "grown, written inside": (update(A, 20, 8), chunk(A, 3, 3)),
    "siblings": (update(BELOW, 2), update(G.child("y"), 2)),
    "group attributes, new child": (attributes(G), update(BELOW, 2)),
}


@pytest.mark.parametrize("name", AGREEMENTS)
@pytest.mark.parametrize("turned", [False, True])
def test_what_goes_together_is_merged_in_either_order(
    session: Session, make_array: MakeArray, name: str, *, turned: bool
) -> None:
    acts = AGREEMENTS[name]
    workers = [fork(session), fork(session)]
    alone = []
    for act, worker in zip(acts, workers, strict=True):
        act(worker, make_array)
        alone.append(worker.status())
    merge(session, workers[::-1] if turned else workers)
    found = session.status()
    assert found.new_arrays == alone[0].new_arrays | alone[1].new_arrays
    assert found.deleted_arrays == alone[0].deleted_arrays | alone[1].deleted_arrays
    assert found.deleted_groups == alone[0].deleted_groups | alone[1].deleted_groups
    assert found.updated_arrays == alone[0].updated_arrays | alone[1].updated_arrays
    session.commit("together")


# Any number of writers against a model

INDICES = [(0, 0), (0, 1), (1, 0), (1, 1)]
events = st.lists(
    st.one_of(
        st.just("fork"),
        st.tuples(
            st.integers(0, 3),  # 0: the parent; otherwise a fork, if there are so many
            st.sampled_from(INDICES),
            st.sampled_from([None, b"x", b"y", STORED, STORED[:-1] + b"x"]),
        ),
    ),
    max_size=12,
)

type Chunks = dict[tuple[int, int], bytes | None]


def expected_merge(parent: Chunks, forks: list[tuple[Chunks, Chunks]]) -> Chunks | None:
    """What it comes to; None if two contradict each other. Forks: what each found, and did."""
    result = dict(parent)
    for found, did in forks:
        for index, value in did.items():
            others = [other[index] for _, other in forks if index in other]
            if any(other != value for other in others):
                return None
            is_new = index in parent and (index not in found or found[index] != parent[index])
            if is_new and parent[index] != value:
                return None
            result[index] = value
    return result


@given(events)
def test_a_merge_comes_to_what_all_did_or_is_refused(
    happened: list[str | tuple[int, tuple[int, int], bytes | None]],
) -> None:
    parent = Repository.create(MemoryStore()).writable_session("main")
    parent.set_node(A, array_metadata(4, 4))
    pending: Chunks = {}
    forks: list[tuple[ForkedSession, Chunks, Chunks]] = []
    for event in happened:
        if isinstance(event, str):
            forks.append((pickle.loads(pickle.dumps(fork(parent))), dict(pending), {}))
            continue
        who, index, data = event
        session: Session = parent if who == 0 or who > len(forks) else forks[who - 1][0]
        chunks = pending if session is parent else forks[who - 1][2]
        # Stored again, equal bytes are another object: not one that a fork found as it was.
        if session is parent and len(data or b"") == len(STORED) and index in pending:
            continue
        chunks[index] = data
        if data is None:
            session.delete_chunk(A, index)
        else:
            session.set_chunk(A, index, data)
    expected = expected_merge(pending, [(found, did) for _, found, did in forks])
    workers = [worker for worker, _, _ in forks]
    if expected is None:
        refused(parent, *workers)
        return
    merge(parent, workers)
    assert {i: parent.fetch_chunk(A, i) for i in INDICES} == dict.fromkeys(INDICES) | expected


def test_a_fork_that_is_only_passed_on_is_not_pickled_anew(session: Session) -> None:
    worker = fork(session)
    worker.set_chunk(A, (0, 0), STORED)
    passed_on = pickle.loads(pickle.dumps(worker))
    state = passed_on.__reduce__()[1]
    assert state[1] is passed_on.__reduce__()[1][1]
    passed_on.delete_chunk(A, (0, 0))
    assert passed_on.__reduce__()[1] != state
    again = pickle.loads(pickle.dumps(passed_on))
    assert again.fetch_chunk(A, (0, 0)) is None
    assert worker.fetch_chunk(A, (0, 0)) == STORED


def test_a_fork_is_pickled_as_few_objects(session: Session) -> None:
    """Schedulers look at each of them, for every task."""
    worker = fork(session)
    worker.set_chunk(A, (0, 0), STORED)
    state = worker.__reduce__()[1]
    assert isinstance(state, tuple)
    assert [type(each) for each in state] == [bytes, bytes]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_forks_work_in_a_repository_that_was_created_again_in_the_same_place(
    spec_version: int,
) -> None:
    """Its first snapshot has the id that the first snapshot of the old one had."""
    store = MemoryStore()
    old = list[bytes]()
    for _ in range(3):
        session = Repository.create(store, spec_version=spec_version).writable_session("main")
        worker = pickle.loads(pickle.dumps(fork(session)))
        worker.set_node(NEW, GROUP)
        merge(session, [pickle.loads(pickle.dumps(worker))])
        for other in old:  # forks of repositories that are no longer there, opened or not
            with pytest.raises(SessionStateError):
                merge(session, [pickle.loads(other)])
        session.commit("new")
        old.append(pickle.dumps(worker))
        store.delete([info.key for info in store.list()])


def test_a_fork_is_not_opened_where_another_repository_was_created(store: MemoryStore) -> None:
    """In a process that has not seen the old one."""
    travelling = pickle.dumps(fork(Repository.create(store).writable_session("main")))
    store.delete([info.key for info in store.list()])
    Repository.create(store)
    with pytest.raises(SessionStateError, match="no longer there"):
        pickle.loads(travelling)
