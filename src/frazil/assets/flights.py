"""Loads that are under way."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event


@dataclass(slots=True)
class _Flight[V]:
    landed: Event = field(default_factory=Event)
    value: V | None = None  # None too if it failed


@dataclass(frozen=True, slots=True)
class Flights[K, V]:
    """Whoever wants what another thread is loading waits for that one.

    If it fails there they try for themselves, so that each gets an error of their own.
    """

    # By process as well: a forked child has none of the threads that would land.
    _under_way: dict[tuple[int, K], _Flight[V]] = field(default_factory=dict)

    def load(self, key: K, load: Callable[[K], V]) -> V:
        own = _Flight[V]()
        place = (os.getpid(), key)
        first = self._under_way.setdefault(place, own)
        if first is not own:
            first.landed.wait()
            return load(key) if first.value is None else first.value
        try:
            own.value = value = load(key)
        finally:
            del self._under_way[place]
            own.landed.set()
        return value
