"""Errors say what fits the trouble: the name that was meant, the reason, and JSON for programs."""

import errno
import json
import os
from pathlib import Path

import pytest

from frazil.cli.failure import describe
from frazil.errors import FormatError, StorageError
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["log", "{}", "--branch", "mian"], "main"),
        (["tree", "{}", "--tag", "v11"], "v1"),
        (["diff", "{}", "odl", "main"], "old"),
        (["merge", "{}", "odl"], "old"),
        (["show", "{}", "mian"], "main"),
        (["head", "{}", "/model/t2n"], "/model/t2m"),
        (["ls", "{}", "modell"], "/model"),
        (["branch", "create", "{}", "new", "mian"], "main"),
    ],
)
def test_the_name_that_was_perhaps_meant(example: Example, line: list[str], meant: str) -> None:
    words = [word.format(example.path) for word in line]
    assert fails(*words)[1:] == [f"hint: did you mean {meant!r}?"]


def test_nothing_alike_is_not_suggested(example: Example) -> None:
    assert "frazil branch list" in fails("log", example.path, "--branch", "zzz")[1]
    assert "frazil tree" in fails("head", example.path, "/zzz")[1]


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "not allowed"), (errno.EIO, "doctor")],
)
def test_the_reason_of_the_system_decides_on_the_hint(number: int, hint: str) -> None:
    error = StorageError("cannot write chunks/X")
    error.__cause__ = OSError(number, os.strerror(number))
    assert hint in (describe(error).hint or "")
    if hint != "doctor":
        assert hint in (describe(OSError(number, os.strerror(number), "file")).hint or "")


def test_damage_leads_to_verify(own_example: Example) -> None:
    repo = own_example.path
    for file in (repo / "snapshots").iterdir():
        file.write_bytes(file.read_bytes()[:60])
    assert "`frazil verify REPO`" in fails("tree", repo)[1]
    for file in (repo / "snapshots").iterdir():
        file.unlink()
    assert "`frazil verify REPO`" in fails("tree", repo)[1]


def test_a_damaged_source_is_not_the_repositorys() -> None:
    error = FormatError("day1.nc: not a NetCDF file")
    assert "--on-error skip" in (describe(error, "ingest").hint or "")


def test_a_missing_file_gets_no_hint_about_storage(own_example: Example, tmp_path: Path) -> None:
    lines = fails("write", own_example.path, "/a", tmp_path / "nope.csv")
    assert lines == [f"error: {tmp_path / 'nope.csv'}: No such file or directory"]


def test_errors_are_json_where_results_are(example: Example) -> None:
    answer = frazil("log", example.path, "--branch", "mian", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert json.loads(answer.err) == {
        "error": {
            "kind": "ref-not-found",
            "message": "ref not found `mian`",
            "hint": "did you mean 'main'?",
        },
        "exit_code": 1,
    }
    usage = frazil("log", "--json")
    assert usage.code == json.loads(usage.err)["exit_code"] == 2


def test_branches_and_tags_start_where_the_third_word_says(own_example: Example) -> None:
    repo, ids = own_example.path, own_example.ids()
    made = succeeds("branch", "create", repo, "early", "v1", "--json").json
    assert made == {"branch": "early", "snapshot_id": ids[1]}
    made = succeeds("tag", "create", repo, "v0", ids[0][:8], "--json").json
    assert made == {"tag": "v0", "snapshot_id": ids[0]}
    assert succeeds("branch", "create", repo, "late", "--json").json["snapshot_id"] == ids[2]
    twice = fails("branch", "create", repo, "twice", "v1", "--from", "main", code=2)
    assert "given twice" in twice[0]
