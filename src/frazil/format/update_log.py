"""The ops log: what was done to a repository, newest first. Spec: "Update"."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache, cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.table import Column, SubTableColumn, Table, UnionColumn
from frazil.format.schemas import REPO_LOG, REPO_STATUS, UPDATE, UPDATE_KINDS
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


# -------------------------------------------------------------------------------------------------
# The ops log as it is stored: a table of updates, newest first, decoded when looked at.

# Numbers in the union `UpdateType`, in the order of the schema's union, not of its tables.
KINDS: Mapping[int, Callable[..., UpdateKind]] = {
    1: RepoInitialized,
    2: RepoMigrated,
    3: ConfigChanged,
    4: MetadataChanged,
    5: TagCreated,
    6: TagDeleted,
    7: BranchCreated,
    8: BranchDeleted,
    9: BranchReset,
    10: NewCommit,
    11: CommitAmended,
    12: NewDetachedSnapshot,
    13: GCRan,
    14: ExpirationRan,
    15: FeatureFlagChanged,
    16: RepoStatusChanged,
}
type Ids = Callable[[npt.NDArray[np.uint8]], Sequence[object]]  # of (n, 12) raw ones
_NUMBERS: dict[object, int] = {kind: number for number, kind in KINDS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class UpdateLog(Sequence[Update]):
    """Reading an entry of a kind from the future raises FormatError; the others can be read."""

    table: Table  # UPDATE

    @classmethod
    def of(cls, updates: Iterable[Update]) -> "UpdateLog":
        match updates:
            case UpdateLog():
                return updates
            case UndecodedLog():
                return updates.log
            case _:
                return cls(encode_updates(list(updates)))

    @classmethod
    def concat(cls, logs: Sequence["UpdateLog"]) -> "UpdateLog":
        return cls(Table.concat([log.table for log in logs]))

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, place: int) -> Update: ...
    @overload
    def __getitem__(self, place: slice) -> "UpdateLog": ...
    def __getitem__(self, place: int | slice) -> "Update | UpdateLog":
        rows = np.arange(len(self), dtype=np.int64)[place]
        if isinstance(place, slice):
            return UpdateLog(self.table.take(rows))
        return next(iter(UpdateLog(self.table.take(rows.reshape(1)))))

    @property
    def newest_us(self) -> int:
        """Time of the latest entry; 0 if there is none."""
        return int(self.table.scalar("updated_at").values[0]) if len(self) else 0

    def recorded(self, *updates: Update, backup: str) -> "UpdateLog":
        """More entries in front, newest first. The one before is the newest in `backup`."""
        return UpdateLog(Table.concat([encode_updates(updates), self.found_in(backup).table]))

    def found_in(self, backup: str) -> "UpdateLog":
        """The same entries, of which the newest is the newest in the file `backup`."""
        paths = self.table.string("backup_path")
        older = paths.take(np.arange(1, len(self), dtype=np.int64))
        cited = StringColumn.concat([StringColumn.from_list([backup][: len(self)]), older])
        return UpdateLog(self.table.replace(backup_path=cited))

    def before(self, time_us: int) -> "UpdateLog":
        """The entries that are older."""
        return self[int(np.count_nonzero(self.times_us >= time_us)) :]

    def without_backups_before(self, time_us: int) -> "UpdateLog":
        """The same entries, which do not cite backups that were made earlier.

        The backup in which an entry is the newest was made for the entry after it.
        """
        paths = self.table.string("backup_path")
        stays = np.append([True], self.times_us[:-1] >= time_us)[: len(self)]
        cited = StringColumn(np.where(stays, paths.codes, -1), paths.strings)
        return UpdateLog(self.table.replace(backup_path=cited))

    def first_page(self, size: int) -> tuple["UpdateLog", str | None]:
        """The first `size` entries, and the backup that holds the others; None if there are none.

        Entries that no backup holds (a migration made them) are never left out.
        """
        paths = self.table.string("backup_path")
        elsewhere = np.flatnonzero(paths.present[size:])
        if not len(elsewhere):
            return self, None
        stop = size + int(elsewhere[0])
        return self[:stop], paths.text(stop)

    def __iter__(self) -> Iterator[Update]:
        kinds = self.kinds(KINDS, _snapshot_ids)
        return map(Update, kinds, self.times_us.tolist(), self.backups)

    def commits(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
        """Times and snapshots, (n, 12), of entries of new commits, newest first."""
        column = self.table.union("update_type")
        rows = np.flatnonzero(column.types == _NUMBERS[NewCommit])
        snapshots = column.variants[_NUMBERS[NewCommit]].struct("new_snap_id").values
        return self.times_us[rows], snapshots[column.index[rows]]

    @property
    def times_us(self) -> npt.NDArray[np.uint64]:
        return self.table.scalar("updated_at").values

    @property
    def backups(self) -> list[str | None]:
        return self.table.string("backup_path").to_texts()

    def require_known(self) -> None:
        """Raises FormatError if there are kinds that are not in KINDS."""
        for number in {*self.table.union("update_type").types.tolist()}:
            if number not in KINDS:
                raise FormatError(f"ops log has an update of unknown type {number}")

    def kinds[K](self, makers: Mapping[int, Callable[..., K]], ids: Ids) -> Iterator[K]:
        """The kind of each entry, made by `makers`, with snapshot ids made by `ids`.

        `makers` are called with the fields of the kinds in KINDS, all entries of a kind together.
        """
        self.require_known()
        column = self.table.union("update_type")
        read: dict[int, Callable[[int], K]] = {}
        for number in {*column.types.tolist()}:
            table, make = column.variants[number], makers[number]
            fields = list(_fields(number, table, ids))
            kinds = list(map(make, *fields)) if fields else [make()] * len(table)
            read[number] = kinds.__getitem__
        places = column.index.tolist()
        if len(read) == 1:
            (kind_at,) = read.values()
            return map(kind_at, places)
        return (read[number](at) for number, at in zip(column.types.tolist(), places, strict=True))


class UndecodedLog(Sequence[Update]):
    """The ops log inside the payload of a repo info, which most readers never look at.

    Damage of it is found, as FormatError, by the first who does.
    """

    def __init__(self, payload: bytes) -> None:
        self.payload = payload

    @cached_property
    def log(self) -> UpdateLog:
        return UpdateLog(decode(self.payload, REPO_LOG).tables("latest_updates").rows)

    def __len__(self) -> int:
        return len(self.log)

    @overload
    def __getitem__(self, place: int) -> Update: ...
    @overload
    def __getitem__(self, place: slice) -> UpdateLog: ...
    def __getitem__(self, place: int | slice) -> Update | UpdateLog:
        return self.log[place]

    def __iter__(self) -> Iterator[Update]:
        return iter(self.log)


def number_of(kind: UpdateKind) -> int:
    """Its number in the union."""
    return _NUMBERS[type(kind)]


def encode_updates(updates: Sequence[Update]) -> Table:
    numbers = [number_of(update.kind) for update in updates]
    by_number: dict[int, list[UpdateKind]] = {number: [] for number in KINDS}
    index = []
    for number, update in zip(numbers, updates, strict=True):
        index.append(len(by_number[number]))
        by_number[number].append(update.kind)
    none = _no_updates()
    variants = {
        number: Table.build(UPDATE_KINDS[number], len(kinds), **_columns(number, kinds))
        if kinds
        else none[number]
        for number, kinds in by_number.items()
    }
    return Table.build(
        UPDATE,
        len(updates),
        update_type=UnionColumn(
            np.array(numbers, dtype=np.uint8), np.array(index, dtype=np.int64), variants
        ),
        updated_at=ScalarColumn.of([update.updated_at_us for update in updates], "u8"),
        backup_path=StringColumn.from_list([update.backup_path for update in updates]),
    )


@cache
def _no_updates() -> Mapping[int, Table]:
    return {number: Table.empty(UPDATE_KINDS[number]) for number in KINDS}


def decode_status(table: Table, row: int) -> RepoStatus:
    """Decodes a status; unknown availabilities, of future versions, count as online."""
    number = int(table.scalar("availability").values[row])
    return RepoStatus(
        availability=Availability(number) if number in {1, 2} else Availability.ONLINE,
        set_at_us=int(table.scalar("set_at").values[row]),
        reason=table.string("limited_availability_reason").text(row),
    )


def encode_status(statuses: Sequence[RepoStatus]) -> Table:
    return Table.build(
        REPO_STATUS,
        len(statuses),
        availability=ScalarColumn.of([status.availability for status in statuses], "u1"),
        set_at=ScalarColumn.of([status.set_at_us for status in statuses], "u8"),
        limited_availability_reason=StringColumn.from_list([each.reason for each in statuses]),
    )


# ---- one kind at a time ----------------------------------------------------------------------


def _fields(number: int, table: Table, ids: Ids) -> Iterator[Sequence[object]]:
    """The fields of updates of the kind with this number."""
    for field in UPDATE_KINDS[number].fields:
        match table[field.name]:
            case StringColumn() as texts:
                yield [text or "" for text in texts.to_texts()]
            case StructColumn(raw):
                yield ids(raw)
            case SubTableColumn(rows, index):
                yield [_status(rows, at) for at in index.tolist()]
            case ScalarColumn(values) if field.name == "new_value":
                is_set = table.scalar("is_set").values
                yield [bool(v) if s else None for v, s in zip(values, is_set, strict=True)]
            case ScalarColumn(values) if field.name != "is_set":
                yield values.tolist()


def _status(table: Table, row: int) -> RepoStatus:
    if row < 0:
        raise FormatError("ops log has a change of status without the status")
    return decode_status(table, row)


def _snapshot_ids(raw: npt.NDArray[np.uint8]) -> list[SnapshotId]:
    return [SnapshotId(row.tobytes()) for row in raw]


# Our attribute and the column's dtype (or what it holds), by the schema's name of the field.
_FIELDS = {
    "name": ("name", "text"),
    "branch": ("branch", "text"),
    "previous_snap_id": ("previous", "id"),
    "new_snap_id": ("new", "id"),
    "from_version": ("from_version", "u1"),
    "to_version": ("to_version", "u1"),
    "id": ("id", "u2"),
}


def _columns(number: int, kinds: Sequence[UpdateKind]) -> dict[str, Column]:
    """Columns of the table for updates that are all of one kind."""
    columns: dict[str, Column] = {}
    for field in UPDATE_KINDS[number].fields:
        if field.name == "status":
            statuses = [kind.status for kind in kinds if isinstance(kind, RepoStatusChanged)]
            columns["status"] = SubTableColumn.of(encode_status(statuses))
        elif field.name in {"new_value", "is_set"}:
            flags = [kind.new_value for kind in kinds if isinstance(kind, FeatureFlagChanged)]
            values = [
                flag is not None if field.name == "is_set" else flag is True for flag in flags
            ]
            columns[field.name] = ScalarColumn.of(np.array(values, dtype=np.bool_))
        else:
            attribute, held = _FIELDS[field.name]
            columns[field.name] = _column([getattr(kind, attribute) for kind in kinds], held)
    return columns


def _column(values: list[Any], held: str) -> Column:
    match held:
        case "text":
            return StringColumn.from_list(values)
        case "id":
            raw = b"".join(value.raw for value in values)
            return StructColumn.of(np.frombuffer(raw, dtype=np.uint8).reshape(-1, SnapshotId.size))
        case _:
            return ScalarColumn.of(values, held)


# -------------------------------------------------------------------------------------------------
# The ops log of a repo info, and a few entries that are not in its table yet.


class GrowingLog(UndecodedLog):
    """Knows in which bytes it is encoded, but for the entries that were changed last.

    `recent` entries come first, newest first; the last of them stands for the first of `older`,
    which is not shown, nor is what is beyond the first `stop` of these.
    """

    def __init__(
        self,
        recent: tuple[Update, ...],
        older: UpdateLog | UndecodedLog,
        stop: int,
        encoded_in: object,
        *,
        is_encoded: bool = True,
    ) -> None:
        super().__init__(b"")
        self.recent = recent
        self.older = older
        self.stop = stop
        self.encoded_in = encoded_in
        self.is_encoded = is_encoded

    @classmethod
    def of(cls, log: UpdateLog, encoded_in: object) -> "GrowingLog":
        """A log that is encoded there, of at least one entry."""
        return cls((log[0],), log, len(log), encoded_in)

    def now_in(self, encoded_in: object) -> "GrowingLog":
        """The same, all of it encoded there."""
        return GrowingLog(self.recent, self.older, self.stop, encoded_in)

    def grown(self, update: Update, *, backup: str, size: int) -> "Grown | None":
        """One more entry in front, on a page of `size`; None if it takes more than that.

        The one before it is the newest in the file `backup`. See UpdateLog.first_page.
        """
        if not self.is_encoded or len(self.recent) >= size:
            return None
        second = replace(self.recent[0], backup_path=backup)
        recent = (update, second, *self.recent[1:])
        stop, dropped = self.stop, None
        first = max(1, size - len(recent) + 1)  # of the older ones that are too many
        if first < stop:
            paths = UpdateLog.of(self.older).table.string("backup_path")
            elsewhere = np.flatnonzero(paths.codes[first:stop] >= 0)
            if len(elsewhere):
                stop = first + int(elsewhere[0])
                dropped = paths.text(stop)
        log = GrowingLog(recent, self.older, stop, self.encoded_in, is_encoded=False)
        return Grown(log, dropped)

    @cached_property
    def log(self) -> UpdateLog:
        older = UpdateLog.of(self.older).table.take(slice(1, self.stop))
        return UpdateLog(Table.concat([encode_updates(list(self.recent)), older]))

    def __len__(self) -> int:
        return len(self.recent) + self.stop - 1


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    log: GrowingLog
    dropped: str | None  # the backup that holds what was left out
