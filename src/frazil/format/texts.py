"""Columns of text from Python strings, at the speed of C, and put together without repeats."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from operator import ne

import numpy as np

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import splits_of, stacked
from frazil.flatbuf.strings import Strings

_SAMPLED = 100  # one text of so many is looked at, and a hundred neighbours here and there
_MANY = 100_000
type Texts = StringColumn | Strings | Sequence[str]


def coded(texts: Texts) -> StringColumn:
    """One row per text, equal ones stored once. What is coded already stays as it is.

    Of many texts that hardly ever repeat, the few that do are stored as often as they occur.
    """
    match texts:
        case StringColumn():
            return texts
        case Strings():
            codes, distinct = texts.unique()
            return StringColumn(codes, distinct)
        case _:
            if _seem_distinct(texts):
                return StringColumn.of(table(texts))
            if _seem_to_run(texts):
                return _coded_runs(texts)
            # A missing key numbers itself: one pass over the list, in C.
            numbers: defaultdict[str, int] = defaultdict(count().__next__)
            codes = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
            return StringColumn(codes, table(list(numbers)))


def _seem_distinct(texts: Sequence[str]) -> bool:
    """Whether looking for equal ones would cost more than it saves, going by a sample.

    Chosen at random, since files take turns in regular ways, and in runs, since neighbours are
    the likeliest to be equal.
    """
    if len(texts) < _MANY:
        return False
    random = np.random.default_rng(len(texts))  # the same texts are always coded the same
    rows = random.integers(0, len(texts), len(texts) // _SAMPLED)
    starts = random.integers(0, len(texts) - _SAMPLED, len(rows) // _SAMPLED)
    near = (starts[:, np.newaxis] + np.arange(_SAMPLED)).reshape(-1)
    sample = np.unique(np.concatenate([rows, near])).tolist()
    return len(set(map(texts.__getitem__, sample))) > 0.99 * len(sample)


def _seem_to_run(texts: Sequence[str]) -> bool:
    """Whether equal ones mostly follow each other, going by a sample: chunks file by file."""
    if len(texts) < _MANY:
        return False
    random = np.random.default_rng(len(texts))
    rows = random.integers(0, len(texts) - 1, len(texts) // (10 * _SAMPLED)).tolist()
    return bool(sum(texts[row] == texts[row + 1] for row in rows) > 0.9 * len(rows))


def _coded_runs(texts: Sequence[str]) -> StringColumn:
    """To compare a text with its neighbour takes half as long as to look it up."""
    changes = np.fromiter(map(ne, islice(texts, 1, None), texts), np.bool_, len(texts) - 1)
    starts = np.append(0, np.flatnonzero(changes) + 1)
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    heads = [numbers[texts[row]] for row in starts.tolist()]
    lengths = np.diff(np.append(starts, len(texts)))
    codes = np.repeat(np.array(heads, dtype=np.int64), lengths)
    return StringColumn(codes, table(list(numbers)))


def table(texts: Sequence[str]) -> Strings:
    """One string per text."""
    joined = "".join(texts)
    heap = joined.encode()
    if len(heap) != len(joined):  # not ASCII: bytes and characters differ
        return Strings.from_list(texts)
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    return Strings(np.frombuffer(heap, np.uint8), splits_of(length)[:-1], length)


def concat(parts: Sequence[StringColumn]) -> StringColumn:
    """Rows of all parts; texts that many rows share are shared across the parts too."""
    if not any(len(part.strings) for part in parts):  # no texts at all, as of most native chunks
        return StringColumn(stacked([part.codes for part in parts]), parts[0].strings)
    column = StringColumn.concat(parts)
    if len(parts) == 1 or 4 * len(column.strings) > len(column):
        return column  # few rows share a text: looking for more is not worth a pass in Python
    codes, distinct = column.strings.unique()
    if len(distinct) == len(column.strings):
        return column
    return StringColumn(np.append(codes, -1)[column.codes], distinct)
