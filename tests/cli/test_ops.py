from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


def test_ops_shows_everything_newest_first(example: Example) -> None:
    updates = succeeds("ops", example.path, "--json").json
    assert [update["operation"] for update in updates] == [
        "BranchCreated",
        "NewCommit",
        "TagCreated",
        "NewCommit",
        "RepoInitialized",
    ]
    assert updates[0]["branch"] == "old"
    assert (updates[1]["branch"], updates[1]["snapshot_id"]) == ("main", example.ids()[2])
    assert updates[1]["backup_path"].startswith("repo.")


def test_ops_as_a_table(example: Example) -> None:
    header, *rows = succeeds("ops", example.path).lines
    assert header.split() == ["at", "(UTC)", "operation", "details"]
    assert rows[0].endswith("branch created    name=old")
    assert rows[1].endswith(f"new commit        branch=main new={example.ids()[2]}")


def test_ops_can_be_cut_short(example: Example) -> None:
    assert len(succeeds("ops", example.path, "--json", "-n", "2").json) == 2
    assert frazil("ops", example.path, "-n", "0").code == 2


def test_ops_of_no_repository(tmp_path: object) -> None:
    assert "there is no repository" in fails("ops", tmp_path)[0]
