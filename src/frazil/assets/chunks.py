"""Chunk files, read in bulk.

A chunk reference names an object, an offset and a length, so one object may hold many chunks.
Reading plans first: references into one object are fetched together, the rest concurrently.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.cache import WeighedCache
from frazil.assets.layout import chunk_key
from frazil.assets.pool import Pool
from frazil.errors import StorageError
from frazil.ids import ChunkId
from frazil.objectstore.protocol import Data, ObjectStore
from frazil.ranges import Range

type ChunkPart = tuple[ChunkId, Range]


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """The parts wanted of one object; `rows` are their places in the caller's list."""

    chunk: ChunkId
    ranges: tuple[Range, ...]
    rows: tuple[int, ...]


def plan_reads(
    chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
) -> list[ObjectRead]:
    """One read per distinct object, with its ranges in ascending order."""
    if len(chunk_ids) == 0:
        return []
    names = np.ascontiguousarray(chunk_ids).view("V12").ravel()
    order = np.lexsort((offsets, *chunk_ids.T[::-1]))
    starts = np.flatnonzero(np.append(True, names[order][1:] != names[order][:-1]))
    stops = np.append(starts[1:], len(order))
    begin, end = offsets.tolist(), (offsets + lengths).tolist()
    reads = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        rows = tuple(order[start:stop].tolist())
        ranges = tuple(Range(begin[row], end[row]) for row in rows)
        reads.append(ObjectRead(ChunkId(chunk_ids[rows[0]].tobytes()), ranges, rows))
    return reads


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    store: ObjectStore
    pool: Pool
    cache: WeighedCache[ChunkPart, bytes]

    def fetch(self, chunk: ChunkId, wanted: Range) -> Data:
        if self.cache.capacity:
            return self.cache.fetch((chunk, wanted), lambda _: bytes(self._fetch(chunk, wanted)))
        return self._fetch(chunk, wanted)

    def fetch_many(
        self,
        chunk_ids: npt.NDArray[np.uint8],  # (n, 12)
        offsets: npt.NDArray[np.uint64],  # (n,)
        lengths: npt.NDArray[np.uint64],  # (n,)
    ) -> list[Data]:
        """Bytes of each reference, in order."""
        reads = plan_reads(chunk_ids, offsets, lengths)
        found: list[Data] = [b""] * len(chunk_ids)
        for read, parts in zip(reads, self.pool.map(self._read, reads), strict=True):
            for row, part in zip(read.rows, parts, strict=True):
                found[row] = part
        return found

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
        return [found for part in read.ranges if (found := known[part]) is not None]

    def _fetch(self, chunk: ChunkId, wanted: Range) -> Data:
        data = self.store.get(chunk_key(chunk), wanted).data
        _require_length(chunk, wanted, data)
        return data

    def _fetch_parts(self, chunk: ChunkId, ranges: Sequence[Range]) -> Sequence[Data]:
        parts = self.store.get_ranges(chunk_key(chunk), ranges)
        for wanted, part in zip(ranges, parts, strict=True):
            _require_length(chunk, wanted, part)
        return parts


def _require_length(chunk: ChunkId, wanted: Range, data: Data) -> None:
    if len(data) != len(wanted):
        raise StorageError(
            f"chunk object {chunk_key(chunk)!r} is too short: bytes {wanted.start} to"
            f" {wanted.stop} were asked for and {len(data)} came back",
            kind="invalid-object-size",
        )
