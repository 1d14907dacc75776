"""Copies a repository, or some branches and tags of it, to another store, or updates a copy.

    plan      refs -> snapshots -> manifests -> chunks, less what the target has in full size
    execute   chunks, manifests, logs, snapshots; sizes compared; the entry point last

Names of objects are never used twice, so what is there under a name is not copied again. Before
the entry point is written there is no repository at the target, or the earlier one: an interrupted
copy is resumed by the next. Files that it left at a repository are garbage until then: they are
refreshed, and looked at again before and after the entry point changes (frazil.engine.files.reuse).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from frazil.engine.files.files import Files
from frazil.engine.files.settings import Settings
from frazil.engine.repository import Repository
from frazil.errors import ObjectNotFoundError, ReadOnlyError, StorageError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.maintenance.copying.cluster_copy import (
    ChunkCounts,
    ClusterCopy,
    References,
    Role,
    plan_cluster_copy,
)
from frazil.maintenance.copying.copied_refs import with_rows
from frazil.maintenance.copying.needed_files import (
    NeededFiles,
    compare_files,
    lost_files,
    needed_files,
    with_stored_logs,
)
from frazil.maintenance.copying.origin import (
    Entry,
    JoinedRefs,
    Origin,
    Versions,
    publish_entry,
    read_origin,
    settled_snapshots,
)
from frazil.maintenance.copying.transfer import (
    compare_contents,
    refresh_listed,
    require_elsewhere,
    require_no_strangers,
    transfer,
)
from frazil.maintenance.executor import Executor, ThreadExecutor, find_cluster, quiet_files
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, Listing, StoredInventory, keys_of
from frazil.maintenance.reachable import ids_of_rows, reachable_rows
from frazil.objectstore.protocol import ObjectInfo, ObjectStore
from frazil.objectstore.wrappers import Overlay

_TRIES = 3  # to have an object at the target


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """Contents of a copy, and what was, or in a dry run would be, copied for it.

    `objects` are those of the copy and `copied` those that were not there, with `bytes` in them.
    `updated` tells whether refs were new; False after a dry run.
    """

    dry_run: bool
    exists: bool  # whether there was a copy before
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    objects: int
    copied: int
    bytes: int
    updated: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClonePlan:
    """Files to be copied: `missing`, by kind, and `others`. `needed` is all that a copy has.

    `reused` are files at the target that nothing there refers to yet. `settled` are snapshots
    reachable from its refs, with all that they consist of. On a cluster, chunk objects are in
    `chunks` and in none of the others.
    """

    repository: Repository
    target: ObjectStore
    origin: Origin
    needed: NeededFiles
    missing: tuple[Listing, ...]
    others: tuple[ObjectInfo, ...]
    reused: tuple[Listing, ...]
    settled: IdSet
    found: Versions
    chunks: ClusterCopy | None = None

    @property
    def _chunk_counts(self) -> ChunkCounts:
        return ChunkCounts() if self.chunks is None else self.chunks.counts

    @property
    def reuses(self) -> bool:
        return any(map(len, self.reused)) or self._chunk_counts.reused > 0

    @property
    def snapshots(self) -> int:
        return len(self.origin.info.snapshots)

    @property
    def objects(self) -> int:
        """Number of objects to be copied."""
        return sum(map(len, self.missing)) + len(self.others) + self._chunk_counts.missing

    @property
    def bytes(self) -> int:
        """Bytes to be copied."""
        listed = sum(part.total_bytes for part in self.missing)
        others = sum(one.size_bytes for one in self.others)
        return listed + others + self._chunk_counts.missing_bytes

    def result(
        self, *, dry_run: bool = False, updated: bool = False, seconds: float = 0.0
    ) -> CloneResult:
        info = self.origin.info
        return CloneResult(
            dry_run=dry_run,
            exists=bool(self.found),
            branches=tuple(sorted(info.branches)),
            tags=tuple(sorted(info.tags)),
            snapshots=self.snapshots,
            objects=len(self.needed) + len(self.origin.kept) + self._chunk_counts.needed,
            copied=self.objects,
            bytes=self.bytes,
            updated=updated,
            seconds=seconds,
        )


def plan_clone(
    repository: Repository,
    target: ObjectStore,
    executor: Executor | None = None,
    *,
    refs: Sequence[str] | None = None,
    basis: Sequence[SnapshotId] = (),
    joining: bool = False,
    invents_main: bool = False,
    entry: Entry | None = None,
) -> ClonePlan:
    """Reads both sides, and writes nothing.

    Files of the snapshots `basis` are left out: the receiver has them. With `joining` the target
    may be of a later version, and keeps its settings; its branch main stays if the one of the
    source was only invented (see choose_refs). `entry` is another entry point for the same
    snapshots. Raises RefNotFoundError, ObjectNotFoundError, ReadOnlyError, ConflictError.
    """
    if not target.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    require_elsewhere(repository.store, target)
    executor = executor or ThreadExecutor(quiet_files(repository))
    origin = read_origin(repository, refs, _files_of(repository, target))
    if entry is not None:
        origin = replace(origin, entry=entry)
    if joining and Repository.exists(target):
        origin = replace(origin, entry=JoinedRefs(origin.info, invents_main))
    found = origin.entry.find(target)
    if found:
        origin = replace(origin, kept=())  # its own ops log goes on
    else:
        require_no_strangers(target)
    settled = settled_snapshots(target) if found else IdSet.empty()
    needed, unsettled, references = _find_needed_files(executor, target, origin.info, settled)
    if basis:
        known = _basis(executor, target, origin, basis)
        needed, references = needed.without(known), [*references, (Role.BASIS, known.manifests)]
        origin = replace(origin, kept=())  # the receiver has an ops log of its own
    source_files, target_files = StoredInventory(repository.store), StoredInventory(target)
    needed = with_stored_logs(needed, source_files, target_files)
    unsettled = unsettled if found else NeededFiles.none()  # no repository, no garbage collection
    compared = list(compare_files(needed, unsettled, source_files, target_files))
    cluster = find_cluster(executor)
    return ClonePlan(
        repository=repository,
        target=target,
        origin=origin,
        needed=needed,
        missing=tuple(each.missing for each in compared),
        reused=tuple(each.reused for each in compared),
        others=_missing_entry_versions(repository.store, target, origin.kept),
        settled=settled,
        found=found,
        chunks=None
        if cluster is None
        else plan_cluster_copy(cluster, target, references, finds_reused=bool(found)),
    )


def _find_needed_files(
    executor: Executor, target: ObjectStore, info: RepoInfo, settled: IdSet
) -> tuple[NeededFiles, NeededFiles, References]:
    """Files of all snapshots, and those of snapshots that are not settled, less what others have.

    Each manifest is read once; of a cluster, later, by the references.
    """
    rows = np.arange(len(info.snapshots))
    old = settled.contains(ids_of_rows(info, rows))
    if not old.any():
        needed = needed_files(executor, info, target=target)
        return needed, needed, [(Role.NEW, needed.manifests)]
    kept = needed_files(executor, info, rows=rows[old].tolist(), target=target)
    new = needed_files(
        executor,
        info,
        rows=rows[~old].tolist(),
        known=kept.ids[FileKind.MANIFEST],
        target=target,
    )
    references = [(Role.SETTLED, kept.manifests), (Role.NEW, new.manifests)]
    return kept.union(new), new.without(kept), references


def clone(
    plan: ClonePlan, executor: Executor | None = None, *, check_contents: bool = False
) -> CloneResult:
    """Raises StorageError if what arrived is not what was sent, ConflictError."""
    started = perf_counter()
    executor = executor or ThreadExecutor(quiet_files(plan.repository))
    if plan.chunks is not None:
        plan.chunks.copy(plan.target)
    transfer(executor, plan.target, plan.missing, plan.others)
    lost = refresh_listed(executor, plan.target, plan.reused)  # an earlier try left them
    transfer(executor, plan.target, lost)
    _require_arrived(plan, executor)
    if check_contents:
        every = [_listing_of(plan, place) for place in range(len(plan.missing))]
        compare_contents(executor, plan.target, every)
        if plan.chunks is not None:
            plan.chunks.compare_contents(plan.target)
    updated = _publish(plan, executor)
    return plan.result(updated=updated, seconds=perf_counter() - started)


def _publish(plan: ClonePlan, executor: Executor) -> bool:
    """Makes all that was copied visible; True if there was anything new to see."""
    clock = plan.repository.clock
    for attempt in range(_TRIES):
        try:
            updated = publish_entry(plan.origin.entry, plan.target, plan.found, plan.settled, clock)
            break
        except ObjectNotFoundError:
            if not plan.reuses or attempt == _TRIES - 1:
                raise
            _require_arrived(plan, executor)  # a garbage collection had it on its list
    plan.target.sync()
    if plan.reuses:
        _require_arrived(plan, executor)
    return updated


def _files_of(repository: Repository, target: ObjectStore) -> Files:
    """Files of the source, and those that only the target has."""
    settings = Settings.of(repository.config, spec_version=repository.spec_version)
    return Files(Overlay(repository.store, target), settings)


def _basis(
    executor: Executor, target: ObjectStore, origin: Origin, basis: Sequence[SnapshotId]
) -> NeededFiles:
    info = origin.info
    known = [row for one in basis if (row := info.snapshots.find(one)) >= 0]
    only = with_rows(replace(info, branches={}, tags={}), reachable_rows(info, known))
    return needed_files(executor, only, target=target)


def _missing_entry_versions(
    source: ObjectStore, target: ObjectStore, keys: Sequence[str]
) -> tuple[ObjectInfo, ...]:
    """Earlier versions of the entry point: a folder of its own in both places."""
    if not keys:
        return ()
    folder = keys[0].partition("/")[0] + "/"
    there = {one.key: one.size_bytes for one in target.list(folder)}
    wanted = set(keys)
    return tuple(
        one
        for one in source.list(folder)
        if one.key in wanted and there.get(one.key) != one.size_bytes
    )


def _require_arrived(plan: ClonePlan, executor: Executor) -> None:
    """Lists the target once more: less work for the store than a request for each object.

    Copies once more what is not there. Raises StorageError if that does not help.
    """
    if plan.chunks is not None:
        plan.chunks.require_arrived(plan.target, _TRIES)
    expected = [*plan.missing, *plan.reused]
    if not any(map(len, expected)):
        return
    for attempt in range(_TRIES):
        lost = lost_files(expected, StoredInventory(plan.target))
        if not lost:
            return
        if attempt < _TRIES - 1:
            transfer(executor, plan.target, lost)
    key = keys_of(lost[0].kind, lost[0].ids[:1])[0]
    raise StorageError(f"{key!r} did not arrive at the target in full")


def _listing_of(plan: ClonePlan, place: int) -> Listing:
    """All files of a kind that the copy has."""
    kind = plan.missing[place].kind
    ids = plan.needed.ids[kind].ids()
    nothing = np.zeros(len(ids), np.uint64)
    return Listing(kind, ids, nothing, nothing.astype(np.int64))
