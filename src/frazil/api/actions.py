"""Maintenance of a repository behind `Repository`: requests and results with public types.

Ids are text and times are datetimes here. Most programs only read and write, and those that do not
need one kind of maintenance: each is loaded at its first use, as this module is.
"""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.api.storage import Storage
from frazil.api.values import CommitMethod, SpecVersion
from frazil.api.virtual_access import GivenAccess, access_of
from frazil.clock import from_datetime
from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError, require_type
from frazil.format.storage_config import VirtualChunkContainer
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module
from frazil.maintenance.executor import Progress, ThreadExecutor, quiet_files
from frazil.maintenance.inventory import CONCURRENT_LISTINGS, DeleteLimits, inventory_of
from frazil.maintenance.inventory import GivenInventory as GivenInventory  # noqa: PLC0414 -- for annotations
from frazil.maintenance.reachable import Budget, limit_concurrency
from frazil.maintenance.summaries import ChunkStorageStats as ChunkStorageStats  # noqa: PLC0414 -- for annotations
from frazil.maintenance.summaries import GCSummary
from frazil.maintenance.summaries import PurgeSummary as PurgeSummary  # noqa: PLC0414 -- for annotations
from frazil.maintenance.summaries import StorageStats as StorageStats  # noqa: PLC0414 -- for annotations
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import ROOT, NodePath

if TYPE_CHECKING:
    from frazil.maintenance import expire, gc, stats
    from frazil.maintenance import pack as packing
    from frazil.maintenance import rewrite_manifests as rewriting
    from frazil.maintenance.copying import bundle, clone, derived
    from frazil.maintenance.copying.clone import CloneResult as CloneResult  # noqa: PLC0414 -- for annotations
    from frazil.maintenance.migrate import migration
    from frazil.maintenance.migrate import upgrade as upgrading
    from frazil.maintenance.migrate.migration import MigrateResult as MigrateResult  # noqa: PLC0414 -- for annotations
    from frazil.maintenance.pack import PackResult as PackResult  # noqa: PLC0414 -- for annotations
    from frazil.maintenance.purge import purge_message as message_purge
    from frazil.maintenance.purge import purge_path as path_purge
    from frazil.maintenance.repair import repair_store
    from frazil.maintenance.repair.repair_store import RepairResult as RepairResult  # noqa: PLC0414 -- for annotations
    from frazil.maintenance.verify import verify_store
    from frazil.maintenance.verify.report import VerifyReport as VerifyReport  # noqa: PLC0414 -- for annotations
    from frazil.zarrstore import array_codecs
else:  # a collection needs no repair, and a copy no collection
    expire, gc = lazy_module("frazil.maintenance.expire"), lazy_module("frazil.maintenance.gc")
    packing, stats = lazy_module("frazil.maintenance.pack"), lazy_module("frazil.maintenance.stats")
    rewriting = lazy_module("frazil.maintenance.rewrite_manifests")
    bundle = lazy_module("frazil.maintenance.copying.bundle")
    clone = lazy_module("frazil.maintenance.copying.clone")
    derived = lazy_module("frazil.maintenance.copying.derived")
    migration = lazy_module("frazil.maintenance.migrate.migration")
    upgrading = lazy_module("frazil.maintenance.migrate.upgrade")
    message_purge = lazy_module("frazil.maintenance.purge.purge_message")
    path_purge = lazy_module("frazil.maintenance.purge.purge_path")
    repair_store = lazy_module("frazil.maintenance.repair.repair_store")
    verify_store = lazy_module("frazil.maintenance.verify.verify_store")
    array_codecs = lazy_module("frazil.zarrstore.array_codecs")

type FilePath = str | os.PathLike[str]

_PACKAGE = str(Path(__file__).parents[1])  # a warning is about the code that called frazil


# Expiration, garbage collection, statistics


