"""Maintenance of a repository behind `Repository`: requests and results with public types.

Ids are text and times are datetimes here. The module takes as long to load as the rest of the
engine, and most programs only read and write: `frazil.api.repository` loads it at first use.
"""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from frazil.api.storage import Storage
from frazil.api.values import CommitMethod, SpecVersion
from frazil.api.virtual_access import GivenAccess, access_of
from frazil.clock import from_datetime
from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError, require_type
from frazil.format.storage_config import VirtualChunkContainer
from frazil.ids import SnapshotId
from frazil.maintenance import stats
from frazil.maintenance.copying.bundle import export_bundle, plan_export, plan_import
from frazil.maintenance.copying.clone import CloneResult as CloneResult  # noqa: PLC0414 -- for annotations
from frazil.maintenance.copying.clone import clone, plan_clone
from frazil.maintenance.copying.derived import derive, plan_partial
from frazil.maintenance.executor import Progress, ThreadExecutor, quiet_files
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.maintenance.gc import GCRequest, collect_garbage, plan_gc
from frazil.maintenance.inventory import CONCURRENT_LISTINGS, DeleteLimits, inventory_of
from frazil.maintenance.inventory import GivenInventory as GivenInventory  # noqa: PLC0414 -- for annotations
from frazil.maintenance.migrate import migration
from frazil.maintenance.migrate import upgrade as upgrading
from frazil.maintenance.migrate.migration import MigrateResult as MigrateResult  # noqa: PLC0414 -- for annotations
from frazil.maintenance.pack import PackResult as PackResult  # noqa: PLC0414 -- for annotations
from frazil.maintenance.pack import pack as execute_pack
from frazil.maintenance.pack import plan_pack, plan_unpack
from frazil.maintenance.pack import unpack as execute_unpack
from frazil.maintenance.purge import purge_message as message_purge
from frazil.maintenance.purge import purge_path as path_purge
from frazil.maintenance.reachable import Budget, limit_concurrency
from frazil.maintenance.repair.repair_store import RepairResult as RepairResult  # noqa: PLC0414 -- for annotations
from frazil.maintenance.repair.repair_store import repair as repair_store
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests
from frazil.maintenance.rewrite_manifests import rewrite_manifests as execute_rewrite
from frazil.maintenance.snapshot_list import PREFETCHED
from frazil.maintenance.summaries import ChunkStorageStats as ChunkStorageStats  # noqa: PLC0414 -- for annotations
from frazil.maintenance.summaries import GCSummary
from frazil.maintenance.summaries import PurgeSummary as PurgeSummary  # noqa: PLC0414 -- for annotations
from frazil.maintenance.summaries import StorageStats as StorageStats  # noqa: PLC0414 -- for annotations
from frazil.maintenance.verify.report import VerifyReport as VerifyReport  # noqa: PLC0414 -- for annotations
from frazil.maintenance.verify.verify_store import unopened_files
from frazil.maintenance.verify.verify_store import verify as verify_store
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import ROOT, NodePath
from frazil.zarrstore.array_codecs import chunk_problem

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
    request = ExpireRequest(
        older_than_us=None if older_than is None else from_datetime(older_than),
        delete_branches=delete_expired_branches,
        delete_tags=delete_expired_tags,
        snapshots=ids,
        retain_last=retain_last,
        protected_branches=tuple(protect_branches),
        protected_tags=tuple(protect_tags),
    )
    plan = plan_expire(repository, request)
    return set(plan.snapshots if dry_run else expire(repository, plan).snapshots)


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
    request = GCRequest(
        cutoff_us=from_datetime(older_than),
        incremental=incremental,
        safety_age_us=0 if safety_age is None else safety_age // timedelta(microseconds=1),
        backups_us=None if backups_older_than is None else from_datetime(backups_older_than),
        leftovers=leftovers,
    )
    executor = ThreadExecutor(memory.files(repository), progress)
    listings = max_concurrent_listings or CONCURRENT_LISTINGS
    plan = plan_gc(
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
    return collect_garbage(repository, plan, executor, limits=limits)


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
    plan = plan_rewrite_manifests(repository, branch, method)
    return execute_rewrite(repository, plan, message, metadata=metadata).snapshot


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
) -> PackResult:
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = plan_pack(
        repository,
        branch,
        _node_paths(paths),
        executor,
        small_bytes=small_bytes,
        pack_bytes=pack_bytes,
    )
    if dry_run:
        return plan.result()
    return execute_pack(repository, plan, message, executor, metadata=metadata)


