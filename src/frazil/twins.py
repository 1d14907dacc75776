"""Asynchronous twins of methods and iterators, which do their work on a thread."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from functools import partial, wraps
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, cast

from frazil.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = lazy_module("asyncio")

_SUFFIX = "_async"
_NOTHING: Any = object()

type Runner = Callable[[Any, Callable[[], Any]], Awaitable[Any]]  # (self, call) -> result


async def run_on_thread[T](owner: object, call: Callable[[], T]) -> T:
    """Returns the result of a call that a thread makes for an object."""
    del owner
    return await asyncio.to_thread(call)


def async_twin[**P, R](
    method: Callable[P, R], *, run: Runner = run_on_thread
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Returns a coroutine method that calls the method of that name on a thread.

    Use it below the method: `commit_async = async_twin(commit)`. An override in a subclass is what
    the twin calls. A static method's twin must be wrapped: `staticmethod(async_twin(exists))`.

    Args:
        method: a function of a class body, or a static method.
        run: awaited with the object and the call, in place of a thread.
    """
    name = method.__name__

    async def twin(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await run(self, partial(getattr(self, name), *args, **kwargs))

    async def static_twin(*args: Any, **kwargs: Any) -> Any:
        return await run(None, partial(method, *args, **kwargs))

    chosen = static_twin if isinstance(method, staticmethod) else twin
    return cast("Callable[P, Coroutine[Any, Any, R]]", _with_signature(chosen, method))


class AsyncConstructor[**P](Protocol):
    """A class method that returns an instance of the class, awaited."""

    def __get__[T](
        self, instance: T | None, owner: type[T], /
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...


def async_constructor[T, **P](
    method: Callable[Concatenate[type[T], P], T],
) -> AsyncConstructor[P]:
    """Returns the twin of a class method that makes an instance: `open_async` of `open`."""
    name = method.__name__

    async def twin(cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(cls, name), *args, **kwargs)

    return cast("AsyncConstructor[P]", classmethod(_with_signature(twin, method)))


def _with_signature(twin: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the twin the signature and the docstring of the method, and a name of its own."""
    twin = wraps(getattr(method, "__func__", method))(twin)
    twin.__name__ += _SUFFIX
    twin.__qualname__ += _SUFFIX
    return twin


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
        """Continues where the last loop stopped; takes half the time of `__next__`."""
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

    def peek(self, count: int) -> list[T]:
        """Returns the next items, at most so many, without taking them."""
        items = list(islice(self, count))
        with self._advancing:
            self._current = chain(items, self._current)
        return items

    async def aclose(self) -> None:
        """Drops the remaining items and what produces them."""
        await asyncio.to_thread(self._close)

    def _advance(self) -> bool:
        """Makes the next batch the current one, unless there is none or one is current."""
        with self._advancing:
            known = next(self._current, _NOTHING)
            if known is not _NOTHING:  # of a batch that no one waited for
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