def expire_snapshots(
    repository: Repository,
    older_than: datetime | None,
    *,
    delete_expired_branches: bool,
    delete_expired_tags: bool,
    snapshot_ids: Iterable[str] | None,
    retain_last: int,
    protect_branches: Iterable[str],
    protect_tags: Iterable[str],
    dry_run: bool,
) -> set[str]:
    for flag in (delete_expired_branches, delete_expired_tags, dry_run):
        require_type(flag, bool)
    ids = None if snapshot_ids is None else frozenset(map(SnapshotId.parse, snapshot_ids))
    request = expire.ExpireRequest(
        older_than_us=None if older_than is None else from_datetime(older_than),
        delete_branches=delete_expired_branches,
        delete_tags=delete_expired_tags,
        snapshots=ids,
        retain_last=retain_last,
        protected_branches=tuple(protect_branches),
        protected_tags=tuple(protect_tags),
    )
    plan = expire.plan_expire(repository, request)
    return set(plan.snapshots if dry_run else expire.expire(repository, plan).snapshots)


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits of the memory that a scan of all manifests uses. Raises ValueError, OverflowError."""

    snapshots: int
    compressed_bytes: int
    decoded_bytes: int
    concurrent_fetches: int

    def __post_init__(self) -> None:
        require_positive(
            self.snapshots, self.compressed_bytes, self.decoded_bytes, self.concurrent_fetches
        )

    def budget(self) -> Budget:
        return Budget().limited(
            snapshots=self.snapshots,
            compressed_bytes=self.compressed_bytes,
            decoded_bytes=self.decoded_bytes,
        )

    def files(self, repository: Repository) -> Files:
        return limit_concurrency(repository.files, self.concurrent_fetches)


def garbage_collect(
    repository: Repository,
    older_than: datetime,
    memory: MemoryLimits,
    *,
    max_concurrent_deletes: int,
    max_consecutive_delete_failures: int,
    max_concurrent_listings: int | None,
    incremental: bool,
    inventory: GivenInventory | None,
    safety_age: timedelta | None,
    backups_older_than: datetime | None,
    leftovers: bool,
    dry_run: bool,
    progress: Progress | None,
) -> GCSummary:
    require_type(dry_run, bool)
    require_positive(
        max_concurrent_deletes, max_consecutive_delete_failures, max_concurrent_listings
    )
    request = gc.GCRequest(
        cutoff_us=from_datetime(older_than),
        incremental=incremental,
        safety_age_us=0 if safety_age is None else safety_age // timedelta(microseconds=1),
        backups_us=None if backups_older_than is None else from_datetime(backups_older_than),
        leftovers=leftovers,
    )
    executor = ThreadExecutor(memory.files(repository), progress)
    listings = max_concurrent_listings or CONCURRENT_LISTINGS
    plan = gc.plan_gc(
        repository,
        request,
        executor,
        inventory=inventory_of(repository, inventory, concurrent_listings=listings),
        budget=memory.budget(),
    )
    if dry_run:
        return plan.summary()
    limits = DeleteLimits(
        concurrent=max_concurrent_deletes, consecutive_failures=max_consecutive_delete_failures
    )
    return gc.collect_garbage(repository, plan, executor, limits=limits)


def chunk_storage_stats(repository: Repository, memory: MemoryLimits) -> ChunkStorageStats:
    return stats.chunk_totals(repository, files=memory.files(repository), budget=memory.budget())


def storage_stats(repository: Repository, progress: Progress | None) -> StorageStats:
    executor = ThreadExecutor(repository.files, progress)
    return stats.storage_stats(repository, stats.plan_stats(repository, executor), executor)


def require_positive(*limits: int | None) -> None:
    """Raises OverflowError outside of unsigned 64 bit integers and ValueError for zero."""
    for limit in limits:
        if limit is not None and not 0 <= limit < 2**64:
            raise OverflowError(f"a limit is {limit}, not from 0 to {2**64 - 1}")
        if limit == 0:
            raise ValueError("invalid zero value: a limit must be at least 1")


def warn_of_total_chunks_storage(suffix: str = "") -> None:
    warnings.warn(
        f"total_chunks_storage{suffix} is deprecated: chunk_storage_stats{suffix} counts inline and"
        " virtual chunks too, and its native_bytes is what this method returns",
        DeprecationWarning,
        skip_file_prefixes=(_PACKAGE,),
    )


# Rewriting: manifests, packs, purges


def rewrite_manifests(
    repository: Repository,
    branch: str,
    message: str,
    metadata: dict[str, Any] | None,
    method: CommitMethod,
) -> str:
    plan = rewriting.plan_rewrite_manifests(repository, branch, method)
    return rewriting.rewrite_manifests(repository, plan, message, metadata=metadata).snapshot


def pack(
    repository: Repository,
    branch: str,
    paths: Sequence[str],
    message: str | None,
    metadata: dict[str, Any] | None,
    *,
    small_bytes: int,
    pack_bytes: int,
    dry_run: bool,
    progress: Progress | None,
) -> "PackResult":
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = packing.plan_pack(
        repository,
        branch,
        _node_paths(paths),
        executor,
        small_bytes=small_bytes,
        pack_bytes=pack_bytes,
    )
    if dry_run:
        return plan.result()
    return packing.pack(repository, plan, message, executor, metadata=metadata)


def unpack(
    repository: Repository,
    branch: str,
    paths: Sequence[str],
    message: str | None,
    metadata: dict[str, Any] | None,
    *,
    dry_run: bool,
    progress: Progress | None,
) -> "PackResult":
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = packing.plan_unpack(repository, branch, _node_paths(paths), executor)
    if dry_run:
        return plan.result()
    return packing.unpack(repository, plan, message, executor, metadata=metadata)


def purge_path(repository: Repository, path: str, message: str, *, dry_run: bool) -> PurgeSummary:
    plan = path_purge.plan_purge_path(repository, NodePath(path))
    return plan.summary() if dry_run else path_purge.purge_path(repository, plan, message)


def purge_messages(
    repository: Repository,
    snapshot_ids: Sequence[str],
    *,
    replacement: str,
    with_metadata: bool,
    dry_run: bool,
) -> PurgeSummary:
    plan = message_purge.plan_purge_messages(
        repository,
        [SnapshotId.parse(text) for text in snapshot_ids],
        replacement=replacement,
        with_metadata=with_metadata,
    )
    return plan.summary() if dry_run else message_purge.purge_messages(repository, plan)


def _node_paths(paths: Sequence[str]) -> tuple[NodePath, ...]:
    if isinstance(paths, str):
        raise TypeError("`paths` is a list of paths, not a string")
    return tuple(map(NodePath, paths)) or (ROOT,)


# Copies and bundles


def clone_to(
    repository: Repository,
    storage: Storage,
    *,
    refs: Sequence[str] | None,
    paths: Iterable[str],
    shallow: bool,
    container: VirtualChunkContainer | None,
    check_contents: bool,
    dry_run: bool,
    progress: Progress | None,
) -> "CloneResult":
    nodes = [NodePath.from_key_prefix(path) for path in paths]
    executor = ThreadExecutor(quiet_files(repository), progress)
    if nodes or shallow:
        partial = derived.plan_partial(
            repository,
            storage.store,
            executor,
            paths=nodes,
            shallow=shallow,
            container=container,
            refs=refs,
        )
        return partial.result(dry_run=True) if dry_run else derived.derive(partial, executor)
    plan = clone.plan_clone(repository, storage.store, executor, refs=refs)
    if dry_run:
        return plan.result(dry_run=True)
    return clone.clone(plan, executor, check_contents=check_contents)


def export_to_bundle(
    repository: Repository,
    path: FilePath,
    *,
    refs: Sequence[str] | None,
    since: Iterable[str],
    dry_run: bool,
    progress: Progress | None,
) -> "CloneResult":
    basis = [SnapshotId.parse(text) for text in since]
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = bundle.plan_export(repository, executor, refs=refs, basis=basis)
    if dry_run:
        return plan.result(dry_run=True)
    return bundle.export_bundle(plan, path, executor, basis=basis)


def import_bundle(
    path: FilePath, storage: Storage, *, dry_run: bool, progress: Progress | None
) -> "CloneResult":
    plan = bundle.plan_import(path, storage.store, progress=progress)
    if dry_run:
        return plan.result(dry_run=True)
    return clone.clone(plan, ThreadExecutor(quiet_files(plan.repository), progress))


# Migration to a newer version of the format


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedMigration:
    """Files of the old repository that were, or in a dry run would be, removed."""

    dry_run: bool
    generation: str
    files: int
    bytes: int


def migrate(
    repository: Repository,
    to: SpecVersion | int,
    storage: Storage | None,
    *,
    dry_run: bool,
    progress: Progress | None,
) -> "MigrateResult":
    target = None if storage is None else storage.store
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = migration.plan_migration(repository, executor, to=int(to), target=target)
    return plan.result(dry_run=True) if dry_run else migration.migrate(plan, executor)


def confirm_migration(storage: Storage, *, dry_run: bool) -> ConfirmedMigration:
    leftovers = migration.find_leftovers(storage.store)
    if not dry_run:
        migration.confirm(storage.store, leftovers)
    return ConfirmedMigration(
        dry_run=dry_run,
        generation=leftovers.generation,
        files=len(leftovers.keys),
        bytes=leftovers.bytes,
    )


def upgrade(
    repository: Repository, *, dry_run: bool, delete_old_files: bool, prefetch: int | None
) -> Repository:
    """Upgrades version 1 to version 2 in place; a dry run only plans it and reopens."""
    given = {} if prefetch is None else {"prefetch": prefetch}
    plan = upgrading.plan_upgrade(repository, **given)
    if dry_run:
        return repository.reopened()
    upgraded = upgrading.upgrade(plan)
    if delete_old_files:
        upgrading.finish(upgraded.store, upgrading.plan_finish(upgraded.store))
    return upgraded


# Verification and repair


def verify(
    repository: Repository, *, decode: bool, virtual: bool, progress: Progress | None
) -> "VerifyReport":
    executor = ThreadExecutor(quiet_files(repository), progress)
    decoder = array_codecs.chunk_problem if decode else None
    return verify_store.verify(repository.raw_store, executor, virtual=virtual, decode=decoder)


def verify_storage(
    storage: Storage,
    given: GivenAccess,
    *,
    decode: bool,
    virtual: bool,
    progress: Progress | None,
) -> "VerifyReport":
    """Verifies a repository that perhaps cannot be opened."""
    access = access_of(given, storage)
    try:
        files = quiet_files(Repository.open(storage.store, access=access))
    except IcechunkError:
        files = verify_store.unopened_files(storage.store)
    executor = ThreadExecutor(files, progress)
    decoder = array_codecs.chunk_problem if decode else None
    return verify_store.verify(storage.store, executor, virtual=virtual, decode=decoder)


def repair(store: ObjectStore, *, dry_run: bool, progress: Progress | None) -> "RepairResult":
    return repair_store.repair(store, dry_run=dry_run, progress=progress)
