"""A path taken out of all history: its nodes, their attributes, their manifests and chunks.

    plan      every snapshot that is stored, and every transaction log; what only the path uses
    execute   new manifests where arrays shared one; a commit on each branch whose tip had the
              path; logs and snapshots in place; then the objects that nothing else uses are deleted

The commit on top makes sessions that began before notice: they have to rebase, onto a tip without
the path. A purge that was interrupted is finished by another one, and by collecting garbage.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.files.object_keys import manifest_key
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.commit_metadata import with_notes
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, InvalidInputError
from frazil.format.nodes import Node
from frazil.format.repo_info import RepoInfo
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import Executor, ThreadExecutor, quiet_files, require_current
from frazil.maintenance.inventory import FileKind, keys_of
from frazil.maintenance.purge.new_versions import (
    Blank,
    Delete,
    FindLogs,
    WriteLogs,
    WriteManifests,
    WriteSnapshots,
)
from frazil.maintenance.purge.scrub import MovedNodes
from frazil.maintenance.purge.traces import Ids, Traces, find_contents, find_traces, readable_ids
from frazil.maintenance.relocate import Parts
from frazil.maintenance.summaries import (
    COPIES,
    SHOWN,
    PurgeSummary,
    Remaining,
    mentions_by_repository,
    put_aside,
    tags_at,
)
from frazil.paths import ROOT, NodePath

_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathPurgePlan:
    path: NodePath
    snapshots: tuple[SnapshotId, ...]  # rewritten, under their ids
    logs: tuple[SnapshotId, ...]  # transaction logs, likewise
    branches: tuple[str, ...]  # that get a commit, because their tips have the path
    nodes: tuple[Node, ...]  # one version of each that is removed
    gone: frozenset[NodeId]  # those of them that are in no snapshot afterwards
    moved_nodes: MovedNodes  # the others of them
    shared_manifests: tuple[ManifestId, ...]  # rewritten, without what is gone
    manifests: Ids  # deleted
    chunks: Ids  # deleted
    blanked: Parts  # of chunk objects that other arrays use too
    chunk_bytes: int  # deleted and blanked
    remaining: tuple[Remaining, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.snapshots or self.logs)

    def summary(self, commits: Mapping[str, SnapshotId] | None = None) -> PurgeSummary:
        """The result with these commits by branch; without, that of a dry run."""
        made = commits or {}
        return PurgeSummary(
            snapshots=[str(each) for each in self.snapshots],
            transaction_logs=len(self.logs),
            manifests=len(self.manifests),
            chunks=len(self.chunks),
            chunk_bytes=self.chunk_bytes,
            nodes=[node.path.text for node in self.nodes],
            commits={branch: str(snapshot) for branch, snapshot in made.items()},
            remaining=list(self.remaining),
        )


def plan_purge_path(
    repository: Repository, path: NodePath, executor: Executor | None = None
) -> PathPurgePlan:
    """Reads every snapshot and every transaction log, and if need be every manifest.

    `executor` reads the files: threads by default.
    """
    if path == ROOT:
        raise InvalidInputError("the root cannot be purged: delete the repository")
    require_current(repository)
    info, executor = repository.repo_info(), executor or ThreadExecutor(quiet_files(repository))
    ids = readable_ids(quiet_files(repository), info, FileKind.SNAPSHOT)
    traces = find_traces(ids, path, executor)
    contents = find_contents(repository.store, traces, executor)
    branches = sorted(
        name for name, row in info.branches.items() if info.snapshots.id(row) in traces.snapshots
    )
    mentions = [
        *traces.mentions,
        *mentions_by_repository(info, [path.text]),
        *tags_at(info, set(traces.snapshots)),
        *_report_moved(traces),
        *(
            Remaining("attributes", place, "its zarr.json names it")
            for place in sorted(traces.mentioned_by)[:SHOWN]
        ),
        *contents.remaining,
    ]
    aside = put_aside(repository.files) if traces.snapshots else ()
    gone, moved_nodes = frozenset(traces.gone), _find_moved(info, traces)
    logs = _logs(repository, path, gone, moved_nodes)
    return PathPurgePlan(
        path=path,
        snapshots=tuple(traces.snapshots),
        logs=_run(executor, logs, "reading transaction logs"),
        branches=tuple(branches),
        nodes=tuple(sorted(traces.removed.values(), key=lambda node: node.path)),
        gone=gone,
        moved_nodes=moved_nodes,
        shared_manifests=contents.shared_manifests,
        manifests=contents.manifests.ids(),
        chunks=contents.chunks.ids(),
        blanked=contents.blanked,
        chunk_bytes=contents.chunk_bytes,
        remaining=(*mentions, *aside, *((COPIES,) if traces.snapshots else ())),
    )


def purge_path(
    repository: Repository,
    plan: PathPurgePlan,
    message: str = "Purge",
    executor: Executor | None = None,
) -> PurgeSummary:
    """Purges until no snapshot has the path any more.

    Raises ConflictError if others go on committing it.
    """
    if plan.path.text in message:
        raise InvalidInputError("the message of the commit names what is purged")
    repository.writable_session("main")  # raises if nothing may be written
    executor = executor or ThreadExecutor(quiet_files(repository))
    commits, left = dict[str, SnapshotId](), plan
    for _ in range(_ROUNDS):
        commits |= _purge_once(repository, left, message, executor)
        left = plan_purge_path(repository, plan.path, executor)
        if left.is_empty:
            return plan.summary(commits)
    raise ConflictError(
        message=f"others keep committing `{plan.path}`: stop them, and purge it again"
    )


def _purge_once(
    repository: Repository, plan: PathPurgePlan, message: str, executor: Executor
) -> dict[str, SnapshotId]:
    store = repository.store
    manifests = WriteManifests(plan.shared_manifests, plan.gone)
    files = _flatten(executor.run(manifests, len(plan.shared_manifests), "writing manifests"))
    new = dict(zip(plan.shared_manifests, files, strict=True))
    # The last step tells another purge that this one was interrupted: as long as a snapshot has
    # the path, logs and branches are processed again.
    commits = {
        name: snapshot
        for name in plan.branches
        if (snapshot := _commit(repository, name, plan, message)) is not None
    }
    but = frozenset(commits.values())
    find = _logs(repository, plan.path, plan.gone, plan.moved_nodes, but=but)
    logs = _flatten(executor.run(WriteLogs(find), len(find.ids), "writing transaction logs"))
    store.sync()
    # The commits too: what their parents said of the path, they have from them.
    ids = _snapshots_to_write(repository, plan, commits.values())
    snapshots = WriteSnapshots(ids, plan.path, new)
    written = _run(executor, snapshots, "writing snapshots")
    store.sync()
    _refresh_caches(repository, written, logs)
    store.delete(manifest_key(each) for each in plan.shared_manifests)
    keys = [*keys_of(FileKind.MANIFEST, plan.manifests), *keys_of(FileKind.CHUNK, plan.chunks)]
    deque(executor.run(Delete(tuple(keys)), len(keys), "deleting"), maxlen=0)
    blank = Blank.of(plan.blanked)
    deque(executor.run(blank, len(blank.objects), "blanking chunks"), maxlen=0)
    store.sync()
    return commits


def _refresh_caches(
    repository: Repository, snapshots: Iterable[SnapshotId], logs: Iterable[SnapshotId]
) -> None:
    """Replaces cached files by what is stored now."""
    caches, quiet = repository.files.caches, quiet_files(repository)
    for each in snapshots:
        if caches.snapshots.find(each) is not None:
            caches.snapshots.remember(each, quiet.fetch_snapshot(each))
        if caches.names.find(each) is not None:
            caches.names.remember(each, quiet.fetch_node_names(each))
    for each in logs:
        if caches.logs.find(each) is not None:
            caches.logs.remember(each, quiet.fetch_log(each))


def _snapshots_to_write(
    repository: Repository, plan: PathPurgePlan, commits: Iterable[SnapshotId]
) -> Ids:
    """If manifests are replaced, any snapshot may have to be."""
    if plan.shared_manifests:
        return readable_ids(quiet_files(repository), repository.repo_info(), FileKind.SNAPSHOT)
    raw = b"".join(each.raw for each in (*plan.snapshots, *commits))
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, SnapshotId.size)


def _logs(
    repository: Repository,
    path: NodePath,
    gone: frozenset[NodeId],
    moved_nodes: MovedNodes,
    *,
    but: frozenset[SnapshotId] = frozenset(),
) -> FindLogs:
    files, info = quiet_files(repository), repository.repo_info()
    ids = readable_ids(files, info, FileKind.TRANSACTION)
    others = [row for row, raw in enumerate(ids) if SnapshotId(raw.tobytes()) not in but]
    return FindLogs(ids[others] if but else ids, path, gone, moved_nodes)


def _run(executor: Executor, work: FindLogs | WriteSnapshots, doing: str) -> tuple[SnapshotId, ...]:
    return tuple(_flatten(executor.run(work, len(work.ids), doing)))


def _flatten[T](parts: Iterable[Iterable[T]]) -> list[T]:
    return [each for part in parts for each in part]


def _commit(
    repository: Repository, branch: str, plan: PathPurgePlan, message: str
) -> SnapshotId | None:
    """A commit without the path, which says what is gone by ids; None if there is another one."""
    session = repository.writable_session(branch)
    for node in session.nodes(plan.path):  # there need not be a node at the path itself
        session.delete_node(node.path)

    def mark(changes: ChangeSet) -> ChangeSet:
        changes.deleted = {node.id: node for node in plan.nodes if node.id in plan.gone}
        return changes

    session.revise(mark)
    notes = with_notes({}, {"purged": len(plan.nodes)})
    try:
        return session.commit(message, notes, allow_empty=True)
    except ConflictError:
        return None  # the faster writer is found in the next round


def _find_moved(info: RepoInfo, traces: Traces) -> MovedNodes:
    if not traces.kept_nodes:
        return MovedNodes()
    records = (history.record_at(info, row) for row in range(len(info.snapshots)))
    return MovedNodes(
        frozenset(traces.kept_nodes),
        {snapshot: frozenset(nodes) for snapshot, nodes in traces.kept_in.items()},
        {record.id: record.parent_id for record in records},
    )


def _report_moved(traces: Traces) -> Iterator[Remaining]:
    for node_id, place in sorted(traces.kept_nodes.items(), key=lambda item: item[1])[:SHOWN]:
        was = traces.removed[node_id].path
        yield Remaining("moved-node", place, f"is what was at {was} in other snapshots")
