"""A bounded memory of decoded files."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class WeighedCache[K, V]:
    """The most recently used values whose weights add up to at most `capacity`.

    And whose sizes add up to at most `most_bytes`, as far as they are known.
    A value that alone is more than that is returned but not kept. Two threads that miss the
    same key at once may both fetch it: files are immutable, so either result will do.
    """

    capacity: int
    weigh: Callable[[V], int]
    most_bytes: int = 1 << 62
    size: Callable[[V], int] = lambda _: 0
    _values: OrderedDict[K, tuple[V, int, int]] = field(default_factory=OrderedDict)
    _weight: int = 0
    _bytes: int = 0
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
        weight, size = max(1, self.weigh(value)), self.size(value)
        if weight > self.capacity or size > self.most_bytes:
            return
        with self._lock:
            if (old := self._values.pop(key, None)) is not None:
                self._forget(old)
            self._values[key] = (value, weight, size)
            self._weight += weight
            self._bytes += size
            while self._weight > self.capacity or self._bytes > self.most_bytes:
                self._forget(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._weight = self._bytes = 0

    def _forget(self, entry: tuple[V, int, int]) -> None:
        self._weight -= entry[1]
        self._bytes -= entry[2]
