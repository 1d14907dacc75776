"""Chunk references: the place of one chunk's bytes, and those of an array as columns.

Spec: "ChunkRef". A chunk is written in the manifest itself (inline), in an object of the
repository (native), or in a file outside of it (virtual).
"""

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.flatbuf.columns import StringColumn, Texts, concat_texts, text_column
from frazil.flatbuf.ragged import (
    Array,
    Packed,
    as_readonly,
    stack_rows,
    with_repeats,
    without_repeats,
)
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_index import Box, SortedKeys, order_last_wins
from frazil.ids import ChunkId


class RefKind(IntEnum):
    """Value of the `kind` column of ChunkRefs; ours, not stored."""

    INLINE = 1
    NATIVE = 2
    VIRTUAL = 3


@dataclass(frozen=True, slots=True)
class ETag:
    """The virtual file must still have this etag."""

    value: str


@dataclass(frozen=True, slots=True)
class LastModified:
    """The virtual file must not be newer than this."""

    seconds: int  # since 1970, more than 0


type Checksum = ETag | LastModified


@dataclass(frozen=True, slots=True)
class Inline:
    data: bytes


@dataclass(frozen=True, slots=True)
class Native:
    chunk_id: ChunkId
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Virtual:
    location: str
    offset: int
    length: int
    checksum: Checksum | None = None


type Payload = Inline | Native | Virtual


# -------------------------------------------------------------------------------------------------
# The chunk references of one array, as columns. Spec: "ChunkRef".


