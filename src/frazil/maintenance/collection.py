"""Expiring and collecting as a whole: whichever the version, with backups and leftovers."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from frazil.maintenance.collect import PHASE_NAMES, Collected, collect
from frazil.maintenance.deleting import Deleted, DeleteLimits, delete_keys
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.maintenance.expire_v1 import expire_v1, plan_expire_v1
from frazil.maintenance.garbage import GarbageRequest, GarbageWork, require_safe
from frazil.maintenance.gc_summary import GCSummary
from frazil.maintenance.inventory import (
    CONCURRENT_LISTINGS,
    FileKind,
    Inventory,
    Listing,
    StoredInventory,
)
from frazil.maintenance.inventory_files import FileInventory
from frazil.maintenance.leftovers import collect_temporary, old_backups, stale_branches
from frazil.repo.repository import Repository

type GivenInventory = str | Path | Iterable[str | Path] | Inventory


def expire_snapshots(
    repository: Repository, request: ExpireRequest, *, dry_run: bool = False
) -> list[str]:
    """Ids of the snapshots that are, or would be, expired."""
    if repository.spec_version == 1:
        if dry_run:
            return plan_expire_v1(repository.maintained_info(), request).snapshots
        return expire_v1(repository, request).snapshots
    if dry_run:
        return plan_expire(repository.repo_info(), request).snapshots
    return expire(repository, request).snapshots


def collect_garbage(
    repository: Repository,
    work: GarbageWork,
    request: GarbageRequest,
    limits: DeleteLimits,
    *,
    backups_us: int | None = None,
    leftovers: bool = False,
    dry_run: bool = False,
    show: Callable[[Listing], None] | None = None,
) -> GCSummary:
    """A collection, of leftovers and old backups as well if asked for.

    `show` is called with the files that are deleted, or would be.
    """
    look = show or (lambda _: None)
    limits = replace(limits, older_than_us=request.cutoff_us)

    def delete(listing: Listing) -> Deleted:
        look(listing)
        return work.delete(listing, limits)

    # Before the collection makes an entry in the ops log: a dry run must find the same.
    old = None if backups_us is None else old_backups(repository, work.inventory, backups_us)
    stale = stale_branches(repository, request.cutoff_us) if leftovers else ()
    if dry_run:
        request = replace(request, ignored_branches=frozenset(stale))
    else:
        require_safe(request, repository.clock())
        for name in stale:
            repository.delete_branch(name)
    done = collect(repository, work, request, dry_run=dry_run, delete=delete)
    for listing in done.foreseen.values():
        look(listing)
    summary = replace(_summary(done), branches_deleted=len(stale))
    if leftovers and not dry_run:
        removed = collect_temporary(repository.store, request.cutoff_us, repository.clock())
        summary = replace(summary, temporary_files_deleted=removed)
    if old is None or summary.objects_failed_to_delete:
        return summary
    failed = 0 if dry_run else delete_keys(repository.store, old.keys).failed
    return replace(
        summary,
        backups_deleted=len(old.keys) - failed,
        bytes_deleted=summary.bytes_deleted + (0 if failed else old.size_bytes),
        objects_failed_to_delete=failed,
    )


def inventory_of(
    repository: Repository,
    given: GivenInventory | None,
    *,
    concurrent_listings: int = CONCURRENT_LISTINGS,
) -> Inventory:
    """The storage itself, unless somebody gives a listing."""
    if given is None:
        return StoredInventory(repository.store, concurrent_listings)
    if isinstance(given, str | Path):
        return FileInventory.of(given)
    return FileInventory.of(given) if isinstance(given, Iterable) else given


def _summary(done: Collected) -> GCSummary:
    counts = {kind: each.objects for kind, each in done.deleted.items()}
    total = done.total
    return GCSummary(
        bytes_deleted=total.size_bytes,
        chunks_deleted=counts.get(FileKind.CHUNK, 0),
        manifests_deleted=counts.get(FileKind.MANIFEST, 0),
        snapshots_deleted=counts.get(FileKind.SNAPSHOT, 0),
        transaction_logs_deleted=counts.get(FileKind.TRANSACTION, 0),
        objects_failed_to_delete=total.failed,
        throttled_batches=total.throttled,
        delete_errors=list(total.errors),
        skipped_phases=[PHASE_NAMES[kind] for kind in done.skipped],
        peak_memory_bytes=done.memory_bytes,
    )
