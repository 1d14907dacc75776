"""The public Repository: conversion of arguments and results, sync and async."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
    RepoAvailability,
    Repository,
    RepositoryConfig,
    RepositoryNotFoundError,
    RepoStatus,
    SessionStateError,
    SnapshotInfo,
    SpecVersion,
    Storage,
    UpdateType,
    in_memory_storage,
    local_filesystem_storage,
)

INITIAL = "1CECHNKREP0F1RSTCMT0"
UNKNOWN = "0" * 20


def commit(repository: Repository, name: str, branch: str = "main") -> str:
    """A commit that adds the group `name`."""
    session = repository.writable_session(branch)
    zarr.create_group(session.store, path=name)
    return session.commit(f"add {name}", {"name": name})


# Creating and opening


def test_a_repository_is_created_once_and_opened_often(storage: Storage) -> None:
    assert not Repository.exists(storage)
    assert Repository.fetch_spec_version(storage) is None
    Repository.create(storage)
    assert Repository.exists(storage)
    assert Repository.fetch_spec_version(storage) is SpecVersion.v2
    assert Repository.open(storage).list_branches() == {"main"}
    with pytest.raises(InvalidInputError) as caught:
        Repository.create(storage)
    assert caught.value.kind == "parent-directory-not-clean"


async def test_every_way_to_open_can_be_awaited(storage: Storage) -> None:
    assert not await Repository.exists_async(storage)
    assert await Repository.fetch_spec_version_async(storage) is None
    with pytest.raises(RepositoryNotFoundError):
        await Repository.open_async(storage)
    await Repository.create_async(storage)
    await Repository.open_async(storage)
    await Repository.open_or_create_async(storage)
    assert await Repository.exists_async(storage)
    assert await Repository.fetch_spec_version_async(storage) == 2
    assert await Repository.fetch_config_async(storage) is None


def test_open_or_create_does_what_is_needed(storage: Storage) -> None:
    made = Repository.open_or_create(storage)
    tip = commit(made, "a")
    assert Repository.open_or_create(storage).lookup_branch("main") == tip


def test_many_may_open_or_create_at_once(tmp_path: Path) -> None:
    path = tmp_path / "repository"

    def open_or_create(_: int) -> str:
        repository = Repository.open_or_create(
            local_filesystem_storage(path), check_clean_root=False
        )
        return repository.lookup_branch("main")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(open_or_create, range(16))) == {INITIAL}


@pytest.mark.parametrize("ask", [Repository.open, Repository.fetch_config])
def test_a_missing_repository_is_said_to_be_missing(storage: Storage, ask: object) -> None:
    with pytest.raises(RepositoryNotFoundError) as caught:
        ask(storage)  # type: ignore[operator]  # two functions of different types
    assert caught.value.kind == "repository-not-found"


def test_only_known_versions_can_be_created(storage: Storage) -> None:
    with pytest.raises(ValueError, match="Unsupported version 3"):
        Repository.create(storage, spec_version=3)
    assert not Repository.exists(storage)
    assert Repository.create(storage, spec_version=SpecVersion.v2).spec_version == 2


def test_a_repository_of_version_1_can_be_created(storage: Storage) -> None:
    assert Repository.create(storage, spec_version=1).spec_version is SpecVersion.v1
    assert Repository.fetch_spec_version(storage) is SpecVersion.v1
    assert Repository.open(storage).list_branches() == {"main"}


async def test_a_configuration_is_saved_and_merged(storage: Storage) -> None:
    repository = Repository.create(storage, RepositoryConfig(inline_chunk_threshold_bytes=7))
    saved = Repository.fetch_config(storage)
    assert saved is not None
    assert saved.inline_chunk_threshold_bytes == 7
    again = Repository.open(storage, RepositoryConfig(max_concurrent_requests=3))
    assert again.config.inline_chunk_threshold_bytes == 7
    await again.save_config_async()
    assert Repository.open(storage).config.max_concurrent_requests == 3
    changed = repository.config
    changed.inline_chunk_threshold_bytes = 8  # a copy
    assert repository.config.inline_chunk_threshold_bytes == 7


async def test_what_a_repository_says_about_itself(
    repository: Repository, storage: Storage
) -> None:
    assert repository.storage is storage
    assert repository.spec_version is SpecVersion.v2
    assert repository.metadata == repository.get_metadata() == {}
    assert await repository.get_metadata_async() == {}
    assert repository.status.availability is RepoAvailability.online
    assert repository.status == await repository.get_status_async()
    assert "in_memory" in repr(repository)


def test_storage_shows_where_it_is(tmp_path: Path) -> None:
    assert repr(in_memory_storage()) == "Storage.new_in_memory()"
    assert repr(local_filesystem_storage(tmp_path)) == (
        f"Storage.new_local_filesystem({str(tmp_path)!r})"
    )


def test_a_repository_can_be_pickled(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "repository"))
    tip = commit(repository, "a")
    assert pickle.loads(pickle.dumps(repository)).lookup_branch("main") == tip


# Sessions


def test_a_session_reads_a_branch_a_tag_or_a_snapshot(repository: Repository) -> None:
    first, second = commit(repository, "a"), commit(repository, "b")
    repository.create_tag("v1", first)
    assert repository.readonly_session("main").snapshot_id == second
    assert repository.readonly_session(branch="main").snapshot_id == second
    assert repository.readonly_session(tag="v1").snapshot_id == first
    assert repository.readonly_session(snapshot_id=first.lower()).snapshot_id == first


async def test_sessions_can_be_awaited(repository: Repository) -> None:
    session = await repository.writable_session_async("main")
    assert session.branch == "main"
    assert (await repository.readonly_session_async(snapshot_id=INITIAL)).read_only


def test_a_branch_is_read_as_of_a_time(repository: Repository) -> None:
    first = commit(repository, "a")
    second = commit(repository, "b")
    written_at = repository.lookup_snapshot(second).written_at
    just_before = written_at - timedelta(microseconds=1)
    assert repository.readonly_session("main", as_of=written_at).snapshot_id == second
    assert repository.readonly_session("main", as_of=just_before).snapshot_id == first


@pytest.mark.parametrize(
    "arguments",
    [{}, {"branch": "main", "tag": "v1"}, {"tag": "v1", "snapshot_id": INITIAL}],
)
def test_exactly_one_version_must_be_named(
    repository: Repository, arguments: dict[str, str]
) -> None:
    message = "Must provide one of branch, tag, or snapshot_id"
    with pytest.raises(ValueError, match=message):
        repository.readonly_session(**arguments)  # type: ignore[arg-type]  # none is a datetime
    with pytest.raises(ValueError, match=message):
        repository.ancestry(**arguments)
    with pytest.raises(ValueError, match=message):
        repository.diff(from_snapshot_id=INITIAL)


def test_a_time_goes_with_a_branch_and_has_a_zone(repository: Repository) -> None:
    now = datetime.now(UTC)
    with pytest.raises(ValueError, match="as_of argument must be provided together with a branch"):
        repository.readonly_session(as_of=now)
    with pytest.raises(ValueError, match="as_of argument must be provided together with a branch"):
        repository.readonly_session(tag="v1", as_of=now)
    with pytest.raises(TypeError, match="non-None tzinfo"):
        repository.readonly_session("main", as_of=now.replace(tzinfo=None))


def test_a_snapshot_id_must_look_like_one(repository: Repository) -> None:
    with pytest.raises(InvalidInputError) as caught:
        repository.readonly_session(snapshot_id="nonsense")
    assert caught.value.kind == "invalid-snapshot-id"


def test_a_transaction_commits_unless_it_fails(repository: Repository) -> None:
    with repository.transaction("main", message="good", metadata={"by": "me"}) as store:
        zarr.create_group(store, path="a")
    newest = next(repository.ancestry(branch="main"))
    assert (newest.message, newest.metadata) == ("good", {"by": "me"})

    def fail() -> None:
        with repository.transaction("main", message="bad") as store:
            zarr.create_group(store, path="b")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert repository.lookup_branch("main") == newest.id


def test_a_transaction_that_changes_nothing_is_an_error(repository: Repository) -> None:
    with (
        pytest.raises(SessionStateError) as caught,
        repository.transaction("main", message="nothing"),
    ):
        pass
    assert caught.value.kind == "no-changes-to-commit"


# Refs


async def test_branches(repository: Repository) -> None:
    first = commit(repository, "a")
    repository.create_branch("dev", INITIAL)
    await repository.create_branch_async("old", first)
    assert repository.list_branches() == await repository.list_branches_async()
    assert repository.list_branches() == {"main", "dev", "old"}
    assert repository.lookup_branch("dev") == INITIAL
    assert await repository.lookup_branch_async("old") == first
    repository.reset_branch("dev", first, from_snapshot_id=INITIAL)
    await repository.reset_branch_async("old", INITIAL)
    assert repository.lookup_branch("dev") == first
    with pytest.raises(ConflictError) as caught:
        repository.reset_branch("dev", INITIAL, from_snapshot_id=INITIAL)
    assert (caught.value.expected_parent, caught.value.actual_parent) == (INITIAL, first)
    repository.delete_branch("dev")
    await repository.delete_branch_async("old")
    assert repository.list_branches() == {"main"}
    with pytest.raises(RefNotFoundError):
        repository.lookup_branch("dev")


async def test_tags(repository: Repository) -> None:
    repository.create_tag("v1", INITIAL)
    await repository.create_tag_async("v2", INITIAL)
    assert repository.list_tags() == await repository.list_tags_async() == {"v1", "v2"}
    assert repository.lookup_tag("v1") == await repository.lookup_tag_async("v2") == INITIAL
    repository.delete_tag("v1")
    await repository.delete_tag_async("v2")
    assert repository.list_tags() == set()
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("v1", INITIAL)
    assert caught.value.kind == "tag-previously-deleted"


# History


async def test_ancestry_is_newest_first_for_both_kinds_of_loop(repository: Repository) -> None:
    first, second = commit(repository, "a"), commit(repository, "b")
    infos = list(repository.ancestry(branch="main"))
    assert [info.id for info in infos] == [second, first, INITIAL]
    assert [info.parent_id for info in infos] == [first, INITIAL, None]
    assert [info.message for info in infos] == ["add b", "add a", "Repository initialized"]
    assert infos[0].metadata == {"name": "b"}
    assert infos[0].written_at.tzinfo is UTC
    assert [info async for info in repository.async_ancestry(branch="main")] == infos
    assert [info async for info in repository.ancestry(snapshot_id=infos[1].id)] == infos[1:]
    assert pickle.loads(pickle.dumps(infos)) == infos


async def test_a_snapshot_is_looked_up_by_its_id(repository: Repository) -> None:
    tip = commit(repository, "a")
    info = repository.lookup_snapshot(tip)
    assert isinstance(info, SnapshotInfo)
    assert info == await repository.lookup_snapshot_async(tip)
    assert (info.id, info.parent_id, info.message) == (tip, INITIAL, "add a")
    with pytest.raises(KeyError):
        repository.lookup_snapshot(UNKNOWN)


async def test_a_missing_ref_is_noticed_when_the_history_is_asked_for(
    repository: Repository,
) -> None:
    with pytest.raises(RefNotFoundError):
        repository.ancestry(branch="nope")
    later = repository.async_ancestry(branch="nope")
    with pytest.raises(RefNotFoundError):
        await anext(later)


async def test_the_ops_log_tells_everything_that_was_done(repository: Repository) -> None:
    tip = commit(repository, "a")
    repository.create_branch("dev", INITIAL)
    repository.reset_branch("dev", tip)
    repository.delete_branch("dev")
    repository.create_tag("v1", tip)
    repository.delete_tag("v1")
    repository.save_config()
    log = list(repository.ops_log())
    assert [update.kind for update in log] == [
        UpdateType.ConfigChanged(),
        UpdateType.TagDeleted("v1", tip),
        UpdateType.TagCreated("v1"),
        UpdateType.BranchDeleted("dev", tip),
        UpdateType.BranchReset("dev", INITIAL),
        UpdateType.BranchCreated("dev"),
        UpdateType.NewCommit("main", tip),
        UpdateType.RepoInitialized(),
    ]
    assert [update async for update in repository.ops_log_async()] == log
    times = [update.updated_at for update in log]
    assert sorted(times, reverse=True) == times
    assert log[0].backup_path is None
    assert all(update.backup_path for update in log[1:])
    assert repr(log[6].kind) == f"UpdateType.NewCommit(branch='main', new_snap_id={tip!r})"


async def test_manifest_files_are_listed_by_snapshot(repository: Repository) -> None:
    with repository.transaction("main", message="data") as store:
        zarr.create_array(store, name="x", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    tip = repository.lookup_branch("main")
    (file,) = repository.list_manifest_files(tip)
    assert file.num_chunk_refs == 2
    assert file.size_bytes > 0
    assert len(file.id) == 20
    assert await repository.list_manifest_files_async(tip) == [file]
    assert repository.list_manifest_files(INITIAL) == []


async def test_a_diff_says_what_changed_between_two_versions(repository: Repository) -> None:
    with repository.transaction("main", message="data") as store:
        zarr.create_group(store)
        zarr.create_array(store, name="x", shape=(24,), chunks=(2,), dtype="i4")[:] = 1
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    with repository.transaction("main", message="more") as store:
        group = zarr.open_group(store)
        group.create_group("g")
        group.attrs["title"] = "t"
        zarr.open_array(store, path="x")[:4] = 2
    diff = repository.diff(from_tag="v1", to_branch="main")
    assert diff.new_groups == {"/g"}
    assert diff.updated_groups == {"/"}
    assert diff.updated_chunks == {"/x": [[0], [1]]}
    assert diff.new_arrays == diff.deleted_groups == diff.deleted_arrays == set()
    assert not diff.is_empty()
    assert await repository.diff_async(from_snapshot_id=first, to_branch="main") == diff
    assert str(diff) == (
        "Groups created:\n    /g\n\nGroup definitions updated:\n    /\n\n"
        "Chunks updated:\n    /x:\n        [0]\n        [1]\n"
    )
    whole = repository.diff(from_snapshot_id=INITIAL, to_tag="v1")
    assert str(whole).endswith("        [9]\n        ... 2 more\n")
    with pytest.raises(InvalidInputError) as caught:
        repository.diff(from_branch="main", to_tag="v1")
    assert caught.value.kind == "bad-snapshot-chain-for-diff"


def test_a_status_is_set_now_unless_told_otherwise() -> None:
    before = datetime.now(UTC)
    status = RepoStatus(RepoAvailability.read_only, limited_availability_reason="moving")
    assert before <= status.set_at <= datetime.now(UTC)
    assert status.limited_availability_reason == "moving"


def test_a_diff_takes_a_few_bytes_for_each_chunk_until_lists_are_wanted(
    repository: Repository,
) -> None:
    count = 200_000
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="many", shape=(count,), chunks=(1,), dtype="i1")
    numbers = np.arange(1, count + 1, dtype=np.uint64)
    session.store.set_virtual_refs_arr(
        "many", (count,), ["s3://bucket/file"] * count, numbers, numbers, validate_containers=False
    )
    after = session.commit("references")
    tracemalloc.start()
    found = repository.diff(from_snapshot_id=INITIAL, to_snapshot_id=after)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 30 * count  # lists would be more than 100
    assert str(found).endswith(f"    ... {count - 10} more\n")
    assert not found.is_empty()
    assert found.chunk_indices["/many"].tolist() == found.updated_chunks["/many"]
    assert found == repository.diff(from_snapshot_id=INITIAL, to_snapshot_id=after)
