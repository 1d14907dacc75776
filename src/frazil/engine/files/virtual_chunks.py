"""Virtual chunks, read in bulk.

Reading plans first: references into one file that expect the same of it are read together, those
near each other by one request, all requests concurrently.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.chunk_objects import require_readable_length
from frazil.engine.files.object_stores import open_source
from frazil.engine.files.read_meter import read_meter
from frazil.engine.files.virtual_access import (
    Grant,
    VirtualAccess,
)
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
)
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_refs import Checksum, ChunkRefs, ETag, LastModified, Virtual
from frazil.format.storage_config import (
    HttpStoreConfig,
    LocalStoreConfig,
    require_addressable,
)
from frazil.format.urls import Place, normalize_location, place_of
from frazil.objectstore import remote
from frazil.objectstore.local.local_source import LocalSource
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import (
    Data,
    Expectation,
    NotModifiedAfter,
    SameETag,
    SourceStore,
)
from frazil.objectstore.reads import merge_reads
from frazil.ranges import Range

# Clients for stores with virtual chunks; the repository's own store is one of them.


class SourceClients:
    """Cache of at most `limit` clients, by least recent use.

    Concurrent callers share one client. A client that failed to open is not kept: the next caller
    tries again. A forked child opens its own.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._made: OrderedDict[Hashable, Future[SourceStore]] = OrderedDict()

    def find(self, name: Hashable, make: Callable[[], SourceStore]) -> SourceStore:
        key = (os.getpid(), name)
        with self._lock:
            client = self._made.get(key)
            is_mine = client is None
            if client is None:
                client = self._made[key] = Future()
            self._made.move_to_end(key)
            while len(self._made) > self.limit:
                self._made.popitem(last=False)
        if is_mine:
            self._make(key, client, make)
        return client.result()

    def _make(
        self, key: Hashable, client: Future[SourceStore], make: Callable[[], SourceStore]
    ) -> None:
        try:
            client.set_result(make())
        except BaseException as error:  # noqa: BLE001 -- raised again by `result`, for all who wait
            with self._lock:
                if self._made.get(key) is client:
                    del self._made[key]
            client.set_exception(error)


def open_source_of(grant: Grant, authority: str, access: VirtualAccess) -> SourceStore:
    """A client for a bucket, an account or a host in the container; or for local files."""
    if isinstance(grant.container.store, LocalStoreConfig):
        own = _directory(grant)
        others = {_directory(each) for each in access.local_grants()} - {own}
        return LocalSource((own, *sorted(others)))
    scheme = grant.container.url_prefix.partition("://")[0]
    source = open_source(
        grant.container.store, authority, grant.credentials, access.settings, scheme=scheme
    )
    if isinstance(grant.container.store, HttpStoreConfig) and access.reads.check_redirects:
        headers = tuple((grant.container.store.headers or {}).items())
        return remote.GuardedSource(source, f"{scheme}://{authority}", headers)
    return source


def _directory(grant: Grant) -> str:
    return "/" + place_of(normalize_location(grant.container.url_prefix)).key


type Rows = npt.NDArray[np.int64]
type Opener = Callable[[Grant, str, VirtualAccess], SourceStore]
_LOCAL_GAP_BYTES = 4096  # a page: reading it takes no longer than asking again


@dataclass(frozen=True, slots=True)
class Source:
    """One file, and who may read it."""

    location: str  # complete, as errors name it
    place: Place
    grant: Grant


@dataclass(frozen=True, slots=True)
class SourceRead:
    """One request: the bytes of `span`, which serve the wanted ranges at `rows` of a list."""

    source: Source
    expected: Expectation | None
    span: Range
    rows: tuple[int, ...]
    wanted: tuple[Range, ...]


