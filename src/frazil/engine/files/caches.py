"""Caches of a repository's decoded files, sized by the configuration.

- `num_snapshot_nodes`: snapshots, by nodes; names of nodes, where only those were read
- `num_chunk_refs`: manifests, by references
- `num_transaction_changes`: transaction logs, by changes
- `num_bytes_chunks`: parts of chunk objects, by bytes; not of virtual chunks
- `num_bytes_attributes`: unused, as attributes are part of their node
- indices of shards, some megabytes of them

All are bounded in bytes as well: a reference may take forty bytes or hold a long location, and a
process may read very many files with little in them, each of which costs some Python objects.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Buffer, Callable
from dataclasses import field
from hashlib import sha256
from threading import Event, Lock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.settings import PreloadPlan, Settings
from frazil.format.repo_info import RepoInfo, decode_repo_info
from frazil.format.snapshot import NodeNames, Snapshot, SnapshotHead, decode_snapshot_lazily
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.objectstore.pool import Background
from frazil.objectstore.protocol import Blob
from frazil.ranges import Range

if TYPE_CHECKING:
    from frazil.format.manifest import Manifest
    from frazil.format.transaction_log import TransactionLog

# The entry point as it was last seen.


@dataclass(frozen=True, slots=True, eq=False)
class StoredRepoInfo:
    """A repo info file as it was read or written: what to compare with when replacing it."""

    info: RepoInfo
    blob: Blob


@dataclass(slots=True)
class Newest:
    """The newest repo info that this process has seen: equal bytes need not be decoded again."""

    stored: StoredRepoInfo | None = None


type ChunkPart = tuple[ChunkId, Range]


class StoredChunk(NamedTuple):
    """A chunk in an object of the repository."""

    object_id: bytes
    offset: int
    length: int

    def part(self, start: int, stop: int) -> "StoredChunk":
        """These bytes of it, cut off at its end; a negative start counts from there."""
        begin = min(start, self.length) if start >= 0 else max(0, self.length + start)
        return StoredChunk(self.object_id, self.offset + begin, min(stop, self.length) - begin)


# By the shard, its grid of chunks, and where in it its index is.
type ShardIndices = WeighedCache[tuple[StoredChunk, tuple[int, ...], str], npt.NDArray[np.uint64]]


@dataclass(slots=True)
class WeighedCache[K, V]:
    """The most recently used values whose weights add up to at most `capacity`.

    And whose sizes add up to at most `most_bytes`, as far as they are known.
    A value that alone is more than that is returned but not kept. Two threads that miss the
    same key at once may both fetch it: files are immutable, so either result will do.
    """

    capacity: int
    weigh: Callable[[V], int]
    most_bytes: int = 1 << 62
    size: Callable[[V], int] = lambda _: 0
    _values: OrderedDict[K, tuple[V, int, int]] = field(default_factory=OrderedDict)
    _weight: int = 0
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: K) -> V | None:
        """The cached value; nothing is loaded."""
        with self._lock:
            if (known := self._values.get(key)) is None:
                return None
            self._values.move_to_end(key)
            return known[0]

    def fetch(self, key: K, load: Callable[[K], V]) -> V:
        if (known := self.find(key)) is not None:
            return known
        value = load(key)
        self.remember(key, value)
        return value

    def remember(self, key: K, value: V) -> None:
        weight, size = max(1, self.weigh(value)), self.size(value)
        if weight > self.capacity or size > self.most_bytes:
            return
        with self._lock:
            if (old := self._values.pop(key, None)) is not None:
                self._forget(old)
            self._values[key] = (value, weight, size)
            self._weight += weight
            self._bytes += size
            while self._weight > self.capacity or self._bytes > self.most_bytes:
                self._forget(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._weight = self._bytes = 0

    def _forget(self, entry: tuple[V, int, int]) -> None:
        self._weight -= entry[1]
        self._bytes -= entry[2]


@dataclass(slots=True)
class _Flight[V]:
    landed: Event = field(default_factory=Event)
    value: V | None = None  # None too if it failed


@dataclass(frozen=True, slots=True)
class SingleFlight[K, V]:
    """Concurrent loads of one key are one load: other threads wait for its result.

    If it fails, each of them loads for itself, so that each gets an error of its own.
    """

    # By process as well: a forked child has none of the threads that would land.
    _under_way: dict[tuple[int, K], _Flight[V]] = field(default_factory=dict)

    def load(self, key: K, load: Callable[[K], V]) -> V:
        own = _Flight[V]()
        place = (os.getpid(), key)
        first = self._under_way.setdefault(place, own)
        if first is not own:
            first.landed.wait()
            return load(key) if first.value is None else first.value
        try:
            own.value = value = load(key)
        finally:
            del self._under_way[place]
            own.landed.set()
        return value


_KEPT, _KEPT_BYTES = 4, 1 << 18  # files of at most that size, as they are stored


class SharedDecoded[T]:
    """Contents of files, by their bytes and the limit they were decoded with, while in use.

    A repository that is opened several times then has its history and nodes in memory once. The
    last few small ones are kept, for programs that open a repository again and again. Bytes
    are what counts, not names: other repositories have a first snapshot of the same name. A reader
    with a narrower limit must not get what it would refuse.
    """

    def __init__(self, decode: Callable[..., T]) -> None:
        self._decode = decode
        self._held = WeakValueDictionary[tuple[bytes, int | None], T]()
        self._kept = deque[T](maxlen=_KEPT)

    def decode(self, data: Buffer, *, max_size: int | None = None) -> T:
        key = sha256(data, usedforsecurity=False).digest(), max_size
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = self._decode(data, max_size=max_size)
            if memoryview(data).nbytes <= _KEPT_BYTES:
                self._kept.append(found)
        return found


shared_snapshots = SharedDecoded(decode_snapshot_lazily)
shared_repo_infos = SharedDecoded(decode_repo_info)


_MOST_BYTES = 1 << 30  # of manifests, and of logs
_MOST_SNAPSHOT_BYTES = 1 << 28
_MOST_NAME_BYTES = 1 << 26  # of the files that names of nodes are part of, and of heads
# What an empty one takes, about.
_SNAPSHOT_BYTES, _NODE_BYTES, _HEAD_BYTES, _NAMES_BYTES = 8000, 500, 500, 2000
_MANIFEST_BYTES, _LOG_BYTES = 5000, 2000
_SHARD_INDEX_BYTES = 1 << 25
_REMEMBERED_PLANS, _PLAN = 10_000, 100  # manifests in them; a plan is as much as so many


@dataclass(frozen=True, slots=True)
class TagFile:
    """A tag of version 1 as it is listed. Tags never move, but a repository may be deleted, and
    another one with a tag of that name be created at the same place.
    """

    name: str
    size_bytes: int
    modified_at_us: int


@dataclass(frozen=True, slots=True, eq=False)
class Caches:
    """Safe to share between threads, and between objects for one repository."""

    snapshots: WeighedCache[SnapshotId, Snapshot]
    heads: WeighedCache[SnapshotId, SnapshotHead]
    names: WeighedCache[SnapshotId, NodeNames]
    manifests: WeighedCache[ManifestId, "Manifest"]
    logs: WeighedCache[SnapshotId, "TransactionLog"]
    chunks: WeighedCache[ChunkPart, bytes]
    plans: WeighedCache[SnapshotId, PreloadPlan] = field(
        default_factory=lambda: WeighedCache(
            _REMEMBERED_PLANS, lambda plan: _PLAN + len(plan.manifests)
        )
    )
    # Where the chunks of a shard are in it; of indices that are encoded as is usual.
    shard_indices: ShardIndices = field(
        default_factory=lambda: WeighedCache(_SHARD_INDEX_BYTES, lambda index: index.nbytes)
    )
    loading: SingleFlight[ManifestId, "Manifest"] = field(default_factory=SingleFlight)
    background: Background = field(default_factory=Background)
    v1_tags: dict[TagFile, SnapshotId] = field(default_factory=dict)
    newest: Newest = field(default_factory=Newest)

    @classmethod
    def of(cls, settings: Settings) -> "Caches":
        return cls(
            WeighedCache(
                settings.cached_nodes,
                lambda snapshot: len(snapshot.nodes),
                _MOST_SNAPSHOT_BYTES,
                lambda snapshot: _SNAPSHOT_BYTES + _NODE_BYTES * len(snapshot.nodes),
            ),
            WeighedCache(
                settings.cached_nodes, lambda _: 1, _MOST_NAME_BYTES, lambda _: _HEAD_BYTES
            ),
            WeighedCache(
                settings.cached_nodes,
                lambda names: len(names.ids),
                _MOST_NAME_BYTES,
                lambda names: _NAMES_BYTES + names.paths.strings.heap.nbytes,
            ),
            WeighedCache(
                settings.cached_refs,
                lambda manifest: manifest.num_refs,
                _MOST_BYTES,
                lambda manifest: _MANIFEST_BYTES + manifest.num_bytes,
            ),
            WeighedCache(
                settings.cached_changes,
                lambda log: log.num_changes,
                _MOST_BYTES,
                lambda log: _LOG_BYTES + sum(index.nbytes for index in log.updated_chunks.values()),
            ),
            WeighedCache(settings.cached_chunk_bytes, len),
        )

    def fitting(self, settings: Settings) -> "Caches":
        """These, with new and empty ones in place of those that were to be larger or smaller."""
        new = Caches.of(settings)
        return Caches(
            _reuse_if_same_capacity(self.snapshots, new.snapshots),
            _reuse_if_same_capacity(self.heads, new.heads),
            _reuse_if_same_capacity(self.names, new.names),
            _reuse_if_same_capacity(self.manifests, new.manifests),
            _reuse_if_same_capacity(self.logs, new.logs),
            _reuse_if_same_capacity(self.chunks, new.chunks),
            self.plans,
            self.shard_indices,
            self.loading,
            self.background,
            self.v1_tags,
            self.newest,
        )


def _reuse_if_same_capacity[K, V](
    old: WeighedCache[K, V], new: WeighedCache[K, V]
) -> WeighedCache[K, V]:
    return old if old.capacity == new.capacity else new
