"""Commits made of other commits, and branches moved, from the command line."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from tests.cli.conftest import Example
from tests.cli.running import COMMAND, fails, frazil, succeeds
from tests.unit.spec.written import GROUP, array_metadata

T2M = NodePath("/model/t2m")


@pytest.fixture
def parted(own_example: Example) -> Example:
    """Branch `old` got an array of its own, and another first chunk."""
    session = Repository.open(LocalStore(str(own_example.path))).writable_session("old")
    session.set_node(NodePath("/extra"), array_metadata((), ()))
    session.set_node(NodePath("/group"), GROUP)
    session.set_chunk(T2M, (0, 0), b"other" * 40)
    session.commit("on the old branch")
    return own_example


def tip(path: Path, branch: str = "main") -> str:
    return str(Repository.open(LocalStore(str(path))).lookup_branch(branch))


def write_chunk(path: Path, index: tuple[int, int] = (0, 0)) -> None:
    session = Repository.open(LocalStore(str(path))).writable_session("main")
    session.set_chunk(T2M, index, b"mine!" * 40)
    session.commit("on main")


def test_a_commit_is_reverted(own_example: Example) -> None:
    lines = succeeds("revert", own_example.path, "main").lines
    new = tip(own_example.path)
    assert lines == [
        f"branch main is now at new snapshot {new}",
        "deleted arrays:",
        "  /notes",
        "updated chunks:",
        "  /model/t2m: 1  (1,0)",
    ]
    assert new not in own_example.ids()
    assert succeeds("log", own_example.path, "-n", 1, "--json").json[0]["message"] == (
        f"Revert 'second day' ({own_example.ids()[2]})"
    )


def test_a_dry_run_says_the_same_and_changes_nothing(own_example: Example) -> None:
    planned = succeeds("revert", own_example.path, "main", "--dry-run", "--json").json
    assert tip(own_example.path) == own_example.ids()[2]
    done = succeeds("revert", own_example.path, "main", "-m", "oops", "--json").json
    assert (planned["snapshot_id"], done["snapshot_id"]) == (None, tip(own_example.path))
    assert planned["changes"] == done["changes"]
    assert (planned["solved"], planned["conflicts"], planned["dry_run"]) == (True, [], True)


def test_a_commit_is_picked(parted: Example) -> None:
    done = succeeds("cherry-pick", parted.path, "old", "--json").json
    assert done["changes"]["new_arrays"] == ["/extra"]
    assert done["snapshot_id"] == tip(parted.path)
    assert "nothing to do" in succeeds("cherry-pick", parted.path, "old").out
    record = succeeds("log", parted.path, "-n", 1, "--json").json[0]
    assert record["message"] == "on the old branch"


def test_branches_are_merged(parted: Example) -> None:
    merged = tip(parted.path, "old")
    assert succeeds("merge", parted.path, "old").lines[0].endswith(tip(parted.path))
    record = succeeds("log", parted.path, "-n", 1, "--json").json[0]
    assert record["metadata"]["frazil"]["merged"] == [merged]
    assert "nothing to do" in succeeds("merge", parted.path, "old").out


def test_a_branch_that_is_behind_is_moved_forward(own_example: Example) -> None:
    repo = own_example.path
    forward = succeeds("merge", repo, "main", "--into", "old", "--dry-run", "--json").json
    assert (forward["fast_forward"], forward["snapshot_id"]) == (True, None)
    assert "moved forward" in succeeds("merge", repo, "main", "--into", "old").lines[0]
    assert tip(repo, "old") == own_example.ids()[2]


def test_conflicts_are_listed_and_nothing_changes(parted: Example) -> None:
    write_chunk(parted.path)
    before = tip(parted.path)
    answer = frazil("merge", parted.path, "old")
    assert answer.code == 4
    assert answer.lines == [
        "conflicts:",
        "conflict             path        chunks",
        "Chunk double update  /model/t2m  0,0",
    ]
    assert answer.err.splitlines()[0] == "error: 1 conflict: nothing was changed"
    listed = frazil("merge", parted.path, "old", "--json", "--dry-run")
    assert listed.code == 4
    assert listed.json["conflicts"] == [
        {"conflict_type": "ChunkDoubleUpdate", "path": "/model/t2m", "chunk_indexes": [[0, 0]]}
    ]
    assert (listed.json["solved"], listed.json["snapshot_id"]) == (False, None)
    assert tip(parted.path) == before


@pytest.mark.parametrize(("choice", "expected"), [("ours", b"mine!"), ("theirs", b"other")])
def test_conflicts_are_solved_as_told(parted: Example, choice: str, expected: bytes) -> None:
    write_chunk(parted.path)
    answer = succeeds("merge", parted.path, "old", "--on-chunk-conflict", choice)
    assert "conflicts, solved as told:" in answer.lines
    session = Repository.open(LocalStore(str(parted.path))).writable_session("main")
    assert bytes(session.fetch_chunk(T2M, (0, 0)) or b"") == expected * 40


def test_a_range_is_squashed(own_example: Example) -> None:
    planned = succeeds("squash", own_example.path, "main~1", "-m", "all", "--dry-run").lines
    assert planned[0] == "2 commits would be one"
    assert tip(own_example.path) == own_example.ids()[2]
    done = succeeds("squash", own_example.path, "main~1", "-m", "all", "--yes", "--json").json
    assert done["squashed_snapshot_ids"] == own_example.ids()[1:]
    assert done["tip_snapshot_id"] == done["snapshot_id"] == tip(own_example.path)
    assert [each["message"] for each in succeeds("log", own_example.path, "--json").json] == [
        "all",
        "Repository initialized",
    ]


def test_commits_after_the_range_are_listed_anew(own_example: Example) -> None:
    lines = succeeds("squash", own_example.path, "v1", "v1", "-m", "one", "--yes").lines
    assert lines[1] == f"branch main is now at new snapshot {tip(own_example.path)}"
    assert succeeds("log", own_example.path, "-n", 1, "--json").json[0]["message"] == "second day"


def test_a_branch_is_reset(own_example: Example) -> None:
    _, first, last = own_example.ids()
    planned = succeeds("reset", own_example.path, "v1", "--dry-run", "--json").json
    ids = {"previous_snapshot_id": last, "snapshot_id": first, "removed_snapshot_ids": [last]}
    expected = {"branch": "main", **ids}
    assert planned == {"dry_run": True, **expected}
    assert tip(own_example.path) == last
    lines = succeeds("reset", own_example.path, "v1", "--yes").lines
    assert lines == [f"branch main went from {last} to {first}", f"  off the branch: {last}"]
    assert tip(own_example.path) == first
    succeeds("reset", own_example.path, last)  # nothing is lost: there is nothing to ask
    assert tip(own_example.path) == last


@pytest.mark.parametrize(
    "arguments", [("reset", "{}", "v1"), ("squash", "{}", "main~1", "-m", "all")]
)
def test_what_is_dangerous_is_not_done_unasked(
    own_example: Example, arguments: tuple[str, ...]
) -> None:
    filled = [each.format(own_example.path) for each in arguments]
    answer = frazil(*filled)
    assert answer.code == 2
    assert "--yes" in answer.err
    assert answer.out == ""
    assert tip(own_example.path) == own_example.ids()[2]


@pytest.mark.parametrize(("reply", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_at_a_terminal_it_is_asked(own_example: Example, reply: bytes, code: int) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, reply)
        done = subprocess.run(
            [COMMAND, "reset", str(own_example.path), "v1"],
            stdin=theirs,
            capture_output=True,
            timeout=300,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code
    assert b"This will remove 1 commit from main. Continue?" in done.stderr
    assert tip(own_example.path) == own_example.ids()[1 if code == 0 else 2]


def test_what_is_not_there_is_an_error(own_example: Example) -> None:
    repo = own_example.path
    assert "'nope' is not a branch" in fails("revert", repo, "nope")[0]
    assert "not in the history" in fails("revert", repo, "main", "--branch", "old")[0]
    assert "nope" in fails("merge", repo, "nope")[0]
    assert "comes before" in fails("squash", repo, "main", "v1", "-m", "x", "--yes")[0]
    assert frazil("squash", repo, "main").code == 2  # no message
