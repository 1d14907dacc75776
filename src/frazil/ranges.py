"""Ranges of bytes in an object."""

from typing import assert_never

from frazil.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `start` up to, not including, `stop`."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"not a byte range: {self.start}..{self.stop}")

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class From:
    """All bytes from `start` on."""

    start: int


@dataclass(frozen=True, slots=True)
class Last:
    """The last `count` bytes."""

    count: int


@dataclass(frozen=True, slots=True)
class Until:
    """All but the last `count` bytes."""

    count: int


type ByteRange = Range | From | Last | Until


def resolve(wanted: ByteRange | None, size: int) -> Range:
    """`wanted` within an object of `size` bytes, cut off at its ends."""
    match wanted:
        case None:
            return Range(0, size)
        case Range(start, stop):
            return Range(min(start, size), min(stop, size))
        case From(start):
            return Range(min(start, size), size)
        case Last(count):
            return Range(max(0, size - count), size)
        case Until(count):
            return Range(0, max(0, size - count))
        case _:
            assert_never(wanted)
