"""Commits made from other commits: revert, cherry-pick, merge.

Each ends in one ordinary commit, or for a merge that needs none in moving the branch; either by
compare-and-swap, so that ConflictError is raised if another client was faster. If conflicts remain,
RebaseFailedError is raised; nothing has been changed then.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from frazil.dataclass import dataclass
from frazil.engine.changes.diff import Diff
from frazil.engine.changes.transaction_logs import ids_in
from frazil.engine.history.moved_chunks import MovedChunks, find_moves
from frazil.engine.merge.chunk_overlaps import bytes_comparer
from frazil.engine.merge.comparison import compare, refs_reader
from frazil.engine.merge.solver import Policy
from frazil.engine.merge.three_way import Reading, Trees, three_way
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.ancestry import SnapshotRecord, merge_base, reachable_rows
from frazil.engine.refs.commit_metadata import (
    MERGED,
    CommitKeys,
    keys_of,
    require_json,
    with_keys,
    with_notes,
)
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    Conflict,
    ConflictError,
    InvalidInputError,
    RebaseFailedError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import TransactionLog
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A request to edit the history of a branch."""

    branch: str
    message: str | None = None  # None: one that tells what was done
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edited:
    """The result of an edit."""

    snapshot: SnapshotId | None = None  # tip from now on; None: a dry run, or nothing to do
    applied: Diff = field(default_factory=Diff)  # what the branch changed, or would
    conflicts: tuple[Conflict, ...] = ()
    solved: bool = True  # False in a dry run that met conflicts which the policy does not solve
    fast_forward: bool = False


def revert(repository: Repository, snapshot: SnapshotId, edit: Edit) -> Edited:
    """Undoes on the branch what one commit of its history did."""
    info = repository.repo_info()
    record, parent = _with_parent(info, snapshot)
    row = history.branch_row(info, edit.branch)
    if info.snapshots.find(snapshot) not in reachable_rows(info, row):
        raise InvalidInputError(
            f"cannot revert {snapshot}: it is not in the history of branch `{edit.branch}`"
        )
    message = f"Revert {record.message!r} ({snapshot})"
    tip = history.snapshot_id(info, row)
    source, notes = (snapshot, parent), {"reverted": str(snapshot)}
    return _apply(
        repository, info, source, edit, tip=tip, message=message, notes=notes, commit=snapshot
    )


def cherry_pick(repository: Repository, snapshot: SnapshotId, edit: Edit) -> Edited:
    """Applies the changes of a commit of another branch to the branch."""
    info = repository.repo_info()
    record, parent = _with_parent(info, snapshot)
    tip = history.snapshot_id(info, history.branch_row(info, edit.branch))
    source, notes = (parent, snapshot), {"picked": str(snapshot)}
    return _apply(
        repository,
        info,
        source,
        edit,
        tip=tip,
        message=record.message,
        notes=notes,
        commit=snapshot,
        keys=keys_of([record.metadata]),
    )


def merge(repository: Repository, source: str, edit: Edit) -> Edited:
    """Applies to the branch the changes made on branch `source` since their merge base."""
    info = repository.repo_info()
    rows = history.branch_row(info, edit.branch), history.branch_row(info, source)
    tip, other = (history.snapshot_id(info, row) for row in rows)
    if rows[1] in reachable_rows(info, rows[0]):
        return Edited()
    if rows[0] in history.ancestor_rows(info, rows[1]):
        applied = repository.diff(tip, other)
        if edit.dry_run:
            return Edited(applied=applied, fast_forward=True)
        repository.reset_branch(edit.branch, other, expected=tip)
        return Edited(snapshot=other, applied=applied, fast_forward=True)
    base = merge_base(info, *rows)
    new = sorted(
        reachable_rows(info, rows[1]) - reachable_rows(info, rows[0]), key=info.snapshots.flushed_at
    )
    if base is None:
        raise SessionStateError(f"branches `{edit.branch}` and `{source}` have no common history")
    return _apply(
        repository,
        info,
        (history.snapshot_id(info, base), other),
        edit,
        tip=tip,
        message=f"Merge branch {source!r} into {edit.branch!r}",
        notes={MERGED: [str(other)], "branch": source},
        keys=keys_of(info.snapshots.metadata(row) for row in new),
        even_if_empty=True,
    )


