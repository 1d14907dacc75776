"""Faults of requests, as values, and the choice of requests that they happen to.

One vocabulary for two places: a `FaultProxy` does it on the wire, between any client and a real
server; a `FaultyStore` does it inside a program, around any object store. A `Choice` says what
happens to a request, by its verb (`PUT`; in a store `put`, `get_ranges`, ...) and its path or key.

    fault              the server acts    on the wire                      in a store
    DropRequest        no                 the connection ends              StorageError
    DropResponse       yes                the connection ends              StorageError
    CutResponse        yes                a body that ends too early       shorter data
    DelayRequest       late               silence first                    a slow server; or a
    DelayResponse      at once            silence after                      timeout, beyond a limit
    RefuseWith         no                 this status                      StorageError
    AnswerWith         yes                this status                      StorageError
    Throttle           no                 503 and Retry-After              StorageError, "throttled"
    ServeStale         reads only         an answer given before           what was there before
    FillDisk           no                 507                              StorageError, disk full
    DenyPermission     no                 403                              StorageError
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DropRequest:
    """The server never hears of it; the connection ends, politely or with a reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class DropResponse:
    """The server acts, the client never learns; the connection ends, politely or with a reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class CutResponse:
    """The server acts; the connection ends after so many bytes of the answer's body."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class DelayRequest:
    """The server hears of it late, maybe when the client has given up."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DelayResponse:
    """The server acts at once, and the client learns late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RefuseWith:
    """The server never hears of it, and the client is told this status."""

    status: int


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """The server acts, and the client is told this status all the same."""

    status: int


@dataclass(frozen=True, slots=True)
class Throttle:
    """Too many requests: not now, but after so many seconds."""

    retry_after_s: int = 1


@dataclass(frozen=True, slots=True)
class ServeStale:
    """A read is answered with what was there before the last change, if that is remembered.

    Other requests are as always. No store that frazil supports does this to a reader; a cache
    between them, or a replica, may.
    """


@dataclass(frozen=True, slots=True)
class FillDisk:
    """There is no room for it."""


@dataclass(frozen=True, slots=True)
class DenyPermission:
    """The caller lacks the permission."""


type Fault = (
    DropRequest
    | DropResponse
    | CutResponse
    | DelayRequest
    | DelayResponse
    | RefuseWith
    | AnswerWith
    | Throttle
    | ServeStale
    | FillDisk
    | DenyPermission
)
type Choice = Callable[[str, str], Fault | None]  # of verb, and of key or path with query


def no_fault(method: str, path: str) -> Fault | None:
    del method, path
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault for requests whose path contains a text: after `skip` of them, so many `times`."""

    fault: Fault
    method: str | None = None  # any
    path: str = ""
    skip: int = 0
    times: int | None = 1  # None: from then on

    def covers(self, method: str, path: str) -> bool:
        return self.method in (None, method) and self.path in path

    def applies_to(self, occurrence: int) -> bool:
        """True if the fault happens to the matching request of this number, from 0."""
        wanted = occurrence - self.skip
        return wanted >= 0 and (self.times is None or wanted < self.times)


class Script:
    """Rules, each of which counts the requests it covers; the first that applies decides."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self._seen = [0] * len(rules)
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> Fault | None:
        with self._lock:
            chosen = None
            for place, rule in enumerate(self._rules):
                if rule.covers(method, path):
                    if chosen is None and rule.applies_to(self._seen[place]):
                        chosen = rule.fault
                    self._seen[place] += 1
            return chosen


class RandomFaults:
    """Every request is hit with a probability, by one of some faults; a seed fixes the order."""

    def __init__(
        self, faults: Sequence[Fault], *, share: float, seed: int, methods: Sequence[str] = ()
    ) -> None:
        self._faults = faults
        self._share = share
        self._methods = frozenset(methods)  # none: all
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> Fault | None:
        del path
        with self._lock:
            if self._methods and method not in self._methods:
                return None
            hit = self._random.random() < self._share
            return self._random.choice(self._faults) if hit else None
