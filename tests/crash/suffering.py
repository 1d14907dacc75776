"""One fault at one request or system call of an operation, and what comes of it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from frazil import Storage
from frazil.errors import ConflictError, FormatError, RefNotFoundError, StorageError
from frazil.objectstore import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.testing.disk import fail_at, watched_disk
from frazil.testing.faults import (
    AnswerWith,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DenyPermission,
    DropRequest,
    DropResponse,
    Fault,
    FillDisk,
    RefuseWith,
    ServeStale,
    Throttle,
)
from frazil.testing.faulty_store import FaultyStore
from tests.crash.operations import OPERATIONS, problems, see

TIMEOUT_S = 0.002


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault, and what an error says that it leads to."""

    fault: Fault
    says: tuple[str, ...]


CLOSED = "the connection was closed"
LATE = "did not answer in time"
KINDS = {
    "error": Kind(RefuseWith(500), ("the server answered 500",)),
    "error after the act": Kind(AnswerWith(500), ("the server answered 500",)),
    "request lost": Kind(DropRequest(), (CLOSED,)),
    "response lost": Kind(DropResponse(), (CLOSED,)),
    "timeout, acts late": Kind(DelayRequest(0.004), (LATE,)),
    "timeout, acted": Kind(DelayResponse(0.004), (LATE,)),
    "slow": Kind(DelayResponse(0.001), ()),
    "throttled": Kind(Throttle(1), ("too many requests",)),
    "body cut": Kind(CutResponse(20), ("bytes", "truncated", "short", "damaged", "not found")),
    # Of a repo info from before a branch was made, the branch is not found.
    "stale read": Kind(
        ServeStale(), ("parent", "attempts", "already exists", "not exist", "ref not found")
    ),
    "disk full": Kind(FillDisk(), ("the disk is full",)),
    "permission denied": Kind(DenyPermission(), ("permission denied",)),
}
ERRNOS = {
    "disk full": (errno.ENOSPC, "the disk is full"),
    "permission denied": (errno.EACCES, "permission denied"),
    "input/output error": (errno.EIO, "the device reports an input/output error"),
}


@dataclass(frozen=True, slots=True)
class Suffered:
    """`error`: what the operation raised, empty if nothing; `problem`: what is wrong since."""

    number: int
    hit: bool
    error: str
    problem: str


class At:
    """The fault at the request with this number, from 0; counts in any case."""

    def __init__(self, number: int | None, fault: Fault) -> None:
        self.number = number
        self.fault = fault
        self.seen = 0

    def __call__(self, verb: str, key: str) -> Fault | None:
        del verb, key
        self.seen += 1
        return self.fault if self.seen - 1 == self.number else None


class Victim:
    """An operation on copies of one prepared store."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self.operation = OPERATIONS[name]
        self._folder = folder
        self._copies = 0
        first = self._new()
        self.operation.prepare(Storage(first))
        self._template = {info.key: bytes(first.get(info.key).data) for info in first.list()}
        store = self.copy()
        self.states = [see(Storage(store))]
        count = At(None, DropRequest())
        watched = Storage(FaultyStore(store, count))
        self.operation.act(watched, lambda _: self.states.append(see(Storage(store))))
        self.requests = count.seen

    def _new(self) -> ObjectStore:
        if self._folder is None:
            return MemoryStore()
        self._copies += 1
        return LocalStore(self._folder / f"disk{self._copies}", fsync=False)

    def copy(self) -> ObjectStore:
        store = self._new()
        for key, content in self._template.items():
            store.put(key, content)
        return store

    def suffer(self, kind: Kind, number: int) -> Suffered:
        """The fault at one request of the store."""
        store = self.copy()
        faulty = FaultyStore(store, At(number, kind.fault), timeout_s=TIMEOUT_S)
        error, told = self._act(Storage(faulty), kind.says)
        faulty.settle()
        return self._outcome(number, store, error, told, hit=bool(faulty.happened))

    def count_calls(self) -> int:
        """System calls of the operation; the store must be a local one."""
        store = self.copy()
        assert isinstance(store, LocalStore)
        with watched_disk(store.root) as calls:
            self._act(Storage(store), ())
        return sum(call.name not in ("unlink", "unlock") for call in calls)

    def suffer_locally(self, code: int, says: str, number: int, *, times: int = 1) -> Suffered:
        """The error at one system call, and those after it."""
        store = self.copy()
        assert isinstance(store, LocalStore)
        with watched_disk(store.root, before=fail_at(number, code, times=times)):
            error, told = self._act(Storage(LocalStore(store.root)), (says,))
        return self._outcome(number, store, error, told, hit=True)

    def _act(self, storage: Storage, says: tuple[str, ...]) -> tuple[str, int]:
        steps = list[str]()
        with told_clearly(says) as errors:
            self.operation.act(storage, steps.append)
        return "".join(errors), len(steps)

    def _outcome(
        self, number: int, store: ObjectStore, error: str, told: int, *, hit: bool
    ) -> Suffered:
        if error.startswith("!"):
            return Suffered(number, hit, error, f"no clear error: {error}")
        problem = problems(Storage(store), self.operation, self.states, told)
        return Suffered(number, hit, error, problem)


@contextmanager
def told_clearly(says: tuple[str, ...]) -> Iterator[list[str]]:
    """What was raised inside; with a "!" before it if it is not of our kind, or says nothing."""
    errors = list[str]()
    try:
        yield errors
    except (StorageError, FormatError, ConflictError, RefNotFoundError) as error:
        clear = any(part in str(error) for part in says)
        errors.append(str(error) if clear else f"! {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not what users are promised
        errors.append(f"! {type(error).__name__}: {error}")


def every(count: int, most: int | None) -> Iterator[int]:
    """Numbers below `count`: all, or `most` of them from the first to the last."""
    if most is None or most >= count:
        yield from range(count)
    else:
        yield from sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
