"""The check tells a store that keeps its promise from stores that do not."""

import time
from collections.abc import Buffer
from pathlib import Path

import pytest

from frazil.errors import PreconditionFailedError, ReadOnlyError, StorageError
from frazil.objectstore import (
    ALWAYS,
    LocalStore,
    Matches,
    MemoryStore,
    ObjectStore,
    Precondition,
    ReadOnly,
)
from frazil.objectstore.conditional_writes import check_conditional_writes


class IgnoresConditions(MemoryStore):
    """As rclone's S3 server, and several others, do."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        del when
        super().put(key, data)
        return self.get(key).version


class IgnoresMatches(MemoryStore):
    """Refuses to create twice, and replaces blindly."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        version = super().put(key, data, when=ALWAYS if isinstance(when, Matches) else when)
        return version or self.get(key).version


class LooksThenWrites(MemoryStore):
    """Right one at a time; between looking and writing others do the same."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        found = any(info.key == key for info in self.list(key))
        if isinstance(when, Matches):
            refused = not found or self.get(key).version != when.version
        else:
            refused = when != ALWAYS and found
        if refused:
            raise PreconditionFailedError(key, "another state")
        time.sleep(0.001)
        super().put(key, data)
        return self.get(key).version


@pytest.mark.parametrize("where", ["memory", "local"])
def test_a_store_that_keeps_its_promise_has_no_problems(tmp_path: Path, where: str) -> None:
    store = MemoryStore() if where == "memory" else LocalStore(tmp_path, fsync=False)
    store.put("mine", b"kept")
    assert check_conditional_writes(store) == []
    assert [info.key for info in store.list()] == ["mine"]


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (IgnoresConditions(), "created although there was one"),
        (IgnoresMatches(), "replaced although it had changed"),
        (LooksThenWrites(), "of 8 writers at once"),
    ],
    ids=["ignores conditions", "ignores matches", "looks then writes"],
)
def test_a_store_that_does_not_is_found_out(store: ObjectStore, said: str) -> None:
    problems = check_conditional_writes(store, under="repo/check")
    assert any(said in problem for problem in problems)
    assert all(problem.startswith("repo/check/") for problem in problems)
    assert list(store.list()) == []


def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadOnlyError):
        check_conditional_writes(ReadOnly(MemoryStore()))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        check_conditional_writes(LocalStore(tmp_path / "file"))
