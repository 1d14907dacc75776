"""Bounded concurrency for storage requests."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, local
from time import perf_counter

_QUICK_S = 200e-6  # about what it takes until a new thread has begun to work


class Pool:
    """At most `width` requests at a time, on threads that start when first needed.

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
        """`work` of each item, in order; the first failure is raised once all have stopped.

        Items are dealt out in contiguous shares, one task a thread: handing over a task costs
        as much as reading a small file. `at_most` so many at a time, if not as many as there may
        be. Work that calls this again does what it asks for itself: no thread waits for another.
        """
        shares = min(len(items), self.width, at_most or self.width)
        if shares <= 1 or getattr(self._inside, "is_worker", False):
            return [work(item) for item in items]
        edges = [len(items) * share // shares for share in range(shares + 1)]

        def run(share: int) -> list[R]:
            outer = getattr(self._inside, "is_worker", False)
            self._inside.is_worker = True
            try:
                return [work(item) for item in items[edges[share] : edges[share + 1]]]
            finally:
                self._inside.is_worker = outer

        # The calling thread takes the last share itself, so a pool of one thread less suffices.
        futures = [self._executor().submit(run, share) for share in range(shares - 1)]
        try:
            last = run(shares - 1)
        finally:
            settled = [future.exception() for future in futures]
        for failure in settled:
            if failure is not None:
                raise failure
        return [result for future in futures for result in future.result()] + last

    def map_quickly[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """As `map`, for work that may be over before a thread has started.

        As long as it is, the calling thread does it alone: files that the operating system has in
        memory are read in no time, and nobody knows beforehand which it has.
        """
        done = list[R]()
        for at, item in enumerate(items, start=1):
            started = perf_counter()
            done.append(work(item))
            if perf_counter() - started > _QUICK_S:
                return done + self.map(work, items[at:])
        return done

    def beside[R](self, aside: Callable[[], object], work: Callable[[], R]) -> R:
        """`work`, and `aside` on another thread meanwhile; `work`'s failure comes first."""
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
        """Begins `work` on another thread; what is returned waits for its result.

        On a thread of a pool it is done at once: no thread waits for another.
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
