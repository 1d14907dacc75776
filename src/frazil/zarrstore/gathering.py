"""Parts of files that zarr asks for one by one, fetched together.

Zarr asks for several chunks in one turn of its event loop. Those that are virtual wait until the
turn ends, and are then fetched as one plan, in which neighbours in a file share a request.
"""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from frazil.assets.virtual.chunks import VirtualChunks
from frazil.errors import IcechunkError
from frazil.format.payloads import Virtual
from frazil.objectstore.protocol import Data
from frazil.ranges import Range


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    virtual: VirtualChunks
    chunk: Virtual
    part: Range
    answer: "asyncio.Future[Data]"


class _OfThisThread(threading.local):
    """A loop runs in one thread, so what waits in it needs no lock."""

    def __init__(self) -> None:
        self.waiting = WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Wish]]()
        self.running = set[asyncio.Task[None]]()  # the loop itself would let go of them


_here = _OfThisThread()


async def fetch_together(virtual: VirtualChunks, chunk: Virtual, part: Range) -> Data:
    """A part of a chunk; with all others that are asked for in this turn of the loop."""
    loop = asyncio.get_running_loop()
    wish = _Wish(virtual, chunk, part, loop.create_future())
    waiting = _here.waiting.setdefault(loop, [])
    waiting.append(wish)
    if len(waiting) == 1:
        loop.call_soon(_start, loop)
    return await wish.answer


def _start(loop: asyncio.AbstractEventLoop) -> None:
    by_repository: dict[int, list[_Wish]] = {}
    for wish in _here.waiting.pop(loop):
        by_repository.setdefault(id(wish.virtual), []).append(wish)
    for wishes in by_repository.values():
        task = loop.create_task(_fulfil(wishes))
        _here.running.add(task)
        task.add_done_callback(_here.running.discard)


async def _fulfil(wishes: Sequence[_Wish]) -> None:
    wanted = [(wish.chunk, wish.part) for wish in wishes]
    try:
        found = await asyncio.to_thread(wishes[0].virtual.fetch_parts, wanted)
    except BaseException as error:
        for wish in wishes:
            if not wish.answer.done():
                wish.answer.set_exception(error)
        raise
    for wish, part in zip(wishes, found, strict=True):
        if wish.answer.done():  # whoever asked has gone away
            continue
        if isinstance(part, IcechunkError):
            wish.answer.set_exception(part)
        else:
            wish.answer.set_result(part)
