"""Snapshots that are not the next commit of a branch: the last one made anew, or one detached."""

from dataclasses import replace

from frazil.assets.files import Files
from frazil.errors import SessionStateError
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.update_log import CommitAmended, NewDetachedSnapshot, UpdateKind
from frazil.ids import SnapshotId
from frazil.repo import history
from frazil.repo.commit import (
    CommitRequest,
    require_moves_allowed,
    require_tip,
    transaction_log,
    write_files,
    write_snapshot,
)
from frazil.repo.commit_keys import keys_of, with_keys
from frazil.repo.entry import EntryPoint, require_online
from frazil.repo.logs import collapsed, united


def amend(files: Files, entry: EntryPoint, request: CommitRequest) -> Snapshot:
    """Puts a snapshot in the place of the branch's tip, with the changes of both.

    The old one stays where it is, for those who know its id, until it is collected.
    """
    info = entry.fetch()
    require_online(info, doing="amending")
    require_tip(info, request)
    require_moves_allowed(info, request, doing="amending with moves")
    _require_not_first(info, request.base.id)
    new_id = SnapshotId.random()
    replaced = history.record_at(info, history.require_row(info, request.base.id))
    keys = keys_of([replaced.metadata])  # its work is part of the new one
    request = replace(request, metadata=with_keys(request.metadata, keys))
    log = transaction_log(new_id, request.changes)
    previous = files.fetch_log(request.base.id)
    if previous.moved and not request.rearranges:
        raise SessionStateError(
            f"commit {request.base.id} moved nodes: only a rearrange session can amend it",
            kind="rearrange-session-only",
        )
    with files.outgoing() as outgoing:
        outgoing.do(lambda: files.put_log(collapsed(united(new_id, [previous, log]))))
        snapshot = write_snapshot(files, entry.clock, request, new_id, outgoing)

        def take_its_place(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
            require_tip(info, request)
            require_moves_allowed(info, request, doing="amending with moves")
            row = history.require_row(info, request.base.id)
            info = info.with_snapshot(
                new_id,
                parent=history.record_at(info, row).parent_id,
                flushed_at_us=snapshot.flushed_at_us,
                message=snapshot.message,
                metadata=snapshot.metadata,
                pruned_logs=info.snapshots.pruned_logs(row),
            )
            amended = CommitAmended(request.branch, request.base.id, new_id)
            return info.with_branch(request.branch, new_id), amended

        entry.update(take_its_place, doing="amending", ready=outgoing.settle)
    return snapshot


def flush(files: Files, entry: EntryPoint, request: CommitRequest) -> Snapshot:
    """Puts a snapshot that no branch leads to; its parent is the one the session began at."""
    require_online(entry.fetch(), doing="flushing")
    new_id = SnapshotId.random()
    with files.outgoing() as outgoing:
        snapshot = write_files(files, entry.clock, request, new_id, outgoing)

        def list_it(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
            require_moves_allowed(info, request, doing="flushing moves")
            info = info.with_snapshot(
                new_id,
                parent=request.base.id,
                flushed_at_us=snapshot.flushed_at_us,
                message=snapshot.message,
                metadata=snapshot.metadata,
            )
            return info, NewDetachedSnapshot(new_id)

        entry.update(list_it, doing="flushing", ready=outgoing.settle)
    return snapshot


def _require_not_first(info: RepoInfo, snapshot: SnapshotId) -> None:
    row = history.require_row(info, snapshot)
    if history.record_at(info, row).parent_id is None:
        raise SessionStateError(
            "the first commit in the repository cannot be an amend, create a new commit instead",
            kind="no-amend-for-initial-commit",
        )
