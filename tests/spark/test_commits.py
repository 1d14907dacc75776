"""One commit per key, whoever else commits meanwhile. No Spark needed."""

import json
from pathlib import Path

import pytest

from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ConflictError, RebaseFailedError
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from frazil.spark.runtime.commits import METADATA_KEY, CommitNote, commit_once, find_commit

REBASE = Rebasing(Policy(), tries=3)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(LocalStore(str(tmp_path / "repo")))


def with_group(repository: Repository, name: str) -> Session:
    session = repository.writable_session("main")
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    session.set_node(NodePath(f"/{name}"), json.dumps(document).encode())
    return session


def note(key: str | None) -> CommitNote:
    return CommitNote(operation="test", application="tests", key=key, facts={"rows": 3})


def messages(repository: Repository) -> list[str]:
    return [record.message for record in repository.ancestry(Branch("main"))][:-1]


def test_a_commit_tells_how_it_was_made_and_is_found_by_its_key(repository: Repository) -> None:
    session = with_group(repository, "a")
    made = commit_once(repository, session, note("k"), "one", branch="main", metadata={"by": "me"})
    record = next(iter(repository.ancestry(Branch("main"))))
    told = record.metadata[METADATA_KEY]
    assert isinstance(told, dict)
    assert (told["operation"], told["rows"], told["idempotency_key"]) == ("test", 3, "k")
    assert record.metadata["by"] == "me"
    assert made.made
    assert find_commit(repository, "main", "k") == made.snapshot_id == str(record.id)
    assert find_commit(repository, "main", "other") is None


def test_a_second_commit_with_a_key_is_not_made(repository: Repository) -> None:
    first = commit_once(repository, with_group(repository, "a"), note("k"), "one", branch="main")
    again = commit_once(repository, with_group(repository, "b"), note("k"), "two", branch="main")
    assert (again.snapshot_id, again.made) == (first.snapshot_id, False)
    assert messages(repository) == ["one"]


def test_without_a_key_every_commit_is_made(repository: Repository) -> None:
    for name in "ab":
        commit_once(repository, with_group(repository, name), note(None), name, branch="main")
    assert messages(repository) == ["b", "a"]


@pytest.mark.parametrize("rebasing", [None, REBASE], ids=["no-rebase", "rebase"])
def test_twins_at_once_make_one_commit(repository: Repository, rebasing: Rebasing | None) -> None:
    twins = [with_group(repository, "a") for _ in range(2)]
    done = [
        commit_once(repository, twin, note("k"), "one", branch="main", rebasing=rebasing)
        for twin in twins
    ]
    assert [one.made for one in done] == [True, False]
    assert messages(repository) == ["one"]


def test_a_moved_branch_is_a_conflict_unless_rebasing_is_wanted(repository: Repository) -> None:
    mine, other = with_group(repository, "mine"), with_group(repository, "other")
    other.commit("other")
    with pytest.raises(ConflictError):
        commit_once(repository, mine, note("k"), "mine", branch="main")
    assert messages(repository) == ["other"]
    assert commit_once(repository, mine, note("k"), "mine", branch="main", rebasing=REBASE).made
    assert messages(repository) == ["mine", "other"]


def test_changes_that_contradict_are_not_rebased(repository: Repository) -> None:
    mine, other = with_group(repository, "same"), with_group(repository, "same")
    other.commit("other")
    with pytest.raises(RebaseFailedError):
        commit_once(repository, mine, note("k"), "mine", branch="main", rebasing=REBASE)
    assert messages(repository) == ["other"]
