"""The entry point of a repository, its only file that changes. Spec: "Repo Info File"."""

from collections.abc import Buffer, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    VectorColumn,
)
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.table import SubTableColumn, Table, TableVectorColumn
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.metadata import decode_metadata, encode_metadata, metadata_records
from frazil.format.schemas import IDENTIFIER, REF, REPO, REPO_LOG, REPO_STATE, SNAPSHOT_INFO, UPDATE
from frazil.format.snapshot_infos import Added, GrowingSnapshots, SnapshotInfos, sorted_snapshots
from frazil.format.update_log import (
    FeatureFlagChanged,
    GrowingLog,
    RepoStatus,
    RepoStatusChanged,
    UndecodedLog,
    Update,
    UpdateLog,
    decode_status,
    encode_status,
    number_of,
)
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.flatbuf import encode as encoder
    from frazil.flatbuf import record_encoder
else:
    encoder = lazy_module("frazil.flatbuf.encode")
    record_encoder = lazy_module("frazil.flatbuf.record_encoder")

_DELETED = ("tag.", "/ref.json.deleted")  # a tag's own name never has a slash
_MAX_ROWS = 2**31 - 1  # parents are counted in 32 bits with a sign


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RepoInfo:
    """Branches and tags are rows of `snapshots` by name. `updates` is newest first."""

    spec_version: int
    tags: dict[str, int]
    branches: dict[str, int]
    deleted_tags: Sequence[str]
    snapshots: SnapshotInfos
    status: RepoStatus
    metadata: dict[str, Json]
    updates: Sequence[Update]
    before_updates: str | None = None
    config: Json | None = None
    enabled_flags: tuple[int, ...] = ()
    disabled_flags: tuple[int, ...] = ()

    @property
    def lists_snapshots(self) -> bool:
        """True if `snapshots` are all that are stored; before version 2 refs alone are known."""
        return self.spec_version >= 2

    def snapshot_of_branch(self, name: str) -> SnapshotId | None:
        row = self.branches.get(name)
        return None if row is None else self.snapshots.id(row)

    def snapshot_of_tag(self, name: str) -> SnapshotId | None:
        row = self.tags.get(name)
        return None if row is None else self.snapshots.id(row)

    def with_snapshot(
        self,
        new: SnapshotId,
        parent: SnapshotId | None,
        flushed_at_us: int,
        message: str,
        metadata: Mapping[str, Json],
        *,
        pruned_logs: Sequence[bytes] = (),
    ) -> "RepoInfo":
        snapshots, row = self.snapshots.inserted(
            new,
            parent=parent,
            flushed_at_us=flushed_at_us,
            message=message,
            metadata=metadata,
            pruned_logs=pruned_logs,
        )
        return replace(
            self,
            snapshots=snapshots,
            tags=snapshots.shift_refs(self.tags, row),
            branches=snapshots.shift_refs(self.branches, row),
        )

    def with_branch(self, name: str, snapshot: SnapshotId) -> "RepoInfo":
        """A new branch, or an old one moved."""
        return replace(self, branches=self.branches | {name: self._require_row(snapshot)})

    def without_branch(self, name: str) -> "RepoInfo":
        return replace(self, branches=_remove_ref(self.branches, name))

    def with_tag(self, name: str, snapshot: SnapshotId) -> "RepoInfo":
        return replace(self, tags=self.tags | {name: self._require_row(snapshot)})

    def without_tag(self, name: str) -> "RepoInfo":
        """The name is remembered as deleted, and cannot be given again."""
        deleted = tuple(sorted({*self.deleted_tags, name}, key=str.encode))
        return replace(self, tags=_remove_ref(self.tags, name), deleted_tags=deleted)

    def _require_row(self, snapshot: SnapshotId) -> int:
        row = self.snapshots.find(snapshot)
        if row < 0:
            raise FormatError(f"snapshot {snapshot} is not listed")
        return row


@dataclass(frozen=True, slots=True, eq=False)
class LogPage:
    """The entries of the ops log in one file, newest first, and the file that continues it."""

    updates: UpdateLog
    before_updates: str | None


def _remove_ref(refs: dict[str, int], name: str) -> dict[str, int]:
    return {other: row for other, row in refs.items() if other != name}


