"""A repo info that grows by a snapshot or an entry of the log at a time, without encoding it anew.

What was written is kept as bytes, and written again with little in front of it:

    head      root, refs, status, ...     made anew, small
    mark      says that this is the layout, and how many steps it took
    vectors   of snapshots, of updates    offsets: one subtraction for all of them
    new rows  and what they point to
    tail      rows and what they point to, as they were but for the numbers of parents

All offsets point forward and are relative, so that the tail does not care what is in front of it.
Positions in it are counted from its end, which stays where it is. Rows that were replaced remain in
the tail; after some time everything is encoded anew. The mark is for whoever reads the file and
goes on with it (repo_info_resumed.py); to all others it is nothing but padding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.encode import encode_parts, encode_tables
from frazil.flatbuf.flexbuffers import encode_flexbuffer
from frazil.flatbuf.record_encoder import RecordTarget, encode_record, place_of
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, encode_envelope
from frazil.format.growing_snapshots import Added, GrowingSnapshots
from frazil.format.metadata import metadata_records
from frazil.format.repo_info import RepoInfo, SnapshotInfos, encode_repo_info, repo_table
from frazil.format.schemas import IDENTIFIER, REPO, SNAPSHOT_INFO, UPDATE
from frazil.format.update_log import (
    FeatureFlagChanged,
    GrowingLog,
    RepoStatus,
    RepoStatusChanged,
    Update,
    UpdateLog,
    number_of,
)

type Ints = npt.NDArray[np.int64]

MOST_STEPS: Final = 200  # on one tail
SNAPSHOTS, PARENT, UPDATES = 4, 1, 7  # slots
MARK: Final = Struct("<4sI")
MARKED: Final = b"grew"
_FEW = 64  # branches and tags that are sooner written one by one
_MAX_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Encoded rows, each by its distance from the end; as long as a multiple of eight."""

    data: bytes
    snapshots: Ints  # (n,) in order of id
    parents: Ints  # (n,) where the number of its parent is
    updates: Ints  # (m,) newest first
    steps: int  # since all of it was encoded


def encode_grown(info: RepoInfo, *, level: int) -> tuple[bytes, RepoInfo]:
    """The file, and the same repo info in a form that its successor is quickly encoded from."""
    tail = _next_tail(info) or _whole_tail(info)
    if tail is None:
        return encode_repo_info(info, level=level), info
    data = encode_envelope([*_front(info, tail), tail.data], FileType.REPO_INFO, level=level)
    snapshots, log = info.snapshots, info.updates
    if tail.steps and isinstance(snapshots, GrowingSnapshots) and isinstance(log, GrowingLog):
        return data, replace(info, snapshots=snapshots.now_in(tail), updates=log.now_in(tail))
    plain = SnapshotInfos(snapshots.table)
    known = GrowingLog.of(UpdateLog.of(log), tail)
    return data, replace(info, snapshots=GrowingSnapshots(plain, tail), updates=known)


def _whole_tail(info: RepoInfo) -> Tail | None:
    """Everything encoded anew; None where that is not worth while."""
    table, log = info.snapshots.table, UpdateLog.of(info.updates).table
    if not len(table) or not len(log) or not table.scalar("parent_offset").present.all():
        return None
    data, (snapshots, updates) = encode_tables([table, log])
    if len(data) > _MAX_BYTES // 2:
        return None
    first = int(snapshots[0])
    size = len(data)
    place = place_of(data, first, PARENT) - first  # in every row: they are laid out alike
    return Tail(data, size - snapshots, size - snapshots - place, size - updates, 0)


def _next_tail(info: RepoInfo) -> Tail | None:
    """What was encoded, with what is new in front of it; None unless that is all there is to do."""
    snapshots, log = info.snapshots, info.updates
    if not (isinstance(snapshots, GrowingSnapshots) and isinstance(log, GrowingLog)):
        return None
    tail = snapshots.encoded_in
    if not isinstance(tail, Tail) or log.encoded_in is not tail or tail.steps >= MOST_STEPS:
        return None
    target = RecordTarget()
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
        rows = _inserted(rows, row, size - at)
        parents = _inserted(parents, row, size - place_of(target.data, at, PARENT))
    old = tail.updates[1 : len(log) - len(fresh) + 1] if fresh else tail.updates
    updates = np.concatenate([size - np.array(fresh, dtype=np.int64), old])
    return Tail(bytes(target.data) + data, rows, parents, updates, tail.steps + 1)


def _inserted(column: Ints, row: int, number: int) -> Ints:
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
        place = place_of(head, root, slot)
        head[place : place + 4] = (vector - place).to_bytes(4, "little")
    return (
        bytes(head),
        _vector(first, total - tail.snapshots),
        _vector(second, total - tail.updates) + bytes(padding),
    )


def _encode_head(info: RepoInfo) -> bytearray:
    """A repo info without snapshots and updates."""
    if len(info.tags) + len(info.branches) + len(info.deleted_tags) <= _FEW:
        return encode_record(REPO, _head(info), identifier=IDENTIFIER)
    root = repo_table(info, Table.empty(SNAPSHOT_INFO), Table.empty(UPDATE))
    return bytearray(b"".join(encode_parts(root, identifier=IDENTIFIER)))


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
