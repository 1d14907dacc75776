"""Maintenance of a repository behind `Repository`: requests and results with public types.

Ids are text and times are datetimes here. The module takes as long to load as the rest of the
engine, and most programs only read and write: `frazil.api.repository` loads it at first use.
"""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from frazil.api.storage import Storage
from frazil.api.values import CommitMethod, SpecVersion
from frazil.api.virtual_access import GivenAccess, access_of
from frazil.assets.files import Files
from frazil.assets.settings import Settings
from frazil.clock import from_datetime
from frazil.errors import IcechunkError, require_type
from frazil.format.config import RepositoryConfig
from frazil.format.storage_config import VirtualChunkContainer
from frazil.ids import SnapshotId
from frazil.maintenance import collection, stats
from frazil.maintenance.collection import GivenInventory as GivenInventory  # noqa: PLC0414 -- for annotations
from frazil.maintenance.copying.bundle import export_bundle, plan_export, plan_import
from frazil.maintenance.copying.clone import ClonePlan, CloneResult, clone, plan_clone
from frazil.maintenance.copying.derived import DerivedPlan, derive
from frazil.maintenance.copying.partial import plan_partial
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.expire import ExpireRequest
from frazil.maintenance.garbage import GarbageRequest
from frazil.maintenance.gc_summary import GCSummary
from frazil.maintenance.inventory import CONCURRENT_LISTINGS
from frazil.maintenance.migrate import migration
from frazil.maintenance.migrate import upgrade as upgrading
from frazil.maintenance.migrate.heads import PREFETCHED
from frazil.maintenance.pack import PackPlan, plan_pack
from frazil.maintenance.pack import pack as execute_pack
from frazil.maintenance.progress import Progress
from frazil.maintenance.purge import message as message_purge
from frazil.maintenance.purge import path as path_purge
from frazil.maintenance.purge.remaining import Remaining
from frazil.maintenance.quiet_files import quiet_files
from frazil.maintenance.reachable import Budget, narrowed
from frazil.maintenance.repair.run import RepairResult as RepairResult  # noqa: PLC0414 -- for annotations
from frazil.maintenance.repair.run import repair as repair_store
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests
from frazil.maintenance.rewrite_manifests import rewrite_manifests as execute_rewrite
from frazil.maintenance.summaries import ChunkStorageStats as ChunkStorageStats  # noqa: PLC0414 -- for annotations
from frazil.maintenance.summaries import StorageStats as StorageStats  # noqa: PLC0414 -- for annotations
from frazil.maintenance.unpack import UnpackPlan, plan_unpack
from frazil.maintenance.unpack import unpack as execute_unpack
from frazil.maintenance.verify.chunks import ChunkChecks
from frazil.maintenance.verify.report import VerifyReport as VerifyReport  # noqa: PLC0414 -- for annotations
from frazil.maintenance.verify.run import verify as verify_store
from frazil.maintenance.work import LocalWork
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import ROOT, NodePath
from frazil.repo.repository import Repository
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
    return set(collection.expire_snapshots(repository, request, dry_run=dry_run))


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
        return narrowed(repository.files, self.concurrent_fetches)


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
    work = LocalWork(
        memory.files(repository),
        collection.inventory_of(
            repository,
            inventory,
            concurrent_listings=max_concurrent_listings or CONCURRENT_LISTINGS,
        ),
        memory.budget(),
        progress,
    )
    request = GarbageRequest(
        cutoff_us=from_datetime(older_than),
        incremental=incremental,
        safety_age_us=0 if safety_age is None else safety_age // timedelta(microseconds=1),
    )
    return collection.collect_garbage(
        repository,
        work,
        request,
        DeleteLimits(
            concurrent=max_concurrent_deletes, consecutive_failures=max_consecutive_delete_failures
        ),
        backups_us=None if backups_older_than is None else from_datetime(backups_older_than),
        leftovers=leftovers,
        dry_run=dry_run,
    )


def chunk_storage_stats(repository: Repository, memory: MemoryLimits) -> ChunkStorageStats:
    totals = stats.chunk_totals(repository, files=memory.files(repository), budget=memory.budget())
    return ChunkStorageStats.of(totals)


