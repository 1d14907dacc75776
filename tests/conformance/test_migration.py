"""Repositories of every generation, migrated, and then read by the reference."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import icechunk
import pytest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import ConflictError, IcechunkError, InvalidInputError
from frazil.maintenance.migrate.older import KEPT
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.local import LocalStore
from tests.compat.driver import keys_of
from tests.conformance.generations import ARCHIVES, description, put, repository_files
from tests.conformance.test_v1_repositories import ORDERS, described, unpacked

type Seen = dict[str, Any]
LAYOUTS = ("A1e", "A2c", "A2f", "A3e", "V1pre1")  # one of each, for what takes long
IN_PLACE = (*LAYOUTS, "A2d", "A2h", "V1pre2")
NO_VIRTUAL_ACCESS = "virtual, and not ours to read"


@pytest.fixture(autouse=True)
def _no_notes_on_containers() -> None:
    """Old configurations have containers that nobody could ever use, and opening says so."""
    logging.getLogger("frazil").setLevel(logging.ERROR)


def ours(root: Path) -> Repository:
    return Repository.open(local_filesystem_storage(root))


def theirs(root: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))


def seen(repo: Any) -> Seen:
    """Every ref with its history, and every byte of every snapshot."""
    known: dict[str, Any] = {}
    found: Seen = {}
    for kind, names in (("branch", repo.list_branches()), ("tag", repo.list_tags())):
        for name in sorted(names):
            history = list(repo.ancestry(**{kind: name}))
            for info in history:
                if info.id not in known:
                    known[info.id] = contents(repo.readonly_session(snapshot_id=info.id).store)
            found[f"{kind}:{name}"] = [
                (i.message, i.written_at, json.dumps(i.metadata, sort_keys=True), known[i.id])
                for i in history
            ]
    return found


def contents(store: Any) -> dict[str, Any]:
    return {key: value(store, key) for key in sorted(keys_of(store))}


def value(store: Any, key: str) -> Any:
    try:
        buffer = sync(store.get(key, default_buffer_prototype()))
    except (icechunk.IcechunkError, IcechunkError):
        assert "/c/" in key
        return NO_VIRTUAL_ACCESS
    data = buffer.to_bytes()
    return json.loads(data) if key.endswith("zarr.json") else data


def files(root: Path) -> dict[str, bytes]:
    return {
        one.relative_to(root).as_posix(): one.read_bytes()
        for one in root.rglob("*")
        if one.is_file() and one.name != ".frazil.lock"
    }


def assert_healthy(root: Path) -> None:
    assert [str(problem) for problem in verify(LocalStore(root)).errors] == []


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_generation_becomes_version_2(name: str, tmp_path: Path) -> None:
    root = put(repository_files(name), tmp_path / "repo")
    before, expected = files(root), seen(ours(root))
    assert sum(len(history) for history in expected.values()) > 4
    planned = ours(root).migrate(dry_run=True)
    assert files(root) == before
    done = ours(root).migrate()
    assert done.generation == name.partition("-")[0]
    assert (planned.snapshots, planned.manifests) == (done.snapshots, done.manifests)
    for repo in (ours(root), theirs(root)):
        assert seen(repo) == expected
        assert int(repo.spec_version) == 2
    kept = files(root)
    assert {path: kept.get(path) for path in before} == before  # the old one is all there

    assert ours(root).confirm_migration(dry_run=True).files > 0
    unconfirmed = ours(root).verify().problems  # of kept files, whatever their names, there is none
    ours(root).confirm_migration()
    assert ours(root).verify().problems == unconfirmed
    assert seen(theirs(root)) == expected
    assert ours(root).confirm_migration().files == 0
    assert_healthy(root)
    assert {path.partition("/")[0] for path in files(root)} == {
        *("repo", "snapshots", "manifests", "transactions", "chunks")
    }
    deleted = set(description(name).get("deleted_tags") or [])
    assert set(ours(root).inspect_repo_info()["deleted_tags"]) == deleted
    kinds = [type(update.kind).__name__ for update in theirs(root).ops_log()]
    assert kinds[0] == "RepoMigrated"
    assert kinds[-1] == "RepoInitialized"


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_generation_is_migrated_to_another_place(name: str, tmp_path: Path) -> None:
    root = put(repository_files(name), tmp_path / "repo")
    before, expected = files(root), seen(ours(root))
    for version in (1, 2) if name.startswith(LAYOUTS) else (2,):
        target = tmp_path / f"version {version}"
        done = ours(root).migrate(version, storage=local_filesystem_storage(target))
        assert done.snapshot_ids == {}  # nothing else has the names
        assert seen(theirs(target)) == expected
        assert int(ours(target).spec_version) == version
        assert_healthy(target)
        again = ours(root).migrate(version, storage=local_filesystem_storage(target))
        assert again.copied == 0
    assert files(root) == before


@pytest.mark.parametrize(("archive", "repo"), [(a, r) for a, r, _ in described()] + [
    (archive, ".") for archive in ORDERS
], ids=lambda one: str(one)[-40:])  # fmt: skip
def test_version_1_becomes_version_2(archive: Path, repo: str, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path) / repo
    before, expected = files(root), seen(ours(root))
    copy = tmp_path / "copy"
    ours(root).migrate(storage=local_filesystem_storage(copy))
    assert files(root) == before
    ours(root).migrate()
    assert {path: files(root).get(path) for path in before} == before
    for place in (root, copy):
        assert seen(ours(place)) == expected
        if archive not in ORDERS:  # icechunk does not find all nodes of these, in any version
            assert seen(theirs(place)) == expected
        assert_healthy(place)
    ours(root).confirm_migration()
    assert files(root).keys() >= files(copy).keys()  # what nothing refers to is not copied
    assert seen(ours(root)) == expected


@pytest.mark.parametrize("name", [name for name in ARCHIVES if name.startswith(IN_PLACE)])
def test_every_generation_becomes_version_1_in_place(name: str, tmp_path: Path) -> None:
    root = put(repository_files(name), tmp_path / "repo")
    before, expected = files(root), seen(ours(root))
    planned = ours(root).migrate(1, dry_run=True)
    assert files(root) == before
    done = ours(root).migrate(1)
    assert (planned.snapshots, planned.manifests) == (done.snapshots, done.manifests)
    for repo in (ours(root), theirs(root)):
        assert seen(repo) == expected
        assert int(repo.spec_version) == 1
    kept = files(root)
    found = {path: kept.get(KEPT + path, kept.get(path)) for path in before}
    assert found == before  # of the old one everything is there, if under another name
    ours(root).confirm_migration()
    assert seen(theirs(root)) == expected
    assert_healthy(root)
    assert {path.partition("/")[0] for path in files(root)} <= {
        *("config.yaml", "refs", "snapshots", "manifests", "transactions", "chunks")
    }
    for gone in description(name).get("deleted_tags") or []:
        repo = ours(root)
        with pytest.raises(IcechunkError, match="deleted"):
            repo.create_tag(gone, repo.lookup_branch("main"))
    ours(root).migrate()  # and on from there
    assert seen(theirs(root)) == expected


def test_commits_to_the_old_repository_are_not_thrown_away(tmp_path: Path) -> None:
    [name] = [name for name in ARCHIVES if name.startswith("A3e")]
    root = put(repository_files(name), tmp_path)
    ours(root).migrate()
    newest = min((root / "refs" / "branch.main").iterdir())
    shutil.copy(newest, newest.with_name("ZZZZZZ00.json"))
    with pytest.raises(ConflictError, match="ZZZZZZ00"):
        ours(root).confirm_migration()
    assert newest.exists()


def test_what_is_new_already_stays(tmp_path: Path) -> None:
    repo = Repository.create(local_filesystem_storage(tmp_path))
    with pytest.raises(InvalidInputError, match="already"):
        repo.migrate()
    assert repo.confirm_migration().files == 0
