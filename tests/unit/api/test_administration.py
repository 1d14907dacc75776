"""Administration and inspection through the public API."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from frazil import FeatureFlag, RepoAvailability, Repository, RepoStatus
from frazil.errors import InvalidInputError

NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001 -- what is tested


async def test_whatever_is_asked_can_be_awaited(repository: Repository) -> None:
    await repository.set_metadata_async({"a": 1})
    assert await repository.update_metadata_async({"b": 2}) == {"a": 1, "b": 2}
    assert await repository.get_metadata_async() == repository.metadata
    await repository.set_feature_flag_async("create_tag", False)
    assert await repository.feature_flags_async() == repository.feature_flags()
    assert [flag.name for flag in await repository.disabled_feature_flags_async()] == ["create_tag"]
    assert len(await repository.enabled_feature_flags_async()) == 2
    status = RepoStatus(RepoAvailability.online, datetime(2024, 1, 1, tzinfo=UTC), "why")
    await repository.set_status_async(status)
    assert await repository.get_status_async() == repository.status == status
    tip = repository.lookup_branch("main")
    assert await repository.inspect_repo_info_async() == repository.inspect_repo_info()
    assert await repository.inspect_snapshot_async(tip) == repository.inspect_snapshot(tip)
    found = await repository.inspect_transaction_log_async(tip)
    assert found == repository.inspect_transaction_log(tip)
    graph = await repository.ancestry_graph_async(plain=True)
    assert str(graph) == repr(graph) == str(repository.ancestry_graph(plain=True))
    assert (await repository.reopen_async()).config == repository.config


def test_metadata_belongs_to_whoever_asked(repository: Repository) -> None:
    repository.set_metadata({"nested": {"list": [1]}})
    repository.get_metadata()["nested"]["list"].append(2)
    repository.update_metadata({})["nested"]["list"].append(3)
    assert repository.metadata == {"nested": {"list": [1]}}
    repository.set_default_commit_metadata({"nested": []})
    repository.default_commit_metadata()["nested"].append(1)
    assert repository.default_commit_metadata() == {"nested": []}


def test_a_flag_tells_its_default_its_setting_and_what_follows(repository: Repository) -> None:
    repository.set_feature_flag("delete_tag", False)
    assert repository.feature_flags()[-1] == FeatureFlag(
        id=5, name="delete_tag", default_enabled=True, setting=False
    )
    assert [flag.enabled for flag in repository.feature_flags()] == [True, True, False]


@pytest.mark.parametrize("setting", [1, "yes", 0.0])
def test_a_flag_is_on_or_off_or_unset(repository: Repository, setting: Any) -> None:
    with pytest.raises(TypeError):
        repository.set_feature_flag("create_tag", setting)


def test_odd_arguments_are_refused(repository: Repository) -> None:
    odd: Any = "online"
    with pytest.raises(TypeError):
        repository.set_status(odd)
    with pytest.raises(TypeError, match="tzinfo"):
        RepoStatus(RepoAvailability.online, NAIVE)
    with pytest.raises(InvalidInputError):
        repository.set_feature_flag("nonsense", True)
    with pytest.raises(TypeError):
        repository.set_default_commit_metadata({"who": object()})


def test_default_commit_metadata_travels_with_the_repository(repository: Repository) -> None:
    repository.set_default_commit_metadata({"who": "me"})
    copy: Repository = pickle.loads(pickle.dumps(repository))
    copy.writable_session("main").commit("there", allow_empty=True)
    assert next(iter(repository.ancestry(branch="main"))).metadata == {"who": "me"}
