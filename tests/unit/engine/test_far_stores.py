"""In a store that is far, requests that need not wait for each other do not."""

import json
from collections.abc import Buffer, Callable
from pathlib import Path
from threading import Barrier, Lock, get_ident
from time import sleep

import pytest

from frazil.engine.changes.chunk_reads import current_refs
from frazil.engine.files.files import _MEASURED_EVERY, PutPace
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import FormatError, StorageError
from frazil.format.conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.ids import SnapshotId
from frazil.objectstore.local.local_store import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Blob, ObjectInfo, Precondition
from frazil.paths import NodePath
from frazil.ranges import ByteRange

GROUP = b'{"zarr_format": 3, "node_type": "group"}'
ARRAY = json.dumps(
    {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "attributes": {},
    }
).encode()
A = NodePath("/a")


class FarStore(MemoryStore):
    """Some requests wait until others have come: those that begin with one of `together`."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.refused = "nothing"
        self.hours_late = 0
        self.together: tuple[str, ...] = ()
        self._barrier: Barrier | None = None
        self._noting = Lock()

    @property
    def far(self) -> bool:
        return True

    def wait_for_each_other(self, *prefixes: str) -> None:
        """A request that comes alone fails."""
        self.together, self._barrier = prefixes, Barrier(len(prefixes), timeout=20)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        self._arrive(f"get {key}")
        blob = super().get(key, byte_range)
        self._note("get", key)
        return blob

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self._arrive(f"put {key}")
        if key.startswith(self.refused):
            raise StorageError(f"{key} is refused")
        version = super().put(key, data, when=when)
        self._note("put", key)
        return version

    def head(self, key: str) -> ObjectInfo:
        info = super().head(key)
        self._note("head", key)
        return ObjectInfo(
            key, info.size_bytes, info.modified_at_us + self.hours_late * 3600_000_000
        )

    def _arrive(self, request: str) -> None:
        if self._barrier is not None and request.startswith(self.together):
            self._barrier.wait()

    def _note(self, verb: str, key: str) -> None:
        with self._noting:
            self.done.append(f"{verb} {key.partition('/')[0]}")


@pytest.fixture
def store() -> FarStore:
    return FarStore()


@pytest.fixture
def repository(store: FarStore) -> Repository:
    return Repository.create(store)


def changed(repository: Repository) -> Session:
    session = repository.writable_session("main")
    session.set_node(A, ARRAY)
    session.set_chunk(A, (0,), b"x" * 1000)
    return session


def tip(repository: Repository) -> SnapshotId:
    return repository.readonly_session(Branch("main")).base.id


STEPS: dict[str, Callable[[Session], SnapshotId]] = {
    "commit": lambda session: session.commit("one"),
    "flush": lambda session: session.flush("one"),
}


@pytest.mark.parametrize("step", STEPS)
def test_files_of_a_commit_are_put_at_once_and_the_entry_point_last(
    store: FarStore, repository: Repository, step: str
) -> None:
    session = changed(repository)
    store.done.clear()
    store.wait_for_each_other("put manifests/", "put snapshots/", "put transactions/")
    made = STEPS[step](session)
    assert store.done[-1] == "put repo"
    before = sorted(store.done[:-1])
    assert before == [
        "get repo",  # is it worth while to begin?
        "get repo",
        "head snapshots",
        "put manifests",
        "put overwritten",
        "put snapshots",
        "put transactions",
    ]
    assert repository.readonly_session(Exactly(made)).chunk_payload(A, (0,)) is not None


def test_an_amendment_too(store: FarStore, repository: Repository) -> None:
    changed(repository).commit("one")
    session = repository.writable_session("main")
    session.set_chunk(A, (1,), b"y" * 1000)
    store.wait_for_each_other("put manifests/", "put snapshots/", "put transactions/")
    made = session.amend("both")
    assert store.done[-1] == "put repo"
    assert tip(repository) == made


class SlowDirectory(LocalStore):
    """Puts take a while, and note the thread that they are on."""

    delay_s = 0.0

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self.threads.add(get_ident())
        sleep(self.delay_s)
        if self.barrier is not None and not key.startswith(("repo", "chunks/")):
            self.barrier.wait()
        return super().put(key, data, when=when)

    def watch(self, barrier: Barrier | None = None) -> None:
        self.threads, self.barrier = set[int](), barrier


def test_files_of_a_commit_are_put_at_once_in_a_directory_that_is_slow(tmp_path: Path) -> None:
    store = SlowDirectory(str(tmp_path))
    store.watch()
    repository = Repository.create(store)

    def commit(number: int) -> None:
        session = repository.writable_session("main")
        session.set_node(A, ARRAY)
        session.set_chunk(A, (number % 2,), bytes([number]) * 1000)
        session.commit(f"{number}")

    repository.files.put_pace.learn(0.0)  # on a busy machine the files of `create` may be slow
    store.delay_s = 0.01
    commit(0)
    for number in range(1, _MEASURED_EVERY):
        store.watch(Barrier(3, timeout=20))  # manifest, snapshot and log come together, or fail
        commit(number)
    store.watch()
    store.delay_s = 0.0
    while len(store.threads) != 1:  # it is measured now and then, and found to be quick
        store.watch()
        commit(len(store.threads))
    assert len(tip_messages(repository)) > _MEASURED_EVERY


def tip_messages(repository: Repository) -> list[str]:
    return [each.message for each in repository.ancestry(Branch("main"))]


def test_files_are_put_in_turn_in_a_directory_that_is_quick() -> None:
    pace = PutPace()
    pace.learn(1e-4)
    assert not pace.is_slow()
    pace.learn(1e-2)
    answers = [pace.is_slow() for _ in range(_MEASURED_EVERY + 2)]
    assert answers == [True] * (_MEASURED_EVERY - 1) + [False] * 3


@pytest.mark.parametrize("kind", ["manifests/", "snapshots/", "transactions/", "overwritten/"])
def test_a_file_that_does_not_arrive_is_an_error_and_nothing_is_committed(
    store: FarStore, repository: Repository, kind: str
) -> None:
    before = tip(repository)
    session = changed(repository)
    store.refused = kind
    with pytest.raises(StorageError, match=f"{kind}.* is refused"):
        session.commit("lost")
    assert tip(repository) == before
    store.refused = "nothing"
    assert session.has_uncommitted_changes
    assert session.commit("again") == tip(repository)


def test_a_clock_that_is_off_is_noticed_before_the_entry_point_changes(
    store: FarStore, repository: Repository
) -> None:
    before = tip(repository)
    session = changed(repository)
    store.hours_late = 1
    with pytest.raises(FormatError, match="clock has drifted"):
        session.commit("early")
    assert tip(repository) == before


def test_the_snapshot_that_a_branch_had_comes_with_the_answer_whether_it_still_has_it(
    store: FarStore, repository: Repository
) -> None:
    changed(repository).commit("one")
    opened = Repository.open(store)
    store.done.clear()
    store.wait_for_each_other("get repo", "get snapshots/")
    session = opened.readonly_session(Branch("main"))
    assert sorted(store.done) == ["get repo", "get snapshots"]
    assert session.base.message == "one"


def test_a_branch_that_has_moved_is_at_its_new_tip(store: FarStore, repository: Repository) -> None:
    changed(repository).commit("one")
    opened = Repository.open(store)
    session = repository.writable_session("main")
    session.set_node(NodePath("/b"), GROUP)
    newest = session.commit("two")
    assert opened.readonly_session(Branch("main")).base.id == newest
    assert Repository.open(store).writable_session("main").base.id == newest


def test_an_expected_snapshot_that_is_gone_does_not_matter(
    store: FarStore, repository: Repository
) -> None:
    first = changed(repository).commit("one")
    opened = Repository.open(store)
    session = repository.writable_session("main")
    session.set_node(NodePath("/b"), GROUP)
    newest = session.commit("two")
    store.delete([f"snapshots/{first}"])
    assert opened.readonly_session(Branch("main")).base.id == newest


def test_manifests_of_a_scan_are_fetched_while_others_are_looked_at(store: FarStore) -> None:
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 1}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    session = Repository.create(store, config).writable_session("main")
    session.set_node(A, ARRAY)
    for index in range(2):
        session.set_chunk(A, (index,), bytes([index]) * 1000)
    session.commit("two manifests")
    session = Repository.open(store).readonly_session(Branch("main"))
    node = session.find_node(A)
    assert node is not None
    store.wait_for_each_other("get manifests/", "get manifests/")
    found = list(current_refs(session.files, node, None))
    assert [refs.index.tolist() for refs in found] == [[[0]], [[1]]]
