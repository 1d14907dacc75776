"""One iterator for both kinds of loop."""

import asyncio
from collections.abc import Iterator
from threading import Event

import pytest

from frazil.twins import AsyncCloseableIterator


def batches(made: list[int]) -> Iterator[list[int]]:
    for start in range(0, 6, 2):
        made.append(start)
        yield [start, start + 1]
        yield []


def test_a_plain_loop_sees_every_item() -> None:
    assert list(AsyncCloseableIterator(batches([]))) == [0, 1, 2, 3, 4, 5]


async def test_an_async_loop_sees_every_item() -> None:
    assert [item async for item in AsyncCloseableIterator(batches([]))] == [0, 1, 2, 3, 4, 5]


async def test_a_batch_is_made_when_it_is_needed() -> None:
    made: list[int] = []
    items = AsyncCloseableIterator(batches(made))
    assert made == []
    assert await anext(items) == 0
    assert next(items) == 1
    assert made == [0]
    assert await anext(items) == 2
    assert made == [0, 2]


async def test_closing_drops_the_rest() -> None:
    items = AsyncCloseableIterator(batches([]))
    assert await anext(items) == 0
    await items.aclose()
    assert [item async for item in items] == []
    assert list(items) == []


async def test_an_error_in_a_batch_reaches_the_loop() -> None:
    def failing() -> Iterator[list[int]]:
        yield [1]
        raise RuntimeError("broken")

    items = AsyncCloseableIterator(failing())
    assert await anext(items) == 1
    with pytest.raises(RuntimeError, match="broken"):
        await anext(items)


async def test_other_tasks_run_while_a_batch_is_made() -> None:
    running = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow() -> Iterator[list[int]]:
        asyncio.run_coroutine_threadsafe(running.wait(), loop).result(timeout=120)
        yield [1]

    reading = asyncio.create_task(anext(AsyncCloseableIterator(slow())))
    await asyncio.sleep(0)
    running.set()
    assert await reading == 1


async def test_closing_ends_what_produces_the_batches() -> None:
    ended: list[str] = []

    def holding() -> Iterator[list[int]]:
        try:
            yield from ([1], [2])
        finally:
            ended.append("released")

    items = AsyncCloseableIterator(holding())
    assert await anext(items) == 1
    await items.aclose()
    assert ended == ["released"]
    await items.aclose()  # a second time changes nothing


async def test_closing_waits_for_the_batch_that_is_being_made() -> None:
    going, may_end, ended = Event(), Event(), []

    def slow() -> Iterator[list[int]]:
        try:
            going.set()
            may_end.wait(5)
            yield [1]
        finally:
            ended.append("released")

    items = AsyncCloseableIterator(slow())
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.to_thread(going.wait, 5)
    waiting.cancel()
    closing = asyncio.ensure_future(items.aclose())
    await asyncio.sleep(0.01)
    assert ended == []
    may_end.set()
    await closing
    assert ended == ["released"]


async def test_a_loop_that_was_cancelled_can_be_gone_on_with() -> None:
    going, may_end = Event(), Event()

    def slow() -> Iterator[list[int]]:
        going.set()
        may_end.wait(5)
        yield [1, 2]
        yield [3]

    items = AsyncCloseableIterator(slow())
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.to_thread(going.wait, 5)
    waiting.cancel()
    going_on = asyncio.ensure_future(_all(items))
    await asyncio.sleep(0.01)
    may_end.set()
    assert await going_on == [1, 2, 3]


async def _all(items: AsyncCloseableIterator[int]) -> list[int]:
    return [item async for item in items]