class _KeyCache:
    """The sorted keys of one index, built on first use."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: SortedKeys | None = None

    def of(self, index: npt.NDArray[np.uint32]) -> SortedKeys:
        if self._keys is None:
            self._keys = SortedKeys.of(index)
        return self._keys


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRefs:
    """Row i of each column is one chunk; rows ascend lexicographically by `index`, none twice.

    A column holds its neutral value (0, code -1) in rows of a kind it does not concern.
    """

    index: npt.NDArray[np.uint32]  # (n, ndim) position in the chunk grid
    kind: npt.NDArray[np.uint8]  # (n,) a RefKind
    chunk_id: npt.NDArray[np.uint8]  # (n, 12) native
    offset: npt.NDArray[np.uint64]  # (n,) native and virtual
    length: npt.NDArray[np.uint64]  # (n,) of all kinds
    location: StringColumn  # (n,) virtual
    etag: StringColumn  # (n,) virtual, optional
    last_modified: npt.NDArray[np.uint32]  # (n,) virtual, seconds, 0 for none
    inline: StringColumn  # (n,) inline
    _key_cache: _KeyCache = field(default_factory=_KeyCache, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.kind)

    def __reduce__(self) -> tuple[object, ...]:  # forks are pickled, a million references and more
        columns = (self.location, self.etag, self.inline)
        numbers: list[Array] = [each.codes for each in columns]
        numbers += self.kind, self.chunk_id, self.offset, self.length, self.last_modified
        strings = [each.strings for each in columns]
        return _unpickle_refs, (self.index, [without_repeats(each) for each in numbers], strings)

    @property
    def ndim(self) -> int:
        return int(self.index.shape[1])

    @property
    def num_bytes(self) -> int:
        """About as much memory as the rows take; texts count as often as they are stored."""
        columns = (self.index, self.chunk_id, self.offset, self.length)
        rows = sum(column.nbytes if column.strides[0] else 0 for column in columns)
        return rows + sum(each.num_bytes for each in (self.location, self.etag, self.inline))

    # ---- making ----------------------------------------------------------------------------

    @classmethod
    def empty(cls, ndim: int) -> Self:
        return cls.from_payloads(np.zeros((0, ndim), dtype=np.uint32), [])

    @classmethod
    def from_columns(
        cls,
        index: npt.ArrayLike,
        kind: npt.ArrayLike,
        *,
        chunk_id: npt.NDArray[np.uint8] | None = None,
        offset: npt.ArrayLike = 0,
        length: npt.ArrayLike = 0,
        location: StringColumn | None = None,
        etag: StringColumn | None = None,
        last_modified: npt.ArrayLike = 0,
        inline: StringColumn | None = None,
    ) -> Self:
        """References from columns in any order; scalars fill a column; of equals the last wins."""
        rows = np.ascontiguousarray(index, dtype=np.uint32)
        count = len(rows)
        ids = np.broadcast_to(np.uint8(0), (count, 12)) if chunk_id is None else chunk_id
        return cls(
            as_readonly(rows),
            _column(kind, np.uint8, count),
            as_readonly(ids),
            _column(offset, np.uint64, count),
            _column(length, np.uint64, count),
            location or StringColumn.absent(count),
            etag or StringColumn.absent(count),
            _column(last_modified, np.uint32, count),
            inline or StringColumn.absent(count),
        ).sorted()

    @classmethod
    def virtual(
        cls,
        index: npt.ArrayLike,
        locations: Texts,
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
        *,
        etag: Texts | None = None,
        last_modified: npt.ArrayLike = 0,
    ) -> Self:
        """Virtual references; `locations` one per row, or codes and distinct strings."""
        return cls.from_columns(
            index,
            RefKind.VIRTUAL,
            offset=offset,
            length=length,
            location=text_column(locations),
            etag=None if etag is None else text_column(etag),
            last_modified=last_modified,
        )

    @classmethod
    def native(
        cls,
        index: npt.ArrayLike,
        chunk_id: npt.NDArray[np.uint8],
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
    ) -> Self:
        """References into objects of the repository; `chunk_id` is (n, 12)."""
        return cls.from_columns(
            index, RefKind.NATIVE, chunk_id=chunk_id, offset=offset, length=length
        )

    @classmethod
    def from_payloads(cls, index: npt.ArrayLike, payloads: Sequence[Payload]) -> Self:
        """References from as many payloads as `index` has rows."""
        columns = _PayloadColumns()
        for payload in payloads:
            columns.append(payload)
        rows = np.ascontiguousarray(index, dtype=np.uint32)
        if rows.ndim != 2 or len(rows) != len(payloads):
            raise ValueError(f"{len(payloads)} payloads for an index of shape {rows.shape}")
        ids = np.frombuffer(b"".join(columns.chunk_id), dtype=np.uint8).reshape(-1, 12)
        return cls.from_columns(
            rows,
            columns.kind,
            chunk_id=ids,
            offset=columns.offset,
            length=columns.length,
            location=StringColumn.from_list(columns.location),
            etag=StringColumn.from_list(columns.etag),
            last_modified=columns.last_modified,
            inline=StringColumn.from_list(columns.inline),
        )

    @classmethod
    def concat(cls, parts: Sequence["ChunkRefs"]) -> Self:
        """All rows of all parts, in order; of equal indices the last wins."""
        if len(parts) == 1 and isinstance(parts[0], cls):
            return parts[0]
        return cls(
            np.concatenate([part.index for part in parts]),
            stack_rows([part.kind for part in parts]),
            stack_rows([part.chunk_id for part in parts]),
            stack_rows([part.offset for part in parts]),
            stack_rows([part.length for part in parts]),
            concat_texts([part.location for part in parts]),
            concat_texts([part.etag for part in parts]),
            stack_rows([part.last_modified for part in parts]),
            concat_texts([part.inline for part in parts]),
        ).sorted()

    @classmethod
    def merged(
        cls, base: "ChunkRefs", changes: "ChunkRefs", deleted: npt.NDArray[np.uint32]
    ) -> Self:
        """`base` overridden by `changes`; no index of `deleted`, (k, ndim), is in the result."""
        both = cls.concat([base, changes])
        if not len(deleted):
            return both
        gone = both.lookup(deleted)
        kept = np.ones(len(both), dtype=np.bool_)
        kept[gone[gone >= 0]] = False
        return both.take(np.flatnonzero(kept))

    # ---- choosing --------------------------------------------------------------------------

    def take(self, rows: npt.NDArray[np.int64] | slice) -> Self:
        """The rows asked for, which must ascend."""
        return type(self)(
            self.index[rows],
            self.kind[rows],
            self.chunk_id[rows],
            self.offset[rows],
            self.length[rows],
            self.location.take(rows),
            self.etag.take(rows),
            self.last_modified[rows],
            self.inline.take(rows),
        )

    def sorted(self) -> Self:
        """Rows in ascending order of index; of equal ones only the last."""
        order = order_last_wins(self.index)
        return self if order is None else self.take(order)

    def with_index(
        self, index: npt.NDArray[np.uint32], rows: slice | npt.NDArray[np.int64]
    ) -> Self:
        """The rows chosen, under another index, (n, ndim)."""
        whole = len(index) == len(self)
        return type(self)(
            as_readonly(index),
            self.kind[rows],
            self.chunk_id[rows],
            self.offset[rows],
            self.length[rows],
            self.location if whole else self.location.take(rows),
            self.etag if whole else self.etag.take(rows),
            self.last_modified[rows],
            self.inline if whole else self.inline.take(rows),
        ).sorted()

    def compact(self) -> Self:
        """The same without what decoded or divided columns keep alive: all of their texts."""
        return type(self)(
            self.index,
            self.kind,
            self.chunk_id,
            self.offset,
            self.length,
            _compact_texts(self.location),
            _compact_texts(self.etag),
            self.last_modified,
            _compact_texts(self.inline),
        )

    def within(self, grid: Sequence[int]) -> Self:
        """Only the rows inside a chunk grid of that shape."""
        inside = Box((0,) * len(grid), tuple(grid)).contains(self.index)
        return self if inside.all() else self.take(np.flatnonzero(inside))

    def bounding_box(self) -> tuple[tuple[int, int], ...]:
        """First and one past the last index on each axis."""
        box = Box.around(self.index)
        return tuple(zip(box.lo, box.hi, strict=True))

    @property
    def _keys(self) -> SortedKeys:
        return self._key_cache.of(self.index)

    def lookup(self, wanted: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Row of each wanted index, (m, ndim), -1 where absent. O(m log n), in any order."""
        if wanted.ndim != 2 or wanted.shape[1] != self.ndim:
            raise ValueError(f"indices of shape {wanted.shape} for an array of {self.ndim} axes")
        return self._keys.lookup(wanted)

    def find(self, index: Sequence[int]) -> int:
        """Row of one index, -1 if absent."""
        if len(index) != self.ndim:
            raise ValueError(f"an index of {len(index)} numbers for an array of {self.ndim} axes")
        return self._keys.find(index)

    # ---- reading ---------------------------------------------------------------------------

    def payload(self, row: int) -> Payload:
        offset, length = int(self.offset[row]), int(self.length[row])
        match RefKind(int(self.kind[row])):
            case RefKind.INLINE:
                return Inline(self.inline.item(row) or b"")
            case RefKind.NATIVE:
                return Native(ChunkId(self.chunk_id[row].tobytes()), offset, length)
            case RefKind.VIRTUAL:
                location = self.location.text(row) or ""
                return Virtual(location, offset, length, self.checksum(row))

    def checksum(self, row: int) -> Checksum | None:
        etag = self.etag.text(row)
        if etag is not None:
            return ETag(etag)
        seconds = int(self.last_modified[row])
        return LastModified(seconds) if seconds else None

    def equals(self, other: "ChunkRefs") -> bool:
        """True if both have the same chunks with the same references."""
        return (
            self.index.shape == other.index.shape
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("index", "kind", "chunk_id", "offset", "length", "last_modified")
            )
            and self.location.equals(other.location)
            and self.etag.equals(other.etag)
            and self.inline.equals(other.inline)
        )


