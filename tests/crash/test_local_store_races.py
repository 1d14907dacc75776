"""The local store's compare-and-swap, among processes that race and die."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKERS = Path(__file__).with_name("local_store_workers.py")


def fight(name: str, scratch: Path, *options: str) -> dict[str, Any]:
    """What the processes of `local_store_workers.py` report."""
    command = [sys.executable, "-W", "error", str(WORKERS), name, str(scratch), *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@pytest.mark.parametrize("options", [["--each", "100"], ["--each", "25", "--fsync"]])
def test_no_increment_is_lost_among_processes(tmp_path: Path, options: list[str]) -> None:
    result = fight("count", tmp_path, *options)
    assert result["counter"] == result["successes"]


@pytest.mark.parametrize("store", ["without-lock", "comparing-too-early"])
def test_a_store_with_a_planted_bug_is_seen_losing_increments(tmp_path: Path, store: str) -> None:
    """The proof that the test above can fail."""
    result = fight("count", tmp_path, "--each", "25", "--store", store)
    assert result["counter"] < result["successes"]


@pytest.mark.parametrize("options", [[], ["--fsync"]], ids=["fast", "fsync"])
def test_killed_writers_lose_nothing_and_block_nobody(tmp_path: Path, options: list[str]) -> None:
    result = fight("storm", tmp_path, "--least", "100", *options)
    assert result["kills"] >= 100
    assert result["acknowledged"] >= 100
    # A writer may die after its write and before it says so, at most once in its life.
    least = result["acknowledged"]
    assert least <= result["counter"] <= least + result["kills"]
    assert result["proceeds"]
    assert result["proceeds_after_s"] < 60
    assert result["listed"] == ["deep/down/counter"]
    assert result["young_leftovers_removed"] == 0
    assert result["files"] == [".frazil.lock", "counter"]


@pytest.mark.parametrize("options", [[], ["--fsync", "--rounds", "30"]], ids=["fast", "fsync"])
def test_of_creating_processes_exactly_one_wins(tmp_path: Path, options: list[str]) -> None:
    result = fight("create", tmp_path, *options)
    assert result["whole"]
    assert result["winners"] == [[stored] for stored in result["stored"]]


def test_a_store_that_creates_by_rename_is_seen_with_several_winners(tmp_path: Path) -> None:
    """The proof that the test above can fail."""
    result = fight("create", tmp_path, "--store", "creating-by-rename")
    assert any(len(winners) > 1 for winners in result["winners"])
