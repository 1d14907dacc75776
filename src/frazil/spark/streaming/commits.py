"""Which commits a stream reads next. No I/O: the repo info has all of it.

A branch root - a - b - c - d is read in this order; at offset b, c and d are next. If the offset
is x, a commit on b that the branch was reset away from, b is the newest in both histories, and
`onRewrite=restart` goes on with c and d.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.repo.history import ancestor_rows, branch_row, log_ids_between, require_row, snapshot_id
from frazil.spark.streaming.offsets import Offset
from frazil.spark.streaming.options import OnRewrite, StartFrom, StreamOptions


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot and the one before it that is still there."""

    snapshot: SnapshotId
    parent: SnapshotId
    committed_us: int
    logs: tuple[SnapshotId, ...]  # newest first; also of snapshots in between that were expired


def first_offset(info: RepoInfo, branch: str, options: StreamOptions) -> Offset:
    """Before all that a stream that begins now is to read."""
    rows = ancestor_rows(info, branch_row(info, branch))
    return Offset(snapshot_id(info, _first_row(info, rows, options)))


def _first_row(info: RepoInfo, rows: Iterable[int], options: StreamOptions) -> int:
    listed = list(rows)  # newest first
    if options.starting_snapshot is not None:
        row = require_row(info, SnapshotId.parse(options.starting_snapshot))
        if row not in listed:
            raise InvalidInputError(
                f"startingSnapshot {options.starting_snapshot} is not in the branch's history"
            )
        return row
    if options.starting_us is not None:
        earlier = (r for r in listed if info.snapshots.flushed_at(r) < options.starting_us)
        return next(earlier, listed[-1])
    return listed[0] if options.start_from is StartFrom.LATEST else listed[-1]


def next_offset(
    info: RepoInfo,
    branch: str,
    start: Offset,
    options: StreamOptions,
    *,
    until: SnapshotId | None = None,
    limit: int | None = None,
) -> Offset:
    """After at most `limit` more commits, up to `until` or the branch's tip; `start` if none."""
    tip = branch_row(info, branch) if until is None else _row_of(info, until)
    base = _base_row(info, branch, start.snapshot, tip, options)
    rows = _rows_after(info, base, tip)
    if not rows:
        return start
    chosen = rows[: len(rows) if limit is None else limit]
    after = snapshot_id(info, base)
    return Offset(snapshot_id(info, chosen[-1]), None if after == start.snapshot else after)


def commits_between(info: RepoInfo, start: Offset, end: Offset) -> list[Commit]:
    """Oldest first. It does not matter what has become of the branch meanwhile."""
    if start == end:
        return []
    after = _row_of(info, end.after or start.snapshot)
    return [_commit(info, row) for row in _rows_after(info, after, _row_of(info, end.snapshot))]


def _commit(info: RepoInfo, row: int) -> Commit:
    parent = info.snapshots.parent(row)
    return Commit(
        snapshot_id(info, row),
        snapshot_id(info, parent),
        info.snapshots.flushed_at(row),
        tuple(log_ids_between(info, parent, row)),
    )


def _rows_after(info: RepoInfo, base: int, tip: int) -> list[int]:
    """From the child of `base` to `tip`, its descendant."""
    rows: list[int] = []
    for row in ancestor_rows(info, tip):
        if row == base:
            return rows[::-1]
        rows.append(row)
    raise InvalidInputError(
        f"snapshot {snapshot_id(info, base)} is no ancestor of {snapshot_id(info, tip)}"
    )


def _base_row(
    info: RepoInfo, branch: str, start: SnapshotId, tip: int, options: StreamOptions
) -> int:
    """The newest snapshot of the branch that the stream has read."""
    row = info.snapshots.find(start)
    history = list(ancestor_rows(info, tip))
    if row in history:
        return row
    restarts = options.on_rewrite is OnRewrite.RESTART
    if row < 0:
        if restarts:
            return _first_row(info, history, options)
        raise _expired(start)
    if not restarts:
        raise InvalidInputError(
            f"the stream has read branch {branch!r} up to snapshot {start}, which is not in its"
            " history any more: the branch was reset or amended. With the option"
            " onRewrite=restart the stream goes on from the newest snapshot that both have",
            kind="branch-rewritten",
        )
    read = set(ancestor_rows(info, row))
    common = next((each for each in history if each in read), None)
    return _first_row(info, history, options) if common is None else common


def _row_of(info: RepoInfo, snapshot: SnapshotId) -> int:
    row = info.snapshots.find(snapshot)
    if row < 0:
        raise _expired(snapshot)
    return row


def _expired(snapshot: SnapshotId) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"snapshot {snapshot}, up to which the stream has read, is not in the repository any"
        " more: it was expired. Begin anew with another checkpointLocation, or use the option"
        " onRewrite=restart, which begins where a new stream would"
    )