def unpack(
    repository: Repository,
    branch: str,
    paths: Sequence[str],
    message: str | None,
    metadata: dict[str, Any] | None,
    *,
    dry_run: bool,
    progress: Progress | None,
) -> PackResult:
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = plan_unpack(repository, branch, _node_paths(paths), executor)
    if dry_run:
        return plan.result()
    return execute_unpack(repository, plan, message, executor, metadata=metadata)


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
) -> CloneResult:
    nodes = [NodePath.from_key_prefix(path) for path in paths]
    executor = ThreadExecutor(quiet_files(repository), progress)
    if nodes or shallow:
        partial = plan_partial(
            repository,
            storage.store,
            executor,
            paths=nodes,
            shallow=shallow,
            container=container,
            refs=refs,
        )
        return partial.result(dry_run=True) if dry_run else derive(partial, executor)
    plan = plan_clone(repository, storage.store, executor, refs=refs)
    if dry_run:
        return plan.result(dry_run=True)
    return clone(plan, executor, check_contents=check_contents)


def export_to_bundle(
    repository: Repository,
    path: FilePath,
    *,
    refs: Sequence[str] | None,
    since: Iterable[str],
    dry_run: bool,
    progress: Progress | None,
) -> CloneResult:
    basis = [SnapshotId.parse(text) for text in since]
    executor = ThreadExecutor(quiet_files(repository), progress)
    plan = plan_export(repository, executor, refs=refs, basis=basis)
    if dry_run:
        return plan.result(dry_run=True)
    return export_bundle(plan, path, executor, basis=basis)


def import_bundle(
    path: FilePath, storage: Storage, *, dry_run: bool, progress: Progress | None
) -> CloneResult:
    plan = plan_import(path, storage.store, progress=progress)
    if dry_run:
        return plan.result(dry_run=True)
    return clone(plan, ThreadExecutor(quiet_files(plan.repository), progress))


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
) -> MigrateResult:
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
    plan = upgrading.plan_upgrade(repository, prefetch=PREFETCHED if prefetch is None else prefetch)
    if dry_run:
        return repository.reopened()
    upgraded = upgrading.upgrade(plan)
    if delete_old_files:
        upgrading.finish(upgraded.store, upgrading.plan_finish(upgraded.store))
    return upgraded


# Verification and repair


def verify(
    repository: Repository, *, decode: bool, virtual: bool, progress: Progress | None
) -> VerifyReport:
    executor = ThreadExecutor(quiet_files(repository), progress)
    decoder = chunk_problem if decode else None
    return verify_store(repository.raw_store, executor, virtual=virtual, decode=decoder)


def verify_storage(
    storage: Storage,
    given: GivenAccess,
    *,
    decode: bool,
    virtual: bool,
    progress: Progress | None,
) -> VerifyReport:
    """Verifies a repository that perhaps cannot be opened."""
    access = access_of(given, storage)
    try:
        files = quiet_files(Repository.open(storage.store, access=access))
    except IcechunkError:
        files = unopened_files(storage.store)
    executor = ThreadExecutor(files, progress)
    decoder = chunk_problem if decode else None
    return verify_store(storage.store, executor, virtual=virtual, decode=decoder)


def repair(store: ObjectStore, *, dry_run: bool, progress: Progress | None) -> RepairResult:
    return repair_store(store, dry_run=dry_run, progress=progress)
