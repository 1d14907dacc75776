"""Commits that a stream reads next. No I/O: the repo info has all of it.

A branch root - a - b - c - d is read in this order; at offset b, c and d are next. If the offset
is x, a commit on b that the branch was reset away from (or that was squashed into c), b is the
newest in both histories: `onRewrite=restart` goes on with c and d, and `onRewrite=compare` with
what differs between x and c, then with d.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from frazil.engine.refs.ancestry import (
    ancestor_rows,
    branch_row,
    log_ids_between,
    require_row,
    snapshot_id,
)
from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.spark.runtime.storage_options import is_storage_option
from frazil.spark.table.options import OPTIONS, Mode, ReadOptions, Version, parse_positive
from frazil.spark.table.timetext import find_instant

# Offset of a stream: all commits up to a snapshot, it included, are read.


@dataclass(frozen=True, slots=True)
class Offset:
    """`after`: where the batch that ends here began, if not where the one before it ended.

    Spark keeps offsets as JSON in its checkpoint. A batch that is done again is what it was, since
    both its ends are snapshots.
    """

    snapshot: SnapshotId
    after: SnapshotId | None = None

    def to_json(self) -> dict[str, str]:
        written = {"snapshot": str(self.snapshot)}
        return written if self.after is None else {**written, "after": str(self.after)}


def parse_offset(value: Mapping[str, object]) -> Offset:
    """Parses an offset of a checkpoint."""
    match value:
        case {"snapshot": str(snapshot), "after": str(after), **other} if not other:
            return Offset(SnapshotId.parse(snapshot), SnapshotId.parse(after))
        case {"snapshot": str(snapshot), **other} if not other:
            return Offset(SnapshotId.parse(snapshot))
        case _:
            raise InvalidInputError(
                f"{dict(value)} is no offset of a stream of commits: the checkpoint is of"
                " another source"
            )


# Options of streams, beside those of reading.
#
# Spark asks for the columns before it says that it wants a stream, so `changes` must be asked for.

STREAM_OPTIONS = {
    "changes": "true gives change data, with _change_type, _commit_version, _commit_timestamp",
    "startFrom": "earliest (all commits there are, by default) or latest (those to come)",
    "startingSnapshot": "id: the commits after it",
    "startingTimestamp": "ISO time: the commits since then",
    "maxCommitsPerTrigger": "at most so many commits in one batch; all by default",
    "onRewrite": "fail (by default), restart or compare, when the branch was reset or squashed",
    "onRemoval": "fail (by default) or ignore, when a commit takes away rows; of mode rows",
}


class StartFrom(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


class OnRewrite(StrEnum):
    FAIL = "fail"
    RESTART = "restart"
    COMPARE = "compare"


class OnRemoval(StrEnum):
    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    changes: bool = False
    start_from: StartFrom = StartFrom.EARLIEST
    starting_snapshot: str | None = None
    starting_us: int | None = None
    max_commits: int | None = None
    on_rewrite: OnRewrite = OnRewrite.FAIL
    on_removal: OnRemoval = OnRemoval.FAIL


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of reading. Raises if a name is nearly one of a stream's."""
    known, own = {name.lower() for name in OPTIONS}, {n.lower(): n for n in STREAM_OPTIONS}
    rest = {name: text for name, text in options.items() if name.lower() not in own}
    unknown = [n for n in rest if n.lower() not in known and not is_storage_option(n)]
    for name in unknown:
        close = get_close_matches(name.lower(), [*known, *own], n=1)
        if close and close[0] in own:
            raise InvalidInputError(
                f"unknown option {name!r} (did you mean {own[close[0]]!r}?);"
                f" the options of streams are {', '.join(STREAM_OPTIONS)}"
            )
    return rest


def refuse_stream_options(options: Mapping[str, str]) -> None:
    """Refuses stream options of a load that is no stream."""
    own = {name.lower(): name for name in STREAM_OPTIONS}
    astray = sorted(own[name.lower()] for name in options if name.lower() in own)
    if astray:
        raise InvalidInputError(
            f"option {', '.join(map(repr, astray))} is of streams: use spark.readStream"
        )


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    given = {name.lower(): text for name, text in options.items()}
    starts = [
        n for n in ("startFrom", "startingSnapshot", "startingTimestamp") if n.lower() in given
    ]
    if len(starts) > 1:
        raise InvalidInputError(f"options {' and '.join(starts)} exclude each other")
    snapshot = given.get("startingsnapshot")
    if snapshot is not None:
        SnapshotId.parse(snapshot)  # raises
    return StreamOptions(
        changes=wants_changes(options),
        start_from=_word(StartFrom, "startFrom", given, StartFrom.EARLIEST),
        starting_snapshot=snapshot,
        starting_us=_time(given.get("startingtimestamp")),
        max_commits=_count(given.get("maxcommitspertrigger")),
        on_rewrite=_word(OnRewrite, "onRewrite", given, OnRewrite.FAIL),
        on_removal=_word(OnRemoval, "onRemoval", given, OnRemoval.FAIL),
    )


