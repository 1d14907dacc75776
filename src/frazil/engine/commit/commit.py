"""Commits a session's changes as a new snapshot; amends the last one, or flushes a detached one.

Manifests of changed arrays, the snapshot and its transaction log are written under new random names
that nothing refers to, and in a far store all at once; last the entry point, by compare-and-swap. A
failure or a lost race before that last step leaves the repository as it was, and some unreferenced
files.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.changes.attached_manifests import (
    AttachedManifest,
    expand_chunk_sets,
    put_log_with,
    updated_chunks,
)
from frazil.engine.changes.change_set import ChangeSet
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.changes.pending import ChunkChanges
from frazil.engine.changes.transaction_logs import collapse_log, unite_logs
from frazil.engine.commit.splitting import (
    FEW,
    MOST,
    Stored,
    cell_sizes,
    in_bands,
    is_automatic,
    plan_manifests,
    share_manifests,
    split,
)
from frazil.engine.files.files import Files, Outgoing
from frazil.engine.files.object_keys import snapshot_key
from frazil.engine.refs import ancestry as history
from frazil.engine.refs.commit_metadata import keys_of, with_keys
from frazil.engine.refs.entry import EntryPoint, require_online
from frazil.engine.refs.repo_settings import MOVE_NODE, require_enabled
from frazil.errors import (
    ConflictError,
    FormatError,
    InternalError,
    ObjectNotFoundError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.growing_nodes import patch
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFile, Snapshot
from frazil.format.transaction_log import TransactionLog, require_log_fits
from frazil.format.update_log import CommitAmended, NewCommit, NewDetachedSnapshot, UpdateKind
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.objectstore.protocol import ALWAYS, Precondition

_MANY_CHUNKS = 10_000
_MAX_CLOCK_SKEW_US = 600_000_000  # other clients refuse snapshots further off than this


@dataclass(frozen=True, slots=True, eq=False)
class WrittenArray:
    """Manifests that a try wrote for an array; the next one may need the same."""

    before: ArrayData
    changes: ChunkChanges
    manifests: Sequence[ManifestRef]
    files: tuple[ManifestFile, ...]  # those that are new

    def serves(self, node: Node, changes: ChunkChanges | None) -> bool:
        """True if the array was not changed by others, nor were the changes."""
        return (
            node.array is not None
            and changes is self.changes
            and node.array.num_chunks == self.before.num_chunks
            and node.array.manifests == self.before.manifests
        )


type Written = dict[NodeId, WrittenArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    branch: str
    base: Snapshot
    changes: ChangeSet
    message: str
    metadata: Mapping[str, Json]
    rearranges: bool = False  # from a session that can only move nodes
    relies_on: tuple[SnapshotId, ...] = ()  # other snapshots whose chunks the changes refer to
    written: Written | None = None  # by tries that lost a race, for the next one
    is_checked: bool = False  # the branch was read just now, and its tip is `base`
    when: Precondition = ALWAYS  # for the file of the snapshot
    checks_clock: bool = True  # against the time of that file: one of several in a row is enough


def commit(files: Files, entry: EntryPoint, request: CommitRequest) -> Snapshot:
    # Found out here, a lost race costs nothing; found out at the end, it leaves garbage behind.
    if not request.is_checked:
        info = entry.fetch()
        require_online(info, doing="committing")
        require_tip(info, request)
        require_moves_allowed(info, request, doing="committing moves")
    new_id = SnapshotId.random()
    with files.outgoing() as outgoing, _forgetting_unsettled(request, outgoing):
        snapshot = write_files(files, entry.clock, request, new_id, outgoing)

        def advance(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
            require_tip(info, request)
            require_moves_allowed(info, request, doing="committing moves")
            _require_base_snapshots(files, info, request)
            info = info.with_snapshot(
                new_id,
                parent=request.base.id,
                flushed_at_us=snapshot.flushed_at_us,
                message=snapshot.message,
                metadata=snapshot.metadata,
            )
            return info.with_branch(request.branch, new_id), NewCommit(request.branch, new_id)

        entry.update(advance, doing="committing", ready=outgoing.settle)
    return snapshot


@contextmanager
def _forgetting_unsettled(request: CommitRequest, outgoing: Outgoing) -> Iterator[None]:
    """Leaves nothing in `request.written` that may not have arrived, if a race is lost."""
    try:
        yield
    except ConflictError:
        try:
            outgoing.settle()
        except Exception:  # noqa: BLE001 -- the conflict is what the caller can act upon
            if request.written is not None:
                request.written.clear()
        raise


def _require_base_snapshots(files: Files, info: RepoInfo, request: CommitRequest) -> None:
    """Raises ConflictError if garbage collection has taken a snapshot that the changes rely on.

    A collection takes snapshots from the list before it deletes anything, and keeps what those
    refer to that it finds there afterwards. Version 1 has no list: it deletes their files first.
    """
    for snapshot in request.relies_on:
        if not info.lists_snapshots:
            try:
                files.store.head(snapshot_key(snapshot))
                continue
            except ObjectNotFoundError:
                pass
        elif info.snapshots.find(snapshot) >= 0:
            continue
        raise ConflictError(
            message=f"snapshot {snapshot}, which the changes come from, was removed since then",
        )


def write_files(
    files: Files, clock: Clock, request: CommitRequest, new_id: SnapshotId, outgoing: Outgoing
) -> Snapshot:
    """The snapshot, when all that it needs is under way."""
    changes = request.changes
    _require_log_fits(files, changes)
    if changes.attached:  # a writer of such a log, perhaps on Spark, runs on this thread
        put_log(files, new_id, changes)
    else:
        chunks = sum(len(pending.changes().refs) for pending in changes.chunks.values())
        outgoing.do(lambda: put_log(files, new_id, changes), long=chunks >= _MANY_CHUNKS)
    return _write_snapshot(files, clock, request, new_id, outgoing)


def _write_snapshot(
    files: Files, clock: Clock, request: CommitRequest, new_id: SnapshotId, outgoing: Outgoing
) -> Snapshot:
    """Puts the manifests and the snapshot that the changes amount to."""
    changed, known_files = _write_manifests(files, request, outgoing)
    nodes = patch(request.base.nodes, remove=request.changes.vacated, put=changed)
    snapshot = Snapshot(
        id=new_id,
        parent_id=request.base.id,  # written in version 1; the repo info holds it since
        flushed_at_us=max(clock(), request.base.flushed_at_us + 1),
        message=request.message,
        metadata=dict(request.metadata),
        manifest_files=_manifest_files(nodes.manifest_ids(), request.base, known_files),
        nodes=nodes,
    )

    def put() -> None:
        files.put_snapshot(snapshot, when=request.when)
        if request.checks_clock:
            _require_sound_clock(files, snapshot)

    outgoing.do(put)
    return snapshot


def _require_log_fits(files: Files, changes: ChangeSet) -> None:
    """Raises FormatError before anything is written, if the log could not be."""
    counts = [
        (len(index.refs) + len(index.deleted), index.refs.ndim)
        for index in (pending.changes() for pending in changes.chunks.values())
    ]
    counts += [
        (sum(each.count for each in sets), sets[0].ndim)
        for sets in updated_chunks(changes.attached).values()
    ]
    require_log_fits(counts, max_bytes=files.max_log_bytes)


def put_log(files: Files, snapshot: SnapshotId, changes: ChangeSet) -> None:
    if changes.attached:
        log = _log_without_attached(snapshot, changes)
        put_log_with(files, log, changes.attached, changes.log_writer)
    else:
        files.put_log(transaction_log(snapshot, changes))


def transaction_log(snapshot: SnapshotId, changes: ChangeSet) -> TransactionLog:
    log = _log_without_attached(snapshot, changes)
    if not changes.attached:
        return log
    chunks = dict(log.updated_chunks)
    for node_id, index in expand_chunk_sets(updated_chunks(changes.attached)).items():
        chunks[node_id] = np.concatenate([chunks[node_id], index]) if node_id in chunks else index
    return replace(log, updated_chunks=chunks)


def _log_without_attached(snapshot: SnapshotId, changes: ChangeSet) -> TransactionLog:
    current = {node.id: node for node in changes.edited.values() if node is not None}

    def ids(wanted: set[NodeId], *, arrays: bool) -> npt.NDArray[np.uint8]:
        return _id_column([i for i in wanted if (current[i].array is not None) == arrays])

    gone = changes.deleted.values()
    return TransactionLog(
        id=snapshot,
        new_groups=ids(changes.created, arrays=False),
        new_arrays=ids(changes.created, arrays=True),
        deleted_groups=_id_column([node.id for node in gone if node.array is None]),
        deleted_arrays=_id_column([node.id for node in gone if node.array is not None]),
        updated_groups=ids(changes.updated, arrays=False),
        updated_arrays=ids(changes.updated, arrays=True),
        updated_chunks={
            node_id: pending.changes().index for node_id, pending in changes.chunks.items()
        },
        moved=tuple(sorted(changes.moved.values(), key=lambda move: move.to_path.segments)),
    )


def _write_manifests(
    files: Files, request: CommitRequest, outgoing: Outgoing
) -> tuple[list[Node], dict[ManifestId, ManifestFile]]:
    """Every node that changed, and the details of manifests, old and new."""
    changes = request.changes
    nodes = {node.id: node for node in changes.edited.values() if node is not None}
    for node_id in changes.chunks:
        if node_id not in nodes:
            path = changes.path_of(node_id)
            node = None if path is None else changes.find_node(path)
            if node is None:
                raise InternalError(f"chunks were changed of an unknown node {node_id}")
            nodes[node_id] = node
    known = {file.id: file for file in request.base.manifest_files}
    known |= {
        each.file.id: each.file
        for some in changes.attached.values()
        for each in some
        if isinstance(each, AttachedManifest)
    }
    pending = {node_id: chunks.changes() for node_id, chunks in changes.chunks.items()}
    counts = {file.id: file.num_refs for file in known.values()}
    reused = _reusable(request.written or {}, nodes, pending)
    todo = [node for node_id, node in nodes.items() if node_id not in reused]
    stored, new = store_arrays(files, todo, pending, counts, outgoing)
    if request.written is not None:
        request.written.update(_written_arrays(todo, stored, pending, new))
    for node_id, earlier in reused.items():
        node = nodes[node_id]
        if node.array is not None:
            array = replace(node.array, manifests=earlier.manifests)
            stored.append(replace(node, array=array))
            new += earlier.files
    return stored, known | {file.id: file for file in new}


def _reusable(
    written: Written, nodes: Mapping[NodeId, Node], pending: Mapping[NodeId, ChunkChanges]
) -> Written:
    return {
        node_id: earlier
        for node_id, earlier in written.items()
        if node_id in nodes and earlier.serves(nodes[node_id], pending.get(node_id))
    }


def _written_arrays(
    nodes: Sequence[Node],
    stored: Sequence[Node],
    pending: Mapping[NodeId, ChunkChanges],
    new: Sequence[ManifestFile],
) -> Written:
    """Arrays with changed chunks, before and after."""
    files = {file.id: file for file in new}
    return {
        before.id: WrittenArray(
            before=before.array,
            changes=pending[before.id],
            manifests=after.array.manifests,
            files=tuple(files[ref.id] for ref in after.array.manifests if ref.id in files),
        )
        for before, after in zip(nodes, stored, strict=True)
        if before.id in pending and before.array is not None and after.array is not None
    }


def _manifest_files(
    used: npt.NDArray[np.uint8], base: Snapshot, known: Mapping[ManifestId, ManifestFile]
) -> tuple[ManifestFile, ...]:
    """Particulars of every manifest in use, (n, 12), by id."""
    ids = sorted({raw.tobytes() for raw in used})
    try:
        return tuple(known[ManifestId(raw)] for raw in ids)
    except KeyError as error:
        raise FormatError(
            f"an array uses manifest {error.args[0]}, which the snapshot does not list",
            kind="manifest-info-not-found",
            where=snapshot_key(base.id),
        ) from error


def require_tip(info: RepoInfo, request: CommitRequest) -> None:
    row = history.branch_row(info, request.branch, kind="branch-not-found")
    tip = history.snapshot_id(info, row)
    if tip != request.base.id:
        raise ConflictError(
            message=f"Failed to commit, expected parent: {str(request.base.id)!r},"
            f" actual parent: {str(tip)!r}",
            expected_parent=str(request.base.id),
            actual_parent=str(tip),
        )


def require_moves_allowed(info: RepoInfo, request: CommitRequest, *, doing: str) -> None:
    if request.changes.moved:
        require_enabled(info, MOVE_NODE, doing=doing)


def _require_sound_clock(files: Files, snapshot: Snapshot) -> None:
    stored_at_us = files.store.head(snapshot_key(snapshot.id)).modified_at_us
    if abs(stored_at_us - snapshot.flushed_at_us) > _MAX_CLOCK_SKEW_US:
        raise FormatError(
            "snapshot timestamp is invalid, please verify if the machine clock has drifted:"
            f" {snapshot.flushed_at_us} us here, {stored_at_us} us in the object store",
            kind="snapshot-timestamp",
        )


def _id_column(ids: list[NodeId]) -> npt.NDArray[np.uint8]:
    """(n, 8), in ascending order."""
    raw = b"".join(sorted(node_id.raw for node_id in ids))
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, NodeId.size)


# Manifests encoded at a time: more would need memory and no less time.
_AT_ONCE = max(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """The manifests that an array keeps, and the contents of its new ones (`parts`)."""

    node: Node
    keep: tuple[ManifestRef, ...]
    parts: Sequence[ChunkRefs]
    unchanged: bool = False


def store_arrays(
    files: Files,
    nodes: Sequence[Node],
    changes: Mapping[NodeId, ChunkChanges],
    counts: Mapping[ManifestId, int],
    outgoing: Outgoing,
) -> tuple[list[Node], list[ManifestFile]]:
    """The nodes with manifests that reflect the changes, and those of them that are new.

    `counts` are the references of stored manifests, as far as known.
    """

    def plan(node: Node) -> _Planned:
        return _plan_array(files, node, changes.get(node.id), counts)

    planned = files.pool.map(plan, nodes)
    parts = [(each.node.id, part) for each in planned for part in each.parts]

    def put(rows: list[int]) -> ManifestFile:
        manifest = Manifest(id=ManifestId.random(), arrays=dict(parts[row] for row in rows))
        file = files.put_manifest(manifest, outgoing)
        files.caches.manifests.remember(manifest.id, manifest)  # the next commit may change it
        return file

    shares = share_manifests(parts)
    written = files.pool.map(put, shares, at_most=_AT_ONCE)
    ids = {row: file.id for rows, file in zip(shares, written, strict=True) for row in rows}
    refs = iter(
        ManifestRef(id=ids[row], extents=part.bounding_box()) for row, (_, part) in enumerate(parts)
    )
    stored = [_with_manifests(each, [next(refs) for _ in each.parts]) for each in planned]
    return stored, written


def _with_manifests(planned: _Planned, new: list[ManifestRef]) -> Node:
    node = planned.node
    if planned.unchanged or node.array is None:
        return node
    return replace(node, array=replace(node.array, manifests=(*planned.keep, *new)))


def _plan_array(
    files: Files, node: Node, changes: ChunkChanges | None, counts: Mapping[ManifestId, int]
) -> _Planned:
    array = node.array
    if array is None or (changes is None and not array.manifests):
        return _Planned(node, (), (), unchanged=True)
    changes = changes or ChunkChanges.none(len(array.num_chunks))
    if is_automatic(files.settings.splitting):
        return _plan_bands(files, node, array, changes, counts)
    return _plan_cells(files, node, array, changes)


def _plan_cells(files: Files, node: Node, array: ArrayData, changes: ChunkChanges) -> _Planned:
    """Plans manifests by the splitting rules of the configuration."""
    grid = array.num_chunks
    cell = cell_sizes(files.settings.splitting, node)
    plan = plan_manifests(array.manifests, changes.index, grid=grid, cell=cell)
    if not plan.rewrite and not len(changes.refs):
        return _Planned(node, (), (), unchanged=True)
    refs = _merge_refs(files, node, plan.rewrite, changes).within(grid)
    return _Planned(node, plan.keep, split(refs, cell))


def _plan_bands(
    files: Files,
    node: Node,
    array: ArrayData,
    changes: ChunkChanges,
    counts: Mapping[ManifestId, int],
) -> _Planned:
    """Plans manifests by the number of references."""
    grid, current = array.num_chunks, array.manifests
    touched = len(changes.refs) + len(changes.deleted)
    few = len(current) <= FEW and touched + sum(counts.get(ref.id, 0) for ref in current) <= MOST
    if few and touched and (current or len(changes.refs)):  # the answer of in_bands, but faster
        refs = _merge_refs(files, node, current, changes).within(grid)
        return _Planned(node, (), [refs] if len(refs) else [])
    stored = Stored.of(current, [counts.get(ref.id, 0) for ref in current], grid)
    found = in_bands(
        changes.index,
        stored,
        grid=grid,
        most=MOST,
        merged=lambda rewritten: _merge_refs(files, node, rewritten, changes).within(grid),
    )
    if found is None:
        return _Planned(node, (), (), unchanged=True)
    return _Planned(node, found.keep, found.parts)


def _merge_refs(
    files: Files, node: Node, rewritten: Sequence[ManifestRef], changes: ChunkChanges
) -> ChunkRefs:
    """References of the array in these manifests, with the changes applied."""
    loaded = files.pool.map(lambda ref: refs_in(files, node, ref), rewritten)
    old = [refs for refs in loaded if refs is not None]
    if not old:
        return changes.refs
    return ChunkRefs.merged(ChunkRefs.concat(old), changes.refs, changes.deleted)


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
    united = collapse_log(unite_logs(new_id, [previous, log]))
    counts = [index.shape for index in united.updated_chunks.values()]
    require_log_fits(counts, max_bytes=files.max_log_bytes)
    with files.outgoing() as outgoing:
        outgoing.do(lambda: files.put_log(united))
        snapshot = _write_snapshot(files, entry.clock, request, new_id, outgoing)

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
    """Stores a snapshot that no branch refers to; its parent is the base of the session."""
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
