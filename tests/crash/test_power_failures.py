"""The power fails: what was reported is on the disk, and the rest is whole or not there.

The disk is simulated, and forgets whatever was not synced. All operations: `make reliability`.
"""

from pathlib import Path

import pytest

from frazil.objectstore import LocalStore
from frazil.objectstore.local.local_directories import Durability, sync_file
from tests.crash.power import durable, failures, losses
from tests.crash.suffering import every

SOME = 6  # of the failures that are looked at, of each operation


@pytest.mark.parametrize(
    "name", ["commit", "commit_v1", "refs", "expire_and_collect", "create", "purge"]
)
def test_a_power_failure_takes_nothing_that_was_reported(tmp_path: Path, name: str) -> None:
    states, left = failures(name, tmp_path)
    assert len(left) > SOME
    chosen = [left[number] for number in every(len(left), SOME)]
    assert list(losses(name, states, chosen, tmp_path)) == []


class WithoutSync(LocalStore):
    """A planted bug: what the entry point refers to may still be lost with the power."""

    def _make_durable(self, *temporary: str) -> None:
        for path in temporary:
            sync_file(path)


class WithoutNames(LocalStore):
    """A planted bug: contents are durable, the names of new files are not."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._durability = ContentsOnly(self.root)


class ContentsOnly(Durability):
    def _directories_of(self, *_: object) -> tuple[set[str], set[str]]:
        return set(), set()


def unsynced(path: Path) -> LocalStore:
    """A planted bug: nothing is synced at all."""
    return LocalStore(path, fsync=False)


@pytest.mark.parametrize("make", [unsynced, WithoutSync, WithoutNames])
def test_a_missing_sync_is_found_out(tmp_path: Path, make: type[LocalStore]) -> None:
    states, left = failures("commit", tmp_path, make, chances=0)
    assert next(losses("commit", states, left[::-1], tmp_path), None) is not None


def test_without_the_planted_bug_nothing_is_found(tmp_path: Path) -> None:
    states, left = failures("commit", tmp_path, durable, chances=0)
    assert list(losses("commit", states, left[-3:], tmp_path)) == []
