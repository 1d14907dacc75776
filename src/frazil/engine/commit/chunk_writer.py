"""Stores chunks for a session, in its process or on an executor. Many at once share objects.

    inline    up to the threshold of the configuration
    packed    up to PACKED_BYTES, if two or more: end to end, in packs of PACK_BYTES or so,
              or in one that a thread writes while it encodes them
    alone     all others, an object each

A reference names an object, an offset and a length, so readers see no difference. What is saved is
an object for each chunk: the time to make it, to make it durable, to open it again.
"""

from collections.abc import Buffer, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.object_keys import chunk_key
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, RefKind
from frazil.ids import ChunkId
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore

PACKED_BYTES: Final = 1 << 20
PACK_BYTES: Final = 16 << 20

type Ints = npt.NDArray[np.int64]
type ChunkData = Buffer | tuple[Buffer, ...]  # a tuple has the pieces of one chunk


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Places of n chunks: chunk i is in object `owner[i]`, from `offset[i]` on."""

    owner: Ints  # (n,) -1 for a chunk in the reference itself
    offset: Ints  # (n,)
    objects: list[Ints]  # the chunks of each object, end to end


def arrange(length: Ints, *, inline_bytes: int) -> Arrangement:
    """Arranges chunks of these lengths in their order, which is that of the array."""
    stored = length > inline_bytes
    packed = np.flatnonzero(stored & (length <= PACKED_BYTES))
    if len(packed) < 2:
        packed = packed[:0]
    start = np.cumsum(length[packed]) - length[packed]
    edges = np.append(np.flatnonzero(np.diff(start // PACK_BYTES, prepend=-1)), len(packed))
    packs = [packed[first:stop] for first, stop in pairwise(edges.tolist())]
    alone = np.setdiff1d(np.flatnonzero(stored), packed, assume_unique=True)
    objects = [*packs, *alone.reshape(-1, 1)]
    owner, offset = np.full(len(length), -1, np.int64), np.zeros(len(length), np.int64)
    for number, rows in enumerate(objects):
        owner[rows] = number
        offset[rows] = np.cumsum(length[rows]) - length[rows]
    return Arrangement(owner, offset, objects)


def store_chunks(
    store: ObjectStore,
    index: npt.NDArray[np.uint32],  # (n, ndim)
    data: Sequence[ChunkData],
    *,
    inline_bytes: int,
    pool: Pool | None = None,
) -> ChunkRefs:
    """References to these chunks, which are stored, not yet synced."""
    views = [_views(each) for each in data]
    length = np.fromiter((sum(map(len, each)) for each in views), np.int64, len(views))
    require_not_empty(int(length.min(initial=1)))
    plan = arrange(length, inline_bytes=inline_bytes)
    names = [ChunkId.random() for _ in plan.objects]

    def put(number: int) -> None:
        pieces = [piece for row in plan.objects[number].tolist() for piece in views[row]]
        _put(store, names[number], pieces)

    every = range(len(names))
    if pool is None:
        for number in every:
            put(number)
    else:
        pool.map(put, every)
    raw = b"".join([*(name.raw for name in names), bytes(ChunkId.size)])  # the last for inline ones
    ids = np.frombuffer(raw, np.uint8).reshape(-1, ChunkId.size)
    inline = np.flatnonzero(plan.owner < 0)
    kind = np.where(plan.owner < 0, RefKind.INLINE, RefKind.NATIVE)
    return ChunkRefs.from_columns(
        index,
        kind,
        chunk_id=ids[plan.owner],
        offset=plan.offset,
        length=length,
        inline=_inline_column(views, inline) if len(inline) else None,
    )


def _put(store: ObjectStore, chunk: ChunkId, pieces: list[memoryview]) -> None:
    if len(pieces) == 1:
        store.put(chunk_key(chunk), pieces[0])
    else:
        store.put_pieces(chunk_key(chunk), pieces)


def require_not_empty(length: int) -> None:
    """Raises for a chunk without bytes; pass the least length of several."""
    if length == 0:
        raise InvalidInputError(
            "zero-length chunk: no array could be decoded from it; to remove a chunk, delete it",
            kind="zero-length-chunk",
        )


def _views(data: ChunkData) -> list[memoryview]:
    pieces = data if isinstance(data, tuple) else (data,)
    return [memoryview(piece).cast("B") for piece in pieces]


def _inline_column(views: Sequence[list[memoryview]], rows: Ints) -> StringColumn:
    codes = np.full(len(views), -1, np.int64)
    codes[rows] = np.arange(len(rows))
    return StringColumn(codes, Strings.from_list([b"".join(views[row]) for row in rows.tolist()]))


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Stores chunk bytes and says where they are; picklable if the store is.

    What it stored is garbage until a session commits a reference to it. Call `sync` before
    handing references over.
    """

    store: ObjectStore
    inline_threshold_bytes: int

    def put_chunk(self, data: ChunkData) -> Payload:
        """Small chunks travel in the reference itself."""
        views = _views(data)
        length = sum(map(len, views))
        require_not_empty(length)
        if length <= self.inline_threshold_bytes:
            return Inline(b"".join(views))
        return self._put_alone(views, length)

    def _put_alone(self, views: list[memoryview], length: int) -> Native:
        chunk = ChunkId.random()
        _put(self.store, chunk, views)
        return Native(chunk_id=chunk, offset=0, length=length)

    def is_large(self, length: int) -> bool:
        """True if a chunk of so many bytes has an object of its own."""
        return length > max(PACKED_BYTES, self.inline_threshold_bytes)

    def put_large(self, data: ChunkData) -> ChunkData | Native:
        """Stores a chunk that would share its object with no other; others are given back."""
        views = _views(data)
        length = sum(map(len, views))
        return self._put_alone(views, length) if self.is_large(length) else data

    def put_packed(self, chunks: Iterable[Buffer | None]) -> list[ChunkData | Native | None]:
        """Stores chunks as they come, small ones end to end in one object.

        Those for the reference itself are given back, None stays None.
        """
        pack, done, end = ChunkId.random(), list[ChunkData | Native | None](), 0

        def small() -> Iterator[memoryview]:
            nonlocal end
            for chunk in chunks:
                view = None if chunk is None else memoryview(chunk).cast("B")
                if view is None or not self.inline_threshold_bytes < len(view) <= PACKED_BYTES:
                    done.append(None if view is None else self.put_large(view))
                    continue
                done.append(Native(chunk_id=pack, offset=end, length=len(view)))
                end += len(view)
                yield view

        pieces = small()
        if (first := next(pieces, None)) is not None:
            self.store.put_pieces(chunk_key(pack), chain([first], pieces))
        return done

    def put_chunks(
        self,
        index: npt.NDArray[np.uint32],  # (n, ndim)
        data: Sequence[ChunkData],
        pool: Pool | None = None,
    ) -> ChunkRefs:
        """Many at once: small ones share an object. Objects are stored by `pool`, if given."""
        inline_bytes = self.inline_threshold_bytes
        return store_chunks(self.store, index, data, inline_bytes=inline_bytes, pool=pool)

    def sync(self) -> None:
        self.store.sync()
