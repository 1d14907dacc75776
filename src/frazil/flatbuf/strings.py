"""Byte strings anywhere in a heap of bytes, as two columns of numbers."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from operator import le
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.ragged import (
    FEW,
    Bytes1,
    Ints,
    are_long,
    as_readonly,
    gather,
    make_unchecked,
    run_mask,
    splits_of,
)

# Strings of so many different lengths are compared one by one.
MANY_LENGTHS: Final = 256
TOGETHER: Final = 1 << 12  # strings that become text at once
LONGEST: Final = 1 << 10  # bytes of strings that are compared eight at a time
# Of a word, by the number of its bytes that belong to a string
MASKS: Final = np.array([-1 << 8 * (8 - size) & (1 << 64) - 1 for size in range(9)], np.uint64)
MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # odd and without pattern: 2**64 / golden ratio


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """String i is `heap[start[i] : start[i] + length[i]]`. Strings may overlap and repeat.

    A decoded table's strings point into the decoded buffer, which they keep alive.
    """

    heap: Bytes1  # (size,)
    start: Ints  # (m,)
    length: Ints  # (m,)

    def __post_init__(self) -> None:
        for name in ("heap", "start", "length"):
            array = getattr(self, name)
            if array.flags.writeable:
                object.__setattr__(self, name, as_readonly(array))
        if self.start.shape != self.length.shape or self.start.ndim != 1:
            raise ValueError(f"{self.start.shape} starts do not match {self.length.shape} lengths")
        if not self._are_inside():
            raise ValueError(f"strings reach outside their heap of {len(self.heap)} bytes")

    def _are_inside(self) -> bool:
        """True if every string lies inside the heap."""
        size = len(self.heap)
        if len(self.start) <= FEW:  # faster without numpy
            pairs = zip(self.start.tolist(), self.length.tolist(), strict=True)
            return all(start >= 0 and 0 <= length <= size - start for start, length in pairs)
        if int(self.start.min()) < 0 or int(self.length.min()) < 0:
            return False
        bound = int(self.start.max()) + int(self.length.max())
        return bound <= size or int((self.start + self.length).max()) <= size

    @classmethod
    def from_list(cls, items: Iterable[bytes | str]) -> Self:
        encoded = [item.encode() if isinstance(item, str) else bytes(item) for item in items]
        length = np.fromiter(map(len, encoded), np.int64, len(encoded))
        heap = np.frombuffer(b"".join(encoded), np.uint8)
        return make_unchecked(cls, heap, splits_of(length)[:-1], length)

    @classmethod
    @cache
    def empty(cls) -> Self:
        """Always the same one: columns without strings are then known to share theirs."""
        return cls.from_list(())

    def __len__(self) -> int:
        return len(self.start)

    def item(self, index: int) -> bytes:
        start = int(self.start[index])
        return self.heap[start : start + int(self.length[index])].tobytes()

    def text(self, index: int) -> str:
        return _text(self.item(index))

    def to_list(self) -> list[bytes]:
        if are_long(self.length):
            data, start = memoryview(self.heap), self.start
            pairs = zip(start.tolist(), (start + self.length).tolist(), strict=True)
            return [bytes(data[first:last]) for first, last in pairs]
        joined = self.joined().tobytes()  # a slice of bytes costs half of one of the heap
        return [joined[first:last] for first, last in pairwise(splits_of(self.length).tolist())]

    def to_texts(self) -> list[str]:
        return [text for row in range(0, len(self), TOGETHER) for text in self._few_texts(row)]

    def _few_texts(self, row: int) -> list[str]:
        """The next few, decoded together: taking one text apart at its zeros is one pass in C."""
        part = self.take(slice(row, row + TOGETHER))
        data = _zero_terminate(part.joined(), part.length)
        try:
            texts = data.decode().split("\0")
        except UnicodeDecodeError:
            texts = []
        if len(texts) != len(part) + 1:  # one that is not text, or that has a zero in it
            return [_text(item) for item in part.to_list()]
        texts.pop()
        return texts

    def take(self, index: Ints | slice) -> Self:
        return make_unchecked(type(self), self.heap, self.start[index], self.length[index])

    def joined(self) -> Bytes1:
        """All strings end to end."""
        return gather(self.heap, self.start, self.length)

    def compact(self) -> Self:
        """The same strings in a heap that holds nothing else."""
        return make_unchecked(type(self), self.joined(), splits_of(self.length)[:-1], self.length)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Strings of all parts in order. One heap stays as it is; others are copied together.

        A heap that consists of little else than its strings is copied whole, the others without
        what no string uses.
        """
        if not parts:
            return cls.empty()
        start = [part.start for part in parts]
        length = np.concatenate([part.length for part in parts])
        if all(part.heap is parts[0].heap for part in parts):
            return make_unchecked(cls, parts[0].heap, np.concatenate(start), length)
        parts = [part if part.is_dense else part.compact() for part in parts]
        shifts = splits_of(np.array([len(part.heap) for part in parts]))[:-1]
        start = [part.start + shift for part, shift in zip(parts, shifts, strict=True)]
        heap = np.concatenate([part.heap for part in parts])
        return make_unchecked(cls, heap, np.concatenate(start), length)

    @property
    def is_dense(self) -> bool:
        """True if the heap is at most twice as large as its strings in total."""
        return len(self.heap) <= 2 * int(self.length.sum())

    def unique(self) -> tuple[Ints, Self]:
        """A code for each string, and the distinct strings so numbered, first seen first."""
        first = np.empty(len(self), np.int64)  # the row where each row's string is seen first
        lengths, groups = np.unique(self.length, return_inverse=True)
        if len(lengths) > MANY_LENGTHS:
            return self._unique_one_by_one()
        for group, length in enumerate(lengths.tolist()):
            rows = np.flatnonzero(groups == group)
            found = _first_equal(self.take(rows).joined().reshape(len(rows), length))
            if found is None:
                return self._unique_one_by_one()
            first[rows] = rows[found]
        kept = np.flatnonzero(first == np.arange(len(first)))
        numbers = np.empty(len(first), np.int64)
        numbers[kept] = np.arange(len(kept))
        return numbers[first], self.take(kept)

    def _unique_one_by_one(self) -> tuple[Ints, Self]:
        seen: dict[bytes, int] = {}
        codes = [seen.setdefault(item, len(seen)) for item in self.to_list()]
        return np.array(codes, np.int64), type(self).from_list(seen)

    def are_ascending(self) -> bool:
        """True if no string is less than its predecessor, by bytes."""
        if len(self) < 2:
            return True
        longest = int(self.length.max())
        if longest > LONGEST or len(self.heap) < 8:
            items = self.to_list()
            return all(map(le, items, items[1:]))
        equal = np.arange(len(self) - 1)  # those that so far are as the next
        for place in range(0, longest, 8):
            words = self._words(place)
            lower, upper = words[equal], words[equal + 1]
            if bool((lower > upper).any()):
                return False
            equal = equal[lower == upper]
            if not len(equal):
                return True
        return bool((self.length[equal] <= self.length[equal + 1]).all())

    def _words(self, place: int) -> npt.NDArray[np.uint64]:
        """The eight bytes of each from one place on, as a number; zeros beyond its end."""
        words = np.ndarray((len(self.heap) - 7,), ">u8", self.heap, 0, (1,))  # from every byte
        wanted = self.start + place
        found = np.minimum(wanted, len(words) - 1)
        beyond = np.minimum(wanted - found, 7).astype(np.uint64)  # a word lies there only in part
        sizes = np.clip(self.length - place, 0, 8)
        return words[found].astype(np.uint64) << beyond * np.uint64(8) & MASKS[sizes]

    def equals(self, other: "Strings") -> bool:
        return np.array_equal(self.length, other.length) and np.array_equal(
            self.joined(), other.joined()
        )


