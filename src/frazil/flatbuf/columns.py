"""One field of many rows: the columns that hold no tables. (Those that do are in table.py.)

Every column has n rows, read-only arrays, and a way to say that a row lacks the field that is
not a value: a `present` array or a code of -1. All have `take(rows)`, `concat(columns)` and
`equals(other)`; `equals` looks at what the rows mean, not at how the heaps are laid out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import count, islice
from operator import ne
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.flatbuf.ragged import (
    Array,
    Bools,
    Ints,
    all_within,
    as_readonly,
    concat_arrays,
    constant,
    even_length,
    gather,
    is_constant,
    make_unchecked,
    repeat_row,
    splits_of,
    stack_rows,
)
from frazil.flatbuf.strings import Strings

type Rows = Ints | slice  # numbers of rows, in any order and any number of times

# What the arrays that are not values are made of, in every column
DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "present": np.dtype(np.bool_),
        "codes": np.dtype(np.int64),
        "index": np.dtype(np.int64),
        "splits": np.dtype(np.int64),
    }
)


def freeze(column: Any) -> None:
    """Makes the arrays of a frozen record read-only; raises if one is of the wrong type."""
    kind: Any = type(column)
    for name, wanted in _array_fields(kind):
        value = getattr(column, name)
        if not isinstance(value, np.ndarray):
            continue
        if wanted is not None and value.dtype != wanted:
            raise ValueError(f"{name} is {value.dtype}, expected {wanted}")
        if value.flags.writeable:
            object.__setattr__(column, name, as_readonly(value))


@cache
def _array_fields(kind: type[Any]) -> tuple[tuple[str, np.dtype[Any] | None], ...]:
    """Names of the fields of a record, and the type their arrays have, if it is always one."""
    return tuple((each.name, DTYPES.get(each.name)) for each in fields(kind))


def all_true(count: int) -> Bools:
    return np.ones(count, np.bool_)


def same_bits(left: Array, right: Array) -> bool:
    """Equal type, shape and bytes: NaN equals itself, 0.0 is not -0.0."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return left.tobytes() == right.tobytes()


def require_splits(splits: Ints, present: Bools, total: int) -> None:
    """Raises unless the splits cut `total` elements into runs, empty where not present."""
    if splits.shape != (len(present) + 1,):
        raise ValueError(f"{splits.shape} splits for {len(present)} rows")
    if len(present) == 1 and present[0] and splits.tolist() == [0, total]:
        return  # the usual case in small files, without six calls of numpy
    if int(splits[0]) != 0 or int(splits[-1]) != total:
        raise ValueError(f"splits run from {splits[0]} to {splits[-1]}, expected 0 to {total}")
    if bool((splits[1:] < splits[:-1]).any()):
        raise ValueError("splits are not ascending")
    if not present.all() and bool(np.diff(splits)[~present].any()):
        raise ValueError("a row that is not present has elements")