def storage_stats(repository: Repository, progress: Progress | None) -> StorageStats:
    return StorageStats.of(stats.storage_stats(repository, progress=progress))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSummary:
    """Chunks that were packed or unpacked, or in a dry run would be.

    `snapshot_id` is the new tip of the branch, None after a dry run and where there was nothing
    to do. `bytes` are those of the chunks.
    """

    snapshot_id: str | None
    chunks: int
    packs: int
    references: int
    bytes: int

    @classmethod
    def of(cls, plan: PackPlan | UnpackPlan, snapshot: SnapshotId | None) -> "PackSummary":
        return cls(
            snapshot_id=None if snapshot is None else str(snapshot),
            chunks=len(plan.chunks),
            packs=plan.packs,
            references=plan.references,
            bytes=plan.bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSummary:
    """Content that was purged, or in a dry run would be, and files that still refer to it.

    Snapshots and transaction logs are rewritten under their ids. `commits` were made on top of
    branches, by name of the branch; there are none after a dry run.
    """

    snapshots: list[str]
    transaction_logs: int = 0
    manifests: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    backups: int = 0
    nodes: list[str] = field(default_factory=list)
    commits: dict[str, str] = field(default_factory=dict)
    remaining: list[Remaining]


def rewrite_manifests(
    repository: Repository,
    branch: str,
    message: str,
    metadata: dict[str, Any] | None,
    method: CommitMethod,
) -> str:
    plan = plan_rewrite_manifests(repository, branch, method)
    return str(execute_rewrite(repository, plan, message, metadata).snapshot)


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
) -> PackSummary:
    plan = plan_pack(
        repository, branch, _node_paths(paths), small_bytes=small_bytes, pack_bytes=pack_bytes
    )
    if dry_run:
        return PackSummary.of(plan, None)
    done = execute_pack(repository, plan, message, metadata, progress=progress)
    return PackSummary.of(plan, done.snapshot)


def unpack(
    repository: Repository,
    branch: str,
    paths: Sequence[str],
    message: str | None,
    metadata: dict[str, Any] | None,
    *,
    dry_run: bool,
    progress: Progress | None,
) -> PackSummary:
    plan = plan_unpack(repository, branch, _node_paths(paths))
    if dry_run:
        return PackSummary.of(plan, None)
    done = execute_unpack(repository, plan, message, metadata, progress=progress)
    return PackSummary.of(plan, done.snapshot)


def purge_path(repository: Repository, path: str, message: str, *, dry_run: bool) -> PurgeSummary:
    plan = path_purge.plan_purge_path(repository, NodePath(path))
    commits = {} if dry_run else path_purge.purge_path(repository, plan, message).commits
    return PurgeSummary(
        snapshots=[str(snapshot) for snapshot in plan.snapshots],
        transaction_logs=len(plan.logs),
        manifests=len(plan.manifests),
        chunks=len(plan.chunks),
        chunk_bytes=plan.chunk_bytes,
        nodes=[node.path.text for node in plan.nodes],
        commits={branch: str(snapshot) for branch, snapshot in commits.items()},
        remaining=list(plan.remaining),
    )


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
    if not dry_run:
        message_purge.purge_messages(repository, plan)
    return PurgeSummary(
        snapshots=[str(snapshot) for snapshot in plan.snapshots],
        backups=len(plan.backups),
        remaining=list(plan.remaining),
    )


def _node_paths(paths: Sequence[str]) -> tuple[NodePath, ...]:
    if isinstance(paths, str):
        raise TypeError("`paths` is a list of paths, not a string")
    return tuple(map(NodePath, paths)) or (ROOT,)


