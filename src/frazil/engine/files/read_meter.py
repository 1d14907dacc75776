"""Counters of what this process reads of chunks: the metrics of Spark's tasks."""

import os
from dataclasses import astuple
from threading import Lock
from time import perf_counter

from frazil.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Sums over the chunks of arrays. Metadata files are not counted.

    `chunks` are those that have stored bytes; a shard is one, even if little of it is read.
    `cached` are parts of chunks that were in memory. `waiting_us` is the time in which at least
    one thread waited for bytes.
    """

    chunks: int = 0
    cached: int = 0
    fetched_bytes: int = 0
    decoded_bytes: int = 0
    waiting_us: int = 0

    def since(self, before: "ReadCounts") -> "ReadCounts":
        pairs = zip(astuple(self), astuple(before), strict=True)
        return ReadCounts(*(now - then for now, then in pairs))


class ReadMeter:
    """Counts for all threads of a process. Several counts are added at once, by batches."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._chunks = self._cached = self._fetched = self._decoded = 0
        self._waiting_s = 0.0
        self._waiters = 0
        self._since = 0.0  # when the first of the waiters began

    def counts(self) -> ReadCounts:
        """The sums so far, without the requests that are under way."""
        with self._lock:
            waiting_us = round(self._waiting_s * 1e6)
            return ReadCounts(self._chunks, self._cached, self._fetched, self._decoded, waiting_us)

    def add(self, *, chunks: int = 0, cached: int = 0, fetched: int = 0, decoded: int = 0) -> None:
        """Adds to the counts; `fetched` and `decoded` are bytes."""
        with self._lock:
            self._chunks += chunks
            self._cached += cached
            self._fetched += fetched
            self._decoded += decoded

    def waiting(self) -> "ReadMeter":
        """A context around a request for chunks, or several."""
        return self

    def __enter__(self) -> None:
        with self._lock:
            if self._waiters == 0:
                self._since = perf_counter()
            self._waiters += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waiters -= 1
            if self._waiters == 0:
                self._waiting_s += perf_counter() - self._since

    def restart(self) -> None:
        """Called in a forked child, which has none of the threads that may hold the lock."""
        self._lock = Lock()
        self._waiters = 0


read_meter = ReadMeter()
os.register_at_fork(after_in_child=read_meter.restart)
