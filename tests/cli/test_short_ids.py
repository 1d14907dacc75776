"""Ids of snapshots may be abbreviated wherever an id is taken, as long as one snapshot fits."""

import pytest

from frazil.engine.repository import Repository
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore
from tests.cli.conftest import Example
from tests.cli.running import fails, succeeds


@pytest.mark.parametrize(
    "command",
    [
        ["show", "{}"],
        ["log", "--snapshot", "{}"],
        ["tree", "--snapshot", "{}"],
        ["ls", "--snapshot", "{}"],
        ["head", "/model/t2m", "--snapshot", "{}"],
        ["diff", "{}", "main"],
        ["diff", "{}~1", "main"],
        ["reset", "{}", "--dry-run"],
        ["export", "nowhere.bundle", "--since", "{}", "--dry-run"],
    ],
)
def test_a_short_id_is_as_good_as_the_whole(example: Example, command: list[str]) -> None:
    first = example.ids()[1]
    answers = [
        succeeds(command[0], example.path, *(word.format(text) for word in command[1:])).out
        for text in (first, first[:8], first[:8].lower())
    ]
    assert answers[0]
    assert answers[1:] == answers[:1] * 2


def test_an_ambiguous_id_names_the_candidates(
    own_example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository.open(LocalStore(str(own_example.path)))
    base = repository.lookup_branch("main").raw
    similar = [base[:8] + bytes([number, 0, 0, 0]) for number in range(1, 3)]
    with monkeypatch.context() as patched:
        patched.setattr(SnapshotId, "random", lambda: SnapshotId(similar.pop()))
        for _ in range(2):
            repository.writable_session("main").commit("similar", allow_empty=True)
    short = str(SnapshotId(base))[:8]
    for line in (["show", short], ["log", "--snapshot", short]):
        (error,) = fails(line[0], own_example.path, *line[1:])
        assert f"'{short}' is ambiguous: 3 snapshot ids begin with it" in error
        assert str(SnapshotId(base)) in error


def test_what_no_id_begins_with(example: Example) -> None:
    assert (
        "no snapshot id begins with '00000'" in fails("log", example.path, "--snapshot", "00000")[0]
    )
    assert "'000000' is not a branch" in fails("show", example.path, "000000")[0]
    # fewer than four letters name nothing: too many ids begin with them
    assert "is not a branch" in fails("show", example.path, example.ids()[1][:3])[0]
