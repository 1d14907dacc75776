"""Chunk files, read in bulk.

A chunk reference names an object, an offset and a length, so one object may hold many chunks.
Reading plans first: references into one object are fetched together, the rest concurrently.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.caches import ChunkPart, StoredChunk, WeighedCache
from frazil.engine.files.object_keys import CHUNKS, chunk_key
from frazil.engine.files.read_meter import read_meter
from frazil.errors import StorageError
from frazil.format.limits import Limits
from frazil.ids import ChunkId, format_base32, format_ids
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.objectstore.reads import Parts, Targets, thread_shares
from frazil.ranges import Range

type Memory = Callable[[int], memoryview | None]  # for so many bytes; None if new is to be used

_ONLY = np.zeros(1, np.int64)
_MAX_OFFSET = 1 << 62  # so that sums of offsets and lengths fit the integers of file systems


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """The parts wanted of one object; `rows` are their places in the caller's list."""

    chunk: ChunkId
    ranges: tuple[Range, ...]
    rows: tuple[int, ...]


def in_order(
    chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
    offsets: npt.NDArray[np.uint64],  # (n,)
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The references by object, then by offset, and where in that order each object begins.

    Objects come in the order in which they are first mentioned: that in which they were written.
    """
    if len(chunk_ids) == 1:
        return _ONLY, _ONLY
    names = np.ascontiguousarray(chunk_ids).view("V12").ravel()
    high = np.ascontiguousarray(chunk_ids[:, :8]).view(">u8").ravel().astype(np.uint64)
    low = np.ascontiguousarray(chunk_ids[:, 8:]).view(">u4").ravel()
    together = np.lexsort((low, high))  # stable: of one object, the first mention comes first
    begins = np.append(True, names[together][1:] != names[together][:-1])
    mention = np.empty(len(names), np.int64)
    mention[together] = together[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    order = np.lexsort((offsets, mention))
    starts = np.flatnonzero(np.append(True, np.diff(mention[order]) != 0))
    return order, starts


def plan_reads(
    chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
) -> list[ObjectRead]:
    """One read per distinct object, with its ranges in ascending order."""
    if len(chunk_ids) == 0:
        return []
    order, starts = in_order(chunk_ids, offsets)
    stops = np.append(starts[1:], len(order))
    begin, end = offsets.tolist(), (offsets + lengths).tolist()
    reads = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        rows = tuple(order[start:stop].tolist())
        ranges = tuple(Range(begin[row], end[row]) for row in rows)
        reads.append(ObjectRead(ChunkId(chunk_ids[rows[0]].tobytes()), ranges, rows))
    return reads


def plan_parts(
    chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
    into: Targets | None = None,  # (n,)
) -> tuple[Parts, list[int]]:
    """The same in columns, and the row that each part is for. At least one row is given."""
    order, starts = in_order(chunk_ids, offsets)
    rows: list[int] = order.tolist()
    return Parts(
        CHUNKS,
        format_ids(chunk_ids[order[starts]]),
        [*starts.tolist(), len(rows)],
        offsets[order].tolist(),
        lengths[order].tolist(),
        [None] * len(rows) if into is None else [into[row] for row in rows],
    ), rows


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    store: ObjectStore
    pool: Pool
    cache: WeighedCache[ChunkPart, bytes]

    def fetch(self, chunk: ChunkId, wanted: Range) -> Data:
        if not self.cache.capacity:
            return self._fetch(chunk, wanted)
        if (known := self.cache.find((chunk, wanted))) is not None:
            read_meter.add(cached=1)
            return known
        data = bytes(self._fetch(chunk, wanted))
        self.cache.remember((chunk, wanted), data)
        return data

    def fetch_many(
        self,
        chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
        offsets: npt.NDArray[np.uint64],  # (n,)
        lengths: npt.NDArray[np.uint64],  # (n,)
        into: Targets | None = None,  # (n,)
    ) -> list[Data]:
        """Bytes of each reference, in order.

        Where there is a target, of the same length, they may have been put there: then it is what
        is given back.
        """
        found: list[Data] = [b""] * len(chunk_ids)
        if found and not self.cache.capacity and self.store.capabilities.reads_parts:
            self._read_parts(found, *plan_parts(chunk_ids, offsets, lengths, into))
            return found
        reads = plan_reads(chunk_ids, offsets, lengths)
        for read, parts in zip(reads, self.pool.map(self._read, reads), strict=True):
            for row, part in zip(read.rows, parts, strict=True):
                found[row] = part
        return found

    @property
    def are_near(self) -> bool:
        """True if a thread may as well read chunks when it needs them: they are in local files."""
        return self.store.capabilities.reads_parts and not self.cache.capacity

    def fetch_stored(
        self, chunks: Sequence[StoredChunk], memory: Memory | None = None
    ) -> list[Data]:
        """Bytes of each chunk, or part of one, in order: as by `fetch_many`, for a few.

        Near ones are put into `memory`, if there is any: then they are only there until it is used
        again.
        """
        if not chunks:
            return []
        if not self.are_near:
            ids = np.frombuffer(b"".join([chunk.object_id for chunk in chunks]), np.uint8)
            offsets, lengths = np.array([chunk[1:] for chunk in chunks], np.uint64).T
            return self.fetch_many(ids.reshape(len(chunks), -1), offsets, lengths)
        order = sorted(range(len(chunks)), key=chunks.__getitem__)
        names, starts, lengths = zip(*[chunks[at] for at in order], strict=True)
        edges = [at for at, name in enumerate(names) if not at or name != names[at - 1]]
        texts = [format_base32(names[at]) for at in edges]
        into = _divide(None if memory is None else memory(sum(lengths)), lengths)
        parts = Parts(CHUNKS, texts, [*edges, len(order)], [*starts], [*lengths], into)
        found: list[Data] = [b""] * len(order)
        self._read_parts(found, parts, order)
        return found

    def _read_parts(self, found: list[Data], parts: Parts, rows: list[int]) -> None:
        shares = thread_shares(parts, self.pool.width)
        with read_meter.waiting():
            if len(shares) == 1:
                every = self.store.read_parts(parts)
            else:
                read = self.pool.map(self.store.read_parts, [parts.some(*own) for own in shares])
                every = [part for some in read for part in some]
        read_meter.add(fetched=sum(parts.length))
        # A part that was put into its target is complete.
        for at, (row, part, target) in enumerate(zip(rows, every, parts.into, strict=True)):
            if part is not target and len(part) != parts.length[at]:
                name = parts.names[bisect(parts.edges, at) - 1]
                stop = parts.start[at] + parts.length[at]
                _require_length(CHUNKS + name, Range(parts.start[at], stop), part)
            found[row] = part

    def _read(self, read: ObjectRead) -> Sequence[Data]:
        if len(read.ranges) == 1:
            return [self.fetch(read.chunk, read.ranges[0])]
        if not self.cache.capacity:
            return self._fetch_parts(read.chunk, read.ranges)
        known = {part: self.cache.find((read.chunk, part)) for part in read.ranges}
        missing = [part for part, data in known.items() if data is None]
        if missing:
            # Copies: what came back may be views of one large piece, which they would keep.
            fetched = map(bytes, self._fetch_parts(read.chunk, missing))
            for part, data in zip(missing, fetched, strict=True):
                known[part] = data
                self.cache.remember((read.chunk, part), data)
        read_meter.add(cached=len(read.ranges) - len(missing))
        return [found for part in read.ranges if (found := known[part]) is not None]

    def _fetch(self, chunk: ChunkId, wanted: Range) -> Data:
        key = chunk_key(chunk)
        with read_meter.waiting():
            data = self.store.get(key, wanted).data
        read_meter.add(fetched=len(data))
        _require_length(key, wanted, data)
        return data

    def _fetch_parts(self, chunk: ChunkId, ranges: Sequence[Range]) -> Sequence[Data]:
        key = chunk_key(chunk)
        with read_meter.waiting():
            parts = self.store.get_ranges(key, ranges)
        read_meter.add(fetched=sum(map(len, parts)))
        for wanted, part in zip(ranges, parts, strict=True):
            _require_length(key, wanted, part)
        return parts


def _divide(memory: memoryview | None, lengths: Sequence[int]) -> Targets:
    """Targets of these lengths, one behind the other."""
    if memory is None or len(lengths) == 1:
        return [memory] * len(lengths)
    return [
        memory[stop - size : stop] for stop, size in zip(accumulate(lengths), lengths, strict=True)
    ]


def _require_length(key: str, wanted: Range, data: Data) -> None:
    if len(data) != len(wanted):
        raise StorageError(
            f"chunk object {key!r} is too short: bytes {wanted.start} to"
            f" {wanted.stop} were asked for and {len(data)} came back",
            kind="invalid-object-size",
        )


def require_readable_length(length: int, limits: Limits) -> None:
    """Raises StorageError if a chunk is too long to read; pass the largest length of several."""
    if length > limits.chunk_bytes:
        raise StorageError(
            f"a chunk reference is to {length} bytes, at most {limits.chunk_bytes} are read at"
            " once: Limits(chunk_bytes=...) allows more",
            kind="invalid-object-size",
        )


def require_readable_range(offset: int, length: int, limits: Limits) -> None:
    """Raises StorageError if a chunk is too long, or begins at an offset that no file has."""
    require_readable_length(length, limits)
    if offset >= _MAX_OFFSET:
        raise StorageError(
            f"a chunk reference begins at byte {offset}, where no file has any",
            kind="invalid-object-size",
        )


def require_readable(chunks: Sequence[StoredChunk | None], limits: Limits) -> None:
    """Raises StorageError if one of the chunks is not as `require_readable_range` wants it."""
    stored = [chunk for chunk in chunks if chunk is not None]
    furthest = max([chunk.offset for chunk in stored], default=0)
    longest = max([chunk.length for chunk in stored], default=0)
    require_readable_range(furthest, longest, limits)
