"""Repositories of version 1: a file for each ref, and a history that only the snapshots know."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from frazil.clock import system_clock
from frazil.engine.files.object_keys import snapshot_key
from frazil.engine.refs import repo_settings
from frazil.engine.refs.ancestry import SnapshotChain
from frazil.engine.refs.version import Branch, BranchAsOf, Exactly, Tag
from frazil.engine.repository import Repository
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
)
from frazil.format.config import RepositoryConfig
from frazil.format.envelope import decode_header
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Counting, Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP

MAIN = "refs/branch.main/ref.json"


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    return Repository.create(store, spec_version=1)


def commit_group(repository: Repository, path: str, *, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    session.set_node(NodePath(path), GROUP)
    return session.commit(f"add {path}", {"path": path})


def keys(store: MemoryStore, prefix: str = "") -> list[str]:
    return sorted(found.key for found in store.list(prefix))


def ref(snapshot: SnapshotId) -> bytes:
    return f'{{"snapshot":"{snapshot}"}}'.encode()


def test_a_new_repository_is_a_snapshot_and_a_branch(store: MemoryStore) -> None:
    repository = Repository.create(store, spec_version=1)
    assert keys(store) == [MAIN, snapshot_key(INITIAL_SNAPSHOT)]
    assert bytes(store.get(MAIN).data) == ref(INITIAL_SNAPSHOT)
    assert repository.spec_version == Repository.fetch_spec_version(store) == 1
    assert Repository.exists(store)
    assert Repository.open(store).branches() == {"main": INITIAL_SNAPSHOT}


def test_of_two_creations_one_succeeds(store: MemoryStore) -> None:
    Repository.create(store, spec_version=1)
    with pytest.raises(ConflictError) as caught:
        Repository.create(store, spec_version=1, check_clean_root=False)
    assert caught.value.kind == "branch-update-conflict"


def test_every_file_of_a_commit_is_of_version_1(store: MemoryStore, make_array: Any) -> None:
    session = Repository.create(store, spec_version=1).writable_session("main")
    session.set_node(NodePath("/a"), make_array(4))
    session.set_chunk(NodePath("/a"), (0,), b"x" * 8)
    new = session.commit("one")
    written = [
        *keys(store, "snapshots/"),
        *keys(store, "manifests/"),
        *keys(store, "transactions/"),
    ]
    assert f"transactions/{new}" in written
    assert len(written) == 4
    assert {decode_header(store.get(key).data).spec_version for key in written} == {1}
    assert bytes(store.get(MAIN).data) == ref(new)


def test_history_follows_the_parents_that_snapshots_name(repository: Repository) -> None:
    first, second = commit_group(repository, "/"), commit_group(repository, "/a")
    records = list(Repository.open(repository.store).ancestry(Branch("main")))
    assert [(each.id, each.parent_id) for each in records] == [
        (second, first),
        (first, INITIAL_SNAPSHOT),
        (INITIAL_SNAPSHOT, None),
    ]
    assert records[1].metadata == {"path": "/"}
    times = [each.flushed_at_us for each in records]
    as_of = repository.readonly_session(BranchAsOf("main", times[1]))
    assert as_of.snapshot_id == first
    assert repository.diff(INITIAL_SNAPSHOT, second).new_groups == {NodePath("/"), NodePath("/a")}


def test_a_session_reads_no_more_history_than_it_needs(store: MemoryStore) -> None:
    repository = Repository.create(store, spec_version=1)
    for name in "abcdef":
        tip = commit_group(repository, f"/{name}")
    counting = Counting(store)
    Repository.open(counting).writable_session("main")
    read = [read.key for read in counting.reads if read.key.startswith("snapshots/")]
    assert read == [snapshot_key(tip)]


def test_a_tag_is_read_once(store: MemoryStore) -> None:
    repository = Repository.create(store, spec_version=1)
    for name in "abc":
        repository.create_tag(name, INITIAL_SNAPSHOT)
    counting = Counting(store)
    opened = Repository.open(counting)
    commit_group(opened, "/")
    commit_group(opened, "/a")
    assert opened.tags() == dict.fromkeys("abc", INITIAL_SNAPSHOT)
    assert counting.count("get", "refs/tag.") == 3


def test_a_branch_that_a_listing_missed_is_found(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may happen while its file is being replaced."""
    repository.create_branch("dev", INITIAL_SNAPSHOT)
    monkeypatch.setattr(repository.store, "list", lambda _: iter(()))
    new = commit_group(repository, "/", branch="dev")
    assert repository.lookup_branch("dev") == new
    assert repository.lookup_branch("main") == INITIAL_SNAPSHOT
    with pytest.raises(ConflictError) as caught:
        repository.create_branch("dev", INITIAL_SNAPSHOT)
    assert caught.value.kind == "branch-update-conflict"


