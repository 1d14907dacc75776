"""A path taken out of all history: its nodes, their attributes, their manifests and chunks.

    plan      every snapshot that is stored, and every transaction log; what only the path uses
    execute   new manifests where arrays shared one; snapshots and logs in place; a commit on each
              branch whose tip had the path; then the objects that nothing else uses are deleted

The commit on top makes sessions that began before notice: they have to rebase, onto a tip without
the path. A purge that was interrupted is finished by another one, and by collecting garbage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.assets.layout import chunk_key, manifest_key
from frazil.errors import ConflictError, InvalidInputError
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFile, Node
from frazil.format.txlog import TransactionLog
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.maintenance.chunk_parts import Parts, id_keys
from frazil.maintenance.inventory import FileKind, keys_of
from frazil.maintenance.purge.contents import find_contents
from frazil.maintenance.purge.history import Traces, find_traces, stored_ids
from frazil.maintenance.purge.remaining import (
    ELSEWHERE,
    SHOWN,
    Remaining,
    mentions_by_repository,
    put_aside,
    tags_at,
)
from frazil.maintenance.purge.scrub import with_manifests, without_nodes, without_path
from frazil.maintenance.quiet_files import quiet_files, require_current
from frazil.paths import ROOT, NodePath
from frazil.repo.changes import ChangeSet
from frazil.repo.merge_base import with_notes
from frazil.repo.repository import Repository

_AT_ONCE = 64
_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathPurgePlan:
    path: NodePath
    snapshots: tuple[SnapshotId, ...]  # written anew, under their ids
    logs: tuple[SnapshotId, ...]  # transaction logs, likewise
    branches: tuple[str, ...]  # that get a commit, because their tips have the path
    nodes: tuple[Node, ...]  # one version of each that is removed
    gone: frozenset[NodeId]  # those of them that are in no snapshot afterwards
    shared_manifests: tuple[ManifestId, ...]  # written anew, without what is gone
    manifests: npt.NDArray[np.uint8]  # (n, 12), deleted
    chunks: npt.NDArray[np.uint8]  # (n, 12), deleted
    blanked: Parts  # of chunk objects that other arrays use too
    chunk_bytes: int  # deleted and blanked
    remaining: tuple[Remaining, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.snapshots or self.logs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPurged:
    commits: dict[str, SnapshotId]  # by branch


def plan_purge_path(repository: Repository, path: NodePath) -> PathPurgePlan:
    """Reads every snapshot and every transaction log, and if need be every manifest."""
    if path == ROOT:
        raise InvalidInputError("the root cannot be purged: delete the repository")
    require_current(repository)
    files, info = quiet_files(repository), repository.repo_info()
    traces = find_traces(files, path)
    contents = find_contents(files, traces)
    branches = sorted(
        name for name, row in info.branches.items() if info.snapshots.id(row) in traces.snapshots
    )
    mentions = [
        *traces.mentions,
        *mentions_by_repository(info, [path.text]),
        *tags_at(info, set(traces.snapshots)),
        *_moved(traces),
        *(
            Remaining("attributes", place, "its zarr.json names it")
            for place in sorted(traces.mentioned_by)[:SHOWN]
        ),
        *contents.remaining,
    ]
    return PathPurgePlan(
        path=path,
        snapshots=tuple(traces.snapshots),
        logs=tuple(log.id for log in _changed_logs(files, traces.gone, path)),
        branches=tuple(branches),
        nodes=tuple(sorted(traces.removed.values(), key=lambda node: node.path)),
        gone=frozenset(traces.gone),
        shared_manifests=contents.shared_manifests,
        manifests=contents.manifests.ids(),
        chunks=contents.chunks.ids(),
        blanked=contents.blanked,
        chunk_bytes=contents.chunk_bytes,
        remaining=(*mentions, *put_aside(files), ELSEWHERE)
        if traces.snapshots
        else tuple(mentions),
    )


def purge_path(repository: Repository, plan: PathPurgePlan, message: str = "Purge") -> PathPurged:
    """Until no snapshot has the path any more.

    Raises ConflictError if others go on committing it.
    """
    if plan.path.text in message:
        raise InvalidInputError("the message of the commit names what is purged")
    repository.writable_session("main")  # raises if nothing may be written
    commits: dict[str, SnapshotId] = {}
    for _ in range(_ROUNDS):
        commits |= _purge_once(repository, plan, message)
        plan = plan_purge_path(repository, plan.path)
        if plan.is_empty:
            return PathPurged(commits=commits)
    raise ConflictError(f"others keep committing `{plan.path}`: stop them, and purge it again")


def _purge_once(repository: Repository, plan: PathPurgePlan, message: str) -> dict[str, SnapshotId]:
    files = repository.files  # what it remembers must be what is stored now
    quiet = quiet_files(repository)
    new = dict(zip(plan.shared_manifests, _without_gone(quiet, plan), strict=True))
    for some in batched(_snapshots_to_write(quiet, plan), _AT_ONCE):
        files.pool.map(lambda each: _rewrite(files, quiet, plan.path, each, new), some)
    for log in _changed_logs(quiet, set(plan.gone), plan.path):
        files.put_log(log)
    files.store.sync()
    commits = {
        name: snapshot
        for name in plan.branches
        if (snapshot := _commit(repository, name, plan, message)) is not None
    }
    files.store.delete(manifest_key(each) for each in plan.shared_manifests)
    files.store.delete(keys_of(FileKind.MANIFEST, plan.manifests))
    files.store.delete(keys_of(FileKind.CHUNK, plan.chunks))
    _blank(files, plan.blanked)
    return commits


def _blank(files: Files, parts: Parts) -> None:
    """Zeros in place of parts of packs: what else is in them stays where it is."""
    keys = id_keys(parts.chunk_id)
    for key in np.unique(keys):
        rows = np.flatnonzero(keys == key)
        name = chunk_key(ChunkId(parts.chunk_id[rows[0]].tobytes()))
        data = bytearray(files.store.get(name).data)
        for start, length in zip(parts.offset[rows], parts.length[rows], strict=True):
            stop = min(int(start + length), len(data))
            data[int(start) : stop] = bytes(max(0, stop - int(start)))
        files.store.put(name, data)
    files.store.sync()


def _snapshots_to_write(files: Files, plan: PathPurgePlan) -> Sequence[SnapshotId]:
    """If manifests are replaced, any snapshot may have to be."""
    if not plan.shared_manifests:
        return plan.snapshots
    return [SnapshotId(raw.tobytes()) for raw in stored_ids(files, FileKind.SNAPSHOT)]


def _rewrite(
    files: Files,
    quiet: Files,
    path: NodePath,
    snapshot: SnapshotId,
    new: dict[ManifestId, ManifestFile],
) -> None:
    old = quiet.fetch_snapshot(snapshot)
    found = without_path(old, path)
    scrubbed = old if found is None else found.snapshot
    scrubbed = with_manifests(scrubbed, new) or scrubbed
    if scrubbed is not old:
        files.put_snapshot(scrubbed)


def _without_gone(files: Files, plan: PathPurgePlan) -> list[ManifestFile]:
    def store(old: ManifestId) -> ManifestFile:
        arrays = files.fetch_manifest(old).arrays
        kept = {node: refs for node, refs in arrays.items() if node not in plan.gone}
        return files.put_manifest(Manifest(id=ManifestId.random(), arrays=kept))

    return files.pool.map(store, plan.shared_manifests)


def _changed_logs(files: Files, gone: set[NodeId], path: NodePath) -> Iterator[TransactionLog]:
    """Also of snapshots that have expired: their logs may be kept for those after them."""
    ids = [SnapshotId(raw.tobytes()) for raw in stored_ids(files, FileKind.TRANSACTION)]
    for some in batched(ids, _AT_ONCE):
        for log in files.fetch_logs(some):
            changed = without_nodes(log, gone, path)
            if changed is not None:
                yield changed


def _commit(
    repository: Repository, branch: str, plan: PathPurgePlan, message: str
) -> SnapshotId | None:
    """A commit that only says which nodes are gone, by their ids; None if there is another one."""
    session = repository.writable_session(branch)

    def mark(changes: ChangeSet) -> ChangeSet:
        changes.deleted = {node.id: node for node in plan.nodes if node.id in plan.gone}
        return changes

    session.revise(mark)
    notes = with_notes({}, {"purged": len(plan.nodes)})
    try:
        return session.commit(message, notes, allow_empty=True)
    except ConflictError:
        return None  # whoever was faster has made the others notice, and is looked at again


def _moved(traces: Traces) -> Iterator[Remaining]:
    for node_id, place in sorted(traces.kept_nodes.items(), key=lambda item: item[1])[:SHOWN]:
        was = traces.removed[node_id].path
        yield Remaining("moved-node", place, f"is what was at {was} in other snapshots")