def _first_equal(items: Bytes1) -> Ints | None:
    """Index of the first equal row for each row of a matrix; None if hashes collide."""
    count, length = items.shape
    if length == 0:
        return np.zeros(count, np.int64)
    words = np.zeros((count, -(-length // 8)), np.uint64)
    words.view(np.uint8)[:, :length] = items
    digest = np.zeros(count, np.uint64)
    for column in range(words.shape[1]):
        digest ^= words[:, column]
        digest *= MULTIPLIER
        digest ^= digest >> np.uint64(29)
    _, first, codes = np.unique(digest, return_index=True, return_inverse=True)
    found = first[codes].astype(np.int64)
    return found if bool((words[found] == words).all()) else None


def _zero_terminate(joined: Bytes1, length: Ints) -> bytes:
    """Strings that lie end to end, each followed by a zero."""
    count, first = len(length), int(length[0])
    if bool((length == first).all()):
        even = np.zeros((count, first + 1), np.uint8)
        even[:, :first] = joined.reshape(count, first)
        return even.tobytes()
    splits = splits_of(length + 1)
    data = np.zeros(int(splits[-1]), np.uint8)
    data[run_mask(splits[:-1], length, len(data))] = joined
    return data.tobytes()


def _text(item: bytes) -> str:
    try:
        return item.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"text is not UTF-8: {item[:40]!r}: {error.reason}") from error
