"""A session's changes carried over commits that were made since it began.

Oldest first: find the conflicts, solve or refuse them, and express the changes relative to the
snapshot of that commit. Many commits that have nothing to do with the changes are taken in one
leap, by their logs alone: then only the last of their snapshots is read. Where a leap might hide
a conflict, or change the subject of one, its halves are tried.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import batched

import numpy as np

from frazil.dataclass import dataclass
from frazil.engine.changes.attached_manifests import Attached, AttachedManifest
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.pending import ChunkChanges, PendingChunks
from frazil.engine.changes.transaction_logs import ids_in, unite_logs
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import transaction_key
from frazil.engine.merge.comparison import compare
from frazil.engine.merge.conflicts import Theirs, find_conflicts
from frazil.engine.merge.placement import NOTHING_PLACED, place_moves
from frazil.engine.merge.solver import Merged, Policy, merge_changes
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.waiting import Waiting
from frazil.errors import (
    ConflictError,
    IcechunkError,
    InternalError,
    ObjectNotFoundError,
    RebaseFailedError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.ids import NodeId, SnapshotId

_MAX_TRIES = 2**16 - 1  # as many as the reference can count
_RESERVED = "__icechunk"
_LOGS_AT_ONCE = 128  # in memory, whole


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Changes, and the snapshot that they are relative to."""

    base: Snapshot
    changes: ChangeSet


@dataclass(frozen=True, slots=True)
class Step:
    """A commit to be carried over, and the logs that tell what it changes, oldest first."""

    snapshot: SnapshotId
    logs: tuple[SnapshotId, ...]
    sideways: bool = False  # not a descendant of where the changes are


@dataclass(frozen=True, slots=True)
class Rebasing:
    """Makes a commit rebase and try again if the branch has moved, up to so many times."""

    policy: Policy
    tries: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.tries <= _MAX_TRIES:
            raise OverflowError(f"rebase_tries is {self.tries}, expected 0 to {_MAX_TRIES}")


def expand_attached(files: Files, changes: ChangeSet) -> ChangeSet:
    """The same, with manifests that were attached to arrays of the base as pending chunks.

    They would hide what was written to those arrays since. Their references are read: so a session
    that is overtaken has them in memory.
    """
    result = changes.copy()
    for node_id in changes.attached.keys() - changes.created:
        path = result.path_of(node_id)
        node = None if path is None else result.find_node(path)
        before = None if path is None else result.base.lookup(path)
        if node is None or node.array is None or before is None or before.array is None:
            raise InternalError(f"manifests were attached to an unknown array {node_id}")
        found = ChunkChanges.none(len(node.array.shape))
        for attached in result.attached.pop(node_id):
            found = _changes_in(files, node_id, attached).over(found)
        later = result.pending(node).changes()
        result.chunks[node_id] = PendingChunks.of(later.over(found))
        array = replace(node.array, manifests=before.array.manifests)
        result.edited[node.path.text] = replace(node, array=array)
    return result


def _changes_in(files: Files, node_id: NodeId, attached: Attached) -> ChunkChanges:
    """Chunks that a manifest changed: other references in it are those of the base."""
    index = attached.changed.index()
    refs = ChunkRefs.empty(index.shape[1])
    if isinstance(attached, AttachedManifest):
        refs = files.fetch_manifest(attached.file.id).arrays.get(node_id, refs)
    rows = refs.lookup(index)
    return ChunkChanges(refs=refs.take(np.sort(rows[rows >= 0])), deleted=distinct(index[rows < 0]))


def replay(
    files: Files,
    info: RepoInfo,
    branch: str,
    start: Position,
    policy: Policy,
    *,
    longest_leap: int = 256,
) -> Iterator[Position]:
    """Yields the changes relative to later and later commits of the branch.

    Nothing if the branch is gone. Raises RebaseFailedError at the first commit they cannot be
    carried over; the last position that was yielded is then that of the commit before.
    """
    if branch not in info.branches:
        return
    position = start
    steps = steps_since(info, branch, start.base.id)
    for first in range(0, len(steps), longest_leap):
        for reached in _advance(files, position, steps[first : first + longest_leap], policy):
            position = reached
            yield position


def steps_since(info: RepoInfo, branch: str, base: SnapshotId) -> list[Step]:
    """Commits on the branch after `base`, oldest first.

    If `base` was expired since then, its successor still names the logs that followed it. If the
    branch was reset or amended, there is one step, from `base` to the tip.
    """
    steps: list[Step] = []
    tip = info.branches[branch]
    for row in history.ancestor_rows(info, tip):
        snapshot = history.snapshot_id(info, row)
        if snapshot == base:
            return steps[::-1]
        logs = (*(SnapshotId(raw) for raw in info.snapshots.pruned_logs(row)), snapshot)
        if base in logs:
            steps.append(Step(snapshot, logs[logs.index(base) + 1 :]))
            return steps[::-1]
        steps.append(Step(snapshot, logs))
    return [
        Step(history.snapshot_id(info, tip), history.logs_apart(info, base, branch), sideways=True)
    ]


def commit_rebasing[T](
    commit: Callable[[int], T],
    rebase: Callable[[Policy], None],
    rebasing: Rebasing,
    waiting: Waiting,
) -> T:
    """Calls `commit` with the number of rebases so far until it is not beaten to it."""
    rebases = 0
    with waiting:
        if waiting.begin() and rebasing.tries:  # the branch has moved: no need to try
            rebase(rebasing.policy)
            rebases = 1
        while True:
            try:
                return commit(rebases)
            except ConflictError as error:
                if error.kind != "commit-conflict" or rebases == rebasing.tries:
                    raise
            waiting.lost(rebases)
            rebase(rebasing.policy)
            rebases += 1


