"""A repository, or some branches and tags of it, copied to another store, or brought up to date.

    plan      refs -> snapshots -> manifests -> chunks, less what the target has in full size
    execute   chunks, manifests, logs, snapshots; sizes compared; the entry point last

Names of objects are never used twice, so what is there under a name is not copied again. Before
the entry point is written there is no repository at the target, or the earlier one: an interrupted
copy is taken up by the next. Files that it left at a repository are garbage until then: they are
refreshed, and looked at again before and after the entry point changes (frazil.assets.reuse).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from frazil.assets.files import Files
from frazil.assets.settings import Settings
from frazil.errors import ObjectNotFoundError, ReadOnlyError, StorageError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.maintenance.copying.files import (
    NeededFiles,
    compare_files,
    lost_files,
    needed_files,
    with_stored_logs,
)
from frazil.maintenance.copying.joining import settled_snapshots
from frazil.maintenance.copying.origin import (
    Entry,
    JoinedRefs,
    Origin,
    Versions,
    publish_entry,
    read_origin,
)
from frazil.maintenance.copying.refs import with_rows
from frazil.maintenance.copying.target import require_elsewhere, require_no_strangers
from frazil.maintenance.copying.transfer import (
    Transferred,
    compare_contents,
    refresh_listed,
    transfer,
)
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, Listing, StoredInventory, keys_of
from frazil.maintenance.progress import Progress
from frazil.maintenance.reachable import ids_of_rows, reachable_rows
from frazil.objectstore.protocol import ObjectInfo, ObjectStore
from frazil.objectstore.wrappers import Overlay
from frazil.repo.repository import Repository

_TRIES = 3  # to have an object at the target


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClonePlan:
    """Files to be copied: `missing`, by kind, and `others`. `needed` is all that a copy has.

    `reused` are files at the target that nothing there refers to yet. `settled` are snapshots that
    its refs lead to, with all that they consist of.
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

    @property
    def branches(self) -> tuple[str, ...]:
        return tuple(sorted(self.origin.info.branches))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted(self.origin.info.tags))

    @property
    def snapshots(self) -> int:
        return len(self.origin.info.snapshots)

    @property
    def exists(self) -> bool:
        """True if there is a repository at the target."""
        return bool(self.found)

    @property
    def objects(self) -> int:
        """To be copied."""
        return sum(map(len, self.missing)) + len(self.others)

    @property
    def bytes(self) -> int:
        """To be copied."""
        return sum(part.total_bytes for part in self.missing) + sum(
            one.size_bytes for one in self.others
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """`objects` are those of the copy, `copied` those that were not there, `bytes` of these."""

    snapshots: int
    objects: int
    copied: int
    bytes: int
    updated: bool  # whether the entry point had to be written
    seconds: float = 0.0


def plan_clone(
    repository: Repository,
    target: ObjectStore,
    *,
    refs: Sequence[str] | None = None,
    basis: Sequence[SnapshotId] = (),
    joining: bool = False,
    invents_main: bool = False,
    entry: Entry | None = None,
    progress: Progress | None = None,
) -> ClonePlan:
    """Reads both sides, and writes nothing.

    Files of the snapshots `basis` are left out: the receiver has them. With `joining` the target
    may be of a later version, and keeps its settings; its branch main stays if the one of the
    source was only invented (see choose_refs). `entry` is another entry point for the same
    snapshots.
    Raises RefNotFoundError, ObjectNotFoundError, ReadOnlyError, ConflictError.
    """
    if not target.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    require_elsewhere(repository.store, target)
    files = _files_of(repository, Overlay(repository.store, target))
    origin = read_origin(repository, refs, files)
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
    needed, unsettled = _needed(files, origin.info, settled, progress)
    if basis:
        needed = needed.without(_basis(files, origin, basis, progress))
        origin = replace(origin, kept=())  # the receiver has an ops log of its own
    source_files, target_files = StoredInventory(repository.store), StoredInventory(target)
    needed = with_stored_logs(needed, source_files, target_files)
    unsettled = unsettled if found else NeededFiles.none()  # no repository, no garbage collection
    compared = list(compare_files(needed, unsettled, source_files, target_files))
    return ClonePlan(
        repository=repository,
        target=target,
        origin=origin,
        needed=needed,
        missing=tuple(each.missing for each in compared),
        reused=tuple(each.reused for each in compared),
        others=_missing_others(repository.store, target, origin.kept),
        settled=settled,
        found=found,
    )


def _needed(
    files: Files, info: RepoInfo, settled: IdSet, progress: Progress | None
) -> tuple[NeededFiles, NeededFiles]:
    """Files of all snapshots, and those of snapshots that are not settled, less what others have.

    Each manifest is read once.
    """
    rows = np.arange(len(info.snapshots))
    old = settled.contains(ids_of_rows(info, rows))
    if not old.any():
        needed = needed_files(files, info, progress=progress)
        return needed, needed
    kept = needed_files(files, info, rows=rows[old].tolist(), progress=progress)
    new = needed_files(
        files,
        info,
        rows=rows[~old].tolist(),
        known=kept.ids[FileKind.MANIFEST],
        progress=progress,
    )
    return kept.union(new), new.without(kept)


def clone(
    plan: ClonePlan, *, check_contents: bool = False, progress: Progress | None = None
) -> CloneResult:
    """Raises StorageError if what arrived is not what was sent, ConflictError."""
    started = perf_counter()
    pool, target = plan.repository.files.pool, plan.target
    done = transfer(
        plan.repository.store, target, plan.missing, plan.others, pool=pool, progress=progress
    )
    take_up(plan, progress=progress)
    require_arrived(plan)
    if check_contents:
        every = [_listing_of(plan, place) for place in range(len(plan.missing))]
        compare_contents(plan.repository.store, target, every, pool=pool, progress=progress)
    return replace(result_of(plan, done, updated=publish(plan)), seconds=perf_counter() - started)


def take_up(plan: ClonePlan, *, progress: Progress | None = None) -> None:
    """Refreshes what an earlier try left, and copies again what is gone."""
    pool, source = plan.repository.files.pool, plan.repository.store
    lost = refresh_listed(plan.target, plan.reused, pool=pool, progress=progress)
    transfer(source, plan.target, lost, pool=pool)


def publish(plan: ClonePlan) -> bool:
    """Makes all that was copied visible; True if there was anything new to see."""
    reused = any(map(len, plan.reused))
    clock = plan.repository.clock
    for attempt in range(_TRIES):
        try:
            updated = publish_entry(plan.origin.entry, plan.target, plan.found, plan.settled, clock)
            break
        except ObjectNotFoundError:
            if not reused or attempt == _TRIES - 1:
                raise
            require_arrived(plan)  # a collection that was under way had it on its list
    plan.target.sync()
    if reused:
        require_arrived(plan)
    return updated


def result_of(plan: ClonePlan, done: Transferred, *, updated: bool) -> CloneResult:
    return CloneResult(
        snapshots=plan.snapshots,
        objects=len(plan.needed) + len(plan.origin.kept),
        copied=done.objects,
        bytes=done.bytes,
        updated=updated,
    )


def _files_of(repository: Repository, store: ObjectStore) -> Files:
    settings = Settings.of(repository.config, spec_version=repository.spec_version)
    return Files(store, settings)


def _basis(
    files: Files, origin: Origin, basis: Sequence[SnapshotId], progress: Progress | None
) -> NeededFiles:
    info = origin.info
    known = [row for one in basis if (row := info.snapshots.find(one)) >= 0]
    rows = reachable_rows(info, known)
    only = with_rows(_without_refs(origin), rows)
    return needed_files(files, only, progress=progress)


def _without_refs(origin: Origin) -> RepoInfo:
    return replace(origin.info, branches={}, tags={})


def _missing_others(
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


def require_arrived(plan: ClonePlan) -> None:
    """By one more listing: less work for the store than a question for each object.

    Copies once more what is not there. Raises StorageError if that does not help.
    """
    expected = [*plan.missing, *plan.reused]
    if not any(map(len, expected)):
        return
    for attempt in range(_TRIES):
        lost = lost_files(expected, StoredInventory(plan.target))
        if not lost:
            return
        if attempt < _TRIES - 1:
            pool = plan.repository.files.pool
            transfer(plan.repository.store, plan.target, lost, pool=pool)
    key = keys_of(lost[0].kind, lost[0].ids[:1])[0]
    raise StorageError(f"{key!r} did not arrive at the target in full")


def _listing_of(plan: ClonePlan, place: int) -> Listing:
    kind = plan.missing[place].kind
    ids = plan.needed.ids[kind].ids()
    nothing = np.zeros(len(ids), np.uint64)
    return Listing(kind, ids, nothing, nothing.astype(np.int64))
