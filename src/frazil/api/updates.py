"""Entries of the ops log, with Icechunk's names."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from frazil.api.values import RepoStatus, SpecVersion
from frazil.clock import from_datetime, to_datetime
from frazil.dataclass import dataclass
from frazil.format.records import Displayed
from frazil.format.update_log import UpdateLog
from frazil.ids import format_ids


class UpdateType:
    """Kinds of updates: each is a class in here."""

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


# By the numbers of the format
_KINDS: Mapping[int, Callable[..., AnyUpdateType]] = {
    1: UpdateType.RepoInitialized,
    2: lambda old, new: UpdateType.RepoMigrated(SpecVersion(old), SpecVersion(new)),
    3: UpdateType.ConfigChanged,
    4: UpdateType.MetadataChanged,
    5: UpdateType.TagCreated,
    6: UpdateType.TagDeleted,
    7: UpdateType.BranchCreated,
    8: UpdateType.BranchDeleted,
    9: UpdateType.BranchReset,
    10: UpdateType.NewCommit,
    11: UpdateType.CommitAmended,
    12: UpdateType.NewDetachedSnapshot,
    13: UpdateType.GCRan,
    14: UpdateType.ExpirationRan,
    15: UpdateType.FeatureFlagChanged,
    16: lambda status: UpdateType.RepoStatusChanged(RepoStatus.of(status)),
}


def entries(page: UpdateLog) -> Iterator[Update]:
    """A page of the ops log, straight from its columns: there may be thousands of entries."""
    return map(Update, page.kinds(_KINDS, format_ids), _datetimes(page.times_us), page.backups)


def _datetimes(times_us: npt.NDArray[np.uint64]) -> Iterable[datetime]:
    """Converts all at once, in an eighth of the time of `to_datetime`."""
    if int(times_us.max(initial=0)) > _LAST_US:
        return map(to_datetime, times_us.tolist())  # fails where it comes to the one that is none
    return [_EPOCH + since for since in times_us.astype("m8[us]").tolist()]


_EPOCH = to_datetime(0)
_LAST_US = from_datetime(datetime.max.replace(tzinfo=UTC))
