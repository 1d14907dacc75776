"""A bounded memory of decoded files."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class WeighedCache[K, V]:
    """The most recently used values whose weights add up to at most `capacity`.

    A value heavier than the whole capacity is returned but not kept. Two threads that miss the
    same key at once may both fetch it: files are immutable, so either result will do.
    """

    capacity: int
    weigh: Callable[[V], int]
    _values: OrderedDict[K, tuple[V, int]] = field(default_factory=OrderedDict)
    _weight: int = 0
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: K) -> V | None:
        """What is remembered; nothing is loaded."""
        with self._lock:
            if (known := self._values.get(key)) is None:
                return None
            self._values.move_to_end(key)
            return known[0]

    def fetch(self, key: K, load: Callable[[K], V]) -> V:
        if (known := self.find(key)) is not None:
            return known
        value = load(key)
        self.remember(key, value)
        return value

    def remember(self, key: K, value: V) -> None:
        weight = max(1, self.weigh(value))
        if weight > self.capacity:
            return
        with self._lock:
            if (old := self._values.pop(key, None)) is not None:
                self._weight -= old[1]
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self.capacity:
                _, (_, lightened) = self._values.popitem(last=False)
                self._weight -= lightened