def decode_repo_info(data: Buffer, *, max_size: int | None = None) -> RepoInfo:
    envelope = decode_envelope(data, FileType.REPO_INFO, max_size=max_size)
    root = decode(envelope.data, REPO_STATE)
    snapshots, new_rows = sorted_snapshots(root.tables("snapshots").rows)
    status = root.subtable("status")
    config = root.string("config").item(0)
    return RepoInfo(
        spec_version=int(root.scalar("spec_version").values[0]),
        tags=decode_refs(root.tables("tags").rows, new_rows),
        branches=decode_refs(root.tables("branches").rows, new_rows),
        deleted_tags=tuple(
            tag_name(text or "") for text in root.strings("deleted_tags").strings.to_texts()
        ),
        snapshots=snapshots,
        status=decode_status(status.rows, int(status.index[0])),
        metadata=decode_metadata(root.tables("metadata").rows),
        updates=UndecodedLog(envelope.data),
        before_updates=root.string("repo_before_updates").text(0),
        config=None if config is None else decode_flexbuffer(config),
        enabled_flags=tuple(root.vector("enabled_feature_flags").values.tolist()),
        disabled_flags=tuple(root.vector("disabled_feature_flags").values.tolist()),
    )


def tag_name(text: str) -> str:
    """The name of a deleted tag; migrations before March 2026 recorded the name of its file."""
    start, stop = _DELETED
    if text.startswith(start) and text.endswith(stop):
        return text.removeprefix(start).removesuffix(stop)
    return text


def decode_log_page(data: Buffer, *, max_size: int | None = None) -> LogPage:
    """Decodes the part of a repo info that a walk through the ops log needs."""
    envelope = decode_envelope(data, FileType.REPO_INFO, max_size=max_size)
    root = decode(envelope.data, REPO_LOG)
    return LogPage(
        updates=UpdateLog(root.tables("latest_updates").rows),
        before_updates=root.string("repo_before_updates").text(0),
    )


def encode_repo_info(info: RepoInfo, *, level: int = 3) -> bytes:
    root = repo_table(info, info.snapshots.table, UpdateLog.of(info.updates).table)
    return encode_envelope(
        encoder.encode_parts(root, identifier=IDENTIFIER), FileType.REPO_INFO, level=level
    )


def repo_table(info: RepoInfo, snapshots: Table, updates: Table) -> Table:
    """The root, with these rows instead of its own."""
    config = None if info.config is None else encode_flexbuffer(info.config)
    deleted = sorted(name.encode() for name in info.deleted_tags)
    return Table.build(
        REPO,
        1,
        spec_version=ScalarColumn.of([info.spec_version], "u1"),
        tags=_encode_refs(info.tags),
        branches=_encode_refs(info.branches),
        deleted_tags=StringVectorColumn.from_lists([deleted]),
        snapshots=TableVectorColumn.of(snapshots),
        status=SubTableColumn.of(encode_status([info.status])),
        metadata=TableVectorColumn.of(encode_metadata(info.metadata)),
        latest_updates=TableVectorColumn.of(updates),
        repo_before_updates=StringColumn.from_list([info.before_updates]),
        config=StringColumn.from_list([config]),
        enabled_feature_flags=_encode_flags(info.enabled_flags),
        disabled_feature_flags=_encode_flags(info.disabled_flags),
    )


def decode_refs(refs: Table, new_rows: npt.NDArray[np.int64]) -> dict[str, int]:
    names = refs.string("name").to_texts()
    rows = refs.scalar("snapshot_index").values
    if len(rows) and int(rows.max()) >= len(new_rows):
        raise FormatError("a branch or tag points to a snapshot that is not listed")
    return dict(zip((name or "" for name in names), new_rows[rows].tolist(), strict=True))


def _encode_refs(refs: Mapping[str, int]) -> TableVectorColumn:
    """Sorted by the bytes of the name: others find them by bisection."""
    items = sorted((name.encode(), row) for name, row in refs.items())
    table = Table.build(
        REF,
        len(items),
        name=StringColumn.from_list([name for name, _ in items]),
        snapshot_index=ScalarColumn.of([row for _, row in items], "u4"),
    )
    return TableVectorColumn.of(table)


def _encode_flags(flags: Iterable[int]) -> VectorColumn:
    """Absent if there are none."""
    values = np.array(sorted(flags), dtype=np.uint16)
    return VectorColumn(values, np.array([0, len(values)]), np.array([len(values) > 0]))