def wants_changes(options: Mapping[str, str]) -> bool:
    given = {name.lower(): text for name, text in options.items()}
    text = given.get("changes", "false").lower()
    if text not in {"true", "false"}:
        raise InvalidInputError(f"option 'changes' is {text!r}, expected true or false")
    return text == "true"


def require_streamable(options: ReadOptions) -> None:
    if options.table is not None:
        raise InvalidInputError(
            f"table {options.table!r} is read in batches; a stream is of rows or of chunks"
        )
    if options.version != Version(branch=options.version.branch):
        raise InvalidInputError(
            "a stream follows a branch: leave out tag, snapshot and asOf, and say where it begins"
            " with startFrom, startingSnapshot or startingTimestamp"
        )
    if options.include_missing and options.mode is Mode.CHUNKS:
        raise InvalidInputError("option includeMissing means nothing to a stream")


def _word[E: StrEnum](kind: type[E], name: str, given: Mapping[str, str], default: E) -> E:
    text = given.get(name.lower(), default).lower()
    if text not in set(kind):
        words = " or ".join(map(repr, map(str, kind)))
        raise InvalidInputError(f"option {name!r} is {text!r}, expected {words}")
    return kind(text)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    instant = find_instant(text)
    if instant is None:
        raise InvalidInputError(
            f"startingTimestamp is {text!r}, expected an ISO time like 2024-03-01T06:00:00Z"
        )
    return instant


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    return parse_positive("maxCommitsPerTrigger", text)


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
    after = snapshot_id(info, base)
    compares = options.on_rewrite is OnRewrite.COMPARE
    if not rows:
        return Offset(after) if compares else start
    chosen = rows[: len(rows) if limit is None else limit]
    if compares:
        return Offset(snapshot_id(info, chosen[-1]))
    return Offset(snapshot_id(info, chosen[-1]), None if after == start.snapshot else after)


def commits_between(info: RepoInfo, start: Offset, end: Offset) -> list[Commit]:
    """Commits, oldest first. It does not matter where the branch is now."""
    if start == end:
        return []
    after, last = _row_of(info, end.after or start.snapshot), _row_of(info, end.snapshot)
    common = _newest_common(info, after, list(ancestor_rows(info, last)))
    if common == after:
        return commits_after(info, after, last)
    return _commits_across(info, after, common, last)


def _commits_across(info: RepoInfo, read: int, common: int | None, last: int) -> list[Commit]:
    """Differences from a snapshot that is no ancestor, as one commit; then those after it."""
    if common is None:
        raise _expired_error(snapshot_id(info, read))
    rows = _rows_after(info, common, last)
    logs = log_ids_between(info, common, read)
    if rows:
        logs = [*log_ids_between(info, common, rows[0]), *logs]
    first = rows[0] if rows else common
    over = Commit(
        snapshot_id(info, first),
        snapshot_id(info, read),
        info.snapshots.flushed_at(first),
        tuple(logs),
    )
    return [over, *(commit_between(info, info.snapshots.parent(row), row) for row in rows[1:])]


def _newest_common(info: RepoInfo, row: int, history: Sequence[int]) -> int | None:
    """The newest of a history, newest first, that is also in that of a snapshot."""
    read = set(ancestor_rows(info, row))
    return next((each for each in history if each in read), None)


def commits_after(info: RepoInfo, base: int, tip: int) -> list[Commit]:
    """Commits from the child of `base` to `tip`, its descendant."""
    rows = _rows_after(info, base, tip)
    return [commit_between(info, info.snapshots.parent(row), row) for row in rows]


def commit_between(info: RepoInfo, parent: int, row: int) -> Commit:
    """All that was committed after `parent` up to `row`, as one commit."""
    return Commit(
        snapshot_id(info, row),
        snapshot_id(info, parent),
        info.snapshots.flushed_at(row),
        tuple(log_ids_between(info, parent, row)),
    )


def _rows_after(info: RepoInfo, base: int, tip: int) -> list[int]:
    """Rows of the log from the child of `base` to `tip`, its descendant."""
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
    policy = options.on_rewrite
    if row < 0:
        if policy is OnRewrite.RESTART:
            return _first_row(info, history, options)
        raise _expired_error(start)
    if policy is OnRewrite.FAIL:
        raise InvalidInputError(
            f"the stream has read branch {branch!r} up to snapshot {start}, which is not in its"
            " history any more: the branch was reset or amended, or commits were squashed. With"
            " the option onRewrite=compare a stream of changes goes on with what differs from"
            " there; with onRewrite=restart any stream does from the newest snapshot that both"
            " have, and what came after it comes again",
            kind="branch-rewritten",
        )
    common = _newest_common(info, row, history)
    if common is None and policy is OnRewrite.COMPARE:
        raise _expired_error(start)
    return _first_row(info, history, options) if common is None else common


def _row_of(info: RepoInfo, snapshot: SnapshotId) -> int:
    row = info.snapshots.find(snapshot)
    if row < 0:
        raise _expired_error(snapshot)
    return row


def _expired_error(snapshot: SnapshotId) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"snapshot {snapshot}, up to which the stream has read, is not in the repository any"
        " more: it was expired. Start again with another checkpointLocation, or use the option"
        " onRewrite=restart, which begins where a new stream would"
    )