def _apply(
    repository: Repository,
    info: RepoInfo,
    source: tuple[SnapshotId, SnapshotId],
    edit: Edit,
    *,
    tip: SnapshotId,
    message: str,
    notes: Mapping[str, Json],
    commit: SnapshotId | None = None,  # whose changes, or their undoing, these are to be
    keys: CommitKeys | None = None,  # of the commits whose work is brought to the branch
    even_if_empty: bool = False,
) -> Edited:
    """Applies what changed from the first source to the second to the tip of the branch.

    Raises ConflictError if the branch is no longer at `tip`, for which this was decided.
    """
    metadata = with_notes(require_json(edit.metadata), notes)
    metadata = metadata if keys is None else with_keys(metadata, keys)
    session = repository.writable_session(edit.branch)
    if session.snapshot_id != tip:
        raise ConflictError(
            message=f"branch `{edit.branch}` is at {session.snapshot_id}, expected {tip}",
            expected_parent=str(tip),
            actual_parent=str(session.snapshot_id),
        )
    before, after = (_nodes(session, each) for each in source)
    if commit is not None and session.files.settings.spec_version == 1:
        _require_own_changes(session.files.fetch_log(commit), before, after)
    files = session.files
    version, read = files.settings.spec_version, refs_reader(files)
    moved = MovedChunks(files, find_moves(info, [*source, tip], version=version), read)
    outcome = three_way(
        Trees(base=before, tip=session.base.nodes, source=after),
        policy=edit.policy,
        reading=Reading(
            refs=read,
            same_bytes=bytes_comparer(files),
            canonical=moved.canonical,
        ),
    )
    changes = outcome.changes
    conflicts = tuple(each.conflict for each in outcome.conflicts)
    if changes is None:
        if not edit.dry_run:
            raise RebaseFailedError(str(session.snapshot_id), list(conflicts))
        return Edited(conflicts=conflicts, solved=False)
    session.revise(lambda _: changes)
    applied, snapshot = session.status(), None
    if not edit.dry_run and (even_if_empty or not changes.is_empty):
        text = message if edit.message is None else edit.message
        snapshot = session.commit(text, metadata, allow_empty=True, relies_on=source)
    return Edited(snapshot=snapshot, applied=applied, conflicts=conflicts)


def _nodes(session: Session, snapshot: SnapshotId) -> Nodes:
    return session.files.fetch_snapshot(snapshot).nodes


def _require_own_changes(log: TransactionLog, before: Nodes, after: Nodes) -> None:
    """Raises if nodes came or went that the commit's log does not tell of.

    Version 1 does not say where snapshots were expired: their successor just has another parent.
    """
    found = compare(before, after)
    logged = ids_in(*(ids for _, ids in log.node_lists()))
    if not logged >= found.created.keys() | found.deleted.keys():
        raise _expired_error(log.id)


def _expired_error(snapshot: SnapshotId) -> SessionStateError:
    return SessionStateError(
        f"what snapshot {snapshot} alone changed cannot be told: the one before it was expired"
    )


def _with_parent(info: RepoInfo, snapshot: SnapshotId) -> tuple[SnapshotRecord, SnapshotId]:
    """A commit, and the snapshot that it alone changed."""
    row = history.require_row(info, snapshot)
    record = history.record_at(info, row)
    if record.parent_id is None:
        raise SessionStateError(f"snapshot {snapshot} is the first one and changed nothing")
    if info.snapshots.pruned_logs(row):
        raise _expired_error(snapshot)
    return record, record.parent_id
