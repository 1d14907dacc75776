"""Entries of the ops log, with Icechunk's names."""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from frazil.api.values import RepoStatus, SpecVersion
from frazil.clock import to_datetime
from frazil.format import updates
from frazil.format.display import Displayed


class UpdateType:
    """What was done: each kind of update is a class in here."""

    @dataclass(frozen=True, slots=True)
    class RepoInitialized:
        """The repository was created."""

    @dataclass(frozen=True, slots=True)
    class RepoMigrated:
        """It was brought to another version of the format."""

        from_version: SpecVersion
        to_version: SpecVersion

    @dataclass(frozen=True, slots=True)
    class RepoStatusChanged:
        """It was made available or unavailable."""

        status: RepoStatus

    @dataclass(frozen=True, slots=True)
    class ConfigChanged:
        """Its configuration was saved."""

    @dataclass(frozen=True, slots=True)
    class MetadataChanged:
        """Its metadata was set."""

    @dataclass(frozen=True, slots=True)
    class TagCreated:
        """A tag was created."""

        name: str

    @dataclass(frozen=True, slots=True)
    class TagDeleted:
        """A tag was deleted."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True)
    class BranchCreated:
        """A branch was created."""

        name: str

    @dataclass(frozen=True, slots=True)
    class BranchDeleted:
        """A branch was deleted."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True)
    class BranchReset:
        """A branch was moved to another snapshot."""

        name: str
        previous_snap_id: str

    @dataclass(frozen=True, slots=True)
    class NewCommit:
        """A snapshot was committed to a branch."""

        branch: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True)
    class CommitAmended:
        """The tip of a branch was replaced."""

        branch: str
        previous_snap_id: str
        new_snap_id: str

    @dataclass(frozen=True, slots=True)
    class NewDetachedSnapshot:
        """A snapshot was made that is on no branch."""

        new_snap_id: str

    @dataclass(frozen=True, slots=True)
    class GCRan:
        """Garbage was collected."""

    @dataclass(frozen=True, slots=True)
    class ExpirationRan:
        """Old snapshots were expired."""

    @dataclass(frozen=True, slots=True)
    class FeatureFlagChanged:
        """A feature was switched on, off, or back to its default."""

        id: int
        new_value: bool | None


type AnyUpdateType = (
    UpdateType.RepoInitialized
    | UpdateType.RepoMigrated
    | UpdateType.RepoStatusChanged
    | UpdateType.ConfigChanged
    | UpdateType.MetadataChanged
    | UpdateType.TagCreated
    | UpdateType.TagDeleted
    | UpdateType.BranchCreated
    | UpdateType.BranchDeleted
    | UpdateType.BranchReset
    | UpdateType.NewCommit
    | UpdateType.CommitAmended
    | UpdateType.NewDetachedSnapshot
    | UpdateType.GCRan
    | UpdateType.ExpirationRan
    | UpdateType.FeatureFlagChanged
)


@dataclass(frozen=True, slots=True)
class Update(Displayed):
    kind: AnyUpdateType
    updated_at: datetime
    backup_path: str | None

    @classmethod
    def of(cls, update: updates.Update) -> "Update":
        return cls(_kind(update.kind), to_datetime(update.updated_at_us), update.backup_path)


def _kind(kind: updates.UpdateKind) -> AnyUpdateType:  # noqa: C901, PLR0911, PLR0912 -- a table
    match kind:
        case updates.RepoInitialized():
            return UpdateType.RepoInitialized()
        case updates.RepoMigrated(old, new):
            return UpdateType.RepoMigrated(SpecVersion(old), SpecVersion(new))
        case updates.RepoStatusChanged(status):
            return UpdateType.RepoStatusChanged(RepoStatus.of(status))
        case updates.ConfigChanged():
            return UpdateType.ConfigChanged()
        case updates.MetadataChanged():
            return UpdateType.MetadataChanged()
        case updates.TagCreated(name):
            return UpdateType.TagCreated(name)
        case updates.TagDeleted(name, previous):
            return UpdateType.TagDeleted(name, str(previous))
        case updates.BranchCreated(name):
            return UpdateType.BranchCreated(name)
        case updates.BranchDeleted(name, previous):
            return UpdateType.BranchDeleted(name, str(previous))
        case updates.BranchReset(name, previous):
            return UpdateType.BranchReset(name, str(previous))
        case updates.NewCommit(branch, new):
            return UpdateType.NewCommit(branch, str(new))
        case updates.CommitAmended(branch, previous, new):
            return UpdateType.CommitAmended(branch, str(previous), str(new))
        case updates.NewDetachedSnapshot(new):
            return UpdateType.NewDetachedSnapshot(str(new))
        case updates.GCRan():
            return UpdateType.GCRan()
        case updates.ExpirationRan():
            return UpdateType.ExpirationRan()
        case updates.FeatureFlagChanged(flag, new_value):
            return UpdateType.FeatureFlagChanged(flag, new_value)
        case _:
            assert_never(kind)
