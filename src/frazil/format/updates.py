"""The ops log: what was done to a repository, newest first. Spec: "Update"."""

from dataclasses import dataclass
from enum import IntEnum

from frazil.ids import SnapshotId


class Availability(IntEnum):
    ONLINE = 0
    READ_ONLY = 1
    OFFLINE = 2  # in the schema only: the reference takes it for online, and cannot set it

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class RepoStatus:
    availability: Availability
    set_at_us: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RepoInitialized:
    pass


@dataclass(frozen=True, slots=True)
class RepoMigrated:
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    pass


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    pass


@dataclass(frozen=True, slots=True)
class TagCreated:
    name: str


@dataclass(frozen=True, slots=True)
class TagDeleted:
    name: str
    previous: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchCreated:
    name: str


@dataclass(frozen=True, slots=True)
class BranchDeleted:
    name: str
    previous: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchReset:
    name: str
    previous: SnapshotId


@dataclass(frozen=True, slots=True)
class NewCommit:
    branch: str
    new: SnapshotId


@dataclass(frozen=True, slots=True)
class CommitAmended:
    branch: str
    previous: SnapshotId
    new: SnapshotId


@dataclass(frozen=True, slots=True)
class NewDetachedSnapshot:
    new: SnapshotId


@dataclass(frozen=True, slots=True)
class GCRan:
    pass


@dataclass(frozen=True, slots=True)
class ExpirationRan:
    pass


@dataclass(frozen=True, slots=True)
class FeatureFlagChanged:
    id: int
    new_value: bool | None  # None: back to the default


@dataclass(frozen=True, slots=True)
class RepoStatusChanged:
    status: RepoStatus


type UpdateKind = (
    RepoInitialized
    | RepoMigrated
    | ConfigChanged
    | MetadataChanged
    | TagCreated
    | TagDeleted
    | BranchCreated
    | BranchDeleted
    | BranchReset
    | NewCommit
    | CommitAmended
    | NewDetachedSnapshot
    | GCRan
    | ExpirationRan
    | FeatureFlagChanged
    | RepoStatusChanged
)


@dataclass(frozen=True, slots=True)
class Update:
    """One entry. `backup_path` names the file in `overwritten/` with the state right after it."""

    kind: UpdateKind
    updated_at_us: int
    backup_path: str | None = None
