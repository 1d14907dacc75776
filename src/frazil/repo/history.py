"""Walks through the snapshots that the repo info lists. No I/O: parents are a column.

Long histories come in blocks, each of which is a few columns: ten thousand snapshots are listed in
the time that a hundred would take one by one, and a caller that wants only the newest few pays for
a small block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from frazil.clock import to_datetime
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
    require_type,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.metadata import decode_metadata_of
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import SnapshotId, format_ids
from frazil.repo.commit_metadata import merged_by
from frazil.repo.snapshot_chain import SnapshotChain


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """One snapshot as the repo info lists it."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at_us: int
    message: str
    metadata: dict[str, Json]


def require_row(info: RepoInfo, snapshot: SnapshotId) -> int:
    row = info.snapshots.find(snapshot)
    if row < 0:
        raise SnapshotNotFoundError(f"snapshot id not found `{snapshot}`")
    return row


def branch_row(info: RepoInfo, name: str, *, kind: str = "ref-not-found") -> int:
    require_type(name, str)
    try:
        return info.branches[name]
    except RefNotFoundError:  # version 1 has its own
        raise
    except KeyError:
        what = "branch" if kind == "branch-not-found" else "ref"
        raise RefNotFoundError(f"{what} not found `{name}`", kind=kind) from None


def tag_row(info: RepoInfo, name: str) -> int:
    require_type(name, str)
    try:
        return info.tags[name]
    except RefNotFoundError:
        raise
    except KeyError:
        raise RefNotFoundError(f"ref not found `{name}`") from None


def ancestor_rows(info: RepoInfo, row: int) -> Iterator[int]:
    """`row`, its parent, and so on to the root."""
    return info.snapshots.ancestors(row)


def log_ids_between(info: RepoInfo, start: int, end: int) -> list[SnapshotId]:
    """Transaction logs that lead from row `start` to its descendant `end`, newest first.

    Where history was expired, the logs of the vanished snapshots are named by their successor.
    """
    logs: list[SnapshotId] = []
    for row in ancestor_rows(info, end):
        if row == start and logs:
            return logs
        logs.append(snapshot_id(info, row))
        logs += [SnapshotId(raw) for raw in reversed(info.snapshots.pruned_logs(row))]
    raise InvalidInputError(
        "`to` snapshot ancestry doesn't include `from`", kind="bad-snapshot-chain-for-diff"
    )


def logs_apart(info: RepoInfo, base: SnapshotId, branch: str) -> tuple[SnapshotId, ...]:
    """Logs of `base` and of the branch's tip since the snapshot that both come from.

    Those of `base` come first, each side oldest first. Raises ConflictError if there is none.
    """
    tip, start = info.branches[branch], info.snapshots.find(base)
    known = set[int]() if start < 0 else set(ancestor_rows(info, start))
    common = next((row for row in ancestor_rows(info, tip) if row in known), None)
    if common is None:
        raise ConflictError(
            message=f"cannot rebase: branch `{branch}` and snapshot {base} have no history in"
            " common",
            expected_parent=str(base),
            actual_parent=str(snapshot_id(info, tip)),
        )
    sides = [log_ids_between(info, common, row) for row in (start, tip) if row != common]
    return tuple(log for side in sides for log in reversed(side))


def row_as_of(info: RepoInfo, branch: str, when_us: int) -> int:
    """The newest ancestor of the branch's tip that was there at `when_us`."""
    for row in ancestor_rows(info, branch_row(info, branch, kind="branch-not-found")):
        if info.snapshots.flushed_at(row) <= when_us:
            return row
    raise SnapshotNotFoundError(
        f"branch {branch} does not have a snapshots before or at {to_datetime(when_us)}",
        kind="no-snapshot-at-time",
    )


def snapshot_id(info: RepoInfo, row: int) -> SnapshotId:
    return info.snapshots.id(row)


def record_at(info: RepoInfo, row: int) -> SnapshotRecord:
    snapshots = info.snapshots
    parent = snapshots.parent(row)
    return SnapshotRecord(
        id=snapshot_id(info, row),
        parent_id=None if parent < 0 else snapshot_id(info, parent),
        flushed_at_us=snapshots.flushed_at(row),
        message=snapshots.message(row),
        metadata=snapshots.metadata(row),
    )


