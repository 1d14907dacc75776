"""Iteration for both kinds of loop, over work that is done in batches."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator


class AsyncCloseableIterator[T](AsyncIterator[T]):
    """Items of successive batches, by `for` or by `async for`.

    A batch is worked out when its first item is asked for, by `async for` on a thread: producing it
    may read files. One loop at a time.
    """

    def __init__(self, batches: Iterable[Iterable[T]]) -> None:
        self._batches = iter(batches)
        self._current: Iterator[T] = iter(())

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        for item in self._current:
            return item
        for batch in self._batches:
            self._current = iter(batch)
            for item in self._current:
                return item
        raise StopIteration

    def __aiter__(self) -> "AsyncCloseableIterator[T]":
        return self

    async def __anext__(self) -> T:
        for item in self._current:
            return item
        while (batch := await asyncio.to_thread(next, self._batches, None)) is not None:
            self._current = iter(batch)
            for item in self._current:
                return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Drops what was not asked for yet."""
        self._current = iter(())
        self._batches = iter(())


def batched[T](items: Iterable[T], size: int) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
