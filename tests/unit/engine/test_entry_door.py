"""Every operation replaces the entry point only where it has read it, and after a backup of that.

`tests/test_architecture.py` checks in the source that there is one door; this is a run through it.
"""

from collections.abc import Buffer, Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import zarr

import frazil
from frazil.engine import repository as engine
from frazil.errors import ConflictError
from frazil.format.update_log import KINDS, UpdateKind
from frazil.ids import INITIAL_SNAPSHOT
from frazil.maintenance.repair.repair_store import repair
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Absent, Always, Matches, Precondition
from tests.overtaking import OvertakenStore, Write
from tests.verify.damages import DAMAGES

ENTRY = ("repo", "refs/", "config.yaml")


class Unconditional(MemoryStore):
    """A store that does not compare: what every test here must notice."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        del when
        return super().put(key, data)


class Forgetful(MemoryStore):
    """A store that loses backups."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        return "" if key.startswith("overwritten/") else super().put(key, data, when=when)


def check_writes(writes: list[Write]) -> list[str]:
    """Writes of the entry point that were not compared, or of which there was no backup."""
    wrong = []
    for write in writes:
        match write.when:
            case Absent():
                is_compared = write.replaced is None
            case Matches(version):
                is_compared = version == write.read
            case Always():  # deleting in version 1: stores cannot compare there
                is_compared = write.data is None and write.key != "repo"
        if not is_compared:
            wrong.append(f"{write.key} is written without comparing: {write.when}")
        is_replaced = write.data is not None and write.replaced is not None
        has_backups = write.key in ("repo", "config.yaml")
        if has_backups and is_replaced and write.replaced not in write.kept:
            wrong.append(f"{write.key} is replaced without a backup")
    return wrong


def edit(repo: frazil.Repository, name: str, branch: str = "main") -> str:
    session = repo.writable_session(branch)
    zarr.create_array(session.store, name=name, shape=(4,), chunks=(1,), dtype="i4")[:] = 1
    return session.commit(name)


def use_refs(repo: frazil.Repository) -> None:
    first = edit(repo, "a")
    repo.create_branch("dev", first)
    edit(repo, "b", "dev")
    repo.reset_branch("dev", first)
    repo.create_tag("v1", first)
    repo.create_tag("gone", first)
    repo.delete_tag("gone")
    repo.create_branch("gone", first)
    repo.delete_branch("gone")
    repo.save_config()


def use_version_2(repo: frazil.Repository) -> None:
    """Operations that version 1 does not have, and those that are in the ops log of none."""
    repo.save_config()
    repo.create_branch("short-lived", repo.lookup_branch("main"))
    repo.delete_branch("short-lived")
    repo.set_metadata({"a": 1})
    repo.update_metadata({"b": 2})
    repo.set_feature_flag("move_node", setting=True)
    session = repo.writable_session("main")
    zarr.create_group(session.store, path="g")
    session.flush("detached")
    session = repo.writable_session("main")
    zarr.create_group(session.store, path="g")
    session.amend("amended")
    moving = repo.rearrange_session("main")
    moving.move("/g", "/h")
    moving.commit("moved")
    picked = edit(repo, "picked", "dev")
    repo.cherry_pick(picked, branch="main")
    repo.revert(repo.lookup_branch("main"), branch="main")
    edit(repo, "merged", "dev")
    repo.merge("dev", into="main")
    squashed = edit(repo, "squashed")
    edit(repo, "squashed-2")
    repo.squash(squashed, branch="main", message="squashed")
    repo.rewrite_manifests("rewritten", branch="main")
    repo.pack(branch="main")
    repo.unpack(branch="main")
    repo.purge_messages([repo.lookup_branch("main")])
    repo.purge_path("/picked")
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.online))


def maintain(repo: frazil.Repository) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    repo.expire_snapshots(later)
    repo.garbage_collect(later)