def test_a_commit_on_a_moved_branch_is_refused(repository: Repository) -> None:
    late = repository.writable_session("main")
    late.set_node(NodePath("/late"), GROUP)
    tip = commit_group(repository, "/early")
    with pytest.raises(ConflictError) as caught:
        late.commit("late")
    assert caught.value.kind == "commit-conflict"
    assert caught.value.actual_parent == str(tip)
    assert repository.lookup_branch("main") == tip


def test_a_commit_that_loses_the_last_race_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch moves between the last look at it and the write."""
    store = repository.store
    session = repository.writable_session("main")
    session.set_node(NodePath("/late"), GROUP)
    put, winner = store.put, SnapshotId.random()

    def put_late(key: str, data: bytes, **options: Any) -> str:
        if key == MAIN and b"raced" not in raced:
            raced.append(b"raced")
            put(MAIN, ref(winner))
        return put(key, data, **options)

    raced: list[bytes] = []
    monkeypatch.setattr(store, "put", put_late)
    with pytest.raises(ConflictError) as caught:
        session.commit("late")
    assert caught.value.actual_parent == str(winner)
    assert bytes(store.get(MAIN).data) == ref(winner)


def test_commits_of_many_threads_are_all_kept(store: MemoryStore) -> None:
    Repository.create(store, spec_version=1)

    def work(name: str) -> SnapshotId:
        repository = Repository.open(store)
        while True:
            try:
                return commit_group(repository, f"/{name}")
            except ConflictError:
                continue

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(work, "abcdefghijklmnop"))
    history = [each.id for each in Repository.open(store).ancestry(Branch("main"))]
    assert len(made) == 16
    assert set(history) == made | {INITIAL_SNAPSHOT}


def test_branches_come_and_go(repository: Repository) -> None:
    first = commit_group(repository, "/")
    repository.create_branch("dev", first)
    second = commit_group(repository, "/a", branch="dev")
    assert repository.branches() == {"main": first, "dev": second}
    repository.reset_branch("dev", INITIAL_SNAPSHOT, expected=second)
    assert repository.lookup_branch("dev") == INITIAL_SNAPSHOT
    repository.delete_branch("dev")
    assert repository.branches() == {"main": first}
    assert repository.lookup_snapshot(second).parent_id == first  # its file is still there


class Ending(HookedStore[MemoryStore]):
    """Deletes a branch just before the next write to it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), before=self._end)
        self.doomed: str | None = None

    def _end(self, verb: Verb, key: str) -> None:
        if verb == "put" and key == self.doomed:
            self.inner.delete([key])


def test_a_commit_does_not_bring_a_deleted_branch_back() -> None:
    store = Ending()
    repository = Repository.create(store, spec_version=1)
    repository.create_branch("dev", commit_group(repository, "/"))
    session = repository.writable_session("dev")
    session.set_node(NodePath("/a"), GROUP)
    store.doomed = "refs/branch.dev/ref.json"
    with pytest.raises(RefNotFoundError):
        session.commit("too late")
    assert list(repository.branches()) == ["main"]
    assert session.has_uncommitted_changes


