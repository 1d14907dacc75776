"""Walks through the snapshots that the repo info lists. No I/O: parents are a column."""

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.clock import to_datetime
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
    SnapshotNotFoundError,
    require_type,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """What the repo info knows of one snapshot."""

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
