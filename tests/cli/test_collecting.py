"""`frazil stats`, `frazil expire` and `frazil gc`."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from frazil.cli.options import parse_duration, parse_moment
from frazil.clock import to_datetime
from frazil.objectstore.local import LocalStore
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


def soon() -> str:
    """A moment at which all that there is will be old."""
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def test_bytes_are_shown_for_each_ref_and_array(example: Example) -> None:
    found = succeeds("stats", example.path, "--json").json
    assert found["total"]["inlined_bytes"] > 0
    assert [(each.get("branch"), each.get("tag")) for each in found["refs"]] == [
        ("main", None),
        ("old", None),
        (None, "v1"),
    ]
    assert "/model/t2m" in [each["path"] for each in found["arrays"]]
    lines = succeeds("stats", example.path).lines
    assert lines[0].startswith("3 snapshots")
    assert any("/model/t2m" in line for line in lines)


def test_history_is_expired_and_its_files_collected(own_example: Example) -> None:
    repo, (_, first, _) = own_example.path, own_example.ids()
    arguments = ("--older-than", soon(), "--delete-branches", "--delete-tags")
    foreseen = succeeds("expire", repo, *arguments, "--dry-run").lines
    assert foreseen[0] == "1 snapshot would be expired"
    assert foreseen[2].split()[0] == first
    assert "pass --yes" in frazil("expire", repo, *arguments).err
    assert succeeds("expire", repo, *arguments, "--yes", "--json").json["expired_snapshot_ids"] == [
        first
    ]
    collecting = ("gc", repo, "--older-than", soon(), "--safety-age", "0")
    planned = succeeds(*collecting, "--dry-run", "--json").json
    assert planned["snapshots_deleted"] == 1
    assert "pass --yes" in frazil(*collecting).err
    done = succeeds(*collecting, "--yes", "--json").json
    assert {**done, "dry_run": True} == planned
    assert "0 snapshots" in succeeds(*collecting, "--dry-run").out


def test_what_a_session_may_need_is_not_collected_by_mistake(own_example: Example) -> None:
    refused = fails("gc", own_example.path, "--older-than", "1h", "--yes")
    assert "safety age" in refused[0]


def test_a_listing_in_a_file_is_used(own_example: Example, tmp_path: Path) -> None:
    listing = tmp_path / "listing.csv"
    store = LocalStore(own_example.path)
    store.put("chunks/ZZZZZZZZZZZZZZZZZZZG", b"garbage")
    with listing.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "size", "last_modified"])
        for info in store.list():
            time = to_datetime(info.modified_at_us).isoformat()
            writer.writerow([f"at/{info.key}", info.size_bytes, time])
    store.put("chunks/ZZZZZZZZZZZZZZZZZZYG", b"garbage that is not listed")
    arguments = ("--older-than", soon(), "--safety-age", "0", "--yes", "--json")
    found = succeeds(
        "gc", own_example.path, *arguments, "--inventory", listing, "--inventory-prefix", "at"
    ).json
    assert (found["chunks_deleted"], found["bytes_deleted"]) == (1, len("garbage"))


def test_something_to_expire_must_be_named(example: Example) -> None:
    assert "--older-than" in frazil("expire", example.path).err


def test_ages_are_spans_or_moments() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_moment("7d", now=now) == now - timedelta(days=7)
    assert parse_moment("1.5h", now=now) == now - timedelta(minutes=90)
    assert parse_moment("2026-01-30") == now - timedelta(days=1)
    assert parse_moment("2026-01-31T01:00+01:00") == now
    assert parse_duration("0") == timedelta()
    for wrong in ("soon", "7 days", ""):
        with pytest.raises(typer.BadParameter):
            parse_moment(wrong)
    with pytest.raises(typer.BadParameter):
        parse_duration("2026-01-30")
