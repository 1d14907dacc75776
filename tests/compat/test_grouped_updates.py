"""Several commits in one swap of `repo`, as group commit would make them (docs/design/035).

Entries of the ops log inside of such a group cite no backup: there is no file in which one of them
is the newest. Both engines must read the log whole, and go on from it with pages of any size.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from frazil.clock import system_clock
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.commit.commit import CommitRequest, write_files
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import backup_name
from frazil.engine.files.settings import DEFAULT
from frazil.engine.refs import ancestry
from frazil.format.update_log import NewCommit, Update, UpdateLog
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore
from tests.compat.driver import OURS, REFERENCE, Engine, assert_same, history_of, plain_update


def commit_together(root: Path, messages: list[str], *, page: int, cite: bool = False) -> None:
    """One swap with a commit for each message; `cite`: each entry cites the one backup."""
    files = Files(LocalStore(root), DEFAULT)
    old = files.fetch_to_replace()
    info, now_us = old.info, system_clock()
    backup = backup_name(now_us)
    log = UpdateLog.of(info.updates)
    newest_us, entries = max(now_us, log.newest_us + 1), list[Update]()
    tip = files.fetch_snapshot(ancestry.snapshot_id(info, info.branches["main"]))
    with files.outgoing() as outgoing:
        for number, message in enumerate(messages):
            request = CommitRequest(
                branch="main",
                base=tip,
                changes=ChangeSet(tip.nodes),
                message=message,
                metadata={},
            )
            parent, new_id = tip.id, SnapshotId.random()
            tip = write_files(files, system_clock, request, new_id, outgoing)
            info = info.with_snapshot(new_id, parent, tip.flushed_at_us, message, {})
            info = info.with_branch("main", new_id)
            cited = backup if cite and number < len(messages) - 1 else None
            entries.insert(0, Update(NewCommit("main", new_id), newest_us + number, cited))
        first_page, dropped = UpdateLog.of((*entries, *log.found_in(backup))).first_page(page)
        info = replace(info, updates=first_page, before_updates=dropped or info.before_updates)
        files.replace_repo_info(old, info, backup=backup, ready=outgoing.settle)


def messages_of(engine: Engine, root: Path) -> list[str]:
    repo = engine.open(root)
    return [each.message for each in repo.ancestry(branch="main")][::-1]


def log_of(engine: Engine, root: Path) -> list[dict[str, object]]:
    """Without names of backups: the reference shows the file of a page where none is cited."""
    updates = [plain_update(update) for update in engine.open(root).ops_log()]
    return [{name: update[name] for name in update if name != "backup_path"} for update in updates]


def history_without_log(engine: Engine, root: Path) -> dict[str, object]:
    history = history_of(engine.open(root))
    del history["ops log"]
    return history


@pytest.mark.parametrize("page", [1, 3, 7])
def test_commits_of_one_swap_are_one_commit_each_for_both_engines(
    page: int, tmp_path: Path
) -> None:
    rng = random.Random(page)
    OURS.create(tmp_path, config=OURS.config(num_updates_per_repo_info_file=page))
    expected = ["Repository initialized"]
    for turn in range(8):
        if rng.random() < 0.4:
            messages = [f"{turn}.{number}" for number in range(rng.randint(1, 9))]
            commit_together(tmp_path, messages, page=page)
        else:
            messages = [f"{turn}"]
            writer = rng.choice([OURS, REFERENCE]).open(tmp_path)
            writer.writable_session("main").commit(messages[0], allow_empty=True)
        expected += messages
        ours, reference = (history_without_log(each, tmp_path) for each in (OURS, REFERENCE))
        assert_same(ours, reference, f"after turn {turn}")
        assert messages_of(REFERENCE, tmp_path) == expected
        log = log_of(OURS, tmp_path)
        assert_same(log, log_of(REFERENCE, tmp_path), f"after turn {turn}")
        assert len(log) == len(expected)


def test_entries_that_all_cite_the_one_backup_would_be_lost(tmp_path: Path) -> None:
    OURS.create(tmp_path, config=OURS.config(num_updates_per_repo_info_file=6))
    lost = {OURS.name: 0, REFERENCE.name: 0}
    commit_together(tmp_path, ["a", "b", "c", "d"], page=6, cite=True)
    for number in range(8):
        writer = REFERENCE.open(tmp_path).writable_session("main")
        writer.commit(f"{number}", allow_empty=True)
        for engine in (OURS, REFERENCE):
            lost[engine.name] += (number + 6) - len(log_of(engine, tmp_path))
    assert min(lost.values()) > 0


def test_the_reference_leaves_staged_objects_alone(tmp_path: Path) -> None:
    """They are below a prefix that the specification does not have."""
    OURS.create(tmp_path)
    store = LocalStore(tmp_path)
    store.put("staged/main/1.TICKET", b"changes")
    repo = REFERENCE.open(tmp_path)
    repo.writable_session("main").commit("one", allow_empty=True)
    late = datetime.now(UTC) + timedelta(days=1)
    repo.expire_snapshots(late)
    repo.garbage_collect(late)
    assert store.get("staged/main/1.TICKET").data == b"changes"
    assert messages_of(OURS, tmp_path) == messages_of(REFERENCE, tmp_path)
