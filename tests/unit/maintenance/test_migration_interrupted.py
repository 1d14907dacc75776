"""Migrations that are stopped at every point where they change anything, and taken up again."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from frazil.api import Repository, Storage
from frazil.errors import ConflictError
from frazil.maintenance.migrate.older import KEPT
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import ReadOnly, Verb
from frazil.testing.hooked_store import HookedStore
from tests.conformance.generations import ARCHIVES, repository_files
from tests.unit.maintenance.moved import commit, made, opened, seen

[A3E] = [name for name in ARCHIVES if name.startswith("A3e")]
SOURCES: dict[str, Callable[[], dict[str, bytes]]] = {
    "V1": lambda: stored(version_1()),
    "A1e": lambda: repository_files("A1e-synthetic"),
    "A3e": lambda: repository_files(A3E),
}


class PowerCutError(Exception):
    pass


class Failing(HookedStore[MemoryStore]):
    """`inner`, until so many changes were made."""

    def __init__(self, inner: MemoryStore, *, left: list[int]) -> None:
        super().__init__(inner, before=self._spend)
        self.left = left

    def delete(self, keys: Iterable[str]) -> int:
        return sum(HookedStore.delete(self, [key]) for key in keys)

    def _spend(self, verb: Verb, key: str) -> None:
        del key
        if verb not in {"put", "delete", "copy", "refresh"}:
            return
        if self.left[0] == 0:
            raise PowerCutError
        self.left[0] -= 1


@pytest.fixture(autouse=True)
def _no_notes_on_containers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="frazil")  # until the test ends


def version_1() -> MemoryStore:
    store = MemoryStore()
    made(store, spec_version=1)
    return store


def stored(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: bytes(store.get(info.key).data) for info in store.list()}


def filled(files: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for key, data in files.items():
        store.put(key, data)
    return store


def migrated(store: ObjectStore) -> None:
    repo = opened(store)
    if repo.spec_version < 2:
        repo.migrate()


def look(store: ObjectStore) -> object:
    """Messages and times of all refs; contents are compared elsewhere, and by the migration."""
    repo = opened(store)
    names = {"branch": repo.list_branches(), "tag": repo.list_tags()}
    return {
        (kind, name): [(i.message, i.written_at) for i in repo.ancestry(**{kind: name})]
        for kind in names
        for name in sorted(names[kind])
    }


@pytest.mark.parametrize("source", SOURCES)
def test_a_migration_may_stop_anywhere(source: str) -> None:
    files = SOURCES[source]()
    expected = look(filled(files))
    whole = filled(files)
    migrated(whole)
    steps = 0
    while True:
        store = filled(files)
        try:
            migrated(Failing(store, left=[steps]))
        except PowerCutError:
            stopped = True
        else:
            stopped = False
        kept = stored(store)
        assert {key: kept.get(key) for key in files} == files  # the old repository is all there
        assert look(store) == expected  # as the old one or as the new one
        migrated(store)
        assert look(store) == expected
        assert opened(store).spec_version == 2
        assert stored(store).keys() == stored(whole).keys()
        if not stopped:
            break
        steps += 1
    assert steps >= (1 if source == "V1" else 15)


@pytest.mark.parametrize("source", ["A2c", "A3e"])
def test_a_migration_to_version_1_may_stop_anywhere(source: str) -> None:
    files = repository_files(A3E if source == "A3e" else "A2c-synthetic")
    expected, left = look(filled(files)), [1000]
    opened(Failing(filled(files), left=left)).migrate(1)
    steps = 1000 - left[0]
    assert steps >= 15
    # Names of old files are taken at the end: there, every step; before, some.
    for number in {*range(0, steps, 9), *range(steps - 12, steps)}:
        store = filled(files)
        with pytest.raises(PowerCutError):
            opened(Failing(store, left=[number])).migrate(1)
        kept = stored(store)
        assert {key: kept.get(KEPT + key, kept.get(key)) for key in files} == files
        if opened(store).generation != "V1":
            opened(store).migrate(1)
        assert look(store) == expected
        assert opened(store).generation == "V1"
        opened(store).confirm_migration()
        assert look(store) == expected


@pytest.mark.parametrize("source", SOURCES)
def test_a_confirmation_may_stop_anywhere(source: str) -> None:
    first = filled(SOURCES[source]())
    migrated(first)
    files, expected = stored(first), look(first)
    opened(first).confirm_migration()
    for steps in range(1000):
        store = filled(files)
        try:
            opened(Failing(store, left=[steps])).confirm_migration()
        except PowerCutError:
            assert look(store) == expected
            opened(store).confirm_migration()
            assert stored(store).keys() == stored(first).keys()
        else:
            break
    assert steps > 5
    assert look(store) == expected


def test_an_old_repository_goes_on_between_two_tries() -> None:
    """Version 1 is written to until the new entry point is there, and read until it is gone."""
    store = version_1()
    with pytest.raises(PowerCutError):
        migrated(Failing(store, left=[0]))
    tip = commit(opened(store), "main", 9)
    late = opened(store)
    migrated(store)
    assert opened(store).lookup_branch("main") == tip
    with pytest.raises(ConflictError, match="migrated"):
        commit(late, "main", 10)


def test_an_export_may_stop_anywhere_and_a_copy_is_taken_up(tmp_path: Path) -> None:
    source = made(MemoryStore())
    whole = MemoryStore()
    source.clone_to(Storage(whole))
    for steps in range(1000):
        store = MemoryStore()
        try:
            source.clone_to(Storage(Failing(store, left=[steps])))
        except PowerCutError:
            assert not Repository.exists(Storage(store))
            source.clone_to(Storage(store))
            assert stored(store) == stored(whole)
        else:
            break
    assert steps == len(stored(whole))
    source.export_bundle(tmp_path / "b")
    with pytest.raises(PowerCutError):
        Repository.import_bundle(tmp_path / "b", Storage(Failing(store := MemoryStore(), left=[9])))
    Repository.import_bundle(tmp_path / "b", Storage(store))
    assert seen(opened(store)) == seen(source)


def test_nothing_is_written_to_a_store_that_cannot_be() -> None:
    with pytest.raises(Exception, match="read-only"):
        opened(ReadOnly(version_1())).migrate()
