"""Requests to remote stores: options of the client, and a limit on concurrent ones."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import BoundedSemaphore, Lock
from typing import Any, Literal

from frazil.errors import StorageError
from frazil.objectstore.protocol import RemoteSettings

type Role = Literal["read", "write"]

# The body of a request that is still being sent counts as silence of the server, so a writer has
# to be patient: 100 MiB through a line of 3 Mbit/s.
_WRITE_SILENCE_S = 300


def retry_options(settings: RemoteSettings) -> Any:
    """The `retry_config` of an obstore client."""
    limit_ms = settings.operation_timeout_ms
    return {
        "max_retries": settings.max_tries - 1,
        "retry_timeout": timedelta(milliseconds=180_000 if limit_ms is None else limit_ms),
        "backoff": {
            "init_backoff": timedelta(milliseconds=max(1, settings.initial_backoff_ms)),
            "max_backoff": timedelta(milliseconds=max(1, settings.max_backoff_ms)),
            "base": 2,
        },
    }


def client_options(
    settings: RemoteSettings,
    role: Role,
    *,
    allow_http: bool,
    headers: tuple[tuple[str, str], ...],
    stream_timeout_s: int = 60,  # 0: no limit
) -> dict[str, Any]:
    """The `client_options` of an obstore client."""
    options: dict[str, Any] = {
        "allow_http": allow_http,
        # obstore's own limit covers the whole body: a slow download would fail though all is well.
        "timeout": _duration(settings.attempt_timeout_ms, timedelta(days=1)),
    }
    silence = timedelta(seconds=stream_timeout_s)
    if role == "write" and silence:
        silence = max(silence, timedelta(seconds=_WRITE_SILENCE_S))
    if settings.read_timeout_ms is not None or silence:
        options["read_timeout"] = _duration(settings.read_timeout_ms, silence)
    if settings.connect_timeout_ms is not None:
        options["connect_timeout"] = timedelta(milliseconds=settings.connect_timeout_ms)
    if settings.user_agent is not None:
        options["user_agent"] = settings.user_agent
    if headers:
        options["default_headers"] = dict(headers)
    return options


def _duration(given_ms: int | None, default: timedelta) -> timedelta:
    return default if given_ms is None else timedelta(milliseconds=given_ms)


# A bounded number of requests at a time, and none in a forked process


class Requests:
    """Limits requests to `at_once` at a time, and those for one object to `per_object` threads."""

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
        with self._several:  # two that each hold half of what they need would never end
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
# ones: a request in the child would never end. It is a fact of the process, hence no argument.
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
