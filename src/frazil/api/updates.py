"""Entries of the ops log, with Icechunk's names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import repeat

from frazil.api.values import RepoStatus, SpecVersion
from frazil.clock import from_datetime, to_datetime
from frazil.dataclass import dataclass
from frazil.format.records import Displayed, View
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


class Update(Displayed):
    """One change of the repository.

    Its fields are read on first access, together with those of its neighbours: a log has many
    entries, and most are skipped.
    """

    __slots__ = ("_at", "_page")
    __match_args__ = ("kind", "updated_at", "backup_path")

    def __init__(self, page: "_Page | _Single", at: int) -> None:
        self._page = page
        self._at = at

    @property
    def kind(self) -> AnyUpdateType:
        return self._page.kinds[self._at]

    @property
    def updated_at(self) -> datetime:
        time = self._page.times[self._at]
        if time is None:
            raise OverflowError("the ops log has an entry whose time is after the year 9999")
        return time

    @property
    def backup_path(self) -> str | None:
        return self._page.backups[self._at]

    def __view__(self) -> View:
        return View("frazil.Update", [(name, getattr(self, name)) for name in self.__match_args__])

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__view__().fields)
        return f"Update({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Update):
            return NotImplemented
        return self.__view__().fields == other.__view__().fields

    def __hash__(self) -> int:
        return hash((self.kind, self.updated_at, self.backup_path))

    def __reduce__(self) -> tuple[object, ...]:  # without its neighbours
        return _restore, (self.kind, self.updated_at, self.backup_path)


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


class _Page:
    """Entries of the ops log by field: all values of a field are made when one is needed."""

    def __init__(self, log: UpdateLog) -> None:
        log.require_known()
        self._log = log

    @cached_property
    def kinds(self) -> Sequence[AnyUpdateType]:
        return list(self._log.kinds(_KINDS, format_ids))

    @cached_property
    def times(self) -> Sequence[datetime | None]:
        """None for times after the year 9999, which Python does not have."""
        times_us = self._log.times_us
        if int(times_us.max(initial=0)) > _LAST_US:
            return [to_datetime(us) if us <= _LAST_US else None for us in times_us.tolist()]
        # All at once, in an eighth of the time of `to_datetime`.
        return [_EPOCH + since for since in times_us.astype("m8[us]").tolist()]

    @cached_property
    def backups(self) -> Sequence[str | None]:
        return self._log.backups


@dataclass(frozen=True, slots=True)
class _Single:
    """An entry that was unpickled or copied, as a page of one."""

    kinds: tuple[AnyUpdateType]
    times: tuple[datetime]
    backups: tuple[str | None]


def _restore(kind: AnyUpdateType, updated_at: datetime, backup_path: str | None) -> Update:
    return Update(_Single((kind,), (updated_at,), (backup_path,)), 0)


def entries(page: UpdateLog) -> Iterator[Update]:
    """A page of the ops log, straight from its columns: there may be thousands of entries."""
    return map(Update, repeat(_Page(page)), range(len(page)))


_EPOCH = to_datetime(0)
_LAST_US = from_datetime(datetime.max.replace(tzinfo=UTC))
