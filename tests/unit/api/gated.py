"""A store that answers only while its gate is open, and a clock of how long a loop stood still."""

import asyncio
import time
from collections.abc import AsyncIterator, Buffer, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Event

from frazil.objectstore.protocol import (
    ALWAYS,
    Blob,
    DataList,
    ObjectInfo,
    ObjectStore,
    Precondition,
)
from frazil.ranges import ByteRange, Range

HELD_S = 40.0  # how long a request waits before it goes on all the same; no test waits for it


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """Requests wait at the gate: a thread that makes one can be seen not to come back."""

    inner: ObjectStore
    reads_pass: bool = False
    _open: Event = field(default_factory=Event)
    _arrived: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._arrived.clear()
        self._open.clear()

    async def request(self) -> None:
        """Waits until somebody stands at the gate."""
        while not self._arrived.is_set():  # noqa: ASYNC110 -- it is set by another thread
            await asyncio.sleep(0.005)

    @property
    def writable(self) -> bool:
        return self.inner.writable

    @property
    def far(self) -> bool:
        return self.inner.far

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        self._wait(reads=True)
        return self.inner.get(key, byte_range)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> DataList:
        self._wait(reads=True)
        return self.inner.get_ranges(key, ranges)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        self._wait()
        return self.inner.put(key, data, when=when)

    def head(self, key: str) -> ObjectInfo:
        self._wait(reads=True)
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._wait(reads=True)
        return self.inner.list(prefix)

    def delete(self, keys: Iterable[str]) -> int:
        self._wait()
        return self.inner.delete(keys)

    def copy(self, source: str, target: str) -> None:
        self._wait()
        self.inner.copy(source, target)

    def sync(self) -> None:
        self._wait()
        self.inner.sync()

    def _wait(self, *, reads: bool = False) -> None:
        if reads and self.reads_pass:
            return
        if not self._open.is_set():
            self._arrived.set()
            self._open.wait(HELD_S)


@asynccontextmanager
async def no_standstill() -> AsyncIterator[None]:
    """Fails if the event loop does nothing for half as long as a request is held."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    yield
    await asyncio.sleep(0.02)
    ticking.cancel()
    assert gaps
    assert max(gaps) < HELD_S / 2