class VirtualChunks:
    """Reads virtual chunks for sessions. Its pickle holds the authorization, and no connections."""

    def __init__(self, access: VirtualAccess, pool: Pool, opener: Opener = open_source_of) -> None:
        self.access = access
        self._pool = pool
        self._opener = opener
        self._clients = SourceClients(access.reads.max_clients)

    def __reduce__(self) -> tuple[object, ...]:
        return VirtualChunks, (self.access, self._pool, self._opener)

    def fetch(self, chunk: Virtual, part: Range) -> Data:
        """A part of a chunk."""
        wanted = self._within_file(chunk, part)
        expected = _expectation(chunk.checksum)
        read = SourceRead(self.resolve(chunk.location), expected, wanted, (0,), (wanted,))
        return self._read(read)[0]

    def fetch_many(self, parts: Sequence[tuple[ChunkRefs, Rows]]) -> list[Data]:
        """Whole chunks: of each part the given rows, one part after the other."""
        found: list[Data] = [b""] * sum(len(rows) for _, rows in parts)
        reads = self.plan(parts)
        for read, pieces in zip(reads, self._pool.map(self._read, reads), strict=True):
            for row, piece in zip(read.rows, pieces, strict=True):
                found[row] = piece
        return found

    def fetch_parts(self, wanted: Sequence[tuple[Virtual, Range]]) -> list[Data | IcechunkError]:
        """Parts of chunks, or the error of each that cannot be read."""
        found: list[Data | IcechunkError] = [b""] * len(wanted)
        groups: dict[tuple[str, Expectation | None], list[int]] = {}
        for row, (chunk, _) in enumerate(wanted):
            key = (chunk.location, _expectation(chunk.checksum))
            groups.setdefault(key, []).append(row)
        reads: list[SourceRead] = []
        for (location, expected), rows in groups.items():
            try:
                source = self.resolve(location)
                ranges = [self._within_file(*wanted[row]) for row in rows]
            except IcechunkError as error:
                for row in rows:
                    found[row] = error
                continue
            reads += self._merged(source, expected, ranges, rows)
        for read, parts in zip(reads, self._pool.map(self._attempt, reads), strict=True):
            for row, part in zip(read.rows, parts, strict=True):
                found[row] = part
        return found

    def _within_file(self, chunk: Virtual, part: Range) -> Range:
        require_readable_length(part.stop - part.start, self.access.limits)
        return Range(chunk.offset + part.start, chunk.offset + part.stop)

    def plan(self, parts: Sequence[tuple[ChunkRefs, Rows]]) -> list[SourceRead]:
        """The requests for these rows; what is not allowed raises here."""
        parts = [(refs, rows) for refs, rows in parts if len(rows)]
        if not parts:
            return []
        # Pruned before anything else: locations may be compressed, and only these are needed.
        location = StringColumn.concat([refs.location.take(rows).pruned() for refs, rows in parts])
        etag = StringColumn.concat([refs.etag.take(rows).pruned() for refs, rows in parts])
        modified = np.concatenate([refs.last_modified[rows] for refs, rows in parts])
        offset = np.concatenate([refs.offset[rows] for refs, rows in parts])
        lengths = np.concatenate([refs.length[rows] for refs, rows in parts])
        require_readable_length(int(lengths.max()), self.access.limits)
        length = lengths.tolist()
        places, tags = distinct_codes(location), distinct_codes(etag)
        order = np.lexsort((offset, modified, tags, places))
        groups = np.stack([places, tags, modified], axis=1)[order]
        edges = np.flatnonzero((groups[1:] != groups[:-1]).any(axis=1)) + 1
        begin = offset.tolist()
        sources: dict[int, Source] = {}
        reads: list[SourceRead] = []
        for start, stop in pairwise([0, *edges.tolist(), len(order)]):
            members = order[start:stop].tolist()
            first = members[0]
            place = int(places[first])
            if place not in sources:
                sources[place] = self.resolve(location.text(first) or "")
            expected = _expectation_of(etag.text(first), int(modified[first]))
            ranges = [Range(begin[row], begin[row] + length[row]) for row in members]
            reads += self._merged(sources[place], expected, ranges, members)
        return reads

    def _merged(
        self,
        source: Source,
        expected: Expectation | None,
        ranges: Sequence[Range],
        members: Sequence[int],
    ) -> list[SourceRead]:
        limits = self.access.reads
        gap = limits.max_gap_bytes
        if isinstance(source.grant.container.store, LocalStoreConfig):
            gap = min(gap, _LOCAL_GAP_BYTES)
        merged = merge_reads(ranges, gap_bytes=gap, limit_bytes=limits.max_request_bytes)
        return [
            SourceRead(
                source,
                expected,
                one.span,
                tuple(members[at] for at in one.serves),
                tuple(ranges[at] for at in one.serves),
            )
            for one in merged
        ]

    def resolve(self, location: str) -> Source:
        """The file that a stored location names. Raises InvalidInputError if it may not be read."""
        complete = normalize_location(self.access.all_containers().complete(location))
        place, grant = place_of(complete), self.access.grant_for(complete)
        require_addressable(grant.container.store, place.key)
        return Source(complete, place, grant)

    def size_bytes(self, location: str) -> int:
        """The size of the whole file that a location names."""
        source = self.resolve(location)
        try:
            return self._client(source).size_bytes(source.place.key)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(source.location) from error

    def _client(self, source: Source) -> SourceStore:
        place, grant = source.place, source.grant
        return self._clients.find(
            (grant.container.url_prefix, place.scheme, place.authority),
            lambda: self._opener(grant, place.authority, self.access),
        )

    def _read(self, read: SourceRead) -> list[Data]:
        data = self._fetch_span(read)
        return [_extract_range(read, wanted, data) for wanted in read.wanted]

    def _attempt(self, read: SourceRead) -> list[Data | IcechunkError]:
        """Reads parts, and returns errors in place of those that fail."""
        try:
            data = self._fetch_span(read)
        except IcechunkError as error:
            return [error] * len(read.wanted)
        parts: list[Data | IcechunkError] = []
        for wanted in read.wanted:
            try:
                parts.append(_extract_range(read, wanted, data))
            except IcechunkError as error:
                parts.append(error)
        return parts

    def _fetch_span(self, read: SourceRead) -> memoryview:
        key, client = read.source.place.key, self._client(read.source)
        try:
            with read_meter.waiting():
                data = memoryview(client.read(key, [read.span], expected=read.expected)[0])
        except InvalidInputError:
            raise
        except IcechunkError as error:
            raise _add_location(read.source.location, error) from error
        read_meter.add(fetched=data.nbytes)
        return data


