from datetime import datetime

import pytest

from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


def test_log_shows_snapshots_newest_first(example: Example) -> None:
    header, *rows = succeeds("log", example.path).lines
    assert header.split()[0] == "snapshot"
    assert [row.split()[0] for row in rows] == example.ids()[::-1]
    assert rows[0].endswith("second day")
    assert rows[1].endswith("first [day]")


def test_log_as_json_has_everything(example: Example) -> None:
    newest, first, initial = succeeds("log", example.path, "--json").json
    assert (first["snapshot_id"], first["parent_id"]) == (example.ids()[1], example.ids()[0])
    assert first["message"] == "first [day]"
    assert first["metadata"]["source"] == "test"
    assert initial["parent_id"] is None
    times = [datetime.fromisoformat(each["written_at"]) for each in (newest, first, initial)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("options", "count"),
    [(["--branch", "old"], 2), (["--tag", "v1"], 2), (["-n", "1"], 1), (["--limit", "9"], 3)],
)
def test_log_starts_where_it_is_told(example: Example, options: list[str], count: int) -> None:
    assert len(succeeds("log", example.path, "--json", *options).json) == count


def test_log_of_a_snapshot(example: Example) -> None:
    (only,) = succeeds("log", example.path, "--json", "--snapshot", example.ids()[0]).json
    assert only["snapshot_id"] == "1CECHNKREP0F1RSTCMT0"


def test_log_wants_one_version_at_most(example: Example) -> None:
    answer = frazil("log", example.path, "--branch", "main", "--tag", "v1")
    assert answer.code == 2
    assert "one of --branch, --tag and --snapshot" in answer.err


def test_what_is_not_there_is_named(example: Example, tmp_path: object) -> None:
    assert fails("log", tmp_path)[0] == f"error: there is no repository at {tmp_path}"
    assert "frazil init" in fails("log", tmp_path)[1]
    assert "nope" in fails("log", example.path, "--branch", "nope")[0]
    assert "nope" in fails("log", example.path, "--tag", "nope")[0]
    assert "snapshot" in fails("log", example.path, "--snapshot", "0" * 20)[0]
    assert "snapshot id" in fails("log", example.path, "--snapshot", "!")[0]
