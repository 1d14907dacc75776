"""Threads: bounded concurrency for storage requests, and background jobs.

Background threads are daemons: a process that ends does not wait for them. They hold locks only
where a fork of the process waits too, or the child would find a lock held by a thread that it does
not have.
"""

import atexit
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, local
from time import perf_counter
from typing import Any
from weakref import WeakSet

_QUICK_S = 200e-6  # about what it takes until a new thread has begun to work


class _Job[R]:
    """Work that is done once: by a thread of a pool, or by the caller if that is first."""

    __slots__ = ("_failure", "_lock", "_result", "_work")

    def __init__(self, work: Callable[[], R]) -> None:
        self._work: Callable[[], R] | None = work
        self._lock = Lock()  # held while the work is done
        self._failure: BaseException | None = None
        self._result: R

    def run(self, *, is_waiting: bool = False) -> None:
        """Does the work unless it was begun; then, if `is_waiting`, waits until it is done."""
        if not self._lock.acquire(is_waiting):
            return
        try:
            if (work := self._work) is not None:
                self._work = None
                self._result = work()
        except BaseException as failure:  # noqa: BLE001 -- raised by `result`
            self._failure = failure
        finally:
            self._lock.release()

    def result(self) -> R:
        self.run(is_waiting=True)
        if self._failure is not None:
            raise self._failure
        return self._result


class _Threads:
    """Threads, `width` at most, that run jobs in their order; they start when first needed.

    A `ThreadPoolExecutor` takes 25 us more for each job.
    """

    def __init__(self, width: int, inside: local) -> None:
        self._width = width
        self._inside = inside  # where each thread says that it is one of a pool
        self._jobs = SimpleQueue[_Job[Any] | None]()
        self._lock = Lock()
        self._idle = 0
        self._threads: list[Thread] = []
        _running.add(self)

    def submit[R](self, work: Callable[[], R]) -> _Job[R]:
        job = _Job(work)
        self._jobs.put(job)
        with self._lock:
            if self._idle:
                self._idle -= 1  # that thread takes the job
            elif len(self._threads) < self._width:
                thread = Thread(target=self._run, name="frazil", daemon=True)
                with suppress(RuntimeError):  # at the end of the process: the caller does the job
                    thread.start()
                    self._threads.append(thread)
        return job

    def end(self, *, is_waiting: bool = False) -> None:
        """Lets threads end when they have run what was submitted."""
        for _ in self._threads:
            self._jobs.put(None)
        if is_waiting:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        self._inside.is_worker = True
        while (job := self._next()) is not None:
            job.run()
            del job  # which would keep what it works with until the next one

    def _next(self) -> _Job[Any] | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            with self._lock:
                self._idle += 1
            return self._jobs.get()


_running = WeakSet[_Threads]()


@atexit.register
def _end_threads() -> None:
    """Python must not end while a thread is in a library that is not Python's."""
    for threads in list(_running):
        threads.end(is_waiting=True)


class Pool:
    """Runs at most `width` requests at a time, on threads that start when first needed.

    Survives a fork (the child starts its own threads) and pickling (only `width` travels).
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"at least one request at a time is needed, got {width}")
        self.width = width
        self._lock = Lock()
        self._threads: _Threads | None = None
        self._process = 0
        self._inside = local()

    def __reduce__(self) -> tuple[type["Pool"], tuple[int]]:
        return Pool, (self.width,)

    def __del__(self) -> None:
        if (threads := getattr(self, "_threads", None)) is not None:
            threads.end()

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
        if threads <= 1 or self._is_worker():
            return [work(item) for item in items]
        numbers = iter(range(len(items)))  # of items that no thread has taken
        results: dict[int, R] = {}
        failures: dict[int, BaseException] = {}

        def run() -> None:
            for number in numbers:
                try:
                    results[number] = work(items[number])
                except BaseException as failure:  # noqa: BLE001 -- the caller raises it
                    failures[number] = failure
                if failures:
                    break

        # The calling thread works too, so a pool of one thread less suffices.
        submit = self._own_threads().submit
        jobs = [submit(run) for _ in range(threads - 1)]
        self._inside.is_worker = True
        try:
            run()
        finally:
            self._inside.is_worker = False
            for job in jobs:
                job.result()  # one that was not begun finds nothing to do
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
        if self._is_worker():
            result = work()
            aside()
            return result
        job = self._own_threads().submit(aside)
        try:
            result = work()
        finally:
            job.run(is_waiting=True)
        job.result()
        return result

    def start[R](self, work: Callable[[], R]) -> Callable[[], R]:
        """Starts `work` on another thread; returns a function that waits for its result.

        On a thread of the pool it runs at once, so that no thread waits for another.
        """
        if self._is_worker():
            result = work()
            return lambda: result
        return self._own_threads().submit(work).result

    def _is_worker(self) -> bool:
        return getattr(self._inside, "is_worker", False)

    def _own_threads(self) -> _Threads:
        with self._lock:
            if self._threads is None or self._process != os.getpid():
                self._threads = _Threads(self.width, self._inside)
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
