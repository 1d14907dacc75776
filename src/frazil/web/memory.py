"""A few results that took work, kept for whoever asks again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock


class Memory[T]:
    """The results used last, `most` of them. Two who ask for the same at once wait for one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._guard = Lock()

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under `key`, or else what `make` returns; if that raises nothing is kept."""
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            making = self._making.setdefault(key, Lock())
        with making:
            with self._guard:
                if key in self._kept:
                    return self._kept[key]
            try:
                made = make()
            finally:
                with self._guard:
                    self._making.pop(key, None)
            with self._guard:
                self._kept[key] = made
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            return made
