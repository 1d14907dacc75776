"""Collections merge the pages of the ops log: no entry is lost, whatever happens meanwhile."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import frazil
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO
from frazil.engine.repository import Repository
from frazil.errors import PreconditionFailedError, StorageError
from frazil.format.repo_info import decode_log_page
from frazil.format.update_log import GCRan, Update
from frazil.ids import INITIAL_SNAPSHOT
from frazil.maintenance import gc
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.maintenance.repair.repair_store import repair
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Verb
from frazil.testing.hooked_store import HookedStore
from tests.overtaking import OvertakenStore
from tests.unit.maintenance.repositories import Ticking

DAY_US = 24 * 3_600_000_000
SMALL_PAGES = frazil.RepositoryConfig(num_updates_per_repo_info_file=3)


class Logged:
    """A repository with small pages of the ops log, by its own clock; and what is in the log."""

    def __init__(self, operations: int = 0) -> None:
        self.clock = Ticking()
        self.store = MemoryStore(clock=self.clock)
        Repository.create(self.store, SMALL_PAGES, clock=self.clock).save_config()
        self.operations = 0
        self.operate(operations)

    def open(self, store: ObjectStore | None = None) -> Repository:
        return Repository.open(store or self.store, clock=self.clock)

    def operate(self, count: int, store: ObjectStore | None = None) -> None:
        for _ in range(count):
            self.operations += 1
            self.open(store).create_branch(f"b{self.operations}", INITIAL_SNAPSHOT)

    def log(self) -> list[Update]:
        """Without the files, which depend on the pages."""
        return [replace(each, backup_path=None) for each in self.open().ops_log()]

    def collect(self, store: ObjectStore | None = None) -> frazil.GCSummary:
        """A day later, of all that there is before."""
        self.clock.now_us += DAY_US
        repository, now_us = self.open(store), self.clock.now_us
        request = GCRequest(cutoff_us=now_us, backups_us=now_us)
        executor = ThreadExecutor(repository.files)
        self.clock.now_us += DAY_US
        return collect_garbage(repository, plan_gc(repository, request, executor), executor)

    def backups(self) -> set[str]:
        return {info.key.removeprefix(OVERWRITTEN) for info in self.store.list(OVERWRITTEN)}

    def pages(self) -> list[int]:
        """Entries in each backup that the log goes on in."""
        sizes, name = [], self.open().repo_info().before_updates
        while name is not None:
            page = decode_log_page(self.store.get(OVERWRITTEN + name).data)
            sizes.append(len(page.updates))
            name = page.before_updates
        return sizes

    def copy(self) -> "Logged":
        same = Logged.__new__(Logged)
        same.clock = Ticking(self.clock.now_us)
        same.store = MemoryStore(clock=same.clock)
        for info in self.store.list():
            same.store.put(info.key, self.store.get(info.key).data)
        same.operations = self.operations
        return same


def test_one_backup_has_the_whole_log_and_the_others_go() -> None:
    logged = Logged(20)
    before = logged.log()
    backups = logged.backups()
    assert len(logged.pages()) == 7
    assert logged.collect().backups_deleted == len(backups)
    assert len(logged.backups()) == 2  # a copy of `repo`, and the same with the whole log
    assert logged.pages() == [len(before)]
    assert [each.kind for each in logged.log()] == [GCRan(), *(each.kind for each in before)]
    assert logged.log()[1:] == before


def test_what_collections_leave_does_not_grow_with_their_number() -> None:
    logged, some = Logged(), np.random.default_rng(0)
    expected = logged.log()
    for _ in range(30):
        logged.operate(int(some.integers(0, 12)))
        before = logged.log()
        assert before[len(before) - len(expected) :] == expected
        logged.collect()
        expected = logged.log()
        assert expected[1:] == before
        assert len(logged.backups()) <= 2
        cited = {each.backup_path for each in logged.open().ops_log()}
        assert cited - {None} <= logged.backups()
    assert verify(logged.store).problems == ()


@pytest.mark.parametrize("limit", [1, 5, 8, 50])
def test_a_page_has_no_more_entries_than_allowed(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "_MERGED_ENTRIES", limit)
    logged, some = Logged(), np.random.default_rng(limit)
    for _ in range(10):
        logged.operate(int(some.integers(0, 9)))
        before = logged.log()
        logged.collect()
        assert logged.log()[1:] == before
        pages = logged.pages()
        assert max(pages) <= max(limit, 3)
        # Two neighbours would not fit into one page, but for those that are merged next.
        assert all(sum(pages[at : at + 2]) + 3 > limit for at in range(2, len(pages) - 1))


def test_a_log_that_was_cut_short_keeps_what_is_left() -> None:
    logged = Logged(20)
    *_, last = (name for name in _names(logged))
    logged.store.delete([OVERWRITTEN + last])
    before = logged.log()
    logged.collect()
    assert logged.log()[1:] == before
    assert _names(logged)[-1] == last
    assert len(_names(logged)) == 2


def _names(logged: Logged) -> list[str]:
    """Of the backups that the log goes on in, and the one that is missing."""
    names, name = list[str](), logged.open().repo_info().before_updates
    while name is not None:
        names.append(name)
        if name not in logged.backups():
            break
        name = decode_log_page(logged.store.get(OVERWRITTEN + name).data).before_updates
    return names


def test_backups_that_are_young_stay_and_are_cited() -> None:
    logged = Logged(10)
    logged.clock.now_us += 3 * DAY_US
    young_us = logged.clock.now_us
    logged.operate(10)
    young = {info.key for info in logged.store.list(OVERWRITTEN) if info.modified_at_us > young_us}
    assert len(young) == 10
    logged.clock.now_us += DAY_US
    repository = logged.open()
    request = GCRequest(cutoff_us=young_us, backups_us=young_us)
    executor = ThreadExecutor(repository.files)
    collect_garbage(repository, plan_gc(repository, request, executor), executor)
    assert {OVERWRITTEN + name for name in logged.backups()} >= young
    *_, merged = _names(logged)
    cited = [each.backup_path for each in repository.ops_log()]
    assert cited[1] == merged
    assert {OVERWRITTEN + str(name) for name in cited[2:12]} < young | {OVERWRITTEN + merged}
    assert set(cited[12:]) == {None}


@pytest.mark.parametrize("read", range(9))
def test_a_reader_finds_the_whole_log_while_it_is_merged(read: int) -> None:
    logged = Logged(20)
    expected = logged.log()
    pages = logged.open().ops_log_pages()
    seen = [update for _, page in zip(range(read), pages, strict=False) for update in page]
    logged.collect()
    logged.operate(5)
    logged.collect()
    seen += [update for page in pages for update in page]
    found = [replace(each, backup_path=None) for each in seen]
    assert found == expected


def test_a_reader_who_is_followed_by_collections_ends() -> None:
    logged = Logged(20)
    expected = logged.log()
    pages = logged.open().ops_log_pages()

    def chased() -> Iterator[Update]:
        for page in pages:
            yield from page
            logged.operate(3)
            logged.collect()

    assert [replace(each, backup_path=None) for each in chased()] == expected


def count_requests(logged: Logged) -> int:
    counted = OvertakenStore(logged.copy().store)
    logged.copy().collect(counted)
    return counted.requests


def moments() -> range:
    return range(count_requests(Logged(11)))


@pytest.mark.parametrize("others", ["collection", "operations", "both"])
def test_others_at_any_moment_of_a_collection_lose_nothing(others: str) -> None:
    start = Logged(11)
    for moment in moments():
        logged = start.copy()
        before = logged.log()
        store = OvertakenStore(logged.store)

        def act(logged: Logged = logged) -> None:
            if others != "collection":
                logged.operate(4)
            if others != "operations":
                logged.collect()

        store.arm(moment, act)
        logged.collect(store)
        kinds = [each.kind for each in logged.log()]
        assert kinds[-len(before) :] == [each.kind for each in before], moment
        added = (0 if others == "collection" else 4) + (1 if others == "operations" else 2)
        assert len(kinds) == len(before) + added, moment
        logged.collect()
        assert len(logged.log()) == len(kinds) + 1
        assert len(logged.backups()) <= 2
        assert verify(logged.store).problems == ()


class Dying(HookedStore[MemoryStore]):
    """Fails at one request and at all after it, before or after it is made."""

    def __init__(self, inner: MemoryStore, moment: int, *, after: bool) -> None:
        fail = {"after" if after else "before": self._count}
        super().__init__(inner, **fail)
        self.left = moment

    def _count(self, verb: Verb, key: str) -> None:
        if verb != "sync":
            self.left -= 1
        if self.left < 0:
            raise StorageError(f"the process died at {verb} {key}")


@pytest.mark.parametrize("after", [False, True])
def test_a_collection_that_dies_leaves_the_old_pages_or_the_new_one(*, after: bool) -> None:
    start, died = Logged(11), set[bool]()
    before = start.log()
    for moment in moments():
        logged = start.copy()
        with suppress(StorageError):  # deleting may fail without an error
            logged.collect(Dying(logged.store, moment, after=after))
        kinds = [each.kind for each in logged.log()]
        assert logged.log()[kinds[0] == GCRan() :] == before
        died.add(kinds[0] == GCRan())
        assert verify(logged.store).problems == ()
        logged.operate(5)
        logged.collect()
        assert [each.kind for each in logged.log()][6:] == kinds
        assert len(logged.backups()) <= 2
    assert died == {False, True}


def test_a_collection_whose_reply_is_lost_is_in_the_log_once() -> None:
    logged = Logged(11)
    before = logged.log()
    armed = [True]

    def lose(verb: Verb, key: str) -> None:
        if (verb, key) == ("put", REPO_INFO) and armed:
            armed.clear()
            logged.operate(5)
            raise PreconditionFailedError(key, "what is no longer there")

    logged.collect(HookedStore(logged.store, after=lose))
    kinds = [type(each.kind).__name__ for each in logged.log()]
    assert kinds[:6] == ["BranchCreated"] * 5 + ["GCRan"]
    assert logged.log()[6:] == before


def test_a_collection_that_always_loses_the_race_gives_up_merging() -> None:
    logged = Logged(20)
    before = logged.log()
    races = iter(range(5))

    def race(verb: Verb, key: str) -> None:
        if (verb, key) == ("put", REPO_INFO) and next(races, None) is not None:
            logged.operate(1)

    logged.collect(HookedStore(logged.store, before=race))
    kinds = [type(each.kind).__name__ for each in logged.log()]
    assert kinds[:6] == ["GCRan"] + ["BranchCreated"] * 5
    assert logged.log()[6:] == before
    assert max(logged.pages()) == 3  # none was merged
    # The backups of refused updates are gone, but the log needs all of these.
    assert len(logged.pages()) >= 9
    logged.collect()
    assert len(logged.backups()) == 2
    assert logged.log()[7:] == before


def test_backups_of_refused_collections_go() -> None:
    """They may hold what a purge has removed since."""
    logged = Logged(20)
    armed = [True]

    def race(verb: Verb, key: str) -> None:
        if (verb, key) == ("put", REPO_INFO) and armed:
            armed.clear()
            logged.operate(1)

    logged.collect(HookedStore(logged.store, before=race))
    assert len(logged.backups()) == 3  # of the operation, and of the collection


@pytest.mark.parametrize("operations", [0, 7])
def test_a_lost_repo_info_is_restored_with_the_whole_log(operations: int) -> None:
    logged = Logged(20)
    logged.collect()
    logged.operate(operations)
    before = logged.log()
    logged.store.delete([REPO_INFO])
    repair(logged.store)
    assert logged.log() == before[1:]  # but for the last update
    for _ in range(3):  # and it stays whole
        logged.operate(5)
        assert logged.log()[-len(before) + 1 :] == before[1:]
        logged.collect()
        assert logged.log()[-len(before) + 1 :] == before[1:]
    assert len(logged.backups()) <= 2
