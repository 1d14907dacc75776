"""The ops log across its pages, with both engines writing."""

import random
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from frazil.maintenance import gc
from tests.compat.driver import (
    INITIAL_SNAPSHOT,
    OURS,
    REFERENCE,
    Engine,
    assert_same,
    history_of,
    plain_update,
)

ORDERS = {"frazil": [OURS], "icechunk": [REFERENCE], "alternating": [OURS, REFERENCE]}


def operations(repo: Any, i: int) -> str:
    """Does the i-th of a cycle of unlike operations, and names its kind."""
    match i % 6:
        case 0:
            repo.create_branch(f"branch-{i}", INITIAL_SNAPSHOT)
            return "BranchCreated"
        case 1:
            repo.writable_session("main").commit(f"commit {i}", allow_empty=True)
            return "NewCommit"
        case 2:
            repo.create_tag(f"tag-{i}", repo.lookup_branch("main"))
            return "TagCreated"
        case 3:
            repo.reset_branch(f"branch-{i - 3}", repo.lookup_branch("main"))
            return "BranchReset"
        case 4:
            repo.delete_tag(f"tag-{i - 2}")
            return "TagDeleted"
        case _:
            repo.delete_branch(f"branch-{i - 5}")
            return "BranchDeleted"


@pytest.mark.parametrize("writers", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("page", [1, 2, 5])
@pytest.mark.parametrize("collected", [False, True], ids=["", "backups collected"])
def test_every_operation_is_found_across_the_pages(
    writers: list[Engine], page: int, tmp_path: Path, *, collected: bool
) -> None:
    turns = cycle(writers)
    creator = next(turns)
    creator.create(tmp_path, config=creator.config(num_updates_per_repo_info_file=page))
    expected = ["RepoInitialized"]
    for i in range(23):
        expected.append(operations(next(turns).open(tmp_path), i))
        if collected and i % 7 == 6:
            summary = collect(OURS.open(tmp_path), datetime.now(UTC))
            assert summary.backups_deleted
            expected.append("GCRan")
        ours, reference = history_of(OURS.open(tmp_path)), history_of(REFERENCE.open(tmp_path))
        assert_same(ours, reference, f"after {i + 1} operations")
        for engine in (OURS, REFERENCE):
            kinds = [plain_update(update)["kind"] for update in engine.open(tmp_path).ops_log()]
            assert kinds == expected[::-1], engine.name
    log = [plain_update(update) for update in OURS.open(tmp_path).ops_log()]
    times = [str(update["updated_at"]) for update in log]
    assert times == sorted(set(times), reverse=True)


def log_of(engine: Engine, root: Path) -> list[dict[str, object]]:
    """Without names of backups: the reference shows the file of a page where none is cited."""
    updates = [plain_update(update) for update in engine.open(root).ops_log()]
    return [{name: update[name] for name in update if name != "backup_path"} for update in updates]


@pytest.mark.parametrize("limit", [1, 6, 1000])
@pytest.mark.parametrize("page", [1, 3])
def test_merged_pages_are_read_by_both(
    limit: int, page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both engines write and collect, several collections in a row; merged entries cite none."""
    monkeypatch.setattr(gc, "_MERGED_ENTRIES", limit)
    monkeypatch.setattr(gc, "_SETTLED_AFTER_US", 0)
    rng, number = random.Random(10 * limit + page), 0
    OURS.create(tmp_path, config=OURS.config(num_updates_per_repo_info_file=page))
    expected = ["RepoInitialized"]
    for turn in range(12):
        writer = rng.choice([OURS, REFERENCE])
        for _ in range(rng.randint(0, 7)):
            expected.append(operations(writer.open(tmp_path), number))
            number += 1
        for _ in range(rng.randint(1, 2)):
            collect(OURS.open(tmp_path), datetime.now(UTC))
            expected.append("GCRan")
        if rng.random() < 0.5:
            REFERENCE.open(tmp_path).garbage_collect(datetime.now(UTC))
            expected.append("GCRan")
        log = log_of(OURS, tmp_path)
        assert_same(log, log_of(REFERENCE, tmp_path), f"turn {turn}")
        assert [update["kind"] for update in log] == expected[::-1]
        left = len(list((tmp_path / "overwritten").iterdir()))
        assert limit < 1000 or left <= 4


def collect(repo: Any, now: datetime) -> Any:
    return repo.garbage_collect(now, safety_age=timedelta(0), backups_older_than=now)


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_a_backup_with_the_whole_log_serves_as_repo(
    writer: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest one after a collection: whoever goes on from there divides the log, in vain."""
    monkeypatch.setattr(gc, "_SETTLED_AFTER_US", 0)
    OURS.create(tmp_path, config=OURS.config(num_updates_per_repo_info_file=3))
    expected = ["RepoInitialized"]
    expected += [operations(writer.open(tmp_path), number) for number in range(12)]
    collect(OURS.open(tmp_path), datetime.now(UTC))
    newest = min((tmp_path / "overwritten").iterdir())  # names count down
    (tmp_path / "repo").write_bytes(newest.read_bytes())
    for number in range(12, 20):
        expected.append(operations(writer.open(tmp_path), number))
        for engine in (OURS, REFERENCE):
            assert [each["kind"] for each in log_of(engine, tmp_path)] == expected[::-1]


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_every_backup_named_in_the_log_is_a_file(writer: Engine, tmp_path: Path) -> None:
    writer.create(tmp_path, config=writer.config(num_updates_per_repo_info_file=5))
    for i in range(12):
        operations(writer.open(tmp_path), i)
    paths = [update.backup_path for update in OURS.open(tmp_path).ops_log()]
    assert paths[0] is None
    assert {path for path in paths[1:] if path} == {
        entry.name for entry in (tmp_path / "overwritten").iterdir()
    }