def test_tags_leave_a_tombstone(repository: Repository, store: MemoryStore) -> None:
    first = commit_group(repository, "/")
    repository.create_tag("v1 é~", first)
    assert repository.tags() == {"v1 é~": first}
    assert repository.readonly_session(Tag("v1 é~")).snapshot_id == first
    repository.delete_tag("v1 é~")
    assert keys(store, "refs/tag.") == [
        "refs/tag.v1 é~/ref.json",
        "refs/tag.v1 é~/ref.json.deleted",
    ]
    assert repository.tags() == {}
    with pytest.raises(RefNotFoundError):
        repository.delete_tag("v1 é~")
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("v1 é~", first)
    assert caught.value.kind == "tag-already-exists"


@pytest.mark.parametrize(
    ("call", "error", "kind"),
    [
        (
            lambda r: r.create_branch("main", INITIAL_SNAPSHOT),
            ConflictError,
            "branch-update-conflict",
        ),
        (lambda r: r.create_branch("a/b", INITIAL_SNAPSHOT), InvalidInputError, "invalid-ref-name"),
        (lambda r: r.create_tag("a/b", INITIAL_SNAPSHOT), InvalidInputError, "invalid-ref-name"),
        (lambda r: r.lookup_tag("a/b"), InvalidInputError, "invalid-ref-name"),
        (lambda r: r.lookup_branch("a/b"), InvalidInputError, "invalid-ref-name"),
        (lambda r: r.writable_session("none"), RefNotFoundError, "ref-not-found"),
        (lambda r: r.readonly_session(BranchAsOf("none", 0)), RefNotFoundError, "ref-not-found"),
        (lambda r: r.delete_branch("main"), SessionStateError, "cannot-delete-main"),
        (
            lambda r: r.create_branch("x", SnapshotId(bytes(12))),
            ObjectNotFoundError,
            "object-not-found",
        ),
        (
            lambda r: r.readonly_session(Exactly(SnapshotId(bytes(12)))),
            ObjectNotFoundError,
            "object-not-found",
        ),
    ],
)
def test_errors_are_those_of_version_1(
    repository: Repository, call: Callable[[Repository], object], error: type[Exception], kind: str
) -> None:
    with pytest.raises(error) as caught:
        call(repository)
    assert caught.value.kind == kind  # type: ignore[attr-defined]  # all of ours have one


ONLINE = RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: list(r.ops_log()),
        lambda r: r.info_of_version_2(),
        lambda r: r.set_metadata({"a": 1}),
        lambda r: r.update_metadata({"a": 1}),
        lambda r: r.set_status(ONLINE),
        lambda r: r.set_flag(repo_settings.MOVE_NODE, False),
    ],
)
def test_what_version_1_lacks_is_refused(
    repository: Repository, store: MemoryStore, call: Callable[[Repository], object]
) -> None:
    before = keys(store)
    with pytest.raises(FormatError, match=r"at least version 2\.0") as caught:
        call(repository)
    assert caught.value.kind == "unsupported-spec-version"
    assert keys(store) == before


def test_other_than_regular_chunk_grids_are_refused(repository: Repository) -> None:
    document = (
        b'{"node_type": "array", "shape": [6], "chunk_grid": {"name": "rectilinear",'
        b' "configuration": {"chunk_shapes": [[1, 2, 3]]}}}'
    )
    with pytest.raises(InvalidInputError) as caught:
        repository.writable_session("main").set_node(NodePath("/a"), document)
    assert caught.value.kind == "bad-metadata"


def test_a_configuration_is_kept_in_yaml(store: MemoryStore) -> None:
    Repository.create(store, RepositoryConfig(inline_chunk_threshold_bytes=7), spec_version=1)
    assert b"inline_chunk_threshold_bytes: 7\n" in bytes(store.get("config.yaml").data)
    changed = Repository.open(store, RepositoryConfig(max_concurrent_requests=3))
    assert changed.config.inline_chunk_threshold_bytes == 7
    changed.save_config()
    stored = Repository.fetch_config(store)
    assert stored is not None
    assert (stored.inline_chunk_threshold_bytes, stored.max_concurrent_requests) == (7, 3)
    (backup,) = keys(store, "overwritten/")
    assert backup.startswith("overwritten/config.yaml.")


