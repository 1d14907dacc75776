"""Repositories that icechunk migrated from V1 keep files of spec 1 inside."""

from itertools import pairwise
from pathlib import Path

import icechunk
import zarr

from tests.compat.driver import (
    OURS,
    REFERENCE,
    array_values,
    assert_same,
    contents,
    diff_between,
    history_of,
)

COMMITS = 4


def migrated(root: Path) -> None:
    """A V1 history with two branches, tags, inline and native chunks, migrated to V2."""
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(root)), spec_version=1)
    for i in range(COMMITS):
        session = repo.writable_session("main")
        array = zarr.create_array(
            session.store, name=f"group-{i}/a", shape=(40, 30), chunks=(7, 30), dtype="f8"
        )
        array[...] = i + 0.5
        small = zarr.create_array(session.store, name=f"z{i}", shape=(3,), chunks=(1,), dtype="i2")
        small[:2] = i
        session.commit(f"commit {i}", metadata={"deep": {"i": [i, -i, i / 2, None, "é", True]}})
    tip = repo.lookup_branch("main")
    repo.create_branch("other", tip)
    for tag in ("kept", "gone"):
        repo.create_tag(tag, tip)
    repo.delete_tag("gone")
    icechunk.upgrade_icechunk_repository(repo, dry_run=False)


def test_a_migrated_repository_is_read_alike(tmp_path: Path) -> None:
    migrated(tmp_path)
    ours, reference = OURS.open(tmp_path), REFERENCE.open(tmp_path)
    assert_same(history_of(ours), history_of(reference), "history")
    ids = [info.id for info in ours.ancestry(branch="main")]
    assert len(ids) == COMMITS + 1
    for newer, older in pairwise(ids):
        assert_same(diff_between(ours, older, newer), diff_between(reference, older, newer), "diff")
        stores = [repo.readonly_session(snapshot_id=newer).store for repo in (ours, reference)]
        assert_same(contents(stores[0]), contents(stores[1]), "contents")
        assert_same(array_values(stores[0]), array_values(stores[1]), "values")


def test_a_migrated_repository_takes_commits_of_both(tmp_path: Path) -> None:
    migrated(tmp_path)
    for i, engine in enumerate([OURS, REFERENCE, OURS]):
        session = engine.open(tmp_path).writable_session("main")
        zarr.open_array(session.store, path="group-1/a")[i, :] = -i
        zarr.open_array(session.store, path="z0").resize((5 + i,))
        session.commit(f"after the migration {i}", metadata={"i": i})
        ours, reference = OURS.open(tmp_path), REFERENCE.open(tmp_path)
        assert_same(history_of(ours), history_of(reference), "history")
        stores = [repo.readonly_session("main").store for repo in (ours, reference)]
        assert_same(contents(stores[0]), contents(stores[1]), "contents")


def test_a_tag_deleted_before_the_migration_stays_deleted(tmp_path: Path) -> None:
    migrated(tmp_path)
    repo = OURS.open(tmp_path)
    assert repo.list_tags() == {"kept"}
    try:
        repo.create_tag("gone", repo.lookup_branch("main"))
    except OURS.module.AlreadyExistsError as error:
        assert error.kind == "tag-previously-deleted"  # noqa: PT017 - the class alone is not enough
    else:
        raise AssertionError("a deleted tag was created again")
