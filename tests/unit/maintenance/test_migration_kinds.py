"""Migrations from what frazil can write itself, and from early entry points of version 2."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import pytest
import zarr

from frazil.api import Repository, Storage, local_filesystem_storage
from frazil.api.values import AlphaVersion
from frazil.errors import InvalidInputError, SessionStateError
from frazil.maintenance.migrate.upgrade import plan_upgrade
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from tests.unit.generations.test_v2pre_repositories import early
from tests.unit.maintenance.moved import made, opened, seen


def theirs(root: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))


@pytest.mark.parametrize("document", ["alpha1", "alpha2"])
def test_what_the_documents_describe_is_migrated(document: AlphaVersion, tmp_path: Path) -> None:
    storage = local_filesystem_storage(tmp_path / "old")
    repo = Repository.create(storage, spec_version=document)
    for i in range(3):
        session = repo.writable_session("main")
        options: dict[str, Any] = {"dtype": "f8", "compressors": None}
        zarr.create_array(session.store, name=f"a{i}", shape=(90,), chunks=(80,), **options)[:] = i
        session.commit(f"commit {i}", metadata={"i": i})
    repo.create_tag("v1", repo.lookup_branch("main"))
    repo.create_branch("dev", repo.lookup_branch("main"))
    expected = seen(repo, ids=False)
    repo.migrate(storage=local_filesystem_storage(tmp_path / "copy"))
    assert seen(theirs(tmp_path / "copy"), ids=False) == expected
    done = repo.migrate()
    assert seen(theirs(tmp_path / "old"), ids=False) == expected
    assert done.snapshot_ids[repo.lookup_branch("main")] == opened(tmp_path / "old").lookup_tag(
        "v1"
    )
    opened(tmp_path / "old").confirm_migration()
    assert seen(theirs(tmp_path / "old"), ids=False) == expected


@pytest.mark.parametrize("first", [0, 1])
def test_early_entry_points_of_version_2_are_migrated_in_place(first: int, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    repo = made(store)
    expected = seen(repo, ids=False)
    data = early(repo.engine.repo_info(), first=first)
    store.put("repo", data)
    before = {info.key: bytes(store.get(info.key).data) for info in store.list()}
    opened(tmp_path).migrate(dry_run=True)
    assert {info.key for info in store.list()} == before.keys()
    with pytest.raises(InvalidInputError, match="no way back"):
        opened(tmp_path).migrate(1)
    done = opened(tmp_path).migrate()
    assert (done.generation, done.in_place, done.copied) == ("V2pre", True, 0)
    for found in (opened(tmp_path), theirs(tmp_path)):
        assert seen(found, ids=False) == expected
    before["migration/kept/repo"] = before.pop("repo")
    assert {key: bytes(store.get(key).data) for key in before} == before
    with pytest.raises(SessionStateError, match="confirm"):
        opened(tmp_path).garbage_collect(datetime.now(UTC))
    opened(tmp_path).confirm_migration()
    assert seen(theirs(tmp_path), ids=False) == expected
    assert opened(tmp_path).verify().errors == []
    kept = {info.key for info in store.list()} & before.keys()
    assert {key.partition("/")[0] for key in kept} == {"chunks"}


@pytest.mark.parametrize("first", [0, 1])
def test_early_entry_points_of_version_2_are_migrated_to_another_place(
    first: int, tmp_path: Path
) -> None:
    store = MemoryStore()
    repo = made(store)
    expected = seen(repo)
    store.put("repo", early(repo.engine.repo_info(), first=first))
    old = opened(store)
    assert old.generation == "V2pre"
    old.migrate(storage=Storage(LocalStore(tmp_path)))
    assert seen(theirs(tmp_path)) == expected
    assert opened(tmp_path).inspect_repo_info()["deleted_tags"] == ["gone"]


def test_other_generations_are_told_apart_from_version_1() -> None:
    storage = Storage(MemoryStore())
    repo = Repository.create(storage, spec_version="alpha2")
    with pytest.raises(SessionStateError, match="can only migrate"):
        plan_upgrade(repo.engine)
    with pytest.raises(InvalidInputError, match="frazil migrate"):
        repo.clone_to(Storage(MemoryStore()))
    with pytest.raises(InvalidInputError, match="frazil migrate"):
        repo.clone_to(Storage(MemoryStore()), paths=["a"])
