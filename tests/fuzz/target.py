"""A reader of bytes, what to start from, and what it may raise."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.errors import FormatError


@dataclass(frozen=True, slots=True)
class Target:
    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    allowed: tuple[type[Exception], ...] = (FormatError,)

    def attempt(self, data: bytes) -> None:
        with suppress(*self.allowed):
            self.read(data)