def use_everything(store: OvertakenStore[MemoryStore]) -> set[type[UpdateKind]]:
    """All operations of a repository from its creation in version 1 on; kinds of updates made."""
    storage = frazil.Storage(store)
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    old = frazil.Repository.create(storage, config, spec_version=1)
    use_refs(old)
    repo = frazil.upgrade_icechunk_repository(old, dry_run=False)
    use_version_2(repo)
    kinds = {type(update.kind) for update in repo.engine.ops_log()}
    maintain(repo)
    damage = next(each for each in DAMAGES if each.name == "branches in reverse")
    damage.plant(store.inner)
    assert repair(store).steps
    kinds |= {type(update.kind) for update in repo.engine.ops_log()}
    return kinds


def test_every_write_of_the_entry_point_is_compared_and_backed_up() -> None:
    store = OvertakenStore(MemoryStore(), recorded=ENTRY)
    assert use_everything(store) == {kind for kind in KINDS.values() if isinstance(kind, type)}
    assert check_writes(store.writes) == []
    assert sum(write.key == "repo" for write in store.writes) > 25


@pytest.mark.parametrize("spec_version", [1, 2])
def test_maintenance_compares_and_backs_up_in_either_version(spec_version: int) -> None:
    store = OvertakenStore(MemoryStore(), recorded=ENTRY)
    repo = frazil.Repository.create(frazil.Storage(store), spec_version=spec_version)
    use_refs(repo)
    maintain(repo)
    repo.save_config()
    assert check_writes(store.writes) == []


def test_a_backup_that_is_missing_is_noticed() -> None:
    store = OvertakenStore(Forgetful(), recorded=ENTRY)
    repo = frazil.Repository.create(frazil.Storage(store))
    edit(repo, "a")
    assert check_writes(store.writes) == ["repo is replaced without a backup"]


UPDATES: dict[str, Callable[[engine.Repository], object]] = {
    "commit": lambda ours: ours.writable_session("main").commit("ours", allow_empty=True),
    "amend": lambda ours: ours.writable_session("main").amend("ours", allow_empty=True),
    "branch": lambda ours: ours.create_branch("ours", INITIAL_SNAPSHOT),
    "tag": lambda ours: ours.create_tag("ours", INITIAL_SNAPSHOT),
    "metadata": lambda ours: ours.update_metadata({"ours": 1}),
    "config": lambda ours: ours.save_config(),
}


def lose_nothing(update: Callable[[engine.Repository], object], make: type[MemoryStore]) -> None:
    """Another client creates a tag and a branch at each moment of an update: all are there."""
    for moment in count():
        store = OvertakenStore(make())
        repository = engine.Repository.create(store)
        repository.writable_session("main").commit("base", allow_empty=True)
        theirs = engine.Repository.open(store.inner)
        updates = len(list(theirs.ops_log()))

        def overtake(theirs: engine.Repository = theirs) -> None:
            theirs.create_tag("theirs", INITIAL_SNAPSHOT)

        store.arm(moment, overtake)
        update(repository)
        if not store.was_overtaken:
            return
        assert "theirs" in theirs.tags(), moment
        assert len(list(theirs.ops_log())) == updates + 2


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_of_others_at_any_moment_is_not_overwritten(name: str) -> None:
    lose_nothing(UPDATES[name], MemoryStore)


@pytest.mark.parametrize("name", UPDATES)
def test_a_swap_that_does_not_compare_is_noticed(name: str) -> None:
    with pytest.raises(AssertionError):
        lose_nothing(UPDATES[name], Unconditional)


def test_of_two_repositories_created_at_once_one_is_there() -> None:
    for moment in count():
        store = OvertakenStore(MemoryStore())

        def overtake(store: OvertakenStore[MemoryStore] = store) -> None:
            engine.Repository.create(store.inner, check_clean_root=False).create_tag(
                "theirs", INITIAL_SNAPSHOT
            )

        store.arm(moment, overtake)
        try:
            engine.Repository.create(store, check_clean_root=False)
        except ConflictError:
            assert "theirs" in engine.Repository.open(store.inner).tags()
        if not store.was_overtaken:
            return
