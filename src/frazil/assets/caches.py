"""What is kept of a repository's files, by the weights of the configuration.

- `num_snapshot_nodes`: snapshots, by nodes; names of nodes, where that is all that was read
- `num_chunk_refs`: manifests, by references
- `num_transaction_changes`: transaction logs, by changes
- `num_bytes_chunks`: parts of chunk objects, by bytes; not of virtual chunks
- `num_bytes_attributes`: nothing, as attributes are part of their node

All are bounded in bytes as well: a reference may be forty bytes or a long location, and a process
may see very many files with hardly anything in them, each of which is some objects of Python.
"""

from dataclasses import dataclass, field

from frazil.assets.background import Background
from frazil.assets.cache import WeighedCache
from frazil.assets.chunks import ChunkPart
from frazil.assets.flights import Flights
from frazil.assets.preload_rules import PreloadPlan
from frazil.assets.settings import Settings
from frazil.assets.stored_info import Newest
from frazil.format.manifest import Manifest
from frazil.format.snapshot import NodeNames, Snapshot, SnapshotHead
from frazil.format.transaction_log import TransactionLog
from frazil.ids import ManifestId, SnapshotId

_MOST_BYTES = 1 << 30  # of manifests, and of logs
_MOST_SNAPSHOT_BYTES = 1 << 28
_MOST_NAME_BYTES = 1 << 26  # of the files that names of nodes are part of, and of heads
# What an empty one takes, about.
_SNAPSHOT_BYTES, _NODE_BYTES, _HEAD_BYTES, _NAMES_BYTES = 8000, 500, 500, 2000
_MANIFEST_BYTES, _LOG_BYTES = 5000, 2000
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
    manifests: WeighedCache[ManifestId, Manifest]
    logs: WeighedCache[SnapshotId, TransactionLog]
    chunks: WeighedCache[ChunkPart, bytes]
    plans: WeighedCache[SnapshotId, PreloadPlan] = field(
        default_factory=lambda: WeighedCache(
            _REMEMBERED_PLANS, lambda plan: _PLAN + len(plan.manifests)
        )
    )
    loading: Flights[ManifestId, Manifest] = field(default_factory=Flights)
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
            _fitting(self.snapshots, new.snapshots),
            _fitting(self.heads, new.heads),
            _fitting(self.names, new.names),
            _fitting(self.manifests, new.manifests),
            _fitting(self.logs, new.logs),
            _fitting(self.chunks, new.chunks),
            self.plans,
            self.loading,
            self.background,
            self.v1_tags,
            self.newest,
        )


def _fitting[K, V](old: WeighedCache[K, V], new: WeighedCache[K, V]) -> WeighedCache[K, V]:
    return old if old.capacity == new.capacity else new
