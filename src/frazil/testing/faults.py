"""What can go wrong with an HTTP request, as values; and which request it happens to."""

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


type Fault = (
    DropRequest
    | DropResponse
    | CutResponse
    | DelayRequest
    | DelayResponse
    | RefuseWith
    | AnswerWith
)
type Choice = Callable[[str, str], Fault | None]  # of method, and path with query


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
        """Whether the matching request with this number, from 0, is hit."""
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


class Weather:
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