_SMALL, _LARGE, _GROWTH = 16, 4096, 4  # snapshots of a block: the first, at most, the next


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots whose fields are all in memory."""

    ids: list[str]
    parent_ids: list[str | None]
    flushed_at_us: list[int]
    messages: list[str]
    metadata: list[dict[str, Json]]

    @classmethod
    def of(cls, *records: SnapshotRecord) -> "SnapshotList":
        return cls(
            ids=[str(record.id) for record in records],
            parent_ids=[
                None if record.parent_id is None else str(record.parent_id) for record in records
            ],
            flushed_at_us=[record.flushed_at_us for record in records],
            messages=[record.message for record in records],
            metadata=[record.metadata for record in records],
        )


class SnapshotColumns:
    """Rows of a repo info, each the parent of the one before it.

    A column is decoded when it is first used.
    """

    def __init__(self, snapshots: SnapshotInfos, rows: list[int]) -> None:
        self._snapshots = snapshots
        self._rows = np.array(rows, dtype=np.int64)

    @cached_property
    def ids(self) -> list[str]:
        return format_ids(self._snapshots.ids[self._rows])

    @cached_property
    def parent_ids(self) -> list[str | None]:
        above = self._snapshots.parent(int(self._rows[-1]))
        return [*self.ids[1:], None if above < 0 else str(self._snapshots.id(above))]

    @cached_property
    def flushed_at_us(self) -> list[int]:
        times: list[int] = self._snapshots.flushed_at_us[self._rows].tolist()
        return times

    @cached_property
    def messages(self) -> list[str]:
        texts = self._snapshots.table.string("message").take(self._rows).pruned().to_texts()
        return [text or "" for text in texts]

    @cached_property
    def metadata(self) -> list[dict[str, Json]]:
        return decode_metadata_of(self._snapshots.table.tables("metadata").take(self._rows))

    def records(self) -> Iterator[SnapshotRecord]:
        for at, row in enumerate(self._rows.tolist()):
            above = self._snapshots.parent(row)
            yield SnapshotRecord(
                id=self._snapshots.id(row),
                parent_id=None if above < 0 else self._snapshots.id(above),
                flushed_at_us=self.flushed_at_us[at],
                message=self.messages[at],
                metadata=self.metadata[at],
            )


type SnapshotBlock = SnapshotList | SnapshotColumns


def ancestor_blocks(info: RepoInfo, row: int) -> Iterator[tuple[SnapshotBlock, int]]:
    """`row`, its parent, and so on to the root, in blocks, with the size of each."""
    rows, size = ancestor_rows(info, row), _SMALL
    while found := list(islice(rows, size)):
        if isinstance(info.snapshots, SnapshotChain):  # has no columns: each is a file
            yield SnapshotList.of(*(record_at(info, one) for one in found)), len(found)
        else:
            yield SnapshotColumns(info.snapshots, found), len(found)
            size = min(size * _GROWTH, _LARGE)


def ancestors(info: RepoInfo, row: int) -> Iterator[SnapshotRecord]:
    """The same, one by one."""
    if isinstance(info.snapshots, SnapshotChain):
        yield from (record_at(info, one) for one in ancestor_rows(info, row))
        return
    for block, _ in ancestor_blocks(info, row):
        if isinstance(block, SnapshotColumns):
            yield from block.records()


def merge_base(info: RepoInfo, one: int, other: int) -> int | None:
    """Row of the newest snapshot whose changes are in both histories; None if there is none."""
    common = reachable(info, one) & reachable(info, other)
    return max(common, key=info.snapshots.flushed_at, default=None)


def reachable(info: RepoInfo, row: int) -> set[int]:
    """The snapshot and all that went into it, by parents and by merges."""
    found, todo = set[int](), [row]
    while todo:
        at = todo.pop()
        if at < 0 or at in found:
            continue
        found.add(at)
        todo.append(info.snapshots.parent(at))
        todo += [_find(info, each) for each in merged_by(info.snapshots.metadata(at))]
    return found


def _find(info: RepoInfo, snapshot: SnapshotId) -> int:
    """Its row, -1 if it is gone: a note keeps no snapshot from being collected."""
    try:
        return info.snapshots.find(snapshot)
    except ObjectNotFoundError:  # version 1 has no list to look into
        return -1
