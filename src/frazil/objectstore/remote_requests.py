"""Requests of one remote store: a bounded number at a time, and none in a forked process."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock

from frazil.errors import StorageError


class Requests:
    """At most `at_once` at a time; parts of one object on at most `per_object` threads."""

    def __init__(self, *, at_once: int, per_object: int) -> None:
        self._at_once = at_once
        self._per_object = min(per_object, at_once)
        self._free = BoundedSemaphore(at_once)
        self._several = Lock()
        self._lock = Lock()
        self._threads: ThreadPoolExecutor | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        require_own_process()
        with self._free:
            yield

    @contextmanager
    def many(self, wanted: int) -> Iterator[int]:
        """The right to make that many requests at once, or as many as there may be."""
        require_own_process()
        count = min(wanted, self._per_object)
        with self._several:  # two that each hold half of what they need would wait for ever
            for _ in range(count):
                self._free.acquire()
        try:
            yield count
        finally:
            self._free.release(count)

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`work` of each item, in order, several at a time. `work` makes its own requests."""
        if len(items) <= 1 or self._per_object == 1:
            return [work(item) for item in items]
        futures = [self._executor().submit(work, item) for item in items]
        failures = [future.exception() for future in futures]  # waits for all of them
        for failure in failures:
            if failure is not None:
                raise failure
        return [future.result() for future in futures]

    def _executor(self) -> ThreadPoolExecutor:
        require_own_process()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self._per_object, thread_name_prefix="frazil-remote"
                )
            return self._threads


# The process in which obstore works. Its threads do not survive a fork, and it cannot start new
# ones: a request in the child would wait for ever. It is a fact of the process, hence no argument.
_HOME: dict[str, int] = {}


def require_own_process() -> None:
    """Raises StorageError in a child that was forked after a remote store had been used."""
    if _HOME.setdefault("process", os.getpid()) != os.getpid():
        raise StorageError(
            f"object stores cannot be used in process {os.getpid()}: it was forked from process"
            f" {_HOME['process']}, which used one already. Start workers with the method"
            ' "spawn" or "forkserver" (multiprocessing.set_start_method), or fork before the first'
            " use",
            kind="storage-other",
        )
