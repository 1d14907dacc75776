"""A store that answers only while its gate is open, and a clock of how long a loop stood still."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Verb
from frazil.testing.hooked_store import HookedStore

HELD_S = 40.0  # how long a request waits before it goes on all the same; no test waits for it


class Gated(HookedStore[ObjectStore]):
    """Requests wait at the gate: a thread that makes one can be seen not to come back."""

    def __init__(self, inner: ObjectStore, *, reads_pass: bool = False) -> None:
        super().__init__(inner, before=self._wait)
        self._reads_pass = reads_pass
        self._open, self._arrived = Event(), Event()
        self.open()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._arrived.clear()
        self._open.clear()

    async def request_arrives(self) -> None:
        """Waits until a request stands at the gate."""
        while not self._arrived.is_set():  # noqa: ASYNC110 -- it is set by another thread
            await asyncio.sleep(0.005)

    def _wait(self, verb: Verb, key: str) -> None:
        del key
        if self._reads_pass and verb in {"get", "get_ranges", "head", "list"}:
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
