"""A branch and a tag of one name, at different snapshots: no command or call mixes them up."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zarr

import frazil
from frazil.engine import repository as engine
from frazil.engine.refs.version import Branch, Tag
from frazil.format.generation import Generation
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.spark.table.metadata_tables import find_version
from tests.cli.running import Answer
from tests.cli.running import frazil as run

NAME = "same"


class Both:
    """The tag is at "tagged", the branch at its child "branched"; main goes on from there."""

    def __init__(self, root: Path, spec_version: int = 2) -> None:
        self.root = root
        storage = frazil.local_filesystem_storage(str(root))
        self.repo = frazil.Repository.create(storage, spec_version=spec_version)
        self.base = self.commit("base")
        self.tagged = self.commit("tagged")
        self.branched = self.commit("branched")
        self.newest = self.commit("newest")
        self.repo.create_tag(NAME, self.tagged)
        self.repo.create_branch(NAME, self.branched)

    def commit(self, name: str) -> str:
        session = self.repo.writable_session("main")
        zarr.create_group(session.store, path=name)
        return session.commit(name)


@pytest.fixture(params=[1, 2])
def both(tmp_path: Path, request: pytest.FixtureRequest) -> Both:
    return Both(tmp_path / "repo", request.param)


COMMANDS = [
    ("show", "{repo}", "{ref}"),
    ("diff", "{repo}", "{base}", "{ref}"),
    ("diff", "{repo}", "{ref}", "{newest}"),
    ("branch", "create", "{repo}", "new", "--from", "{ref}"),
    ("tag", "create", "{repo}", "new", "--at", "{ref}"),
    ("reset", "{repo}", "{ref}", "--yes"),
    ("revert", "{repo}", "{ref}"),
    ("cherry-pick", "{repo}", "{ref}"),
    ("expire", "{repo}", "--snapshot", "{ref}", "--dry-run"),
    ("purge", "{repo}", "--message-of", "{ref}", "--dry-run"),
]


def told(both: Both, command: tuple[str, ...], ref: str) -> Answer:
    names = {"repo": both.root, "ref": ref, "base": both.base, "newest": both.newest}
    return run(*(part.format(**names) for part in command))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_name_that_may_mean_either_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    both = Both(tmp_path / "repo")
    answer = told(both, command, NAME)
    assert answer.code != 0
    assert f"'branch:{NAME}' or 'tag:{NAME}'" in answer.err


def test_a_prefix_says_which_is_meant(both: Both) -> None:
    for ref, expected in (
        (f"tag:{NAME}", both.tagged),
        (f"branch:{NAME}", both.branched),
        (f"branch:{NAME}~1", both.tagged),
        (f"tag:{NAME}~1", both.base),
    ):
        assert run("show", both.root, ref, "--json").json["snapshot_id"] == expected
        name = ref.translate(str.maketrans(":~", "--"))
        assert run("branch", "create", both.root, name, "--from", ref).code == 0
        assert both.repo.lookup_branch(name) == expected


def test_options_for_one_kind_take_that_kind(both: Both) -> None:
    for options, expected in (
        (("--branch", NAME), ["branched", "tagged", "base"]),
        (("--tag", NAME), ["tagged", "base"]),
    ):
        entries = run("log", both.root, *options, "--json").json
        assert [each["message"] for each in entries][:-1] == expected
        listed = run("ls", both.root, *options, "--json").json
        assert {str(each["path"]).strip("/") for each in listed} >= set(expected)
        assert not any("newest" in str(each["path"]) for each in listed)


def test_a_name_of_one_snapshot_is_not_ambiguous(both: Both) -> None:
    both.repo.reset_branch(NAME, both.tagged)
    assert run("show", both.root, NAME, "--json").json["snapshot_id"] == both.tagged


def test_tables_of_spark_ask_which_is_meant(both: Both) -> None:
    repository = both.repo.engine
    with pytest.raises(frazil.IcechunkError, match=f"branch:{NAME}"):
        find_version(repository, NAME)
    assert str(find_version(repository, f"tag:{NAME}")) == both.tagged
    assert str(find_version(repository, f"branch:{NAME}")) == both.branched
    assert str(find_version(repository, both.base)) == both.base


def test_calls_that_take_a_ref_take_one_kind(both: Both) -> None:
    repo: Any = both.repo
    assert repo.readonly_session(NAME).snapshot_id == both.branched
    assert repo.readonly_session(tag=NAME).snapshot_id == both.tagged
    assert next(iter(repo.ancestry(branch=NAME))).id == both.branched
    assert next(iter(repo.ancestry(tag=NAME))).id == both.tagged
    assert repo.diff(from_tag=NAME, to_branch=NAME).new_groups == {"/branched"}
    assert (repo.lookup_branch(NAME), repo.lookup_tag(NAME)) == (both.branched, both.tagged)
    names = {(each.kind, each.name) for each in repo.stats().refs}
    assert names == {("branch", "main"), ("branch", NAME), ("tag", NAME)}


def test_protecting_one_of_them_does_not_protect_the_other(both: Both) -> None:
    """Of each pair the younger one goes; the older one would stay as part of its history."""
    both.repo.create_branch("other", both.tagged)
    both.repo.create_tag("other", both.branched)
    both.repo.expire_snapshots(
        datetime.now(UTC) + timedelta(days=1),
        delete_expired_branches=True,
        delete_expired_tags=True,
        protect_branches=["other"],
        protect_tags=[NAME],
    )
    assert both.repo.list_branches() == {"main", "other"}
    assert both.repo.list_tags() == {NAME}


def test_deleting_one_of_them_leaves_the_other(both: Both) -> None:
    both.repo.delete_tag(NAME)
    assert both.repo.lookup_branch(NAME) == both.branched
    both.repo.delete_branch(NAME)
    assert NAME not in both.repo.list_branches() | both.repo.list_tags()


def test_the_history_of_both_is_verified_in_generations_before_version_1() -> None:
    store = MemoryStore()
    repository = engine.Repository.create(store, generation=Generation.A2E)
    group = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
    tips = []
    for name in (NAME, "other"):
        session = repository.writable_session("main")
        session.set_node(NodePath(f"/{name}"), group)
        tips.append(session.commit(name))
    first = list(repository.ancestry(Branch("main")))[-1].id
    repository.create_branch(NAME, tips[1])
    repository.create_tag(NAME, first)
    assert next(iter(repository.ancestry(Tag(NAME)))).id == first
    assert verify(store).snapshots == 3
    assert verify(store).errors == []
