"""Garbage is collected between two storage requests of an operation, whichever they are.

The store's clock is the test's: what an earlier try left is old, without waiting.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError, RepositoryNotFoundError
from frazil.maintenance.copying.needed_files import needed_files, with_stored_logs
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.maintenance.inventory import StoredInventory, keys_of
from frazil.maintenance.reachable import reachable_rows, root_rows
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import Capabilities, ObjectInfo, ObjectStore
from frazil.objectstore.wrappers import Verb
from frazil.testing.hooked_store import HookedStore

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


class Watched(HookedStore[AgingStore]):
    """Counts requests, and first calls what `actions` has for one of them. As a bucket of S3 is:

    an object cannot be refreshed except by writing it again, and is deleted whatever its age.
    """

    def __init__(self, inner: AgingStore, *, whole_seconds: bool = False) -> None:
        super().__init__(inner, before=self._next)
        self.whole_seconds = whole_seconds
        self.actions: dict[int, Callable[[], None]] = {}
        self.count = 0
        self._lock = threading.RLock()

    def _next(self, verb: Verb, key: str) -> None:
        del verb, key
        with self._lock:
            number, self.count = self.count, self.count + 1
            act = self.actions.pop(number, None)
            if act is not None:
                act()

    def _told(self, info: ObjectInfo) -> ObjectInfo:
        if not self.whole_seconds:
            return info
        at_us = info.modified_at_us // SECOND_US * SECOND_US
        return ObjectInfo(info.key, info.size_bytes, at_us)

    def head(self, key: str) -> ObjectInfo:
        return self._told(super().head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return map(self._told, super().list(prefix))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def refresh(self, key: str) -> ObjectInfo:
        return ObjectStore.refresh(self, key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        return ObjectStore.delete_older(self, keys, before_us)


class WatchedDirectory(Watched):
    """As a local directory is: ages are set and compared in one step."""

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def refresh(self, key: str) -> ObjectInfo:
        return HookedStore.refresh(self, key)

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        return HookedStore.delete_older(self, keys, before_us)


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
            executor = ThreadExecutor(repository.files)
            plan = plan_gc(repository, GCRequest(cutoff_us=self.cutoff_us), executor)
        except IcechunkError:  # no repository, a damaged one, or one that is being migrated
            return

        def finish() -> None:
            done = collect_garbage(repository, plan, executor)
            self.deleted += done.snapshots_deleted + done.transaction_logs_deleted
            self.deleted += done.manifests_deleted + done.chunks_deleted

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
            store.actions[begins] = collector.collect
        else:
            store.actions[begins], store.actions[deletes] = collector.begin, collector.finish
        try:
            case.run(store)
        except case.may_fail:
            outcome.failed += 1
            store.actions.clear()
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
