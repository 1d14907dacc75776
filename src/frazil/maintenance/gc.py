"""Garbage collection: deletes files that are no longer reachable.

    kept snapshots    reachable from branches and tags, and young ones: a commit may be about to
                      refer to them, or a reader who has their ids may be reading
    kept files        reachable from kept snapshots
    garbage           files that are not kept and older than a time, by the clock of the storage

Times protect what is being written: no file refers to a session's chunks until it is committed. So
the time must lie further back than any session has been open (see `safety_age`).

The plan is made first (`plan_gc`). Its execution deletes staged commits of writers that died, and
writes the repo info without the snapshots that are dropped, so that no session can start from them.
Then files are deleted, snapshots before the files that they refer to: a failure leaves unreachable
files, for the next collection. If the repo info has changed since the plan in a way that matters (a
ref or a new snapshot stands on one that is dropped), the plan is made again.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from frazil.clock import to_datetime
from frazil.engine.files.object_keys import OVERWRITTEN, branch_key
from frazil.engine.group.staging import Leftovers, find_leftovers
from frazil.engine.refs.entry import attempts, attempts_exhausted_error, require_online
from frazil.engine.refs.ops_log import PageMerge, follow
from frazil.engine.repository import Repository
from frazil.errors import (
    FormatError,
    IcechunkError,
    InvalidInputError,
    ObjectNotFoundError,
    SessionStateError,
)
from frazil.format.generation import Generation
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFiles
from frazil.format.update_log import (
    BranchCreated,
    BranchReset,
    CommitAmended,
    GCRan,
    NewCommit,
    UpdateKind,
)
from frazil.ids import SnapshotId
from frazil.maintenance.executor import Executor
from frazil.maintenance.expire import adoptions, nearest_of, require_writable, retain_snapshots
from frazil.maintenance.gc_tasks import GCWork
from frazil.maintenance.id_sets import Ids, IdSet, KeySet
from frazil.maintenance.inventory import (
    Deleted,
    DeleteLimits,
    FileKind,
    Inventory,
    Listing,
    StoredInventory,
    delete_keys,
    list_files,
)
from frazil.maintenance.migration_journal import read_journal
from frazil.maintenance.reachable import (
    Budget,
    ids_of_rows,
    merge_manifest_files,
    reachable_rows,
    root_rows,
)
from frazil.maintenance.summaries import GCSummary
from frazil.objectstore.protocol import ObjectInfo, ObjectStore

# Leftovers of killed writers that are not garbage by their ids.
#
# backups         `overwritten/`: a copy of the entry point for each change, never deleted
# staging         branches on which a killed job was working
# temporary       files beside those of a local directory

STAGING = "frazil-staging-"  # how names of such branches begin
_MERGED_ENTRIES = 1_000_000  # of the ops log in one backup: 3 s and 500 MB to merge them
_SETTLED_AFTER_US = 3_600_000_000  # then no one asks any more which updates were stored


@dataclass(frozen=True, slots=True)
class OldBackups:
    files: tuple[ObjectInfo, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def without(self, keys: Container[str]) -> "OldBackups":
        return OldBackups(tuple(file for file in self.files if file.key not in keys))


def old_backups(repository: Repository, inventory: Inventory, older_than_us: int) -> OldBackups:
    """Backups that are older and that the ops log will not go on in after the collection."""
    listed = inventory.others(OVERWRITTEN)
    found = OldBackups(tuple(each for each in listed if each.modified_at_us < older_than_us))
    merged = _page_merge(repository, older_than_us).pages(repository.repo_info())
    return _unneeded(repository, found, merged=merged)


def _unneeded(
    repository: Repository, backups: OldBackups, *, merged: Container[str] = ()
) -> OldBackups:
    """Backups in which the ops log does not go on, and those that are merged.

    With each change it goes on in others, since all entries move by one. The collection begins a
    page with its own entry, so that all later states of the log go on in the same pages.
    """
    if not repository.has_ops_log:
        return backups
    first = repository.repo_info().before_updates
    found = follow(first, repository.files.fetch_log_page)
    is_there = {name: page is not None for name, page in found}
    if not all(is_there.values()) and repository.repo_info().before_updates != first:
        return OldBackups(())  # another collection has just merged these pages
    return backups.without({OVERWRITTEN + name for name in is_there if name not in merged})


def _page_merge(repository: Repository, older_than_us: int) -> PageMerge:
    settled_us = min(older_than_us, repository.clock() - _SETTLED_AFTER_US)
    fetch_page = cache(repository.files.fetch_log_page)
    return PageMerge(fetch_page, settled_us, _MERGED_ENTRIES)


def stale_branches(repository: Repository, older_than_us: int) -> tuple[str, ...]:
    """Branches of jobs that died: nothing was done to them since."""
    names = [name for name in sorted(repository.branches()) if name.startswith(STAGING)]
    if not names:
        return ()
    if not repository.has_ops_log:
        head = repository.store.head
        return tuple(n for n in names if head(branch_key(n)).modified_at_us < older_than_us)
    alive = set[str]()
    for update in repository.ops_log():
        if update.updated_at_us < older_than_us:
            break
        match update.kind:
            case BranchCreated(name) | BranchReset(name, _):
                alive.add(name)
            case NewCommit(name, _) | CommitAmended(name, _, _):
                alive.add(name)
            case _:
                pass
    return tuple(name for name in names if name not in alive)


def collect_temporary(store: ObjectStore, older_than_us: int, now_us: int) -> int:
    """The number of temporary files removed. Only local directories have any."""
    return store.collect_leftovers(max(0.0, (now_us - older_than_us) / 1e6))


PHASES = {
    FileKind.SNAPSHOT: "snapshots",
    FileKind.TRANSACTION: "transaction_logs",
    FileKind.MANIFEST: "manifests",
    FileKind.CHUNK: "chunks",
}
"""Kinds of files in the order in which they are deleted, with their names in the summary."""

type Show = Callable[[Listing], None]

_DELETED_AT_ONCE = 50_000  # files, between two reads of the repo info
_DOING = "collecting garbage"
_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GCRequest:
    cutoff_us: int  # files that are as young, or younger, stay
    incremental: bool = False  # look only at files of snapshots that are dropped
    safety_age_us: int = 0  # the least age that a cutoff must have
    backups_us: int | None = None  # backups of the entry point that are older are deleted, too
    leftovers: bool = False  # also staging branches and temporary files of killed jobs


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Ids of the files that stay."""

    snapshots: IdSet
    logs: IdSet
    manifests: IdSet
    chunks: KeySet  # of a plan that a cluster made only those that came since

    def of(self, kind: FileKind) -> IdSet | KeySet:
        match kind:
            case FileKind.SNAPSHOT:
                return self.snapshots
            case FileKind.TRANSACTION:
                return self.logs
            case FileKind.MANIFEST:
                return self.manifests
            case FileKind.CHUNK:
                return self.chunks

    def union(self, other: "Kept") -> "Kept":
        return Kept(
            IdSet.union([self.snapshots, other.snapshots]),
            IdSet.union([self.logs, other.logs]),
            IdSet.union([self.manifests, other.manifests]),
            KeySet.union([self.chunks, other.chunks]),
        )

    @property
    def nbytes(self) -> int:
        return sum(self.of(kind).nbytes for kind in PHASES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GCPlan:
    request: GCRequest
    inventory: Inventory
    budget: Budget
    info: RepoInfo  # without the stale branches
    dropped: IdSet  # snapshots that the repo info will no longer list
    kept: Kept
    garbage: Mapping[FileKind, Listing]
    stale_branches: tuple[str, ...] = ()
    backups: OldBackups | None = None

    def counts(self) -> dict[FileKind, int]:
        return {kind: len(self.garbage[kind]) for kind in PHASES}

    @property
    def total_bytes(self) -> int:
        return sum(listing.total_bytes for listing in self.garbage.values())

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns that the collection holds."""
        rows = sum(len(listing) for listing in self.garbage.values())
        return self.kept.nbytes + 28 * rows

    def summary(self) -> GCSummary:
        """The summary of a dry run: what the collection would delete."""
        deleted = {
            kind: Deleted(len(listing), listing.total_bytes)
            for kind, listing in self.garbage.items()
        }
        return _with_backups(_summary(self, deleted), self.backups, failed=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Snapshots:
    """Snapshots that stay, by the reason, and those that are dropped."""

    reachable: Ids
    young: Ids  # listed in the repo info, or files only
    dropped: Ids
    logs: Ids = field(default_factory=lambda: np.zeros((0, 12), np.uint8))  # of dropped ancestors

    @property
    def kept(self) -> IdSet:
        return IdSet.of(np.concatenate([self.reachable, self.young]))


class _RestartError(Exception):
    """The plan no longer fits the repository."""


def require_safe(request: GCRequest, now_us: int) -> None:
    """Raises InvalidInputError if an open session may have written what would be deleted."""
    if request.safety_age_us <= 0 or request.cutoff_us <= now_us - request.safety_age_us:
        return
    raise InvalidInputError(
        f"refusing to collect what is older than {to_datetime(request.cutoff_us).isoformat()}: a"
        " session that is still open may have written it. Choose a time at least"
        f" {request.safety_age_us / _US:g} s ago, or, if no session has been open for so long,"
        " give a smaller safety age (0 for none)",
        kind="invalid-key",
    )


# Planning


def plan_gc(
    repository: Repository,
    request: GCRequest,
    executor: Executor,
    *,
    inventory: Inventory | None = None,
    budget: Budget | None = None,
) -> GCPlan:
    """Reads; changes nothing. `inventory` lists the files, by default the storage itself."""
    listed = inventory or StoredInventory(repository.store)
    # Before the collection makes an entry in the ops log: a dry run must find the same.
    old = request.backups_us
    backups = None if old is None else old_backups(repository, listed, old)
    stale = stale_branches(repository, request.cutoff_us) if request.leftovers else ()
    require_writable(repository, doing=_DOING)
    require_online(repository.repo_info(), doing=_DOING)
    _require_confirmed(repository)
    require_safe(request, repository.clock())
    info = repository.maintained_info()
    for name in stale:
        info = info.without_branch(name)
    work = GCWork(executor, listed, budget or Budget())
    files = list_files(listed, FileKind.SNAPSHOT)
    chosen = _choose(repository, info, files, request.cutoff_us)
    manifests = merge_manifest_files(
        [work.manifests(chosen.reachable), _list_manifests(work, chosen.young)]
    )
    snapshots = chosen.kept
    logs = IdSet.union([snapshots, IdSet.of(chosen.logs)])
    found = _Found(files, manifests, snapshots, logs)
    find = _find_incrementally if request.incremental else _find_all
    kept, garbage = find(work, found, request.cutoff_us)
    return GCPlan(
        request=request,
        inventory=listed,
        budget=work.budget,
        info=info,
        dropped=IdSet.of(chosen.dropped),
        kept=kept,
        garbage=garbage,
        stale_branches=stale,
        backups=backups,
    )


def _require_confirmed(repository: Repository) -> None:
    """A migration keeps the old files until it is confirmed: they would be garbage."""
    if read_journal(repository.store) is not None:
        raise SessionStateError(
            "the repository was migrated, and its old files are kept until that is confirmed:"
            " confirm the migration first (frazil migrate --confirm)"
        )


def _choose(repository: Repository, info: RepoInfo, files: Listing, cutoff_us: int) -> _Snapshots:
    rows = reachable_rows(info, root_rows(info))
    reachable = ids_of_rows(info, rows)
    is_young = files.created_at_us >= cutoff_us
    strangers = files.ids[is_young]
    if repository.spec_version == 1:  # no list of snapshots: the rest are files only
        return _Snapshots(reachable, strangers, np.zeros((0, 12), np.uint8))
    ids = info.snapshots.ids
    stays = ~IdSet.of(files.ids[~is_young]).contains(ids)  # young, or not listed yet
    young = np.concatenate([ids[stays], strangers])
    stays[rows] = True
    adopted = adoptions(info, stays, nearest_of(info, stays))
    named = info.snapshots.table.vector("pruned_ancestor_tx_logs").take(np.flatnonzero(stays))
    logs = [named.values, *(adoption.logs for adoption in adopted.values())]
    return _Snapshots(reachable, young, ids[~stays], np.concatenate(logs))


def _list_manifests(
    work: GCWork, snapshots: Ids, *, damaged: type[IcechunkError] = ObjectNotFoundError
) -> ManifestFiles:
    """Manifests that these snapshots list; those that are missing, or `damaged`, list none."""
    distinct = IdSet.of(snapshots).ids()
    try:
        return work.manifests(distinct)
    except (ObjectNotFoundError, damaged):
        pass
    found = ManifestFiles.none()
    for row in range(len(distinct)):
        with suppress(ObjectNotFoundError, damaged):
            found = merge_manifest_files([found, work.manifests(distinct[row : row + 1])])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    files: Listing  # of snapshots
    manifests: ManifestFiles  # to be kept
    snapshots: IdSet  # to be kept
    logs: IdSet  # to be kept


def _find_all(work: GCWork, found: _Found, cutoff_us: int) -> tuple[Kept, dict[FileKind, Listing]]:
    keys, chunks = work.unkept_chunks(found.manifests, cutoff_us)
    kept = Kept(found.snapshots, found.logs, IdSet.of(found.manifests.ids), keys)
    return kept, {
        FileKind.SNAPSHOT: _select_garbage(found.files, kept.snapshots, cutoff_us),
        FileKind.TRANSACTION: work.unkept(FileKind.TRANSACTION, kept.logs, cutoff_us),
        FileKind.MANIFEST: work.unkept(FileKind.MANIFEST, kept.manifests, cutoff_us),
        FileKind.CHUNK: chunks,
    }


def _find_incrementally(
    work: GCWork, found: _Found, cutoff_us: int
) -> tuple[Kept, dict[FileKind, Listing]]:
    """Only files of snapshots that are deleted, all of which are older than these."""
    snapshots = _select_garbage(found.files, found.snapshots, cutoff_us)
    listed, manifests = _list_manifests(work, snapshots.ids, damaged=FormatError), found.manifests
    gone = listed.take(~IdSet.of(manifests.ids).contains(listed.ids))
    keys, chunks = work.unkept_chunks(manifests, cutoff_us, gone)
    kept = Kept(found.snapshots, found.logs, IdSet.of(manifests.ids), keys)
    logs = snapshots.take(~kept.logs.contains(snapshots.ids))
    return kept, {
        FileKind.SNAPSHOT: snapshots,
        FileKind.TRANSACTION: _make_listing(FileKind.TRANSACTION, logs.ids),
        FileKind.MANIFEST: _make_listing(FileKind.MANIFEST, gone.ids, gone.size_bytes),
        FileKind.CHUNK: chunks,
    }


def _select_garbage(files: Listing, keep: IdSet | KeySet, cutoff_us: int) -> Listing:
    return files.take((files.created_at_us < cutoff_us) & ~keep.contains(files.ids))


def _make_listing(
    kind: FileKind, ids: Ids, size_bytes: npt.NDArray[np.uint64] | None = None
) -> Listing:
    count = len(ids)
    sizes = np.zeros(count, np.uint64) if size_bytes is None else size_bytes
    return Listing(kind, ids, sizes, np.zeros(count, np.int64))


# Execution


def collect_garbage(
    repository: Repository,
    plan: GCPlan,
    executor: Executor,
    *,
    limits: DeleteLimits | None = None,
    show: Show | None = None,
) -> GCSummary:
    """Executes a plan, and plans again if the repository has changed in a way that matters.

    `show` is called with the files before they are deleted.
    """
    request = plan.request
    require_safe(request, repository.clock())
    limits = replace(limits or DeleteLimits(), older_than_us=request.cutoff_us)
    for name in plan.stale_branches:
        repository.delete_branch(name)
    attempt = plan
    for _ in attempts(repository.files.settings):
        try:
            summary = _execute(repository, attempt, executor, limits, show or (lambda _: None))
            break
        except _RestartError:
            attempt = plan_gc(
                repository, request, executor, inventory=plan.inventory, budget=plan.budget
            )
    else:
        raise attempts_exhausted_error(repository.files.settings)
    summary = replace(summary, branches_deleted=len(plan.stale_branches))
    if request.leftovers:
        removed = collect_temporary(repository.store, request.cutoff_us, repository.clock())
        summary = replace(summary, temporary_files_deleted=removed)
    if plan.backups is None or summary.objects_failed_to_delete:
        return summary
    backups = _unneeded(repository, plan.backups)
    failed = delete_keys(repository.store, [file.key for file in backups.files]).failed
    return _with_backups(summary, backups, failed=failed)


def _execute(
    repository: Repository, plan: GCPlan, executor: Executor, limits: DeleteLimits, show: Show
) -> GCSummary:
    """Raises _RestartError."""
    work = GCWork(executor, plan.inventory, plan.budget)
    staged = _drop_tickets(repository, plan)
    kept = _catch_up(plan.kept, work, _drop_snapshots(repository, plan))
    repository.store.delete(staged.others)
    deleted: dict[FileKind, Deleted] = {}
    phases = list(PHASES)[::-1] if plan.request.incremental else list(PHASES)
    # Incrementally, files are found by the snapshots that refer to them, which come last therefore.
    while phases:
        kind = phases.pop(0)
        listing, total = plan.garbage[kind], Deleted()
        deleted[kind] = total
        for start in range(0, len(listing), _DELETED_AT_ONCE):
            # Deleting takes long: files of new commits stay (docs/design/029).
            kept = _catch_up(kept, work, repository.repo_info())
            some = listing.take(slice(start, start + _DELETED_AT_ONCE))
            some = some.take(~kept.of(kind).contains(some.ids))
            show(some)
            total.add(work.delete(some, limits))
            if total.failed:
                break
        if total.failed:
            break
    return _summary(plan, deleted, skipped=phases)


def _drop_tickets(repository: Repository, plan: GCPlan) -> Leftovers:
    """Deletes commits that wait to be made and never should; the other leftovers are for later.

    Before the swap, which no writer that has read them can survive: docs/design/035.
    """
    if repository.generation is not Generation.V2:
        return Leftovers((), ())
    chunks = plan.garbage[FileKind.CHUNK]
    staged = find_leftovers(
        repository.files,
        cutoff_us=plan.request.cutoff_us,
        now_us=repository.clock(),
        is_garbage=lambda ids: IdSet.of(chunks.ids).contains(ids),
    )
    repository.store.delete(staged.tickets)
    return staged


def _drop_snapshots(repository: Repository, plan: GCPlan) -> RepoInfo:
    """Writes the repo info without them, and returns it. Raises _RestartError."""
    if repository.spec_version == 1:
        return repository.repo_info()  # has no list of snapshots: those to drop are in no history
    known = IdSet.of(plan.info.snapshots.ids)

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        ids, parents = info.snapshots.ids, info.snapshots.parents
        goes = plan.dropped.contains(ids)
        refs = [*info.branches.values(), *info.tags.values()]
        is_new = ~known.contains(ids)
        on_one_that_goes = goes[parents] & (parents >= 0)
        if goes[refs].any() or (is_new & on_one_that_goes).any():
            raise _RestartError
        adopted = adoptions(info, ~goes, nearest_of(info, ~goes))
        return retain_snapshots(info, ~goes, adopted), GCRan()

    # From then on the log goes on in backups that stay: see _unneeded.
    new_page = None
    if plan.request.backups_us is not None:
        new_page = _page_merge(repository, plan.request.backups_us)
        new_page.pages(repository.repo_info())  # read before there is a race to win
    return repository.entry.update(change, doing=_DOING, new_page=new_page)


def _catch_up(kept: Kept, work: GCWork, info: RepoInfo) -> Kept:
    """Adds the files of snapshots that were committed since; `info` is the current repo info."""
    ids = info.snapshots.ids
    if info.spec_version == 1:
        ids = ids_of_rows(info, reachable_rows(info, root_rows(info)))
    new = ~kept.snapshots.contains(ids)
    if not new.any():
        return kept
    logs = [info.snapshots.pruned_logs(row) for row in np.flatnonzero(new).tolist()]
    named = id_column([raw for some in logs for raw in some], SnapshotId.size)
    snapshots = ids[new]
    manifests, own = _list_manifests(work, snapshots), IdSet.of(snapshots)
    return kept.union(
        Kept(
            own,
            IdSet.union([own, IdSet.of(named)]),
            IdSet.of(manifests.ids),
            work.chunks(manifests),
        )
    )


def _summary(
    plan: GCPlan, deleted: Mapping[FileKind, Deleted], skipped: Iterable[FileKind] = ()
) -> GCSummary:
    total = Deleted()
    for each in deleted.values():
        total.add(each)
    counts = {
        f"{name}_deleted": deleted[kind].objects for kind, name in PHASES.items() if kind in deleted
    }
    return GCSummary(
        **counts,
        bytes_deleted=total.size_bytes,
        objects_failed_to_delete=total.failed,
        throttled_batches=total.throttled,
        delete_errors=list(total.errors),
        skipped_phases=[PHASES[kind] for kind in skipped],
        branches_deleted=len(plan.stale_branches),
        peak_memory_bytes=plan.memory_bytes,
    )


def _with_backups(summary: GCSummary, backups: OldBackups | None, *, failed: int) -> GCSummary:
    if backups is None:
        return summary
    return replace(
        summary,
        backups_deleted=len(backups.files) - failed,
        bytes_deleted=summary.bytes_deleted + (0 if failed else backups.size_bytes),
        objects_failed_to_delete=failed,
    )
