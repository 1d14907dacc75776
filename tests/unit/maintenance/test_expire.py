"""Expiring snapshots: what frazil adds to the reference, which tests/compat compares."""

from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import frazil
from frazil.engine import repository as engine
from frazil.format.generation import Generation
from frazil.format.repo_info import RepoInfo
from frazil.maintenance import expire
from frazil.objectstore.local import LocalStore
from tests.overtaking import OvertakenStore
from tests.unit.maintenance.repositories import Kept

VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_the_newest_few_of_each_branch_stay_however_old(version: int) -> None:
    kept = Kept(version)
    ids = [kept.commit(f"m{at}") for at in range(5)]
    kept.repository.create_branch("side", ids[1])
    kept.commit("s0", branch="side")
    expired = kept.repository.expire_snapshots(kept.later(days=1), retain_last=2)
    assert kept.messages() == ["m4", "m3", "m1"]  # which stays for the sake of the other branch
    assert kept.messages("side") == ["s0", "m1"]
    assert expired == {ids[0], ids[2]}


@VERSIONS
def test_snapshots_can_be_expired_one_by_one(version: int) -> None:
    kept = Kept(version)
    ids = [kept.commit(f"m{at}") for at in range(5)]
    assert kept.repository.expire_snapshots(None, snapshot_ids=[ids[1], ids[3]]) == {
        ids[1],
        ids[3],
    }
    assert kept.messages() == ["m4", "m2", "m0"]
    kept.repository.garbage_collect(kept.later(days=1))
    assert kept.messages() == ["m4", "m2", "m0"]


@VERSIONS
def test_the_tip_of_main_and_the_first_snapshot_stay_even_if_named(version: int) -> None:
    kept = Kept(version)
    only = kept.commit("m0")
    first = list(kept.repository.ancestry(branch="main"))[-1].id
    kept.repository.expire_snapshots(None, snapshot_ids=[only, first])
    assert kept.messages() == ["m0"]
    assert kept.read() == [2, -1, -1, -1, -1, -1, -1, -1]


@VERSIONS
def test_protected_refs_stay_with_all_of_their_history(version: int) -> None:
    kept = Kept(version)
    ids = [kept.commit(f"m{at}") for at in range(4)]
    kept.repository.create_tag("release-1", ids[1])
    kept.repository.create_tag("nightly", ids[2])
    kept.repository.create_branch("keep-me", ids[0])
    kept.repository.create_branch("other", ids[2])
    kept.repository.expire_snapshots(
        kept.later(days=1),
        delete_expired_branches=True,
        delete_expired_tags=True,
        protect_branches=["keep-*"],
        protect_tags=["release-*"],
    )
    assert kept.repository.list_branches() == {"main", "keep-me"}
    assert kept.repository.list_tags() == {"release-1"}
    assert [each.message for each in kept.repository.ancestry(tag="release-1")][:-1] == ["m1", "m0"]
    assert kept.messages() == ["m3", "m1", "m0"]


def test_a_dry_run_changes_nothing() -> None:
    kept = Kept()
    ids = [kept.commit(f"m{at}") for at in range(3)]
    before = kept.store.get("repo").data
    assert kept.repository.expire_snapshots(kept.later(days=1), dry_run=True) == set(ids[:2])
    assert kept.store.get("repo").data == before


def test_changes_of_expired_snapshots_are_still_in_the_diff() -> None:
    kept = Kept()
    first = list(kept.repository.ancestry(branch="main"))[-1].id
    for at in range(4):
        kept.commit(f"m{at}", at=at)
    before = kept.repository.diff(from_snapshot_id=first, to_branch="main")
    kept.repository.expire_snapshots(kept.later(days=1))
    kept.repository.garbage_collect(kept.later(days=1))
    assert kept.messages() == ["m3"]
    assert kept.repository.diff(from_snapshot_id=first, to_branch="main") == before


def test_something_to_expire_must_be_named() -> None:
    with pytest.raises(frazil.InvalidInputError, match="by age, or by snapshot ids"):
        Kept().repository.expire_snapshots(None)
    kept = Kept()
    with pytest.raises(frazil.InvalidInputError, match="retain_last"):
        kept.repository.expire_snapshots(kept.clock.now, retain_last=-1)


@VERSIONS
def test_an_unknown_snapshot_cannot_be_expired(version: int) -> None:
    unknown = "ZZZZZZZZZZZZZZZZZZZG"
    with pytest.raises((frazil.NotFoundError, frazil.StorageError)):
        Kept(version).repository.expire_snapshots(None, snapshot_ids=[unknown])


async def test_expiring_can_be_awaited() -> None:
    kept = Kept()
    ids = [kept.commit(f"m{at}") for at in range(2)]
    assert await kept.repository.expire_snapshots_async(kept.later(days=1)) == {ids[0]}


def test_older_generations_are_to_be_migrated_first(tmp_path: Path) -> None:
    repository = engine.Repository.create(
        LocalStore(tmp_path), generation=Generation.A2E, spec_version=1
    )
    old = frazil.Repository(repository, frazil.in_memory_storage())
    now = datetime.now(UTC)
    for refused in (old.expire_snapshots, old.garbage_collect):
        with pytest.raises(frazil.FormatError, match="migrate it first"):
            refused(now)
    assert old.chunk_storage_stats().total_bytes() == 0
    assert old.stats().references == 0


def test_a_plan_is_made_once_if_nothing_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    ids = [kept.commit(f"m{at}") for at in range(3)]
    plan, made = expire._plan, list[expire.ExpirePlan]()

    def counted(info: RepoInfo, request: expire.ExpireRequest) -> expire.ExpirePlan:
        made.append(plan(info, request))
        return made[-1]

    monkeypatch.setattr(expire, "_plan", counted)
    assert kept.repository.expire_snapshots(kept.later(days=1)) == set(ids[:2])
    assert kept.messages() == ["m2"]
    assert len(made) == 1


@VERSIONS
def test_a_branch_that_was_committed_to_since_the_plan_stays(version: int) -> None:
    """In version 1 unless it is in the very moment: stores delete without comparing."""
    lost = list[int]()
    for moment in count():
        kept = Kept(version)
        kept.repository.create_branch("side", kept.commit("m0"))
        kept.commit("old", branch="side")
        limit = kept.later(days=1)
        kept.clock.now_us += 10 * 24 * 3600 * 1_000_000
        store = OvertakenStore(kept.store)
        opened = engine.Repository.open(store, clock=kept.clock)
        ours = frazil.Repository(opened, frazil.in_memory_storage())
        committed = list[str]()
        store.arm(moment, partial(_commit_if_there, kept, committed))
        ours.expire_snapshots(limit, delete_expired_branches=True)
        if not store.was_overtaken:
            break
        if committed and "side" not in kept.repository.list_branches():
            lost.append(moment)
    assert len(lost) <= (4 if version == 1 else 0)


def _commit_if_there(kept: Kept, committed: list[str]) -> None:
    if "side" in kept.repository.list_branches():
        committed.append(kept.commit("young", branch="side"))
