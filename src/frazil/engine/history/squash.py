"""A range of history as one commit.

The new commit has the content of the last one of the range, its time, and what all of them say
they changed. Commits that follow are listed again on top of it, with the same content, message,
metadata and time. The branch goes from its old tip to the new one by compare-and-swap. Snapshots
that were replaced stay for those who know their ids, other branches and tags included, until they
are collected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from frazil.dataclass import dataclass
from frazil.engine.changes.diff import Diff
from frazil.engine.changes.transaction_logs import collapse_log, unite_logs
from frazil.engine.files.files import Files
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.ancestry import SnapshotRecord
from frazil.engine.refs.commit_metadata import (
    MERGED,
    keys_of,
    merged_snapshots,
    require_json,
    with_keys,
    with_notes,
)
from frazil.engine.refs.entries import entry_of
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, InvalidInputError, SessionStateError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import TransactionLog, require_log_fits
from frazil.format.update_log import BranchReset, UpdateKind
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class SquashRequest:
    branch: str
    first: SnapshotId
    last: SnapshotId | None = None  # None: the tip
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Squashed:
    snapshot: SnapshotId | None  # the one commit; None in a dry run
    tip: SnapshotId | None  # of the branch from now on; None in a dry run
    squashed: tuple[SnapshotId, ...]  # oldest first
    followers: tuple[SnapshotId, ...]  # listed again on top, by their old ids, oldest first
    applied: Diff


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rewritten:
    """A commit to be listed in the place of others."""

    content: SnapshotId
    record: SnapshotRecord  # under its new id and parent
    log: TransactionLog
    pruned_logs: Sequence[bytes]


def squash(repository: Repository, request: SquashRequest) -> Squashed:
    info = repository.info_of_version_2()
    rows, followers = _range(info, request)
    parent = history.record_at(info, rows[0]).parent_id
    if parent is None:
        raise SessionStateError(f"{request.first} is the first snapshot: it cannot be squashed")
    ids = tuple(history.snapshot_id(info, row) for row in rows)
    result = Squashed(
        snapshot=None,
        tip=None,
        squashed=ids,
        followers=tuple(history.snapshot_id(info, row) for row in followers),
        applied=repository.diff(parent, ids[-1]),
    )
    metadata = require_json({**repository.default_commit_metadata, **request.metadata})
    if request.dry_run:
        return result
    session = repository.writable_session(request.branch)  # raises if nothing may be written
    chain = [_plan_squash(session.files, info, rows, request, metadata)]
    for row in followers:
        chain.append(_plan_follower(session.files, info, row, chain[-1].record.id))
    tip = history.snapshot_id(info, info.branches[request.branch])
    _store(repository, session.files, request.branch, tip, chain)
    return replace(result, snapshot=chain[0].record.id, tip=chain[-1].record.id)


def _range(info: RepoInfo, request: SquashRequest) -> tuple[list[int], list[int]]:
    """Rows of the range and of the commits after it, oldest first."""
    tip = history.branch_row(info, request.branch)
    rows = list(history.ancestor_rows(info, tip))[::-1]
    first = history.require_row(info, request.first)
    last = tip if request.last is None else history.require_row(info, request.last)
    for row, name in ((first, request.first), (last, request.last)):
        if row not in rows:
            raise InvalidInputError(
                f"cannot squash: {name} is not in the history of branch `{request.branch}`"
            )
    start, stop = rows.index(first), rows.index(last) + 1
    if stop <= start:
        raise InvalidInputError(f"cannot squash: {request.last} comes before {request.first}")
    return rows[start:stop], rows[stop:]


def _plan_squash(
    files: Files,
    info: RepoInfo,
    rows: Sequence[int],
    request: SquashRequest,
    metadata: Mapping[str, Json],
) -> _Rewritten:
    records = [history.record_at(info, row) for row in rows]
    merged = sorted({str(each) for record in records for each in merged_snapshots(record.metadata)})
    notes: dict[str, Json] = {"squashed": [str(record.id) for record in records]}
    if merged:
        notes[MERGED] = list[Json](merged)
    # Logs that the first commit took over from expired ones stay listed with the new commit.
    logs = [records[0].id]
    for row in rows[1:]:
        logs += [SnapshotId(raw) for raw in info.snapshots.pruned_logs(row)]
        logs.append(history.snapshot_id(info, row))
    new_id = SnapshotId.random()
    log = collapse_log(unite_logs(new_id, files.fetch_logs(logs)))
    counts = [index.shape for index in log.updated_chunks.values()]
    require_log_fits(counts, max_bytes=files.max_log_bytes)
    return _Rewritten(
        content=records[-1].id,
        record=replace(
            records[-1],
            id=new_id,
            parent_id=records[0].parent_id,
            message=request.message,
            metadata=with_keys(
                with_notes(metadata, notes), keys_of(record.metadata for record in records)
            ),
        ),
        log=log,
        pruned_logs=info.snapshots.pruned_logs(rows[0]),
    )


def _plan_follower(files: Files, info: RepoInfo, row: int, parent: SnapshotId) -> _Rewritten:
    old, new_id = history.record_at(info, row), SnapshotId.random()
    return _Rewritten(
        content=old.id,
        record=replace(old, id=new_id, parent_id=parent),
        log=replace(files.fetch_log(old.id), id=new_id),
        pruned_logs=info.snapshots.pruned_logs(row),
    )


def _store(
    repository: Repository,
    files: Files,
    branch: str,
    old_tip: SnapshotId,
    chain: Sequence[_Rewritten],
) -> None:
    def put(each: _Rewritten) -> None:
        record = each.record
        files.put_snapshot(
            replace(
                files.fetch_snapshot(each.content),
                id=record.id,
                parent_id=record.parent_id,
                message=record.message,
                metadata=record.metadata,
            )
        )
        files.put_log(each.log)

    files.pool.map(put, chain)

    def list_them(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        found = history.snapshot_id(info, history.branch_row(info, branch))
        if found != old_tip:
            raise ConflictError(
                message=f"branch `{branch}` is at {found}, expected {old_tip}",
                expected_parent=str(old_tip),
                actual_parent=str(found),
            )
        for each in chain:
            record = each.record
            info = info.with_snapshot(
                record.id,
                parent=record.parent_id,
                flushed_at_us=record.flushed_at_us,
                message=record.message,
                metadata=record.metadata,
                pruned_logs=each.pruned_logs,
            )
        return info.with_branch(branch, chain[-1].record.id), BranchReset(branch, old_tip)

    entry_of(files, repository.clock).update(list_them, doing="squashing")
