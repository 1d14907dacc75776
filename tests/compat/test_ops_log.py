"""The ops log across its pages, with both engines writing."""

from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

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
            now = datetime.now(UTC)
            summary = OURS.open(tmp_path).garbage_collect(
                now, safety_age=timedelta(0), backups_older_than=now
            )
            assert summary.backups_deleted or page == 1
            expected.append("GCRan")
        ours, reference = history_of(OURS.open(tmp_path)), history_of(REFERENCE.open(tmp_path))
        assert_same(ours, reference, f"after {i + 1} operations")
        for engine in (OURS, REFERENCE):
            kinds = [plain_update(update)["kind"] for update in engine.open(tmp_path).ops_log()]
            assert kinds == expected[::-1], engine.name
    log = [plain_update(update) for update in OURS.open(tmp_path).ops_log()]
    times = [str(update["updated_at"]) for update in log]
    assert times == sorted(set(times), reverse=True)


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
