"""Which of many texts begin how: a few prefixes against a table of a million strings."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.ragged import Bytes1, Ints
from frazil.flatbuf.strings import Strings

type Bools = npt.NDArray[np.bool_]
_WORD = 8


def starts_with(texts: Strings, prefix: bytes) -> Bools:
    """(m,) whether each string begins with `prefix`; compared by words, not by letters."""
    if not prefix:
        return np.ones(len(texts), np.bool_)
    rows = np.flatnonzero(texts.length >= len(prefix))
    start = texts.start[rows]
    whole = len(prefix) // _WORD * _WORD
    for at in range(0, whole, _WORD):
        word = np.frombuffer(prefix[at : at + _WORD], np.uint64)[0]
        hit = _words(texts.heap)[start + at] == word
        rows, start = rows[hit], start[hit]
    for at in range(whole, len(prefix)):
        hit = texts.heap[start + at] == prefix[at]
        rows, start = rows[hit], start[hit]
    found = np.zeros(len(texts), np.bool_)
    found[rows] = True
    return found


def _words(heap: Bytes1) -> npt.NDArray[np.uint64]:
    """The eight bytes from each byte on, as one number; a view."""
    count = max(len(heap) - _WORD + 1, 0)
    return np.ndarray((count,), np.uint64, buffer=heap, strides=(1,))


def longest_prefix(texts: Strings, prefixes: Sequence[bytes]) -> Ints:
    """(m,) the number of the longest prefix that each string begins with, -1 if none does."""
    found = np.full(len(texts), -1, np.int64)
    rows = np.arange(len(texts))
    for number in sorted(range(len(prefixes)), key=lambda each: -len(prefixes[each])):
        hit = starts_with(texts.take(rows), prefixes[number])
        found[rows[hit]] = number
        rows = rows[~hit]
        if not len(rows):
            break
    return found


def contain(texts: Strings, marks: Sequence[bytes]) -> Bools:
    """(m,) whether each string contains one of the marks; at no cost if none is anywhere."""
    joined = texts.joined()
    data = joined.tobytes()
    if not any(mark in data for mark in marks):
        return np.zeros(len(texts), np.bool_)
    starts = np.cumsum(texts.length) - texts.length
    found = np.zeros(len(texts), np.bool_)
    for mark in marks:
        at = _places(joined, mark)
        # The string that the mark begins in, if it ends there too.
        row = np.searchsorted(starts, at, side="right") - 1
        found[row[at + len(mark) <= starts[row] + texts.length[row]]] = True
    return found


def contain_any_of(texts: Strings, wanted: Bools) -> Bools:
    """(m,) whether each string has a byte that is marked in `wanted`, (256,)."""
    joined = texts.joined()
    at = np.flatnonzero(wanted[joined])
    found = np.zeros(len(texts), np.bool_)
    starts = np.cumsum(texts.length) - texts.length
    found[np.searchsorted(starts, at, side="right") - 1] = True
    return found


def with_changed(texts: Strings, chosen: Bools, change: Callable[[bytes], bytes]) -> Strings:
    """The table with the chosen strings, which should be few, replaced."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return texts
    new = Strings.from_list([change(item) for item in texts.take(rows).to_list()])
    place = np.arange(len(texts), dtype=np.int64)
    place[rows] = len(texts) + np.arange(len(rows))
    return Strings.concat([texts, new]).take(place)


def _places(heap: Bytes1, mark: bytes) -> Ints:
    """Where `mark` begins."""
    size = len(heap) - len(mark) + 1
    if size <= 0:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(heap[:size] == mark[0])
    for place in range(1, len(mark)):
        at = at[heap[at + place] == mark[place]]
    return at
