"""Waiting of writers that commit to one branch, so that each gets in and little work is wasted.

In a local directory they go in the order of arrival (`Turn`), as all changes of the entry point do
(entry.py). Other stores have no queue. There, a
writer guesses from its own waiting how many there are: if each of n takes t seconds for a try, and
one at a time gets in, a commit takes about n * t. From that follow two pauses, both at random:

    before a commit     the writer who got in last would get in again, since it knows the tip and
                        need not rebase: it gives way to the others
    after a lost race   half as long after each further one: who lost most tries most

Who always gets in learns nothing of the others. So a writer whose commits follow each other at once
gives way before every sixteenth, long enough for one try of another.
"""

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from frazil.engine.files.files import Contention, Files
from frazil.objectstore.local.local_turns import Turn, taking_turns

type Uniform = Callable[[float, float], float]

_YIELDS = 0.5  # at most of the time that all the others need
_ONE_YIELDS = 0.35, 0.7  # and so much of a try for the first of them, who has to rebase
_PROBES_AFTER, _PROBE = 16, (1.0, 1.4)  # commits in a row; of the time of a try
_EAGER = 3.0  # so many writers need no pause after a lost race


class Waiting(Protocol):
    """A commit and its tries, as a context."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def begin(self) -> bool:
        """Waits before the first try, if others were there before; True if it did."""
        ...

    def lost(self, rebases: int) -> None:
        """Waits after a try that followed so many rebases was lost to another writer."""
        ...


def waiting_for(files: Files) -> Waiting:
    """The way to wait for writers of the same repository."""
    directory = files.store.directory
    return Backoff(files.contention) if directory is None else Queue(directory)


class Queue:
    """Writers in the order of arrival. One that finds no other does not queue."""

    def __init__(self, directory: str) -> None:
        self._context = taking_turns(directory)
        self._turn: Turn | None = None

    def __enter__(self) -> Self:
        self._turn = self._context.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.__exit__(kind, failure, traceback)

    def begin(self) -> bool:
        return self._turn is not None and self._turn.begin()

    def lost(self, rebases: int) -> None:
        del rebases
        if self._turn is not None:
            self._turn.wait()


class Backoff:
    """Pauses by the number of writers that the process guesses, and what it has to learn of it."""

    def __init__(
        self,
        contention: Contention,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        uniform: Uniform = random.uniform,
    ) -> None:
        self._contention = contention
        self._sleep, self._now, self._uniform = sleep, now, uniform
        self._began = self._tried = now()

    def __enter__(self) -> Self:
        self._began = self._tried = self._now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if failure is None:
            end = self._now()
            self._contention.learn(end - self._began, end - self._tried, now_s=end)

    def begin(self) -> bool:
        others = self._contention.others(self._now())
        tries = self._uniform(0.0, _YIELDS) * others
        if others:
            tries += self._uniform(*_ONE_YIELDS) * min(others, 1.0)
        elif self._contention.in_a_row >= _PROBES_AFTER:
            self._contention.in_a_row = 0
            tries = self._uniform(*_PROBE)
        return self._pause(tries * self._contention.try_s)

    def lost(self, rebases: int) -> None:
        now = self._now()
        self._contention.notice(now - self._tried)
        others = max(0.0, self._contention.others(now) + 1 - _EAGER)
        self._pause(
            self._uniform(0.0, 0.5) * others * self._contention.try_s * 0.5 ** (rebases + 1)
        )

    def _pause(self, pause_s: float) -> bool:
        if pause_s > 0:
            self._sleep(pause_s)
        self._tried = self._now()
        return pause_s > 0
