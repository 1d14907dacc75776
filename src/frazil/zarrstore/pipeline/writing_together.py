"""Chunks that are written one by one, but at the same time, stored together.

Zarr writes the data of a new array region by region, several at a time. Those of one turn of its
event loop wait until the turn ends, and are then stored as one: small ones share a pack. For those
who want it:

    zarr.config.set({"frazil.write_together": True})
"""

import asyncio
import threading
from collections.abc import Buffer
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import zarr
from zarr.core.buffer import NDBuffer

from frazil.zarrstore.pipeline.batch import Batch
from frazil.zarrstore.pipeline.coding import Coding
from frazil.zarrstore.pipeline.reading import coders
from frazil.zarrstore.pipeline.writing import encode_batch

WANTED: Final = "frazil.write_together"


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    batch: Batch
    coding: Coding
    value: NDBuffer
    done: "asyncio.Future[None]"

    def encode(self) -> list[Buffer | None] | BaseException:
        try:
            return encode_batch(self.batch, self.coding, self.value)
        except BaseException as error:  # noqa: BLE001 -- whoever wished for it is told
            return error


def is_wanted() -> bool:
    return bool(zarr.config.get(WANTED, False))


class _OfThisThread(threading.local):
    """A loop runs in one thread, so what waits in it needs no lock."""

    def __init__(self) -> None:
        self.waiting = WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Wish]]()
        self.running = set[asyncio.Task[None]]()  # the loop itself would let go of them


_here = _OfThisThread()


async def write_together(batch: Batch, coding: Coding, value: NDBuffer) -> None:
    """Like `write_batch`; with all others that are written in this turn of the loop."""
    loop = asyncio.get_running_loop()
    wish = _Wish(batch, coding, value, loop.create_future())
    waiting = _here.waiting.setdefault(loop, [])
    waiting.append(wish)
    if len(waiting) == 1:
        loop.call_soon(_start, loop)
    await wish.done


def _start(loop: asyncio.AbstractEventLoop) -> None:
    by_array: dict[tuple[int, str], list[_Wish]] = {}
    for wish in _here.waiting.pop(loop):
        by_array.setdefault((id(wish.batch.engine), wish.batch.path.text), []).append(wish)
    for wishes in by_array.values():
        task = loop.create_task(_fulfil_all(_rounds(wishes)))
        _here.running.add(task)
        task.add_done_callback(_here.running.discard)


def _rounds(wishes: list[_Wish]) -> list[list[_Wish]]:
    """Wishes for different chunks of one array together; for the same chunk one after another."""
    rounds: list[list[_Wish]] = []
    turns: dict[tuple[int, ...], int] = {}  # in which each chunk may be written next
    for wish in wishes:
        places = [tuple(index) for index in wish.batch.index.tolist()]
        turn = max(turns.get(place, 0) for place in places)
        turns.update(dict.fromkeys(places, turn + 1))
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(wish)
    return rounds


async def _fulfil_all(rounds: list[list[_Wish]]) -> None:
    for wishes in rounds:
        await _fulfil(wishes)


async def _fulfil(wishes: list[_Wish]) -> None:
    try:
        failures = await asyncio.to_thread(_write, wishes)
    except BaseException as error:
        failures = [error] * len(wishes)
        if not isinstance(error, Exception):
            _tell(wishes, failures)
            raise
    _tell(wishes, failures)


def _tell(wishes: list[_Wish], failures: list[BaseException | None]) -> None:
    for wish, failure in zip(wishes, failures, strict=True):
        if wish.done.done():  # whoever asked has gone away
            continue
        if failure is None:
            wish.done.set_result(None)
        else:
            wish.done.set_exception(failure)


def _write(wishes: list[_Wish]) -> list[BaseException | None]:
    """What kept each of them from being written, if anything did."""
    encoded = coders.map(_Wish.encode, wishes)
    good = [
        (wish.batch, made)
        for wish, made in zip(wishes, encoded, strict=True)
        if not isinstance(made, BaseException)
    ]
    if good:
        first = good[0][0]
        index = np.concatenate([batch.index for batch, _ in good])
        first.engine.change_chunks(first.path, index, [each for _, made in good for each in made])
    return [made if isinstance(made, BaseException) else None for made in encoded]
