"""A session's changes carried over commits that were made since it began.

Commit by commit, oldest first: find the conflicts, solve or refuse them, and express the changes
relative to the snapshot of that commit. Nodes are followed by id. What an updated node keeps of
the old base is the metadata it was given; its manifests are those of the new base, so that chunks
which others committed stay.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.assets.layout import transaction_key
from frazil.errors import ConflictError, ObjectNotFoundError, RebaseFailedError, SessionStateError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.index_keys import SortedKeys
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Node, Snapshot
from frazil.format.txlog import TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath
from frazil.repo import history
from frazil.repo.changes import ChangeSet
from frazil.repo.conflicts import Theirs, find_clashes, rows_by_id
from frazil.repo.entry import backoff_s
from frazil.repo.logs import united
from frazil.repo.moves import Relocations, carried_moves
from frazil.repo.node_changes import compare
from frazil.repo.pending import ChunkChanges, PendingChunks
from frazil.repo.solver import Policy, Resolution, resolve

_MAX_TRIES = 2**16 - 1  # as many as the reference can count
_RESERVED = "__icechunk"


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
    """What a commit does if the branch has moved: rebase and try again, so many times."""

    policy: Policy
    tries: int = 1000

    def __post_init__(self) -> None:
        if not 0 <= self.tries <= _MAX_TRIES:
            raise OverflowError(f"rebase_tries is {self.tries}, expected 0 to {_MAX_TRIES}")


def replay(
    files: Files, info: RepoInfo, branch: str, start: Position, policy: Policy
) -> Iterator[Position]:
    """Where the changes are after each commit of the branch that they did not know.

    Nothing if the branch is gone. Raises RebaseFailedError at the first commit they cannot be
    carried over; the last position that was yielded stays good.
    """
    if branch not in info.branches:
        return
    position = start
    for step in steps_since(info, branch, start.base.id):
        after = files.fetch_snapshot(step.snapshot)
        log = united(step.snapshot, _fetch_logs(files, step))
        if step.sideways:
            # Of chunks it is known which ones either side changed: those are taken to differ.
            changes = compare(position.base.nodes, after.nodes)
            log = changes.as_log(log.id, updated_chunks=log.updated_chunks)
        position = Position(after, _carried(position, log, after, policy))
        yield position


def steps_since(info: RepoInfo, branch: str, base: SnapshotId) -> list[Step]:
    """Commits on the branch after `base`, oldest first.

    If `base` was expired meanwhile, its successor still names the logs that followed it. If the
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


def rebased(changes: ChangeSet, after: Nodes, resolution: Resolution) -> ChangeSet:
    """The same changes, relative to other nodes."""
    return transplanted(
        changes, after, resolution, relocations=carried_moves(changes.moved, after), paths={}
    )


def transplanted(
    changes: ChangeSet,
    after: Nodes,
    resolution: Resolution,
    *,
    relocations: Relocations,
    paths: Mapping[NodeId, NodePath],
) -> ChangeSet:
    """The same changes, relative to other nodes, which get other places.

    New nodes go where `paths` says, or else where they are. Nodes of the changes are known by id.
    """
    new = ChangeSet(after)
    new.overtaken = not changes.is_empty
    touched = changes.updated | changes.deleted.keys() | changes.chunks.keys()
    rows = rows_by_id(after, touched)
    gone = [after.node(rows[node_id]) for node_id in changes.deleted if node_id in rows]
    for node in [*gone, *resolution.also_delete]:
        new.deleted[node.id] = node
        new.edited[node.path.text] = None
    ours = [node for node in changes.edited.values() if node is not None]
    for old in (node for node in ours if node.id in changes.updated):
        theirs = after.node(rows[old.id])
        node = _upon(resolution.merged.get(old.id, old), theirs)
        if node != theirs or old.id not in resolution.merged:
            new.updated.add(old.id)
            new.edited[node.path.text] = node
    for node_id in changes.chunks.keys() & rows.keys():
        new.find_node(after.node(rows[node_id]).path)  # known from now on
    # Updated nodes move too; new ones may then take the places that became free.
    new.relocate(
        (new.edited.get(node.path.text) or node, path)
        for node, path in relocations
        if node.id not in new.deleted
    )
    for node in (node for node in ours if node.id in changes.created):
        path = paths.get(node.id, node.path)
        new.created.add(node.id)
        new.edited[path.text] = replace(node, path=path)
    for node_id, pending in changes.chunks.items():
        given_up = resolution.give_up_chunks.get(node_id)
        new.chunks[node_id] = pending if given_up is None else _without(pending, given_up)
    return new


def commit_rebasing(
    commit: Callable[[int], SnapshotId],
    rebase: Callable[[Policy], None],
    rebasing: Rebasing,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> SnapshotId:
    """Calls `commit` with the number of rebases so far until it is not beaten to it."""
    for attempt in range(rebasing.tries):
        try:
            return commit(attempt)
        except ConflictError as error:
            if error.kind != "commit-conflict":
                raise
        sleep(backoff_s(attempt, base_s=0.01, cap_s=1.0, uniform=random.uniform))
        rebase(rebasing.policy)
    return commit(rebasing.tries)


def with_attempts(metadata: Mapping[str, Json], attempts: int) -> dict[str, Json]:
    """Commit metadata that tells how many rebases there were, where the reference notes it."""
    given = metadata.get(_RESERVED)
    reserved = given if isinstance(given, dict) else {}
    return {**metadata, _RESERVED: {**reserved, "rebase_attempts": attempts}}


def _carried(position: Position, log: TransactionLog, after: Snapshot, policy: Policy) -> ChangeSet:
    theirs = Theirs(log, position.base.nodes, after.nodes)
    clashes = find_clashes(position.changes, theirs)
    resolution = resolve(clashes, policy, position.changes, theirs)
    if resolution is None:
        raise RebaseFailedError(str(after.id), [clash.conflict for clash in clashes])
    return rebased(position.changes, after.nodes, resolution)


def _fetch_logs(files: Files, step: Step) -> list[TransactionLog]:
    try:
        return files.pool.map(files.fetch_log, step.logs)
    except ObjectNotFoundError as error:
        if error.key == transaction_key(step.snapshot):
            raise
        raise SessionStateError(
            f"cannot rebase over snapshot {step.snapshot}: history before it was expired, and a"
            f" transaction log that is needed was removed ({error.key})",
            kind="rebase-tx-log-pruned",
        ) from error


def _upon(ours: Node, theirs: Node) -> Node:
    """Our metadata, their place and chunks."""
    if ours.array is None or theirs.array is None:
        return replace(ours, path=theirs.path)
    array = replace(ours.array, manifests=theirs.array.manifests)
    return replace(ours, path=theirs.path, array=array)


def _without(pending: PendingChunks, given_up: npt.NDArray[np.uint32]) -> PendingChunks:
    changes, keys = pending.changes(), SortedKeys.of(given_up)
    rows = np.flatnonzero(keys.lookup(changes.refs.index) < 0)
    deleted = changes.deleted[keys.lookup(changes.deleted) < 0]
    return PendingChunks.of(ChunkChanges(refs=changes.refs.take(rows), deleted=deleted))
