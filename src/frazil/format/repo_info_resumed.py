"""A repo info that was read, to be grown where whoever wrote it left off (repo_info_growth.py)."""

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.decode import decode
from frazil.flatbuf.record_encoder import place_of
from frazil.format.growing_snapshots import GrowingSnapshots
from frazil.format.repo_info import RepoInfo, SnapshotInfos
from frazil.format.repo_info_growth import MARK, MARKED, PARENT, SNAPSHOTS, UPDATES, Tail
from frazil.format.schemas import UPDATE
from frazil.format.update_log import GrowingLog, UndecodedLog, Update, UpdateLog

type Ints = npt.NDArray[np.int64]

_VTABLE_HEAD: Final = 4  # bytes before the places of slots


def resumed(info: RepoInfo) -> RepoInfo:
    """The same, in a form that its successor is quickly encoded from, if its file allows it."""
    log = info.updates
    if type(info.snapshots) is not SnapshotInfos or type(log) is not UndecodedLog:
        return info
    payload = log.payload
    tail = _tail_of(payload)
    if tail is None or len(tail.snapshots) != len(info.snapshots):
        return info
    known = GrowingLog((_newest(payload, tail),), log, len(tail.updates), tail)
    return replace(info, snapshots=GrowingSnapshots(info.snapshots, tail), updates=known)


def _newest(payload: bytes, tail: Tail) -> Update:
    """The first entry of the log, decoded alone: as if it were the root."""
    root = len(payload) - int(tail.updates[0])
    return UpdateLog(decode(root.to_bytes(4, "little") + payload[4:], UPDATE))[0]


def _tail_of(payload: bytes) -> Tail | None:
    """What is behind the vectors, if it says that all that its rows need is there."""
    root = int.from_bytes(payload[:4], "little")
    snapshots, updates = (_vector(payload, root, slot) for slot in (SNAPSHOTS, UPDATES))
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


def _vector(payload: bytes, root: int, slot: int) -> tuple[int, int] | None:
    """Where a vector of the root is, and how many offsets it has; None if it is not all there."""
    place = place_of(payload, root, slot)
    at = place + int.from_bytes(payload[place : place + 4], "little")
    count = int.from_bytes(payload[at : at + 4], "little")
    inside = MARK.size <= at and at % 4 == 0 and at + 4 + 4 * count <= len(payload)
    return (at, count) if inside else None


def _end(vector: tuple[int, int]) -> int:
    at, count = vector
    return at + 4 + 4 * count


def _targets(payload: bytes, at: int, count: int) -> Ints:
    """What the offsets of a vector point to."""
    offsets = np.frombuffer(payload, "<u4", count, at + 4).astype(np.int64)
    return offsets + np.arange(at + 4, at + 4 + 4 * count, 4)


def _places(payload: bytes, rows: Ints, slot: int, start: int) -> Ints | None:
    """Where each table, all of which are in bounds, keeps a slot; None unless all have it."""
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