def with_attempts(metadata: Mapping[str, Json], attempts: int) -> dict[str, Json]:
    """Commit metadata that tells how many rebases there were, where the reference notes it."""
    given = metadata.get(_RESERVED)
    reserved = given if isinstance(given, dict) else {}
    return {**metadata, _RESERVED: {**reserved, "rebase_attempts": attempts}}


def _advance(
    files: Files, position: Position, steps: Sequence[Step], policy: Policy
) -> Iterator[Position]:
    if len(steps) == 1:
        yield _step(files, position, steps[0], policy)
        return
    landed = _skip_ahead(files, position, steps)
    if landed is not None:
        yield landed
        return
    middle = len(steps) // 2
    for half in (steps[:middle], steps[middle:]):
        for reached in _advance(files, position, half, policy):
            position = reached
            yield reached


def _step(files: Files, position: Position, step: Step, policy: Policy) -> Position:
    logs = _beside_snapshot(files, step.snapshot, lambda: _fetch_logs(files, step))
    after = files.fetch_snapshot(step.snapshot)
    log = unite_logs(step.snapshot, logs)
    if step.sideways:
        # Of chunks it is known which ones either side changed: those are taken to differ.
        changes = compare(position.base.nodes, after.nodes)
        log = changes.as_log(log.id, updated_chunks=log.updated_chunks)
    theirs = Theirs.of_log(position.changes, position.base.nodes, after.nodes, log)
    merged = _rebase(position.changes, theirs, policy)
    if merged.changes is None:
        raise RebaseFailedError(str(after.id), [each.conflict for each in merged.conflicts])
    return Position(after, merged.changes)


def _skip_ahead(files: Files, position: Position, steps: Sequence[Step]) -> Position | None:
    """The changes relative to the last of these commits; None if one of them may matter."""
    ours, last = position.changes, steps[-1].snapshot
    wanted = [log for step in steps for log in step.logs]

    def fetch_logs() -> list[TransactionLog]:
        return [
            _filter_log(log, ours)
            for some in batched(wanted, _LOGS_AT_ONCE)
            for log in files.fetch_logs(some)
        ]

    try:
        logs = _beside_snapshot(files, last, fetch_logs)
    except ObjectNotFoundError:
        return None  # the step that needs it will say so
    log = unite_logs(last, logs)
    if any(each.moved for each in logs) or not _can_be_one(ours, log):
        return None
    after = files.fetch_snapshot(last)
    changes = rebase_strictly(ours, position.base.nodes, after.nodes, log)
    return None if changes is None else Position(after, changes)


def rebase_strictly(
    ours: ChangeSet, base: Nodes, after: Nodes, log: TransactionLog
) -> ChangeSet | None:
    """The changes relative to `after`; None if a commit in between may matter to them.

    `log` unites the logs of the commits since the base, none of which may have moved nodes: moves
    there and back are not in it. No conflict is solved.
    """
    if log.moved or not _can_be_one(ours, log):
        return None
    return _rebase(ours, Theirs.of_log(ours, base, after, log), Policy()).changes


def _beside_snapshot[R](files: Files, snapshot: SnapshotId, fetch: Callable[[], R]) -> R:
    """Returns what `fetch` does; a far store is asked for the snapshot at the same time."""
    if not files.store.far:
        return fetch()

    def cache_snapshot() -> None:
        with suppress(IcechunkError):  # raised again when it is needed
            files.fetch_snapshot(snapshot)

    return files.pool.beside(cache_snapshot, fetch)


def _filter_log(log: TransactionLog, ours: ChangeSet) -> TransactionLog:
    """Without chunks of arrays that we have nothing to do with: they may be millions."""
    chunks = {
        node_id: index
        for node_id, index in log.updated_chunks.items()
        if node_id in ours.chunks or node_id in ours.deleted
    }
    return replace(log, updated_chunks=chunks)


def _can_be_one(ours: ChangeSet, log: TransactionLog) -> bool:
    """True if the commits of this united log can be treated as one: no node came and went."""
    deleted = ids_in(log.deleted_groups, log.deleted_arrays)
    if ours.moved or (deleted and (ours.created or ours.deleted)):
        return False
    return deleted.isdisjoint(ours.updated | ours.chunks.keys())


def _rebase(ours: ChangeSet, theirs: Theirs, policy: Policy) -> Merged:
    conflicts = find_conflicts(ours, theirs)
    placement = NOTHING_PLACED if conflicts else place_moves(ours, theirs)
    merged = merge_changes(ours, theirs, policy, conflicts=conflicts, placement=placement)
    if merged.changes is not None:
        merged.changes.overtaken = not ours.is_empty
    return merged


def _fetch_logs(files: Files, step: Step) -> list[TransactionLog]:
    try:
        return files.fetch_logs(step.logs)
    except ObjectNotFoundError as error:
        if error.key == transaction_key(step.snapshot):
            raise
        raise SessionStateError(
            f"cannot rebase over snapshot {step.snapshot}: history before it was expired, and a"
            f" transaction log that is needed was removed ({error.key})",
            kind="rebase-tx-log-pruned",
        ) from error
