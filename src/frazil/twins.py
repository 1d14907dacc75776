"""Asynchronous twins of methods, which run the method on a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Protocol, cast

_SUFFIX = "_async"

type Runner = Callable[[Any, Callable[[], Any]], Awaitable[Any]]  # (self, call) -> result


async def _on_thread(owner: object, call: Callable[[], Any]) -> Any:
    del owner
    return await asyncio.to_thread(call)


def async_twin[**P, R](
    method: Callable[P, R], *, run: Runner = _on_thread
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