# Copies and bundles


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySummary:
    """Contents of a copy, and what was, or in a dry run would be, copied for it.

    `objects` are those of the copy and `copied` those that were not there, with `bytes` in them.
    `updated` is True if refs of the copy have changed; False after a dry run.
    """

    dry_run: bool
    exists: bool  # True if there was a copy before
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    objects: int
    copied: int
    bytes: int
    updated: bool = False
    seconds: float = 0.0


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
) -> CopySummary:
    nodes = [NodePath.from_key_prefix(path) for path in paths]
    if nodes or shallow:
        partial = plan_partial(
            repository,
            storage.store,
            paths=nodes,
            shallow=shallow,
            container=container,
            refs=refs,
            progress=progress,
        )
        return _partial_copy(partial, None if dry_run else derive(partial, progress=progress))
    plan = plan_clone(repository, storage.store, refs=refs, progress=progress)
    if dry_run:
        return _copy(plan, None)
    return _copy(plan, clone(plan, check_contents=check_contents, progress=progress))


def export_to_bundle(
    repository: Repository,
    path: FilePath,
    *,
    refs: Sequence[str] | None,
    since: Iterable[str],
    dry_run: bool,
    progress: Progress | None,
) -> CopySummary:
    basis = [SnapshotId.parse(text) for text in since]
    plan = plan_export(repository, refs=refs, basis=basis, progress=progress)
    if dry_run:
        return _copy(plan, None)
    return _copy(plan, export_bundle(plan, path, basis=basis, progress=progress))


def import_bundle(
    path: FilePath, storage: Storage, *, dry_run: bool, progress: Progress | None
) -> CopySummary:
    plan = plan_import(path, storage.store, progress=progress)
    return _copy(plan, None if dry_run else clone(plan, progress=progress))


def _copy(plan: ClonePlan, done: CloneResult | None) -> CopySummary:
    return CopySummary(
        dry_run=done is None,
        exists=plan.exists,
        branches=plan.branches,
        tags=plan.tags,
        snapshots=plan.snapshots,
        objects=len(plan.needed) + len(plan.origin.kept),
        copied=plan.objects,
        bytes=plan.bytes,
        updated=done is not None and done.updated,
        seconds=0.0 if done is None else done.seconds,
    )


def _partial_copy(plan: DerivedPlan, done: CloneResult | None) -> CopySummary:
    return CopySummary(
        dry_run=done is None,
        exists=bool(plan.found),
        branches=tuple(sorted(plan.made.branches)),
        tags=tuple(sorted(plan.made.tags)),
        snapshots=len(plan.made.snapshots),
        objects=plan.objects,
        copied=len(plan.chunks),
        bytes=plan.bytes,
        updated=done is not None and done.updated,
        seconds=0.0 if done is None else done.seconds,
    )


# Migration to a newer version of the format


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSummary:
    """Files that a migration wrote, or in a dry run would write.

    `snapshot_ids` has the new ids of snapshots by the old ones, where they had to change. `copied`
    objects, with `bytes` in them, are copied unchanged; `manifests` are rewritten.
    """

    dry_run: bool
    generation: str
    spec_version: int
    in_place: bool
    snapshots: int
    manifests: int
    copied: int
    bytes: int
    snapshot_ids: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


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
) -> MigrationSummary:
    target = None if storage is None else storage.store
    plan = migration.plan_migration(repository, to=int(to), target=target, progress=progress)
    done = None if dry_run else migration.migrate(plan, progress=progress)
    return MigrationSummary(
        dry_run=dry_run,
        generation=str(plan.generation),
        spec_version=plan.to,
        in_place=plan.in_place,
        snapshots=plan.snapshots,
        manifests=plan.manifests,
        copied=plan.copied,
        bytes=plan.bytes,
        snapshot_ids=plan.snapshot_ids(),
        seconds=0.0 if done is None else done.seconds,
    )


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
    checks = _chunk_checks(quiet_files(repository), decode=decode, virtual=virtual)
    return verify_store(repository.store, chunks=checks, progress=progress)


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
        files = Files(storage.store, Settings.of(RepositoryConfig()))
    checks = _chunk_checks(files, decode=decode, virtual=virtual)
    return verify_store(storage.store, chunks=checks, progress=progress)


def _chunk_checks(files: Files, *, decode: bool, virtual: bool) -> ChunkChecks | None:
    if not decode and not virtual:
        return None
    return ChunkChecks(files, virtual=virtual, decode=chunk_problem if decode else None)


def repair(store: ObjectStore, *, dry_run: bool, progress: Progress | None) -> RepairResult:
    return repair_store(store, dry_run=dry_run, progress=progress)