def distinct_codes(column: StringColumn) -> Rows:
    """A number for each row, the same for equal texts; -1 for none."""
    if len(column.strings) < 2:
        return column.codes
    codes, _ = column.strings.unique()  # parts of different manifests may hold a text twice
    return np.append(codes, -1)[column.codes]


def _extract_range(read: SourceRead, wanted: Range, data: memoryview) -> Data:
    part = data[wanted.start - read.span.start : wanted.stop - read.span.start]
    if len(part) != len(wanted):
        raise StorageError(
            f"error fetching virtual reference {read.source.location}: the object is too short,"
            f" bytes {wanted.start} to {wanted.stop} were asked for and it ends at"
            f" {read.span.start + len(data) if len(data) else f'{read.span.start} or before'}",
            kind="virtual-chunk-fetch",
        )
    return part


def _add_location(location: str, error: IcechunkError) -> IcechunkError:
    match error:
        case ObjectChangedError():
            return ObjectChangedError(location, error.expected, error.found)
        case _:
            return StorageError(
                f"error fetching virtual reference {location}: {error}", kind="virtual-chunk-fetch"
            )


def _expectation(checksum: Checksum | None) -> Expectation | None:
    match checksum:
        case ETag(value):
            return SameETag(value)
        case LastModified(seconds):
            return NotModifiedAfter(seconds)
        case None:
            return None


def _expectation_of(etag: str | None, modified: int) -> Expectation | None:
    """The checksum in columns; an etag is stricter than a time."""
    if etag is not None:
        return SameETag(etag)
    return NotModifiedAfter(modified) if modified else None
