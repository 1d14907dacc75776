"""Results of maintenance with Icechunk's names. Light: some are among the public names."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.format.records import Displayed, View, fields_of

if TYPE_CHECKING:
    from frazil.maintenance.purge.remaining import Remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSummary(Displayed):
    """Counts of what garbage collection deleted, or in a dry run would delete.

    If deleting files of one kind failed, kinds that come later are left for the next time and
    named in `skipped_phases`. The last four fields are frazil's own.
    """

    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    throttled_batches: int = 0
    delete_errors: list[str] = field(default_factory=list)
    skipped_phases: list[str] = field(default_factory=list)
    backups_deleted: int = 0
    branches_deleted: int = 0
    temporary_files_deleted: int = 0
    peak_memory_bytes: int = 0  # of the sets of ids

    __hash__ = None  # type: ignore[assignment]  # it has lists in it


@dataclass(frozen=True, slots=True)
class ChunkStorageStats(Displayed):
    """Bytes of the chunks that are reachable from branches and tags, each counted once."""

    native_bytes: int = 0
    virtual_bytes: int = 0
    inlined_bytes: int = 0

    def non_virtual_bytes(self) -> int:
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes

    def __add__(self, other: object) -> "ChunkStorageStats":
        if not isinstance(other, ChunkStorageStats):
            return NotImplemented
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerStats(Displayed):
    """Bytes of one branch, tag or array; `exclusive` are those that no other one has."""

    name: str
    kind: str  # branch, tag or array
    total: ChunkStorageStats
    exclusive: ChunkStorageStats
    shared: ChunkStorageStats

    @classmethod
    def of(
        cls, kind: str, name: str, total: ChunkStorageStats, exclusive: ChunkStorageStats
    ) -> "OwnerStats":
        shared = ChunkStorageStats(
            total.native_bytes - exclusive.native_bytes,
            total.virtual_bytes - exclusive.virtual_bytes,
            total.inlined_bytes - exclusive.inlined_bytes,
        )
        return cls(name=name, kind=kind, total=total, exclusive=exclusive, shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats(Displayed):
    """Bytes that are stored: in all, by branch and tag, and by array."""

    total: ChunkStorageStats
    refs: list[OwnerStats]
    arrays: list[OwnerStats]
    snapshots: int  # reachable from refs
    manifests: int
    manifest_bytes: int
    references: int  # in all of those manifests
    peak_memory_bytes: int  # of counting, about

    def __view__(self) -> View:
        view = fields_of(self)
        shown = [(name, _short(value)) for name, value in view.fields]
        return View(view.title, shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSummary:
    """Counts of what was purged, or would be, and what still refers to it.

    Snapshots and transaction logs are rewritten under their ids. `commits` are those that were made
    on top of branches; none after a dry run.
    """

    snapshots: list[str]
    transaction_logs: int = 0
    manifests: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    backups: int = 0
    nodes: list[str] = field(default_factory=list)
    commits: dict[str, str] = field(default_factory=dict)
    remaining: "list[Remaining]"


def _short(value: Any) -> Any:
    return f"{len(value)} of them" if isinstance(value, list) else value