def _compact_texts(column: StringColumn) -> StringColumn:
    pruned = column.pruned()
    return StringColumn(pruned.codes, pruned.strings.compact())


def _unpickle_refs(
    index: npt.NDArray[np.uint32], packed: list[Packed], strings: list[Strings]
) -> ChunkRefs:
    numbers = [with_repeats(each) for each in packed]
    location, etag, inline = map(StringColumn, numbers[:3], strings)
    kind, chunk_id, offset, length, last_modified = numbers[3:]
    return ChunkRefs(
        as_readonly(index), kind, chunk_id, offset, length, location, etag, last_modified, inline
    )


class _PayloadColumns:
    """Payloads, taken apart."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.chunk_id: list[bytes] = []
        self.offset: list[int] = []
        self.length: list[int] = []
        self.location: list[bytes | None] = []
        self.etag: list[bytes | None] = []
        self.last_modified: list[int] = []
        self.inline: list[bytes | None] = []

    def append(self, payload: Payload) -> None:
        match payload:
            case Inline(data):
                self._row(RefKind.INLINE, 0, len(data), inline=data)
            case Native(chunk_id, offset, length):
                self._row(RefKind.NATIVE, offset, length, chunk_id=chunk_id.raw)
            case Virtual(location, offset, length, ETag(etag)):
                self._row(
                    RefKind.VIRTUAL, offset, length, location=location.encode(), etag=etag.encode()
                )
            case Virtual(location, offset, length, LastModified(seconds)):
                self._row(
                    RefKind.VIRTUAL, offset, length, location=location.encode(), seconds=seconds
                )
            case Virtual(location, offset, length):
                self._row(RefKind.VIRTUAL, offset, length, location=location.encode())

    def _row(
        self,
        kind: RefKind,
        offset: int,
        length: int,
        *,
        chunk_id: bytes = bytes(12),
        location: bytes | None = None,
        etag: bytes | None = None,
        seconds: int = 0,
        inline: bytes | None = None,
    ) -> None:
        self.kind.append(kind)
        self.chunk_id.append(chunk_id)
        self.offset.append(offset)
        self.length.append(length)
        self.location.append(location)
        self.etag.append(etag)
        self.last_modified.append(seconds)
        self.inline.append(inline)


def _column[T: np.generic](values: npt.ArrayLike, dtype: type[T], count: int) -> npt.NDArray[T]:
    """`values` as a read-only column of `count` rows; a scalar fills it."""
    column = np.asarray(values, dtype=dtype)
    return as_readonly(column if column.shape == (count,) else np.broadcast_to(column, (count,)))
