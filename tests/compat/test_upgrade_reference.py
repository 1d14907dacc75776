"""Version 1 to version 2, by frazil and by icechunk, on copies of the same repository."""

import shutil
from functools import partial
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zarr
from hypothesis import given, settings

from frazil.engine.repository import Repository
from frazil.errors import ConflictError
from frazil.maintenance.migrate.upgrade import plan_upgrade, upgrade
from frazil.objectstore.local import LocalStore
from tests.compat.driver import (
    OURS,
    REFERENCE,
    UPDATE_FIELDS,
    Engine,
    Model,
    Player,
    array_values,
    assert_same,
    contents,
    diff_between,
    history_of,
)
from tests.compat.histories import histories
from tests.compat.steps import History
from tests.compat.test_v1_reference import in_ascii
from tests.conformance.test_v1_repositories import ORDERS, described, unpacked
from tests.examples_count import scaled
from tests.overtaking import OvertakenStore

BOTH = (OURS, REFERENCE)


def made(root: Path) -> None:
    """Branches that share commits, tags before and after deletion, times that are equal."""
    repo = REFERENCE.module.Repository.create(
        REFERENCE.storage(root),
        spec_version=1,
        config=REFERENCE.config(inline_chunk_threshold_bytes=10),
    )
    start = repo.lookup_branch("main")
    for name in ("zeta", "alpha", "aaaa"):
        repo.create_branch(name, start)
    commit(repo, "main", 0)
    shared = commit(repo, "zeta", 1)
    repo.reset_branch("alpha", shared)
    tip = commit(repo, "alpha", 2)
    repo.create_branch("short-lived", tip)
    for name in ("only a tag", "lost"):
        repo.create_tag(name, commit(repo, "short-lived", len(name)))
    repo.delete_branch("short-lived")
    for name in ("b", "a", "gone", "away"):
        repo.create_tag(name, start)
    for name in ("gone", "away", "lost"):
        repo.delete_tag(name)


def commit(repo: Any, branch: str, i: int) -> str:
    session = repo.writable_session(branch)
    array = zarr.create_array(session.store, name=f"a{i}", shape=(9, 2), chunks=(3, 2), dtype="f8")
    array[...] = i
    snapshot: str = session.commit(f"commit {i}", metadata={"i": [i, None, "é", i / 2]})
    return snapshot


def upgraded(engine: Engine, root: Path, **options: Any) -> Any:
    repo = engine.open(root)
    return engine.module.upgrade_icechunk_repository(repo, dry_run=False, **options)


def log_of(repo: Any) -> list[tuple[object, ...]]:
    """Kind, particulars and time of each entry; when it was migrated is not compared."""
    return [
        (
            type(update.kind).__name__,
            *(getattr(update.kind, name) for name in UPDATE_FIELDS[type(update.kind).__name__]),
            update.updated_at if at else None,
            update.backup_path,
        )
        for at, update in enumerate(repo.ops_log())
    ]


def info_of(repo: Any) -> dict[str, Any]:
    info: dict[str, Any] = repo.inspect_repo_info()
    return {k: info[k] for k in ("branches", "tags", "deleted_tags", "snapshots", "metadata")}


def files(root: Path) -> set[str]:
    found = {one.relative_to(root).as_posix() for one in root.rglob("*") if one.is_file()}
    return found - {".frazil.lock"}


def compared(root: Path, copy: Path) -> None:
    """Upgrades one repository in both ways and holds the results side by side."""
    shutil.copytree(root, copy)
    ours, theirs = upgraded(OURS, root), upgraded(REFERENCE, copy)
    assert files(root) == files(copy)
    for engine in BOTH:  # whichever reads
        one, other = engine.open(root), engine.open(copy)
        assert_same(log_of(one), log_of(other), "ops log")
        assert_same(info_of(one), info_of(other), "repo info")
        assert one.status.set_at == other.status.set_at
        assert int(one.spec_version) == 2
    fetch = REFERENCE.module.Repository.fetch_config
    saved = [fetch(REFERENCE.storage(place)) for place in (root, copy)]
    assert saved[0] == saved[1]
    assert_same(history_of(REFERENCE.open(root)), history_of(OURS.open(root)), "history")
    for info in ours.ancestry(branch="main"):
        stores = [repo.readonly_session(snapshot_id=info.id).store for repo in (ours, theirs)]
        assert_same(contents(stores[0]), contents(stores[1]), "contents")


def test_the_result_is_that_of_the_reference(tmp_path: Path) -> None:
    made(tmp_path / "repo")
    compared(tmp_path / "repo", tmp_path / "copy")
    repo = REFERENCE.open(tmp_path / "repo")
    assert [type(update.kind).__name__ for update in repo.ops_log()].count("NewCommit") == 3
    for i, engine in enumerate((OURS, REFERENCE, OURS)):  # and it goes on
        commit(engine.open(tmp_path / "repo"), "main", 100 + i)
    ours, theirs = OURS.open(tmp_path / "repo"), REFERENCE.open(tmp_path / "repo")
    assert_same(history_of(ours), history_of(theirs), "history")
    ids = [info.id for info in ours.ancestry(branch="main")]
    assert_same(diff_between(ours, ids[-1], ids[0]), diff_between(theirs, ids[-1], ids[0]), "diff")
    stores = [repo.readonly_session("main").store for repo in (ours, theirs)]
    assert_same(array_values(stores[0]), array_values(stores[1]), "values")


