"""Work that nobody waits for.

Its threads are daemons: a process that ends does not wait for them either. They hold locks only
where a fork of the process would wait, or the child would find a lock taken by a thread that it
does not have.
"""

import logging
import os
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread

_log = logging.getLogger(__name__)

BETWEEN_FORKS = Lock()
"""Held by whoever must not be interrupted by a fork; never while waiting for storage."""

os.register_at_fork(
    before=BETWEEN_FORKS.acquire,
    after_in_parent=BETWEEN_FORKS.release,
    after_in_child=BETWEEN_FORKS.release,
)


class Background:
    """Jobs in the order they were given, on at most `width` threads that end when idle.

    If more than `waiting` are left, the oldest are forgotten. A job that fails is logged.
    """

    def __init__(self, width: int = 4, waiting: int = 1000) -> None:
        self._width = width
        self._jobs: deque[Callable[[], object]] = deque(maxlen=waiting)
        self._running = 0
        self._process = os.getpid()

    def submit(self, job: Callable[[], object]) -> None:
        with BETWEEN_FORKS:
            if self._process != os.getpid():  # threads do not survive a fork, nor do their jobs
                self._process, self._running = os.getpid(), 0
                self._jobs.clear()
            self._jobs.append(job)
            if self._running == self._width:
                return
            self._running += 1
        Thread(target=self._work, name="frazil-background", daemon=True).start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 -- there is nobody to tell
                _log.info("work in the background failed: %s", error, exc_info=error)
            del job  # or its files would be kept until there is another

    def _next(self) -> Callable[[], object] | None:
        with BETWEEN_FORKS:
            if self._jobs:
                return self._jobs.popleft()
            self._running -= 1
            return None
