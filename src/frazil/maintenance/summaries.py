"""What maintenance found, deleted or counted, with Icechunk's names."""

from dataclasses import dataclass, field
from typing import Any

from frazil.format.display import Displayed, View, fields_of
from frazil.maintenance import stats
from frazil.maintenance.collect import PHASE_NAMES, Collected
from frazil.maintenance.inventory import FileKind
from frazil.maintenance.stats import Bytes, Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSummary(Displayed):
    """What a collection of garbage deleted, or in a dry run would delete.

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

    @classmethod
    def of(cls, done: Collected) -> "GCSummary":
        counts = {kind: each.objects for kind, each in done.deleted.items()}
        total = done.total
        return cls(
            bytes_deleted=total.size_bytes,
            chunks_deleted=counts.get(FileKind.CHUNK, 0),
            manifests_deleted=counts.get(FileKind.MANIFEST, 0),
            snapshots_deleted=counts.get(FileKind.SNAPSHOT, 0),
            transaction_logs_deleted=counts.get(FileKind.TRANSACTION, 0),
            objects_failed_to_delete=total.failed,
            throttled_batches=total.throttled,
            delete_errors=list(total.errors),
            skipped_phases=[PHASE_NAMES[kind] for kind in done.skipped],
            peak_memory_bytes=done.memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class ChunkStorageStats(Displayed):
    """Bytes of the chunks that branches and tags lead to, each counted once."""

    native_bytes: int = 0
    virtual_bytes: int = 0
    inlined_bytes: int = 0

    @classmethod
    def of(cls, counted: Bytes) -> "ChunkStorageStats":
        return cls(counted.native, counted.virtual, counted.inline)

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
    """What one branch, tag or array has; `exclusive` is what nobody else has."""

    name: str
    kind: str
    total: ChunkStorageStats
    exclusive: ChunkStorageStats
    shared: ChunkStorageStats

    @classmethod
    def of(cls, owner: Owner) -> "OwnerStats":
        return cls(
            name=owner.name,
            kind=owner.kind,
            total=ChunkStorageStats.of(owner.total),
            exclusive=ChunkStorageStats.of(owner.exclusive),
            shared=ChunkStorageStats.of(owner.shared),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats(Displayed):
    """What is stored, and for whom."""

    total: ChunkStorageStats
    refs: list[OwnerStats]
    arrays: list[OwnerStats]
    snapshots: int
    manifests: int
    manifest_bytes: int
    references: int
    peak_memory_bytes: int

    def __view__(self) -> View:
        view = fields_of(self)
        shown = [(name, _short(value)) for name, value in view.fields]
        return View(view.title, shown)

    @classmethod
    def of(cls, found: stats.StorageStats) -> "StorageStats":
        return cls(
            total=ChunkStorageStats.of(found.total),
            refs=[OwnerStats.of(each) for each in found.refs],
            arrays=[OwnerStats.of(each) for each in found.arrays],
            snapshots=found.snapshots,
            manifests=found.manifests,
            manifest_bytes=found.manifest_bytes,
            references=found.references,
            peak_memory_bytes=found.memory_bytes,
        )


def _short(value: Any) -> Any:
    return f"{len(value)} of them" if isinstance(value, list) else value