@settings(max_examples=scaled(15))
@given(histories(max_steps=8))
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_generated_histories_are_upgraded_alike(history: History) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory, "repo")
        OURS.module.Repository.create(OURS.storage(root), spec_version=1)
        model, player = Model(), Player(root)
        for step, engine in zip(map(in_ascii, history.steps), cycle(BOTH), strict=False):
            model.play(step)
            player.play(engine, step)
        compared(root, Path(directory, "copy"))


@pytest.mark.parametrize(("archive", "repo"), [(a, r) for a, r, _ in described()] + [
    (archive, ".") for archive in ORDERS
], ids=lambda one: str(one)[-40:])  # fmt: skip
def test_what_releases_wrote_is_upgraded_alike(archive: Path, repo: str, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path) / repo
    before = {
        info.id: contents(OURS.open(root).readonly_session(snapshot_id=info.id).store)
        for info in OURS.open(root).ancestry(branch="main")
        if archive in ORDERS  # of the others some chunks are virtual, in a bucket that is gone
    }
    compared_fixture(root, tmp_path / "copy")
    for snapshot, expected in before.items():
        found = contents(OURS.open(root).readonly_session(snapshot_id=snapshot).store)
        assert found == expected


def compared_fixture(root: Path, copy: Path) -> None:
    shutil.copytree(root, copy)
    upgraded(OURS, root)
    upgraded(REFERENCE, copy)
    one, other = REFERENCE.open(root), REFERENCE.open(copy)
    assert_same(log_of(one), log_of(other), "ops log")
    assert_same(info_of(one), info_of(other), "repo info")


def test_errors_and_dry_runs_are_those_of_the_reference(tmp_path: Path) -> None:
    told = []
    for engine in BOTH:
        root = tmp_path / engine.name
        made(root)
        before = files(root)
        repo = engine.open(root)
        dry = engine.module.upgrade_icechunk_repository(repo, dry_run=True)
        assert files(root) == before
        assert int(dry.spec_version) == int(repo.spec_version) == 1
        other = engine.module.Repository.open(
            engine.storage(root), engine.config(inline_chunk_threshold_bytes=77)
        )
        new = engine.module.upgrade_icechunk_repository(
            other, dry_run=False, delete_unused_v1_files=False, prefetch_concurrency=1
        )
        assert files(root) == {*before, "repo"}
        with pytest.raises(RuntimeError, match="invalidated by upgrade_icechunk_repository") as old:
            other.list_branches()
        with pytest.raises(engine.module.SessionStateError) as again:
            engine.module.upgrade_icechunk_repository(new, dry_run=True)
        told.append((str(old.value), again.value.kind, new.config.inline_chunk_threshold_bytes))
        assert "this function can only migrate" in str(again.value)
    assert told[0] == told[1]


def test_a_tag_whose_name_is_encoded_on_disk_is_not_lost(tmp_path: Path) -> None:
    """The reference drops it, and with it what only it leads to."""
    repo = OURS.module.Repository.create(OURS.storage(tmp_path), spec_version=1)
    tip = commit(repo, "main", 0)
    for name in ("täg ✓", "v1~rc"):
        repo.create_tag(name, tip)
    upgraded(OURS, tmp_path)
    assert REFERENCE.open(tmp_path).list_tags() == {"täg ✓", "v1~rc"}
    assert files(tmp_path).isdisjoint({one for one in files(tmp_path) if one.startswith("refs")})


def test_commits_to_version_1_meanwhile_are_not_thrown_away(tmp_path: Path) -> None:
    made(tmp_path)
    upgraded(OURS, tmp_path, delete_unused_v1_files=False)
    refs = {one: (tmp_path / one).read_bytes() for one in files(tmp_path) if "branch.main" in one}
    for path in refs:
        (tmp_path / path).write_bytes(b'{"snapshot":"AAAAAAAAAAAAAAAAAAA0"}')
    repo = OURS.open(tmp_path)
    with pytest.raises(OURS.module.ConflictError, match="AAAAAAAAAAAAAAAAAAA0"):
        repo.confirm_migration()
    for path, data in refs.items():
        (tmp_path / path).write_bytes(data)
    assert repo.confirm_migration().files > 0
    assert not any(one.startswith("refs/") for one in files(tmp_path))


def test_a_commit_of_the_reference_at_any_moment_of_an_upgrade_is_not_lost(tmp_path: Path) -> None:
    """It is in version 2, or noticed before the files of version 1 are deleted.

    The reference does not look whether the repository was migrated, so that it never raises.
    """
    made(source := tmp_path / "source")
    outcomes = set[str]()
    for moment in count():
        shutil.copytree(source, root := tmp_path / str(moment))
        store = OvertakenStore(LocalStore(str(root)))
        store.arm(moment, partial(commit, REFERENCE.open(root), "main", 77))
        upgrade(plan_upgrade(Repository.open(store)))
        if not store.was_overtaken:
            break
        outcomes.add(outcome_of(root))
    assert outcomes == {"migrated", "noticed"}


def outcome_of(root: Path) -> str:
    repo = OURS.open(root)
    if any(each.message == "commit 77" for each in repo.ancestry(branch="main")):
        return "migrated"
    try:
        repo.confirm_migration()
    except ConflictError:
        return "noticed"
    return "lost"