# ---- growth: a snapshot or an entry of the log more, without encoding the rest again ------------
#
# What was written is kept as bytes, and written again with little in front of it:
#
#     head      root, refs, status, ...     encoded again, small
#     mark      says that this is the layout, and how many steps it took
#     vectors   of snapshots, of updates    offsets: one subtraction for all of them
#     new rows  and what they point to
#     tail      rows and what they point to, as they were but for the numbers of parents
#
# All offsets point forward and are relative, so the tail does not depend on what is in front of it.
# Positions in it are counted from its end, which stays where it is. Rows that were replaced remain
# in the tail; after MOST_STEPS steps everything is encoded again. The mark is for a process that
# reads the file and goes on with it (`resume_growth`); to other readers it is padding.

type Ints = npt.NDArray[np.int64]

MOST_STEPS: Final = 200  # on one tail
SNAPSHOTS, PARENT, UPDATES = 4, 1, 7  # slots
MARK: Final = Struct("<4sI")
MARKED: Final = b"grew"
_FEW = 64  # branches and tags up to which records are faster to encode than columns
_MAX_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Encoded rows, each by its distance from the end; as long as a multiple of eight."""

    data: bytes
    snapshots: Ints  # (n,) in order of id
    parents: Ints  # (n,) where the number of its parent is
    updates: Ints  # (m,) newest first
    steps: int  # since all of it was encoded


def encode_incrementally(info: RepoInfo, *, level: int) -> tuple[bytes, RepoInfo]:
    """The file, and the same repo info in a form that its successor is quickly encoded from."""
    tail = _next_tail(info) or _whole_tail(info)
    if tail is None:
        return encode_repo_info(info, level=level), info
    data = encode_envelope([*_front(info, tail), tail.data], FileType.REPO_INFO, level=level)
    snapshots, log = info.snapshots, info.updates
    if tail.steps and isinstance(snapshots, GrowingSnapshots) and isinstance(log, GrowingLog):
        return data, replace(info, snapshots=snapshots.now_in(tail), updates=log.now_in(tail))
    known = GrowingLog.of(UpdateLog.of(log), tail)
    return data, replace(info, snapshots=GrowingSnapshots(snapshots.table, tail), updates=known)


def _whole_tail(info: RepoInfo) -> Tail | None:
    """Everything encoded again; None if the layout does not apply or the result is too large."""
    table, log = info.snapshots.table, UpdateLog.of(info.updates).table
    if not len(table) or not len(log) or not table.scalar("parent_offset").present.all():
        return None
    data, (snapshots, updates) = encoder.encode_tables([table, log])
    if len(data) > _MAX_BYTES // 2:
        return None
    first = int(snapshots[0])
    size = len(data)
    # In every row: they are laid out alike.
    place = record_encoder.place_of(data, first, PARENT) - first
    return Tail(data, size - snapshots, size - snapshots - place, size - updates, 0)


def _next_tail(info: RepoInfo) -> Tail | None:
    """The encoded tail with the new rows in front of it; None if more than that has changed."""
    snapshots, log = info.snapshots, info.updates
    if not (isinstance(snapshots, GrowingSnapshots) and isinstance(log, GrowingLog)):
        return None
    tail = snapshots.encoded_in
    if not isinstance(tail, Tail) or log.encoded_in is not tail or tail.steps >= MOST_STEPS:
        return None
    target = record_encoder.RecordTarget()
    row = snapshots.new_row
    at = -1
    if row is not None:
        above = int(snapshots.parents[row])
        at = target.table(SNAPSHOT_INFO, _snapshot_record(snapshots.newest, above))
    fresh = [] if log.is_encoded else [target.table(UPDATE, _update(u)) for u in log.recent[:2]]
    target.align(8)
    data = tail.data if row is None else _with_moved_parents(tail, row)
    size = len(target.data) + len(data)
    rows, parents = tail.snapshots, tail.parents
    if row is not None:
        rows = _insert(rows, row, size - at)
        parents = _insert(parents, row, size - record_encoder.place_of(target.data, at, PARENT))
    old = tail.updates[1 : len(log) - len(fresh) + 1] if fresh else tail.updates
    updates = np.concatenate([size - np.array(fresh, dtype=np.int64), old])
    return Tail(bytes(target.data) + data, rows, parents, updates, tail.steps + 1)


def _insert(column: Ints, row: int, number: int) -> Ints:
    # What np.insert does, in a fifth of the time
    return np.concatenate([column[:row], [number], column[row:]])


def _with_moved_parents(tail: Tail, row: int) -> bytes:
    """Numbers of parents from that row on are one more."""
    data = np.frombuffer(tail.data, dtype="<i4").copy()
    places = (len(tail.data) - tail.parents) // 4
    numbers = data[places]
    data[places] = numbers + (numbers >= row)
    return data.tobytes()


def _front(info: RepoInfo, tail: Tail) -> tuple[bytes, bytes, bytes]:
    """The head, and the vectors of snapshots and updates."""
    head = _encode_head(info)
    head += bytes(-len(head) % 8) + MARK.pack(MARKED, tail.steps)
    counts = len(tail.snapshots), len(tail.updates)
    first = len(head)
    second = first + 4 + 4 * counts[0]
    end = second + 4 + 4 * counts[1]
    padding = -end % 8
    total = end + padding + len(tail.data)
    root = int.from_bytes(head[:4], "little")
    for slot, vector in ((SNAPSHOTS, first), (UPDATES, second)):
        place = record_encoder.place_of(head, root, slot)
        head[place : place + 4] = (vector - place).to_bytes(4, "little")
    return (
        bytes(head),
        _vector(first, total - tail.snapshots),
        _vector(second, total - tail.updates) + bytes(padding),
    )


def _encode_head(info: RepoInfo) -> bytearray:
    """A repo info without snapshots and updates."""
    if len(info.tags) + len(info.branches) + len(info.deleted_tags) <= _FEW:
        return record_encoder.encode_record(REPO, _head(info), identifier=IDENTIFIER)
    root = repo_table(info, Table.empty(SNAPSHOT_INFO), Table.empty(UPDATE))
    return bytearray(b"".join(encoder.encode_parts(root, identifier=IDENTIFIER)))


def _vector(position: int, targets: Ints) -> bytes:
    """Offsets to the targets, if the vector is there."""
    content = np.empty(1 + len(targets), dtype="<u4")
    content[0] = len(targets)
    content[1:] = targets - np.arange(position + 4, position + 4 + 4 * len(targets), 4)
    return content.tobytes()


# ---- records --------------------------------------------------------------------------------


def _head(info: RepoInfo) -> dict[str, Any]:
    return {
        "spec_version": info.spec_version,
        "tags": _refs(info.tags),
        "branches": _refs(info.branches),
        "deleted_tags": sorted(name.encode() for name in info.deleted_tags),
        "snapshots": [],
        "status": _status(info.status),
        "metadata": metadata_records(info.metadata),
        "latest_updates": [],
        "repo_before_updates": info.before_updates,
        "config": None if info.config is None else encode_flexbuffer(info.config),
        "enabled_feature_flags": sorted(info.enabled_flags) or None,
        "disabled_feature_flags": sorted(info.disabled_flags) or None,
    }


def _refs(refs: Mapping[str, int]) -> list[dict[str, Any]]:
    """Sorted by the bytes of the name: others find them by bisection."""
    items = sorted((name.encode(), row) for name, row in refs.items())
    return [{"name": name, "snapshot_index": row} for name, row in items]


def _status(status: RepoStatus) -> dict[str, Any]:
    return {
        "availability": int(status.availability),
        "set_at": status.set_at_us,
        "limited_availability_reason": status.reason,
    }


def _snapshot_record(added: Added, parent: int) -> dict[str, Any]:
    return {
        "id": added.id.raw,
        "parent_offset": parent,
        "flushed_at": added.flushed_at_us,
        "message": added.message,
        "metadata": metadata_records(added.metadata),
        "pruned_ancestor_tx_logs": b"".join(added.pruned_logs) or None,
    }


def _update(update: Update) -> dict[str, Any]:
    kind = update.kind
    match kind:
        case RepoStatusChanged(status):
            fields: dict[str, Any] = {"status": _status(status)}
        case FeatureFlagChanged(flag, value):
            fields = {"id": flag, "new_value": value is True, "is_set": value is not None}
        case _:
            fields = {
                stored: held.raw if hasattr(held, "raw") else held
                for stored, ours in _FIELDS.items()
                if (held := getattr(kind, ours, None)) is not None
            }
    return {
        "update_type": (number_of(kind), fields),
        "updated_at": update.updated_at_us,
        "backup_path": update.backup_path,
    }


# Our attribute, by the schema's name of the field
_FIELDS = {
    "name": "name",
    "branch": "branch",
    "previous_snap_id": "previous",
    "new_snap_id": "new",
    "from_version": "from_version",
    "to_version": "to_version",
}


# ---- growth that another process began ----------------------------------------------------------

_VTABLE_HEAD: Final = 4  # bytes before the places of slots


def resume_growth(info: RepoInfo) -> RepoInfo:
    """The same, in a form that its successor is quickly encoded from, if its file allows it."""
    log = info.updates
    if type(info.snapshots) is not SnapshotInfos or type(log) is not UndecodedLog:
        return info
    payload = log.payload
    tail = _tail_of(payload)
    if tail is None or len(tail.snapshots) != len(info.snapshots):
        return info
    known = GrowingLog((_newest(payload, tail),), log, len(tail.updates), tail)
    return replace(info, snapshots=GrowingSnapshots(info.snapshots.table, tail), updates=known)


def _newest(payload: bytes, tail: Tail) -> Update:
    """The first entry of the log, decoded alone: as if it were the root."""
    root = len(payload) - int(tail.updates[0])
    return UpdateLog(decode(root.to_bytes(4, "little") + payload[4:], UPDATE))[0]


def _tail_of(payload: bytes) -> Tail | None:
    """The bytes behind the vectors, if the mark says that the rows refer to nothing else."""
    root = int.from_bytes(payload[:4], "little")
    snapshots, updates = (_find_vector(payload, root, slot) for slot in (SNAPSHOTS, UPDATES))
    if snapshots is None or updates is None or updates[0] != _end(snapshots):
        return None
    mark, steps = MARK.unpack_from(payload, snapshots[0] - MARK.size)
    start = _end(updates) + -_end(updates) % 8
    size = len(payload)
    if mark != MARKED or size % 8 or start > size or not snapshots[1] or not updates[1]:
        return None
    rows, entries = (_targets(payload, *each) for each in (snapshots, updates))
    if min(rows.min(), entries.min()) < start or max(rows.max(), entries.max()) > size - 4:
        return None
    parents = _places(payload, rows, PARENT, start)
    if parents is None:
        return None
    return Tail(payload[start:], size - rows, size - parents, size - entries, steps)


def _find_vector(payload: bytes, root: int, slot: int) -> tuple[int, int] | None:
    """Position and length of a vector of the root; None if it is not inside the payload."""
    place = record_encoder.place_of(payload, root, slot)
    at = place + int.from_bytes(payload[place : place + 4], "little")
    count = int.from_bytes(payload[at : at + 4], "little")
    inside = MARK.size <= at and at % 4 == 0 and at + 4 + 4 * count <= len(payload)
    return (at, count) if inside else None


def _end(vector: tuple[int, int]) -> int:
    at, count = vector
    return at + 4 + 4 * count


def _targets(payload: bytes, at: int, count: int) -> Ints:
    """Targets of the offsets of a vector."""
    offsets = np.frombuffer(payload, "<u4", count, at + 4).astype(np.int64)
    return offsets + np.arange(at + 4, at + 4 + 4 * count, 4)


def _places(payload: bytes, rows: Ints, slot: int, start: int) -> Ints | None:
    """Position of a slot in each table, all of which are in bounds; None unless all have it."""
    if (rows % 4).any():
        return None
    vtables = rows - np.frombuffer(payload, "<i4")[rows // 4]
    if vtables.min() < start or vtables.max() > len(payload) - _VTABLE_HEAD or (vtables % 2).any():
        return None
    shorts = np.frombuffer(payload, "<u2")
    at = vtables + _VTABLE_HEAD + 2 * slot
    if (at + 2 > np.minimum(vtables + shorts[vtables // 2], len(payload))).any():
        return None
    places: Ints = rows + shorts[at // 2]
    is_there = (places > rows).all() and places.max() <= len(payload) - 4 and not (places % 4).any()
    return places if is_there else None