def concat_splits(parts: Sequence[Ints]) -> Ints:
    return splits_of(np.concatenate([np.diff(splits) for splits in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class ScalarColumn:
    """Numbers or booleans; the field's default where a row does not have it."""

    values: Array  # (n,)
    present: Bools  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        if self.values.ndim != 1 or self.values.shape != self.present.shape:
            raise ValueError(f"{self.values.shape} values for {self.present.shape} rows")

    @classmethod
    def of(cls, values: npt.ArrayLike, dtype: str | None = None) -> Self:
        """A column in which every row has its value."""
        array = np.asarray(values, dtype)
        return cls(array, all_true(len(array)))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Rows) -> Self:
        return make_unchecked(type(self), self.values[rows], self.present[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        return make_unchecked(
            cls,
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def equals(self, other: "ScalarColumn") -> bool:
        return np.array_equal(self.present, other.present) and same_bits(
            self.values[self.present], other.values[other.present]
        )


@dataclass(frozen=True, slots=True, eq=False)
class StructColumn:
    """Opaque bytes of one size, zeros where a row does not have them."""

    values: npt.NDArray[np.uint8]  # (n, size)
    present: Bools  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        if self.values.ndim != 2 or len(self.values) != len(self.present):
            raise ValueError(f"{self.values.shape} structs for {self.present.shape} rows")

    @classmethod
    def of(cls, values: npt.NDArray[np.uint8]) -> Self:
        return cls(values, all_true(len(values)))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Rows) -> Self:
        return make_unchecked(type(self), self.values[rows], self.present[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        return make_unchecked(
            cls,
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def equals(self, other: "StructColumn") -> bool:
        return np.array_equal(self.present, other.present) and same_bits(
            self.values[self.present], other.values[other.present]
        )


@dataclass(frozen=True, slots=True, eq=False)
class StringColumn:
    """Strings or byte vectors by code; -1 where a row has none. Rows may share a code."""

    codes: Ints  # (n,)
    strings: Strings

    def __post_init__(self) -> None:
        freeze(self)
        if self.codes.ndim != 1:
            raise ValueError(f"codes have shape {self.codes.shape}")
        if not all_within(self.codes, -1, len(self.strings)):
            raise ValueError(f"a code is not -1 to {len(self.strings) - 1}")

    @classmethod
    def from_list(cls, items: Iterable[bytes | str | None]) -> Self:
        """A column of these strings, equal ones stored once; None for a row that has none."""
        seen: dict[bytes, int] = {}
        codes = []
        for item in items:
            key = item.encode() if isinstance(item, str) else item
            codes.append(-1 if key is None else seen.setdefault(bytes(key), len(seen)))
        if not seen:
            return cls.absent(len(codes))
        return cls(np.array(codes, np.int64), Strings.from_list(seen))

    @classmethod
    def of(cls, strings: Strings) -> Self:
        """A column with one row for each string."""
        return cls(np.arange(len(strings), dtype=np.int64), strings)

    @classmethod
    def absent(cls, count: int) -> Self:
        return cls(constant(-1, np.int64, count), Strings.empty())

    @property
    def present(self) -> Bools:
        if is_constant(self.codes):
            return repeat_row(self.codes[:1] >= 0, len(self.codes))
        return self.codes >= 0

    def __len__(self) -> int:
        return len(self.codes)

    def item(self, row: int) -> bytes | None:
        code = int(self.codes[row])
        return None if code < 0 else self.strings.item(code)

    def text(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.strings.text(code)

    def to_list(self) -> list[bytes | None]:
        items: list[bytes | None] = [*self.strings.to_list()]
        if self._is_plain:
            return items
        items.append(None)
        return [items[code] for code in self.codes.tolist()]

    def to_texts(self) -> list[str | None]:
        items: list[str | None] = [*self.strings.to_texts()]
        if self._is_plain:
            return items
        items.append(None)
        texts: list[str | None] = np.array(items, np.object_)[self.codes].tolist()
        return texts

    @property
    def _is_plain(self) -> bool:
        """True if row i has string i, and there are no other strings."""
        count = len(self.codes)
        return count == len(self.strings) and bool((self.codes == np.arange(count)).all())

    @property
    def num_bytes(self) -> int:
        """About as much memory as it takes, of a heap that others use too its share."""
        strings = self.strings
        rows = self.codes.nbytes if self.codes.strides[0] else 0
        return rows + 16 * len(strings) + min(len(strings.heap), 128 * len(strings))

    def lengths(self) -> Ints:
        """Bytes of each row's string, 0 where a row has none."""
        if not len(self.strings):
            return np.zeros(len(self), np.int64)
        return np.where(self.codes < 0, 0, self.strings.length[self.codes])

    def take(self, rows: Rows) -> Self:
        """Strings that no row uses any more stay in the heap; the encoder leaves them out."""
        return make_unchecked(type(self), self.codes[rows], self.strings)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        if len(parts) == 1:
            return parts[0]
        tables = {id(part.strings): part.strings for part in parts}
        if len(tables) > 1 and sum(map(len, tables.values())) > 2 * sum(map(len, parts)):
            parts = cls._pruned_together(parts)
            tables = {id(part.strings): part.strings for part in parts}
        codes = np.concatenate([part.codes for part in parts])
        if len(tables) == 1:
            return make_unchecked(cls, codes, parts[0].strings)
        first = splits_of(np.array([len(table) for table in tables.values()]))
        shifts = dict(zip(tables, first.tolist(), strict=False))  # the last one is the total
        shift = [shifts[id(part.strings)] for part in parts]
        codes = np.where(codes < 0, -1, codes + np.repeat(shift, [len(part) for part in parts]))
        joined = make_unchecked(cls, codes, Strings.concat(list(tables.values())))
        used = joined.pruned()
        return used if used is joined else make_unchecked(cls, used.codes, used.strings.compact())

    @classmethod
    def _pruned_together(cls, parts: Sequence[Self]) -> list[Self]:
        """The same parts over only the strings that they use, shared as before."""
        sharing: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            sharing.setdefault(id(part.strings), []).append(number)
        pruned = list(parts)
        for numbers in sharing.values():
            together = cls.concat([parts[number] for number in numbers]).pruned()
            edges = np.cumsum([len(parts[number]) for number in numbers])[:-1]
            for number, codes in zip(numbers, np.split(together.codes, edges), strict=True):
                pruned[number] = make_unchecked(cls, codes, together.strings)
        return pruned

    def pruned(self) -> Self:
        """The same rows over only the strings that they use."""
        if not len(self):
            return make_unchecked(type(self), self.codes, self.strings.take(slice(0)))
        # Rows of one part of a table use a part of its strings: the others are not looked at.
        low, high = max(int(self.codes.min()), 0), int(self.codes.max()) + 1
        codes = self.codes - low if low else self.codes
        used = np.zeros(high - low + 1, np.bool_)
        used[codes] = True  # -1 marks the extra place at the end
        if used[:-1].all():
            if len(used) == len(self.strings) + 1:
                return self
            return make_unchecked(type(self), codes, self.strings.take(slice(low, high)))
        kept = np.flatnonzero(used[:-1])
        renumbered = np.full(len(used), -1, np.int64)
        renumbered[kept] = np.arange(len(kept))
        return make_unchecked(type(self), renumbered[codes], self.strings.take(kept + low))

    def equals(self, other: "StringColumn") -> bool:
        if not np.array_equal(self.present, other.present):
            return False
        mine, theirs = self.codes[self.present], other.codes[other.present]
        # Each pair of strings that meet in a row is compared once.
        pairs = np.unique(mine * (len(other.strings) + 1) + theirs)
        left, right = np.divmod(pairs, len(other.strings) + 1)
        return self.strings.take(left).equals(other.strings.take(right))


@dataclass(frozen=True, slots=True, eq=False)
class VectorColumn:
    """Vectors of scalars or structs: row i is `values[splits[i]:splits[i + 1]]`."""

    values: Array  # (m,), or (m, size) uint8 for structs
    splits: Ints  # (n + 1,)
    present: Bools  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        require_splits(self.splits, self.present, len(self.values))

    @classmethod
    def regular(cls, values: Array) -> Self:
        """Vectors of equal length: (n, length) scalars or (n, length, size) structs."""
        count, length = values.shape[:2]
        splits = np.arange(count + 1, dtype=np.int64) * length
        flat = values.reshape(count * length, *values.shape[2:])
        return cls(flat, splits, all_true(count))

    @classmethod
    def regular_parts(cls, parts: Sequence[Array]) -> Self:
        """The same of one or more arrays, one after another; their lengths may differ."""
        if len({part.shape[1:] for part in parts}) == 1:
            return cls.regular(concat_arrays(parts))
        # In place: there may be many millions, each of which has been copied once already.
        splits = np.zeros(1 + sum(map(len, parts)), dtype=np.int64)
        splits[1:] = np.repeat([part.shape[1] for part in parts], list(map(len, parts)))
        np.cumsum(splits, out=splits)
        flat = [part.reshape(part.shape[0] * part.shape[1], *part.shape[2:]) for part in parts]
        return cls(np.concatenate(flat), splits, all_true(len(splits) - 1))

    @classmethod
    def of(cls, values: Array, splits: Ints) -> Self:
        return cls(values, splits, all_true(len(splits) - 1))

    def __len__(self) -> int:
        return len(self.present)

    @property
    def length(self) -> int | None:
        """Elements of every row if all have as many, else None."""
        return even_length(self.splits)

    def row(self, index: int) -> Array:
        return self.values[int(self.splits[index]) : int(self.splits[index + 1])]

    def take(self, rows: Rows) -> Self:
        start, stop = self.splits[:-1][rows], self.splits[1:][rows]
        length = stop - start
        values = gather(self.values, start, length)
        return make_unchecked(type(self), values, splits_of(length), self.present[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        if len(parts) == 1:
            return parts[0]
        return make_unchecked(
            cls,
            np.concatenate([part.values for part in parts]),
            concat_splits([part.splits for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def equals(self, other: "VectorColumn") -> bool:
        return (
            np.array_equal(self.present, other.present)
            and np.array_equal(self.splits, other.splits)
            and same_bits(self.values, other.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class StringVectorColumn:
    """Vectors of strings: row i is rows `splits[i]` to `splits[i + 1]` of `strings`."""

    splits: Ints  # (n + 1,)
    strings: StringColumn  # m rows, all present
    present: Bools  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        require_splits(self.splits, self.present, len(self.strings))
        if len(self.strings) and int(self.strings.codes.min()) < 0:
            raise ValueError("a string inside a vector is absent")

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[bytes | str] | None]) -> Self:
        listed = list(rows)
        present = np.array([row is not None for row in listed], np.bool_)
        lengths = np.array([len(row or ()) for row in listed], np.int64)
        items = StringColumn.from_list(item for row in listed for item in row or ())
        return cls(splits_of(lengths), items, present)

    def __len__(self) -> int:
        return len(self.present)

    def row(self, index: int) -> list[bytes]:
        codes = self.strings.codes[int(self.splits[index]) : int(self.splits[index + 1])]
        return self.strings.strings.take(codes).to_list()

    def take(self, rows: Rows) -> Self:
        start, stop = self.splits[:-1][rows], self.splits[1:][rows]
        codes = gather(self.strings.codes, start, stop - start)
        strings = make_unchecked(StringColumn, codes, self.strings.strings)
        return make_unchecked(type(self), splits_of(stop - start), strings, self.present[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        return make_unchecked(
            cls,
            concat_splits([part.splits for part in parts]),
            StringColumn.concat([part.strings for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def equals(self, other: "StringVectorColumn") -> bool:
        return (
            np.array_equal(self.present, other.present)
            and np.array_equal(self.splits, other.splits)
            and self.strings.equals(other.strings)
        )


# -------------------------------------------------------------------------------------------------
# String columns from Python strings, at the speed of C, with equal ones stored once.

_SAMPLED = 100  # one text of so many is looked at, and a hundred neighbours here and there
_MANY_TEXTS = 100_000
type Texts = StringColumn | Strings | Sequence[str]


def text_column(texts: Texts) -> StringColumn:
    """One row per text, equal ones stored once. What is text_column already stays as it is.

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
                return StringColumn.of(text_table(texts))
            if _seem_to_run(texts):
                return _column_of_runs(texts)
            # A missing key numbers itself: one pass over the list, in C.
            numbers: defaultdict[str, int] = defaultdict(count().__next__)
            codes = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
            return StringColumn(codes, text_table(list(numbers)))


def _seem_distinct(texts: Sequence[str]) -> bool:
    """True if a sample suggests that looking for equal texts costs more than it saves.

    Chosen at random, since files take turns in regular ways, and in runs, since neighbours are
    the likeliest to be equal.
    """
    if len(texts) < _MANY_TEXTS:
        return False
    random = np.random.default_rng(len(texts))  # the same texts are always text_column the same
    rows = random.integers(0, len(texts), len(texts) // _SAMPLED)
    starts = random.integers(0, len(texts) - _SAMPLED, len(rows) // _SAMPLED)
    near = (starts[:, np.newaxis] + np.arange(_SAMPLED)).reshape(-1)
    sample = np.unique(np.concatenate([rows, near])).tolist()
    return len(set(map(texts.__getitem__, sample))) > 0.99 * len(sample)


def _seem_to_run(texts: Sequence[str]) -> bool:
    """True if a sample suggests that equal texts mostly follow each other: chunks file by file."""
    if len(texts) < _MANY_TEXTS:
        return False
    random = np.random.default_rng(len(texts))
    rows = random.integers(0, len(texts) - 1, len(texts) // (10 * _SAMPLED)).tolist()
    return bool(sum(texts[row] == texts[row + 1] for row in rows) > 0.9 * len(rows))


def _column_of_runs(texts: Sequence[str]) -> StringColumn:
    """Compares each text with its neighbour, which takes half as long as looking it up."""
    changes = np.fromiter(map(ne, islice(texts, 1, None), texts), np.bool_, len(texts) - 1)
    starts = np.append(0, np.flatnonzero(changes) + 1)
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    heads = [numbers[texts[row]] for row in starts.tolist()]
    lengths = np.diff(np.append(starts, len(texts)))
    codes = np.repeat(np.array(heads, dtype=np.int64), lengths)
    return StringColumn(codes, text_table(list(numbers)))


def text_table(texts: Sequence[str]) -> Strings:
    """One string per text."""
    joined = "".join(texts)
    heap = joined.encode()
    if len(heap) != len(joined):  # not ASCII: bytes and characters differ
        return Strings.from_list(texts)
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    return Strings(np.frombuffer(heap, np.uint8), splits_of(length)[:-1], length)


def concat_texts(parts: Sequence[StringColumn]) -> StringColumn:
    """Rows of all parts; texts that many rows share are shared across the parts too."""
    if not any(len(part.strings) for part in parts):  # no texts at all, as of most native chunks
        return StringColumn(stack_rows([part.codes for part in parts]), parts[0].strings)
    column = StringColumn.concat(parts)
    if len(parts) == 1 or 4 * len(column.strings) > len(column):
        return column  # few rows share a text: looking for more is not worth a pass in Python
    codes, distinct = column.strings.unique()
    if len(distinct) == len(column.strings):
        return column
    return StringColumn(np.append(codes, -1)[column.codes], distinct)
