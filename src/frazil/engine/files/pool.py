"""Threads: bounded concurrency for storage requests, and background jobs.

Background threads are daemons: a process that ends does not wait for them. They hold locks only
where a fork of the process waits too, or the child would find a lock held by a thread that it does
not have.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread, local
from time import perf_counter

_QUICK_S = 200e-6  # about what it takes until a new thread has begun to work


class Pool:
    """Runs at most `width` requests at a time, on threads that start when first needed.

    Survives a fork (the child starts its own threads) and pickling (only `width` travels).
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"at least one request at a time is needed, got {width}")
        self.width = width
        self._lock = Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self._inside = local()

    def __reduce__(self) -> tuple[type["Pool"], tuple[int]]:
        return Pool, (self.width,)

    def map[T, R](
        self, work: Callable[[T], R], items: Sequence[T], *, at_most: int | None = None
    ) -> list[R]:
        """Results of `work` for each item, in order; raises the first failure once all stopped.

        Each thread takes the next item when it is done with one, so that none waits for a thread
        that starts late; after a failure no more are taken. `at_most` bounds the number of threads
        further. Work that calls this again runs on its own thread, so that no thread waits for
        another.
        """
        threads = min(len(items), self.width, at_most or self.width)
        if threads <= 1 or getattr(self._inside, "is_worker", False):
            return [work(item) for item in items]
        numbers = iter(range(len(items)))  # of items that no thread has taken
        results: dict[int, R] = {}
        failures: dict[int, BaseException] = {}

        def run() -> None:
            outer = getattr(self._inside, "is_worker", False)
            self._inside.is_worker = True
            try:
                for number in numbers:
                    try:
                        results[number] = work(items[number])
                    except BaseException as failure:  # noqa: BLE001 -- the caller raises it
                        failures[number] = failure
                    if failures:
                        break
            finally:
                self._inside.is_worker = outer

        # The calling thread works too, so a pool of one thread less suffices.
        futures = [self._executor().submit(run) for _ in range(threads - 1)]
        try:
            run()
        finally:
            for future in futures:
                if not future.cancel():  # it has begun
                    future.exception()
        if failures:
            raise failures[min(failures)]
        return [results[number] for number in range(len(items))]

    def map_quickly[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """A `map` for work that may be done before a thread has started.

        The calling thread works alone while items are that quick: files in the page cache of the
        operating system are, and which files those are is not known beforehand.
        """
        done = list[R]()
        for at, item in enumerate(items, start=1):
            started = perf_counter()
            done.append(work(item))
            if perf_counter() - started > _QUICK_S:
                return done + self.map(work, items[at:])
        return done

    def beside[R](self, aside: Callable[[], object], work: Callable[[], R]) -> R:
        """Returns the result of `work`, with `aside` on another thread at the same time.

        If both fail, the failure of `work` is raised.
        """
        if getattr(self._inside, "is_worker", False):
            result = work()
            aside()
            return result
        future = self._executor().submit(aside)
        try:
            result = work()
        finally:
            failure = future.exception()
        if failure is not None:
            raise failure
        return result

    def start[R](self, work: Callable[[], R]) -> Callable[[], R]:
        """Starts `work` on another thread; returns a function that waits for its result.

        On a thread of the pool it runs at once, so that no thread waits for another.
        """
        if getattr(self._inside, "is_worker", False):
            result = work()
            return lambda: result
        return self._executor().submit(work).result

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None or self._process != os.getpid():
                self._threads = ThreadPoolExecutor(self.width, thread_name_prefix="frazil")
                self._process = os.getpid()
            return self._threads


_log = logging.getLogger(__name__)

BETWEEN_FORKS = Lock()
"""Held by code that a fork must not interrupt; never while waiting for storage."""

os.register_at_fork(
    before=BETWEEN_FORKS.acquire,
    after_in_parent=BETWEEN_FORKS.release,
    after_in_child=BETWEEN_FORKS.release,
)


class Background:
    """Runs jobs in the order of submission, on at most `width` threads that end when idle.

    If more than `waiting` jobs queue up, the oldest are dropped. A failure is logged.
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
            except Exception as error:  # noqa: BLE001 -- no caller waits for it
                _log.info("work in the background failed: %s", error, exc_info=error)
            del job  # which would keep its files alive until the next job

    def _next(self) -> Callable[[], object] | None:
        with BETWEEN_FORKS:
            if self._jobs:
                return self._jobs.popleft()
            self._running -= 1
            return None
