import pytest

from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


def test_branches_are_listed(example: Example) -> None:
    _, first, tip = example.ids()
    assert succeeds("branch", "list", example.path, "--json").json == {"main": tip, "old": first}
    assert succeeds("branch", "list", example.path).lines[1:] == [f"main  {tip}", f"old   {first}"]


def test_tags_are_listed(example: Example) -> None:
    assert succeeds("tag", "list", example.path, "--json").json == {"v1": example.ids()[1]}


def test_a_branch_comes_and_goes(own_example: Example) -> None:
    repo = own_example.path
    succeeds("branch", "create", repo, "dev")
    succeeds("branch", "create", repo, "dev2", "--from", "v1")
    listed = succeeds("branch", "list", repo, "--json").json
    assert (listed["dev"], listed["dev2"]) == (own_example.ids()[2], own_example.ids()[1])
    succeeds("branch", "delete", repo, "dev")
    assert "dev" not in succeeds("branch", "list", repo, "--json").json


def test_a_tag_comes_and_goes_and_its_name_is_spent(own_example: Example) -> None:
    repo = own_example.path
    succeeds("tag", "create", repo, "v2", "--at", "main~1")
    assert succeeds("tag", "list", repo, "--json").json["v2"] == own_example.ids()[1]
    assert "immutable" in fails("tag", "create", repo, "v2")[0]
    assert "pass --yes" in fails("tag", "delete", repo, "v2", code=2)[0]
    succeeds("tag", "delete", repo, "v2", "--yes")
    assert "reuse" in fails("tag", "create", repo, "v2")[0]


def test_a_branch_that_alone_leads_to_commits_is_not_deleted_unasked(own_example: Example) -> None:
    repo = own_example.path
    succeeds("branch", "create", repo, "dev")
    succeeds("reset", repo, "v1", "--yes")  # now only dev leads to the last commit
    error = fails("branch", "delete", repo, "dev", code=2)[0]
    assert (
        "this would delete dev, the only branch with 1 commit. Not a terminal; pass --yes" in error
    )
    left = succeeds("branch", "delete", repo, "dev", "--yes", "--json").json["removed_snapshot_ids"]
    assert left == [own_example.ids()[2]]


def test_main_cannot_be_deleted(own_example: Example) -> None:
    assert fails("branch", "delete", own_example.path, "main") == [
        "error: main branch cannot be deleted"
    ]


def test_a_branch_that_is_there_is_not_created(own_example: Example) -> None:
    assert "already exists" in fails("branch", "create", own_example.path, "old")[0]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_missing_ref_is_not_deleted(own_example: Example, kind: str) -> None:
    assert "nope" in fails(kind, "delete", own_example.path, "nope")[0]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_blank_name_is_refused(own_example: Example, kind: str) -> None:
    assert "invalid ref name" in fails(kind, "create", own_example.path, " ")[0]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_refs_of_no_repository(tmp_path: object, kind: str) -> None:
    assert "there is no repository" in fails(kind, "list", tmp_path)[0]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_name_is_needed(example: Example, kind: str) -> None:
    assert frazil(kind, "create", example.path).code == 2
