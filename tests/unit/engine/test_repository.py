"""Repositories: created once, opened often; refs, history, ops log."""

from datetime import UTC, datetime
from typing import Any

import pytest

from frazil.clock import from_datetime
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO
from frazil.engine.refs.version import Branch, BranchAsOf, Exactly, Tag
from frazil.engine.repository import Repository
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    IcechunkError,
    InvalidInputError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format import update_log
from frazil.format.config import RepositoryConfig
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import ReadOnly
from frazil.paths import ROOT, NodePath

GROUP = b'{"zarr_format": 3, "node_type": "group"}'


def commit_group(repository: Repository, path: str, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    session.set_node(NodePath(path), GROUP)
    return session.commit(f"add {path}", {"path": path})


def test_a_new_repository_has_main_at_the_empty_initial_snapshot(repository: Repository) -> None:
    assert repository.branches() == {"main": INITIAL_SNAPSHOT}
    assert repository.tags() == {}
    assert list(repository.readonly_session(Branch("main")).nodes()) == []
    [record] = repository.ancestry(Branch("main"))
    assert record.message == "Repository initialized"
    assert record.metadata == {"__icechunk": {"is_root": True}}
    assert record.parent_id is None


def test_a_repository_is_created_only_in_a_clean_place(store: MemoryStore) -> None:
    store.put("something", b"else")

    with pytest.raises(InvalidInputError) as caught:
        Repository.create(store)
    assert caught.value.kind == "parent-directory-not-clean"
    assert not Repository.exists(store)
    Repository.create(store, check_clean_root=False)
    with pytest.raises(ConflictError) as conflict:
        Repository.create(store, check_clean_root=False)
    assert conflict.value.kind == "repo-info-updated"


def test_a_missing_repository_is_said_to_be_missing(store: MemoryStore) -> None:
    assert not Repository.exists(store)
    with pytest.raises(RepositoryNotFoundError, match="doesn't exist"):
        Repository.open(store)
    assert list(store.list()) == []


def test_a_version_1_repository_is_recognised(store: MemoryStore) -> None:
    store.put("refs/branch.main/ref.json", b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}')

    assert Repository.fetch_spec_version(store) == 1
    assert Repository.open(store).spec_version == 1


def test_a_damaged_file_is_named(store: MemoryStore) -> None:
    Repository.create(store)
    store.put(f"snapshots/{INITIAL_SNAPSHOT}", b"garbage")
    with pytest.raises(FormatError, match=f"^snapshots/{INITIAL_SNAPSHOT}: "):
        Repository.open(store).writable_session("main")
    store.put(REPO_INFO, bytes(store.get(REPO_INFO).data)[:60])

    with pytest.raises(FormatError, match=r"^repo: "):
        Repository.open(store)


def test_history_is_told_newest_first(repository: Repository) -> None:
    first = commit_group(repository, "/")
    second = commit_group(repository, "/b")

    records = list(repository.ancestry(Branch("main")))

    assert [record.id for record in records] == [second, first, INITIAL_SNAPSHOT]
    assert [record.parent_id for record in records] == [first, INITIAL_SNAPSHOT, None]
    assert [record.metadata.get("path") for record in records] == ["/b", "/", None]
    times = [record.flushed_at_us for record in records]
    assert times == sorted(set(times), reverse=True)
    assert repository.lookup_snapshot(first) == records[1]


def test_snapshots_are_found_by_branch_tag_id_and_time(repository: Repository) -> None:
    first = commit_group(repository, "/")
    repository.create_tag("v1", first)
    second = commit_group(repository, "/b")
    between = repository.lookup_snapshot(second).flushed_at_us - 1

    for version in (Tag("v1"), Exactly(first), BranchAsOf("main", between)):
        assert repository.readonly_session(version).snapshot_id == first
    assert repository.readonly_session(Branch("main")).snapshot_id == second
    with pytest.raises(SnapshotNotFoundError) as caught:
        repository.readonly_session(
            BranchAsOf("main", from_datetime(datetime(2000, 1, 1, tzinfo=UTC)))
        )
    assert caught.value.kind == "no-snapshot-at-time"


def test_branches_grow_apart(repository: Repository) -> None:
    base = commit_group(repository, "/")
    repository.create_branch("dev", base)
    on_dev = commit_group(repository, "/dev", "dev")
    on_main = commit_group(repository, "/main")

    assert repository.branches() == {"dev": on_dev, "main": on_main}
    assert [r.id for r in repository.ancestry(Branch("dev"))] == [on_dev, base, INITIAL_SNAPSHOT]


def test_a_branch_is_reset_to_any_snapshot(repository: Repository) -> None:
    first = commit_group(repository, "/")
    second = commit_group(repository, "/b")

    with pytest.raises(ConflictError) as caught:
        repository.reset_branch("main", first, expected=INITIAL_SNAPSHOT)
    assert caught.value.kind == "branch-update-conflict"
    assert caught.value.actual_parent == str(second)
    repository.reset_branch("main", first, expected=second)

    assert repository.lookup_branch("main") == first
    assert repository.lookup_snapshot(second).id == second


def test_a_deleted_tag_is_never_created_again(repository: Repository) -> None:
    repository.create_tag("v1", INITIAL_SNAPSHOT)
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("v1", INITIAL_SNAPSHOT)
    assert caught.value.kind == "tag-already-exists"
    repository.delete_tag("v1")

    with pytest.raises(AlreadyExistsError) as again:
        repository.create_tag("v1", INITIAL_SNAPSHOT)

    assert again.value.kind == "tag-previously-deleted"
    assert repository.tags() == {}


UNKNOWN = SnapshotId(bytes(12))
BAD_CALLS: list[tuple[Any, type[IcechunkError], str]] = [
    (lambda r: r.lookup_branch("no"), RefNotFoundError, "ref-not-found"),
    (lambda r: r.lookup_tag("no"), RefNotFoundError, "ref-not-found"),
    (lambda r: r.delete_branch("no"), RefNotFoundError, "ref-not-found"),
    (lambda r: r.delete_branch("main"), SessionStateError, "cannot-delete-main"),
    (lambda r: r.delete_tag("no"), RefNotFoundError, "ref-not-found"),
    (lambda r: r.reset_branch("no", INITIAL_SNAPSHOT), RefNotFoundError, "ref-not-found"),
    (lambda r: r.reset_branch("main", UNKNOWN), SnapshotNotFoundError, "snapshot-not-found"),
    (lambda r: r.create_branch("b", UNKNOWN), SnapshotNotFoundError, "snapshot-not-found"),
    (lambda r: r.create_tag("b", UNKNOWN), SnapshotNotFoundError, "snapshot-not-found"),
    (
        lambda r: r.create_branch("main", INITIAL_SNAPSHOT),
        AlreadyExistsError,
        "branch-already-exists",
    ),
    (lambda r: r.create_branch("", INITIAL_SNAPSHOT), InvalidInputError, "invalid-ref-name"),
    (lambda r: r.create_tag("a\nb", INITIAL_SNAPSHOT), InvalidInputError, "invalid-ref-name"),
    (lambda r: r.lookup_snapshot(UNKNOWN), SnapshotNotFoundError, "snapshot-not-found"),
    (lambda r: r.writable_session("no"), RefNotFoundError, "ref-not-found"),
    (lambda r: r.readonly_session(BranchAsOf("no", 0)), RefNotFoundError, "branch-not-found"),
    (
        lambda r: r.diff(INITIAL_SNAPSHOT, INITIAL_SNAPSHOT),
        InvalidInputError,
        "bad-snapshot-chain-for-diff",
    ),
]


@pytest.mark.parametrize(("call", "error", "kind"), BAD_CALLS)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(
    store: MemoryStore, repository: Repository, call: Any, error: type[IcechunkError], kind: str
) -> None:
    before = bytes(store.get(REPO_INFO).data)

    with pytest.raises(error) as caught:
        call(repository)

    assert caught.value.kind == kind
    assert bytes(store.get(REPO_INFO).data) == before


def test_the_ops_log_tells_every_step_over_all_its_pages(store: MemoryStore) -> None:
    repository = Repository.create(store, RepositoryConfig(num_updates_per_repo_info_file=3))
    commit = commit_group(repository, "/")
    for name in "abcdefg":
        repository.create_tag(name, commit)
    repository.delete_tag("c")
    repository.create_branch("dev", commit)
    repository.reset_branch("dev", INITIAL_SNAPSHOT)
    repository.delete_branch("dev")

    log = list(repository.ops_log())

    assert [update.kind for update in log] == [
        update_log.BranchDeleted("dev", INITIAL_SNAPSHOT),
        update_log.BranchReset("dev", commit),
        update_log.BranchCreated("dev"),
        update_log.TagDeleted("c", commit),
        *(update_log.TagCreated(name) for name in "gfedcba"),
        update_log.NewCommit("main", commit),
        update_log.RepoInitialized(),
    ]
    times = [update.updated_at_us for update in log]
    assert times == sorted(set(times), reverse=True)
    assert len(repository.repo_info().updates) == 3
    assert log[0].backup_path is None
    backups = {info.key for info in store.list(OVERWRITTEN)}
    assert {f"{OVERWRITTEN}{update.backup_path}" for update in log[1:]} == backups


def test_the_log_ends_where_a_backup_is_missing(store: MemoryStore) -> None:
    repository = Repository.create(store, RepositoryConfig(num_updates_per_repo_info_file=2))
    for name in "abcdef":
        repository.create_tag(name, INITIAL_SNAPSHOT)
    store.delete([info.key for info in store.list(OVERWRITTEN)])

    assert len(list(repository.ops_log())) == 2


def test_a_diff_unites_the_commits_in_between(repository: Repository) -> None:
    first = commit_group(repository, "/")
    commit_group(repository, "/b")
    last = commit_group(repository, "/c")

    diff = repository.diff(first, last)

    assert diff.new_groups == {NodePath("/b"), NodePath("/c")}
    assert diff.deleted_groups == diff.updated_groups == frozenset()
    assert repository.diff(INITIAL_SNAPSHOT, first).new_groups == {ROOT}


def test_a_configuration_is_stored_and_found_again(store: MemoryStore) -> None:
    Repository.create(store, RepositoryConfig(inline_chunk_threshold_bytes=7))

    repository = Repository.open(store)
    assert repository.config.inline_chunk_threshold_bytes == 7
    other = Repository.open(store, RepositoryConfig(inline_chunk_threshold_bytes=9))
    assert other.config.inline_chunk_threshold_bytes == 9
    other.save_config()
    assert Repository.fetch_config(store).inline_chunk_threshold_bytes == 9  # type: ignore[union-attr]  # just saved
    assert next(repository.ops_log()).kind == update_log.ConfigChanged()


def test_defaults_are_not_stored(store: MemoryStore) -> None:
    Repository.create(store, RepositoryConfig())

    assert Repository.fetch_config(store) is None


def test_a_read_only_place_is_read(store: MemoryStore, repository: Repository) -> None:
    commit_group(repository, "/")
    guarded = Repository.open(ReadOnly(store))

    assert [node.path for node in guarded.readonly_session(Branch("main")).nodes()] == [ROOT]
    with pytest.raises(ReadOnlyError) as caught:
        guarded.writable_session("main")
    assert caught.value.kind == "read-only-storage"
    with pytest.raises(ReadOnlyError):
        guarded.create_tag("t", INITIAL_SNAPSHOT)


def test_a_clock_that_stands_still_or_runs_backwards_keeps_history_in_order(
    store: MemoryStore,
) -> None:
    repository = Repository.create(store)
    real = repository.clock()
    stuck = Repository.open(store, clock=lambda: real - 1_000_000)
    for path in ["/", "/a", "/b"]:
        commit_group(stuck, path)

    times = [record.flushed_at_us for record in stuck.ancestry(Branch("main"))]
    assert times == sorted(set(times), reverse=True)
    logged = [update.updated_at_us for update in stuck.ops_log()]
    assert logged == sorted(set(logged), reverse=True)


def test_a_clock_that_is_far_off_is_refused_before_anything_is_visible(store: MemoryStore) -> None:
    repository = Repository.create(store)
    hour_us = 3_600_000_000
    fast = Repository.open(store, clock=lambda: repository.clock() + hour_us)

    with pytest.raises(FormatError) as caught:
        commit_group(fast, "/")

    assert caught.value.kind == "snapshot-timestamp"
    assert repository.lookup_branch("main") == INITIAL_SNAPSHOT
