"""What is stored, as counted, with Icechunk's names."""

from dataclasses import dataclass
from typing import Any

from frazil.format.records import Displayed, View, fields_of
from frazil.maintenance import stats
from frazil.maintenance.stats import Bytes, Owner


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
