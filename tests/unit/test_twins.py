"""Asynchronous twins: they run the method on a thread, and look like it."""

import inspect
import threading
from collections.abc import Callable
from typing import Any, Self

import pytest

from frazil.twins import async_constructor, async_twin

MAIN = threading.main_thread()


async def at_once(owner: object, call: Callable[[], Any]) -> Any:
    return owner, call()


class Thing:
    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.thread = threading.current_thread()

    @classmethod
    def make(cls, size: int, *, twice: bool = False) -> Self:
        """Makes one."""
        return cls(size * (1 + twice))

    make_async = async_constructor(make)

    @staticmethod
    def thread_of(name: str = "x") -> tuple[str, threading.Thread]:
        """Finds the thread."""
        return name, threading.current_thread()

    thread_of_async = staticmethod(async_twin(thread_of))

    def grow(self, *parts: int, by: int = 1) -> int:
        """Grows."""
        self.thread = threading.current_thread()
        return self.size + sum(parts) + by

    grow_async = async_twin(grow)
    grow_now = async_twin(grow, run=at_once)


class Larger(Thing):
    def grow(self, *parts: int, by: int = 1) -> int:
        return 100 + super().grow(*parts, by=by)


async def test_a_twin_runs_the_method_on_a_thread() -> None:
    thing = Thing(3)
    assert await thing.grow_async(1, 2, by=4) == 10
    assert thing.thread is not MAIN
    name, thread = await Thing.thread_of_async(name="y")
    assert (name, thread is MAIN) == ("y", False)
    assert (await Thing.make_async(2, twice=True)).size == 4


async def test_a_subclass_is_respected() -> None:
    assert await Larger().grow_async() == 101
    assert type(await Larger.make_async(1)) is Larger
    assert type(await Larger().make_async(1)) is Larger


async def test_another_runner_gets_the_object_and_the_call() -> None:
    thing = Thing()
    found: object = await thing.grow_now(5)
    assert found == (thing, 6)
    assert thing.thread is MAIN


def test_a_twin_looks_like_its_method() -> None:
    for name in ("make", "thread_of", "grow"):
        method, twin = getattr(Thing, name), getattr(Thing, f"{name}_async")
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(method)
        assert twin.__doc__ == method.__doc__
        assert twin.__name__ == f"{name}_async"
        assert twin.__qualname__ == f"Thing.{name}_async"
    assert inspect.signature(Thing().grow_async) == inspect.signature(Thing().grow)


async def test_an_error_of_the_method_is_raised() -> None:
    with pytest.raises(TypeError, match="can only concatenate"):
        await Thing("x").grow_async()  # type: ignore[arg-type]  # what is tested