def test_a_damaged_ref_or_configuration_is_named(
    repository: Repository, store: MemoryStore
) -> None:
    store.put(MAIN, b"{}")
    with pytest.raises(FormatError, match=f"^{MAIN}: "):
        repository.writable_session("main")
    store.put("config.yaml", b"a: [")
    with pytest.raises(FormatError, match=r"^config\.yaml: "):
        Repository.open(store)


def test_a_history_that_goes_in_circles_is_noticed(
    repository: Repository, store: MemoryStore
) -> None:
    first = commit_group(repository, "/")
    second = commit_group(repository, "/a")
    store.put(snapshot_key(first), store.get(snapshot_key(second)).data)  # its own parent now
    with pytest.raises(FormatError, match="cycle"):
        list(Repository.open(store).ancestry(Exactly(first)))


def test_a_missing_branch_file_means_no_repository(store: MemoryStore) -> None:
    repository = Repository.create(store, spec_version=1)
    store.delete([MAIN])
    assert not Repository.exists(store)
    with pytest.raises(RepositoryNotFoundError):
        repository.branches()
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(store)


def test_a_repository_of_both_versions_is_of_version_2(store: MemoryStore) -> None:
    """A migration writes `repo` before it removes the refs."""
    old = Repository.create(store, spec_version=1)
    Repository.create(store, check_clean_root=False)
    assert Repository.open(store).spec_version == 2
    with pytest.raises(ConflictError, match="migrated"):
        commit_group(old, "/")


def test_copies_stay_of_version_1(repository: Repository, store: MemoryStore) -> None:
    copied = pickle.loads(pickle.dumps(repository))
    new = commit_group(copied, "/")
    session = pickle.loads(pickle.dumps(repository.readonly_session(Exactly(new))))
    assert session.snapshot_id == new
    assert copied.reopened().spec_version == 1
    assert bytes(store.get(MAIN).data) == ref(new)


def test_a_whole_history_as_columns_agrees_with_its_parts(repository: Repository) -> None:
    first = commit_group(repository, "/")
    repository.create_branch("dev", first)
    commit_group(repository, "/a", branch="dev")
    commit_group(repository, "/b")
    chain = repository.repo_info().snapshots
    assert isinstance(chain, SnapshotChain)
    table = chain.table
    assert len(chain) == len(table) == 4
    assert table.string("message").to_texts() == [chain.message(row) for row in range(4)]
    assert chain.parents.tolist() == [chain.parent(row) for row in range(4)]
    assert chain.flushed_at_us.tolist() == [chain.flushed_at(row) for row in range(4)]
    assert [raw.tobytes() for raw in chain.ids] == [chain.id(row).raw for row in range(4)]
    assert chain.find(first) == chain.parent(chain.row_of(repository.lookup_branch("dev")))


def test_a_clock_that_stands_still_does_not_matter(store: MemoryStore) -> None:
    now_us = system_clock()
    repository = Repository.create(store, spec_version=1, clock=lambda: now_us)
    commit_group(repository, "/")
    commit_group(repository, "/a")
    times = [each.flushed_at_us for each in repository.ancestry(Branch("main"))]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 3


def test_tags_are_those_of_the_repository_that_is_there_now(store: MemoryStore) -> None:
    """It was deleted and created again, under an object that has the old one's tags in memory."""
    Repository.create(store, spec_version=1).create_tag("v1", INITIAL_SNAPSHOT)
    repository = Repository.open(store)
    assert repository.lookup_tag("v1") == INITIAL_SNAPSHOT
    store.delete(keys(store))
    again = Repository.create(store, spec_version=1)
    made = commit_group(again, "/a")
    again.create_tag("v1", made)
    assert repository.lookup_tag("v1") == made
