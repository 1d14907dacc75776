"""Iteration for both kinds of loop, over work that is done in batches."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from itertools import chain
from threading import Lock
from typing import Any

_NOTHING: Any = object()


class AsyncCloseableIterator[T](AsyncIterator[T]):
    """Items of successive batches, by `for` or by `async for`.

    A batch is worked out when its first item is asked for, by `async for` on a thread: producing it
    may read files. One loop at a time; if it is cancelled while it waits, nothing is left out
    when another goes on.
    """

    def __init__(self, batches: Iterable[Iterable[T]]) -> None:
        self._batches = iter(batches)
        self._current: Iterator[T] = iter(())
        self._advancing = Lock()  # a thread goes on with its batch when the loop has lost interest

    def __iter__(self) -> Iterator[T]:
        """Where the last loop left off; in half the time that `__next__` takes."""
        while True:
            yield from self._current
            if not self._advance():
                return

    def __next__(self) -> T:
        for item in self._current:
            return item
        while self._advance():
            for item in self._current:
                return item
        raise StopIteration

    def __aiter__(self) -> "AsyncCloseableIterator[T]":
        return self

    async def __anext__(self) -> T:
        for item in self._current:
            return item
        while await asyncio.to_thread(self._advance):
            for item in self._current:
                return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Drops what was not asked for yet, and whatever is held to produce it."""
        await asyncio.to_thread(self._close)

    def _advance(self) -> bool:
        """Makes the next batch the current one, unless there is none or one is at hand."""
        with self._advancing:
            known = next(self._current, _NOTHING)
            if known is not _NOTHING:  # of a batch that nobody waited for
                self._current = chain([known], self._current)
                return True
            for batch in self._batches:
                self._current = iter(batch)
                return True
            return False

    def _close(self) -> None:
        with self._advancing:
            batches, self._batches = self._batches, iter(())
            self._current = iter(())
            if isinstance(batches, Generator):
                batches.close()
