"""Garbage is collected between two storage requests of an operation, whichever they are.

The store's clock is the test's: what an earlier try left is old, without waiting.
"""

import threading
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from frazil.assets.files import Files
from frazil.errors import IcechunkError, RepositoryNotFoundError
from frazil.maintenance.collect import collect, execute
from frazil.maintenance.copying.files import needed_files, with_stored_logs
from frazil.maintenance.deleting import DeleteLimits, delete_files
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.garbage import GarbageRequest, plan_garbage
from frazil.maintenance.inventory import StoredInventory, keys_of
from frazil.maintenance.reachable import reachable_rows, root_rows
from frazil.maintenance.work import LocalWork
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
)
from frazil.ranges import ByteRange, Range
from frazil.repo.repository import Repository

DAY_US = 86_400_000_000
SECOND_US = 1_000_000


@dataclass(slots=True)
class Clock:
    """Moves on by a millisecond whenever it is read."""

    now_us: int = 1_700_000_000_500_000

    def __call__(self) -> int:
        self.now_us += 1000
        return self.now_us

    def pass_days(self, days: float) -> None:
        self.now_us += int(days * DAY_US)


class AgingStore(MemoryStore):
    """In memory, by the test's clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.clock = clock

    def fork(self) -> "AgingStore":
        """The same objects of the same age, to be changed apart from these."""
        other = AgingStore(Clock(self.clock.now_us))
        other._objects = dict(self._objects)
        return other


class Watched:
    """Counts requests, and calls what `before` has for one of them first. As a bucket of S3 is:

    an object cannot be refreshed but by writing it again, and is deleted whatever its age.
    """

    def __init__(self, inner: AgingStore, *, whole_seconds: bool = False) -> None:
        self.inner = inner
        self.whole_seconds = whole_seconds
        self.before: dict[int, Callable[[], None]] = {}
        self.count = 0
        self._lock = threading.RLock()

    def _next(self) -> None:
        with self._lock:
            number, self.count = self.count, self.count + 1
            act = self.before.pop(number, None)
            if act is not None:
                act()

    def _told(self, info: ObjectInfo) -> ObjectInfo:
        if not self.whole_seconds:
            return info
        at_us = info.modified_at_us // SECOND_US * SECOND_US
        return ObjectInfo(info.key, info.size_bytes, at_us)

    @property
    def writable(self) -> bool:
        return True

    @property
    def far(self) -> bool:
        return False

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        self._next()
        return self.inner.get(key, byte_range)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        self._next()
        return self.inner.get_ranges(key, ranges)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self._next()
        return self.inner.put(key, data, when=when)

    def head(self, key: str) -> ObjectInfo:
        self._next()
        return self._told(self.inner.head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._next()
        return map(self._told, self.inner.list(prefix))

    def delete(self, keys: Iterable[str]) -> int:
        self._next()
        return self.inner.delete(keys)

    def copy(self, source: str, target: str) -> None:
        self._next()
        self.inner.copy(source, target)

    def sync(self) -> None:
        self._next()


class WatchedDirectory(Watched):
    """As a local directory is: ages are set and compared in one step."""

    def refresh(self, key: str) -> ObjectInfo:
        self._next()
        return self.inner.refresh(key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        self._next()
        return self.inner.delete_older(keys, before_us)


@dataclass(slots=True)
class Collector:
    """Another client of the same storage, which collects by the book."""

    store: Watched
    cutoff_us: int
    deleted: int = 0
    _begun: list[Callable[[], None]] = field(default_factory=list)

    def collect(self) -> None:
        self.begin()
        self.finish()

    def begin(self) -> None:
        """Looks for garbage, and deletes none yet."""
        quiet = type(self.store)(self.store.inner, whole_seconds=self.store.whole_seconds)
        try:
            repository = Repository.open(quiet, clock=self.store.inner.clock)
            work = LocalWork(repository.files, StoredInventory(quiet))
            request = GarbageRequest(cutoff_us=self.cutoff_us)
            collect(repository, work, request, dry_run=True)  # which refuses what it must
            plan = plan_garbage(repository, work, request)
        except IcechunkError:  # no repository, a damaged one, or one that is being migrated
            return
        limits = DeleteLimits(older_than_us=self.cutoff_us)

        def finish() -> None:
            done = execute(
                repository, work, plan, lambda listing: delete_files(quiet, listing, limits)
            )
            self.deleted += done.total.objects

        self._begun.append(finish)

    def finish(self) -> None:
        while self._begun:
            self._begun.pop()()


@dataclass(frozen=True, slots=True)
class Case:
    """An operation on a store; `check` reads what it must have made, or raises."""

    store: AgingStore
    run: Callable[[ObjectStore], object]
    check: Callable[[ObjectStore], None]
    may_fail: tuple[type[Exception], ...] = ()  # once; then it is tried again


@dataclass(slots=True)
class Outcome:
    moments: int = 0
    deleted: int = 0
    failed: int = 0


def count_requests(case: Case, kind: type[Watched] = Watched) -> int:
    store = kind(case.store.fork())
    case.run(store)
    return store.count


def sweep(
    case: Case,
    moments: Iterable[tuple[int, int]],
    kind: type[Watched] = Watched,
    *,
    whole_seconds: bool = False,
) -> Outcome:
    """Runs it with a collection that begins and deletes before requests of these numbers."""
    outcome = Outcome()
    for begins, deletes in moments:
        store = kind(case.store.fork(), whole_seconds=whole_seconds)
        collector = Collector(store, cutoff_us=store.inner.clock())
        if begins == deletes:
            store.before[begins] = collector.collect
        else:
            store.before[begins], store.before[deletes] = collector.begin, collector.finish
        try:
            case.run(store)
        except case.may_fail:
            outcome.failed += 1
            store.before.clear()
            case.run(store)
        require_whole(store.inner)
        case.check(store.inner)
        outcome.moments += 1
        outcome.deleted += collector.deleted
    return outcome


def require_whole(store: ObjectStore) -> None:
    """Every file that branches and tags lead to is there."""
    try:
        repository = Repository.open(store)
    except RepositoryNotFoundError:
        return
    info = repository.repo_info()
    rows = reachable_rows(info, root_rows(info)).tolist()
    files: Files = repository.files
    needed = with_stored_logs(
        needed_files(ThreadExecutor(files), info, rows=rows), StoredInventory(store)
    )
    there = {one.key for one in store.list()}
    for kind, ids in needed.ids.items():
        lost = [key for key in keys_of(kind, ids.ids()) if key not in there]
        assert not lost, f"{lost} is referred to, and gone"
