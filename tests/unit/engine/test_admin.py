"""Metadata, status, feature flags and default commit metadata of a repository."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from frazil.engine.refs import repo_settings
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, ReadOnlyError, SessionStateError
from frazil.format.config import CachingConfig, RepositoryConfig
from frazil.format.update_log import (
    Availability,
    FeatureFlagChanged,
    MetadataChanged,
    RepoStatus,
    RepoStatusChanged,
    TagCreated,
)
from frazil.ids import INITIAL_SNAPSHOT
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT
from tests.unit.engine.conftest import GROUP

READ_ONLY = RepoStatus(Availability.READ_ONLY, 1_700_000_000_000_000, "maintenance")
OFFLINE = RepoStatus(Availability.OFFLINE, 1_700_000_000_000_000, None)
ONLINE = RepoStatus(Availability.ONLINE, 1_700_000_000_000_001, None)


# --- metadata -----------------------------------------------------------------------------------


def test_metadata_is_replaced_whole_or_key_by_key(repository: Repository) -> None:
    repository.set_metadata({"a": 1, "n": {"x": 1}})
    merged = repository.update_metadata({"n": {"y": 2}, "b": [1, None]})
    assert merged == {"a": 1, "n": {"y": 2}, "b": [1, None]}
    assert repository.repo_info().metadata == merged
    repository.set_metadata({"c": True})
    assert repository.repo_info().metadata == {"c": True}
    kinds = [update.kind for update in repository.ops_log()]
    assert kinds[:3] == [MetadataChanged()] * 3


def test_a_step_leaves_the_old_state_alone(repository: Repository) -> None:
    before = repository.repo_info()
    after, _ = repo_settings.update_metadata(before, {"a": 1})
    assert (before.metadata, after.metadata) == ({}, {"a": 1})


def test_updates_made_at_once_are_all_kept(store: MemoryStore, repository: Repository) -> None:
    del repository

    def update(i: int) -> None:
        Repository.open(store).update_metadata({f"key {i}": i})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(update, range(16)))
    assert Repository.open(store).repo_info().metadata == {f"key {i}": i for i in range(16)}


@pytest.mark.parametrize("value", [float("nan"), 2**64])
def test_metadata_that_would_not_survive_is_refused(repository: Repository, value: float) -> None:
    for change in (repository.set_metadata, repository.update_metadata):
        with pytest.raises(InvalidInputError):
            change({"value": value})
    assert repository.repo_info().metadata == {}


# --- status -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [READ_ONLY, OFFLINE], ids=["read-only", "offline"])
def test_a_repository_that_is_not_online_takes_no_change_but_of_its_status(
    repository: Repository, status: RepoStatus
) -> None:
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    repository.create_branch("other", INITIAL_SNAPSHOT)
    repository.create_tag("tag", INITIAL_SNAPSHOT)
    repository.set_status(status)
    before = list(repository.ops_log())
    changes = {
        "commit": lambda: session.commit("late"),
        "session": lambda: repository.writable_session("main"),
        "branch": lambda: repository.create_branch("new", INITIAL_SNAPSHOT),
        "reset": lambda: repository.reset_branch("other", INITIAL_SNAPSHOT),
        "unbranch": lambda: repository.delete_branch("other"),
        "tag": lambda: repository.create_tag("new", INITIAL_SNAPSHOT),
        "untag": lambda: repository.delete_tag("tag"),
        "metadata": lambda: repository.set_metadata({}),
        "update": lambda: repository.update_metadata({}),
        "flag": lambda: repository.set_flag(repo_settings.CREATE_TAG, None),
        "config": repository.save_config,
    }
    for name, change in changes.items():
        with pytest.raises(ReadOnlyError) as caught:
            change()
        assert caught.value.kind == "read-only-repository", name
        assert status.availability.label in str(caught.value)
    assert list(repository.ops_log()) == before
    assert before[0].kind == RepoStatusChanged(status)


@pytest.mark.parametrize("status", [READ_ONLY, OFFLINE], ids=["read-only", "offline"])
def test_reading_goes_on_while_a_repository_is_not_online(
    repository: Repository, status: RepoStatus
) -> None:
    repository.set_status(status)
    assert repository.readonly_session(Branch("main")).snapshot_id == INITIAL_SNAPSHOT
    assert repository.repo_info().status == status
    assert len(list(repository.ancestry(Branch("main")))) == 1


def test_a_session_survives_the_time_its_repository_was_read_only(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    repository.set_status(READ_ONLY)
    with pytest.raises(ReadOnlyError):
        session.commit("too early")
    repository.set_status(ONLINE)
    tip = session.commit("now")
    assert repository.lookup_branch("main") == tip


# --- feature flags ------------------------------------------------------------------------------


def test_flags_are_stored_only_where_they_were_set(repository: Repository) -> None:
    states: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for value in (None, True, False, None):
        if states:
            repository.set_flag(repo_settings.CREATE_TAG, value)
        info = repository.repo_info()
        states.append((info.enabled_flags, info.disabled_flags))
        assert repo_settings.flag_setting(info, repo_settings.CREATE_TAG) is value
        assert repo_settings.is_enabled(info, repo_settings.CREATE_TAG) is (value is not False)
    assert states == [((), ()), ((4,), ()), ((), (4,)), ((), ())]
    kinds = [update.kind for update in repository.ops_log()][:3]
    assert kinds == [FeatureFlagChanged(4, value) for value in (None, False, True)]


def test_a_disabled_operation_is_refused_before_anything_else(repository: Repository) -> None:
    repository.create_tag("kept", INITIAL_SNAPSHOT)
    repository.set_flag(repo_settings.CREATE_TAG, False)
    repository.set_flag(repo_settings.DELETE_TAG, False)
    attempts: list[Callable[[], None]] = [
        lambda: repository.create_tag("new", INITIAL_SNAPSHOT),
        lambda: repository.create_tag("", INITIAL_SNAPSHOT),
        lambda: repository.delete_tag("kept"),
        lambda: repository.delete_tag("nonsense"),
    ]
    for attempt in attempts:
        with pytest.raises(SessionStateError) as caught:
            attempt()
        assert caught.value.kind == "feature-flag-disabled"
    repository.set_flag(repo_settings.CREATE_TAG, True)
    repository.create_tag("new", INITIAL_SNAPSHOT)
    assert next(iter(repository.ops_log())).kind == TagCreated("new")


def test_flags_nobody_here_knows_stay(repository: Repository) -> None:
    info = replace(repository.repo_info(), enabled_flags=(1, 900), disabled_flags=(2, 901))
    changed, _ = repo_settings.set_flag(info, repo_settings.MOVE_NODE, False)
    assert (changed.enabled_flags, changed.disabled_flags) == ((1, 900), (2, 3, 901))


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        repo_settings.require_flag("nonsense")
    assert caught.value.kind == "invalid-feature-flag"


# --- default commit metadata, reopening ---------------------------------------------------------


def commit_metadata(repository: Repository, metadata: dict[str, object] | None = None) -> object:
    session = repository.writable_session("main")
    tip = session.commit("empty", metadata, allow_empty=True)  # type: ignore[arg-type]  # JSON
    return repository.lookup_snapshot(tip).metadata


def test_default_metadata_is_under_that_of_the_commit(repository: Repository) -> None:
    early = repository.writable_session("main")
    repository.default_commit_metadata = {"who": "me", "x": 1}
    tip = early.commit("early", allow_empty=True)
    assert repository.lookup_snapshot(tip).metadata == {}
    assert commit_metadata(repository) == {"who": "me", "x": 1}
    assert commit_metadata(repository, {"x": 2}) == {"who": "me", "x": 2}


def test_default_metadata_survives_pickling_and_reopening(repository: Repository) -> None:
    repository.default_commit_metadata = {"who": "me"}
    for copy in (pickle.loads(pickle.dumps(repository)), repository.reopened()):
        assert commit_metadata(copy) == {"who": "me"}


def test_a_reopened_repository_has_the_merged_configuration(store: MemoryStore) -> None:
    first = Repository.create(store, RepositoryConfig(caching=CachingConfig(num_chunk_refs=5)))
    second = first.reopened(RepositoryConfig(inline_chunk_threshold_bytes=7))
    assert second.config.caching == CachingConfig(num_chunk_refs=5)
    assert second.config.inline_chunk_threshold_bytes == 7
    assert first.config.inline_chunk_threshold_bytes is None
