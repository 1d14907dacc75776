"""The ops log as it is stored: a table of updates, newest first, decoded when looked at."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.table import Column, SubTableColumn, Table, UnionColumn
from frazil.format.schemas import REPO_STATUS, UPDATE, UPDATE_KINDS
from frazil.format.updates import (
    Availability,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    CommitAmended,
    ConfigChanged,
    ExpirationRan,
    FeatureFlagChanged,
    GCRan,
    MetadataChanged,
    NewCommit,
    NewDetachedSnapshot,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    RepoStatusChanged,
    TagCreated,
    TagDeleted,
    Update,
    UpdateKind,
)
from frazil.ids import SnapshotId

# Numbers in the union `UpdateType`, in the order of the schema's union, not of its tables.
KINDS: dict[int, type[UpdateKind]] = {
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
_NUMBERS = {kind: number for number, kind in KINDS.items()}
_NONE = {number: Table.empty(UPDATE_KINDS[number]) for number in KINDS}


@dataclass(frozen=True, slots=True, eq=False)
class UpdateLog(Sequence[Update]):
    """Reading an entry of a kind from the future raises FormatError; the others can be read."""

    table: Table  # UPDATE

    @classmethod
    def of(cls, updates: Iterable[Update]) -> "UpdateLog":
        return updates if isinstance(updates, UpdateLog) else cls(encode_updates(list(updates)))

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
        return decode_update(self.table, int(rows))

    @property
    def newest_us(self) -> int:
        """When the latest entry was made; 0 if there is none."""
        return int(self.table.scalar("updated_at").values[0]) if len(self) else 0

    def recorded(self, update: Update, *, backup: str) -> "UpdateLog":
        """One more entry in front. The one before it is the newest in the file `backup`."""
        paths = self.table.string("backup_path")
        older = paths.take(np.arange(1, len(self), dtype=np.int64))
        cited = StringColumn.concat([StringColumn.from_list([backup]), older])
        return UpdateLog(
            Table.concat([encode_updates([update]), self.table.replace(backup_path=cited)])
        )

    def first_page(self, size: int) -> tuple["UpdateLog", str | None]:
        """At most `size` entries, and the backup that holds those left out, None if none are.

        Entries that no backup holds (a migration made them) are never left out.
        """
        paths = self.table.string("backup_path")
        elsewhere = np.flatnonzero(paths.present[size:])
        if not len(elsewhere):
            return self, None
        stop = size + int(elsewhere[0])
        return self[:stop], paths.text(stop)

    def __iter__(self) -> Iterator[Update]:
        return (decode_update(self.table, row) for row in range(len(self)))


def number_of(kind: UpdateKind) -> int:
    """Its number in the union."""
    return _NUMBERS[type(kind)]


def decode_update(table: Table, row: int) -> Update:
    kinds = table.union("update_type")
    number, at = int(kinds.types[row]), int(kinds.index[row])
    if number not in KINDS:
        raise FormatError(f"ops log has an update of unknown type {number}")
    return Update(
        kind=_READERS[number](kinds.variants[number], at),
        updated_at_us=int(table.scalar("updated_at").values[row]),
        backup_path=table.string("backup_path").text(row),
    )


def encode_updates(updates: Sequence[Update]) -> Table:
    numbers = [number_of(update.kind) for update in updates]
    by_number: dict[int, list[UpdateKind]] = {number: [] for number in KINDS}
    index = []
    for number, update in zip(numbers, updates, strict=True):
        index.append(len(by_number[number]))
        by_number[number].append(update.kind)
    variants = {
        number: Table.build(UPDATE_KINDS[number], len(kinds), **_columns(number, kinds))
        if kinds
        else _NONE[number]
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


def decode_status(table: Table, row: int) -> RepoStatus:
    """What is not read-only or offline counts as online, numbers from the future included."""
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


def _text(table: Table, name: str, row: int) -> str:
    return table.string(name).text(row) or ""


def _id(table: Table, name: str, row: int) -> SnapshotId:
    return SnapshotId(table.struct(name).values[row].tobytes())


def _number(table: Table, name: str, row: int) -> int:
    return int(table.scalar(name).values[row])


def _read_flag(table: Table, row: int) -> FeatureFlagChanged:
    is_set, value = _number(table, "is_set", row), _number(table, "new_value", row)
    return FeatureFlagChanged(_number(table, "id", row), bool(value) if is_set else None)


def _read_status(table: Table, row: int) -> RepoStatusChanged:
    status = table.subtable("status")
    at = int(status.index[row])
    if at < 0:
        raise FormatError("ops log has a change of status without the status")
    return RepoStatusChanged(decode_status(status.rows, at))


_PREVIOUS, _NEW = "previous_snap_id", "new_snap_id"
_READERS: dict[int, Callable[[Table, int], UpdateKind]] = {
    1: lambda _, __: RepoInitialized(),
    2: lambda t, r: RepoMigrated(_number(t, "from_version", r), _number(t, "to_version", r)),
    3: lambda _, __: ConfigChanged(),
    4: lambda _, __: MetadataChanged(),
    5: lambda t, r: TagCreated(_text(t, "name", r)),
    6: lambda t, r: TagDeleted(_text(t, "name", r), _id(t, _PREVIOUS, r)),
    7: lambda t, r: BranchCreated(_text(t, "name", r)),
    8: lambda t, r: BranchDeleted(_text(t, "name", r), _id(t, _PREVIOUS, r)),
    9: lambda t, r: BranchReset(_text(t, "name", r), _id(t, _PREVIOUS, r)),
    10: lambda t, r: NewCommit(_text(t, "branch", r), _id(t, _NEW, r)),
    11: lambda t, r: CommitAmended(_text(t, "branch", r), _id(t, _PREVIOUS, r), _id(t, _NEW, r)),
    12: lambda t, r: NewDetachedSnapshot(_id(t, _NEW, r)),
    13: lambda _, __: GCRan(),
    14: lambda _, __: ExpirationRan(),
    15: _read_flag,
    16: _read_status,
}
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
