"""One session on several threads: what is read and written while another one commits."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import UNTOUCHED, PendingChunks
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ReadOnlyError, StorageError
from frazil.format.chunk_refs import ChunkRefs, Inline
from frazil.format.config import CachingConfig, RepositoryConfig
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting, Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP

A = NodePath("/a")
LARGE = b"x" * 1000


class Meanwhile(HookedStore[MemoryStore]):
    """Before the first read or write of a key that starts with `prefix`, something else happens."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner, before=self._happen)
        self.prefix = "none"
        self.happens: Callable[[], object] = lambda: None

    def _happen(self, verb: Verb, key: str) -> None:
        if verb in {"get", "put"} and key.startswith(self.prefix):
            self.prefix = "none"
            self.happens()


@pytest.fixture
def store() -> Meanwhile:
    return Meanwhile(MemoryStore())


@pytest.fixture
def session(store: Meanwhile, make_array: Callable[..., bytes]) -> Session:
    made = Repository.create(store).writable_session("main")
    made.set_node(NodePath("/"), GROUP)
    made.set_node(A, make_array(8))
    return made


def test_a_chunk_that_arrives_after_the_commit_is_refused(
    store: Meanwhile, session: Session
) -> None:
    store.prefix, store.happens = "chunks/", lambda: session.commit("first")
    with pytest.raises(ReadOnlyError):
        session.set_chunk(A, (0,), LARGE)
    assert not session.has_uncommitted_changes
    assert session.fetch_chunk(A, (0,)) is None


def test_deleting_many_chunks_after_the_commit_is_refused(
    store: Meanwhile, session: Session
) -> None:
    session.set_chunk(A, (0,), LARGE)
    session.commit("first")
    again = Repository.open(store).writable_session("main")
    store.prefix = "manifests/"
    store.happens = lambda: again.commit("second", allow_empty=True)
    with pytest.raises(ReadOnlyError):
        again.delete_chunks_under(A, ())
    assert not again.has_uncommitted_changes
    assert again.fetch_chunk(A, (0,)) == LARGE


def test_of_a_rebase_and_a_conditional_write_the_committed_chunk_wins(
    store: Meanwhile, session: Session
) -> None:
    session.commit("an array")
    repository = Repository.open(store)
    ours, theirs = repository.writable_session("main"), repository.writable_session("main")

    def commit_and_rebase() -> None:
        theirs.set_chunk(A, (0,), b"theirs")
        theirs.commit("theirs")
        ours.rebase(Policy())

    store.prefix, store.happens = "chunks/", commit_and_rebase
    assert not ours.set_chunk_if_absent(A, (0,), LARGE)
    assert ours.fetch_chunk(A, (0,)) == b"theirs"


def test_a_chunk_is_found_by_whoever_looked_at_its_array_before_the_commit(
    session: Session,
) -> None:
    """The array of before the commit goes with the chunks of before the commit."""
    session.set_chunk(A, (0,), b"pending")
    refs = session.chunk_refs(A)
    session.commit("first")
    assert [batch.index.tolist() for batch in refs] == [[[0]]]


def test_a_commit_does_not_read_what_it_wrote() -> None:
    store = Counting(MemoryStore())
    config = RepositoryConfig(caching=CachingConfig(num_snapshot_nodes=0))
    session = Repository.create(store, config).writable_session("main")
    session.set_node(A.parent or A, GROUP)
    store.clear()
    session.commit("first")
    assert store.count("get", "snapshots/") == 0
    assert session.find_node(NodePath("/")) is not None


def test_a_commit_that_fails_leaves_the_session_as_it_was(
    store: Meanwhile, session: Session
) -> None:
    def fail() -> None:
        raise StorageError("no")

    session.set_chunk(A, (0,), b"pending")
    store.prefix, store.happens = "snapshots/", fail
    with pytest.raises(StorageError):
        session.commit("first", rebasing=Rebasing(Policy()))
    assert session.has_uncommitted_changes
    assert session.fetch_chunk(A, (0,)) == b"pending"
    session.commit("second")
    assert session.fetch_chunk(A, (0,)) == b"pending"


def test_of_two_who_create_one_node_one_does(session: Session) -> None:
    path = NodePath("/g")
    assert session.set_node_if_absent(path, GROUP)
    before = session.node(path).id
    assert not session.set_node_if_absent(path, b'{"zarr_format": 3, "node_type": "group", "a": 1}')
    assert session.node(path).id == before


def test_reading_chunk_by_chunk_leaves_single_writes_unsorted() -> None:
    """A million chunks in bulk, then reads and writes in turn: no step may cost a million."""
    pending = PendingChunks(1)
    index = np.arange(4, dtype=np.uint32).reshape(-1, 1)
    pending.set_many(ChunkRefs.from_payloads(index, [Inline(b"bulk")] * 4))
    pending.delete_many(index[2:3])
    pending.set((1,), Inline(b"single"))
    pending.delete((3,))
    block = pending._block()
    wanted = {(0,): Inline(b"bulk"), (1,): Inline(b"single"), (2,): None, (3,): None}
    assert {one: pending.find(one) for one in wanted} == wanted
    assert pending.find((9,)) is UNTOUCHED
    assert pending._block() is block
    assert pending.changes().refs.index.tolist() == [[0], [1]]
    assert pending.changes().deleted.tolist() == [[2], [3]]


def test_copies_of_a_read_only_session_read_files_once(
    tmp_path: Path, make_array: Callable[..., bytes]
) -> None:
    """A worker gets one with every task."""
    made = Repository.create(Counting(LocalStore(tmp_path))).writable_session("main")
    made.set_node(A, make_array(8))
    made.set_chunk(A, (0,), b"chunk")
    made.commit("first")
    pickled = pickle.dumps(made)
    copies = [pickle.loads(pickled) for _ in range(3)]
    copies += [pickle.loads(pickle.dumps(copies[0]))]  # handed on
    assert [one.fetch_chunk(A, (0,)) for one in copies] == [b"chunk"] * 4
    store = copies[0].files.store
    assert all(one.files.store is store for one in copies)
    assert (store.count("get", "snapshots/"), store.count("get", "manifests/")) == (1, 1)


def test_a_node_that_was_moved_and_deleted_is_deleted_from_where_it_was(
    session: Session,
) -> None:
    session.commit("an array")
    changes = ChangeSet(session.base.nodes)
    node = session.node(A)
    changes.relocate([(node, NodePath("/elsewhere"))])
    changes.delete_nodes(NodePath("/elsewhere"))
    assert changes.moved == {}
    assert {one.path for one in changes.deleted.values()} == {A}
    assert changes.vacated == [A]
