"""Keeping a repository small: expiring snapshots, collecting garbage, asking what is stored."""

import asyncio
import warnings
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from frazil.api import actions
from frazil.clock import from_datetime
from frazil.errors import require_type
from frazil.ids import SnapshotId
from frazil.maintenance.progress import Progress
from frazil.maintenance.summaries import GCSummary
from frazil.repo import repository as engine

MIB = 1 << 20
_OUR_CODE = str(Path(__file__).parents[1])  # a warning is for who called it


class CollectedRepository:
    """The part of Repository that deletes what is not needed any more."""

    _engine: engine.Repository

    def expire_snapshots(
        self,
        older_than: datetime | None,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
        snapshot_ids: Iterable[str] | None = None,
        retain_last: int = 0,
        protect_branches: Iterable[str] = (),
        protect_tags: Iterable[str] = (),
        dry_run: bool = False,
    ) -> set[str]:
        """Takes snapshots out of history: those older than a time; their ids.

        The first snapshot and the tip of main always stay, the tips of other branches and tags
        unless they are to be deleted as well. The files go with the next `garbage_collect`.

        frazil's own: `snapshot_ids` takes only these (of any age, if `older_than` is None),
        `retain_last` keeps so many of each branch, `protect_branches` and `protect_tags` are
        patterns (`release-*`) of refs that stay with all of their history. With these, what stays
        becomes the child of the youngest ancestor that stays, otherwise of the first snapshot.
        """
        for flag in (delete_expired_branches, delete_expired_tags, dry_run):
            require_type(flag, bool)
        ids = None if snapshot_ids is None else frozenset(map(SnapshotId.parse, snapshot_ids))
        request = actions.ExpireRequest(
            older_than_us=None if older_than is None else from_datetime(older_than),
            delete_branches=delete_expired_branches,
            delete_tags=delete_expired_tags,
            snapshots=ids,
            retain_last=retain_last,
            protected_branches=tuple(protect_branches),
            protected_tags=tuple(protect_tags),
        )
        plan = actions.plan_expire(self._engine, request)
        done = plan if dry_run else actions.expire(self._engine, plan)
        return set(done.snapshots)

    async def expire_snapshots_async(
        self,
        older_than: datetime | None,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
        snapshot_ids: Iterable[str] | None = None,
        retain_last: int = 0,
        protect_branches: Iterable[str] = (),
        protect_tags: Iterable[str] = (),
        dry_run: bool = False,
    ) -> set[str]:
        return await asyncio.to_thread(
            self.expire_snapshots,
            older_than,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
            snapshot_ids=snapshot_ids,
            retain_last=retain_last,
            protect_branches=protect_branches,
            protect_tags=protect_tags,
            dry_run=dry_run,
        )

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
        incremental: bool = False,
        inventory: "actions.GivenInventory | None" = None,
        safety_age: timedelta | None = None,
        backups_older_than: datetime | None = None,
        leftovers: bool = False,
        progress: Progress | None = None,
    ) -> GCSummary:
        """Deletes files that no branch or tag leads to and that are older than a time.

        The time must lie further back than any session has been open: nothing leads to its chunks
        until it is committed. `safety_age` refuses times that are less far back.

        frazil's own: `incremental` looks only at what snapshots that go had, without listing
        everything; `inventory` is a listing in files (CSV, Parquet) to be used in place of asking
        the storage; `backups_older_than` also deletes old copies of the entry point, but not those
        that the newest page of the ops log names (some older entries are lost); `leftovers` what
        killed jobs left: staging branches and temporary files. `progress` is called with what is
        being done, how much is done and of how much.
        """
        require_type(dry_run, bool)
        _require_positive(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
            max_concurrent_deletes,
            max_consecutive_delete_failures,
            max_concurrent_listings,
        )
        limits = actions.DeleteLimits(
            concurrent=max_concurrent_deletes, consecutive_failures=max_consecutive_delete_failures
        )
        files = actions.narrowed(self._engine.files, max_concurrent_manifest_fetches)
        executor = actions.ThreadExecutor(files, progress)
        request = actions.GCRequest(
            cutoff_us=from_datetime(delete_object_older_than),
            incremental=incremental,
            safety_age_us=0 if safety_age is None else safety_age // timedelta(microseconds=1),
            backups_us=None if backups_older_than is None else from_datetime(backups_older_than),
            leftovers=leftovers,
        )
        plan = actions.plan_gc(
            self._engine,
            request,
            executor,
            inventory=actions.inventory_of(
                self._engine,
                inventory,
                concurrent_listings=max_concurrent_listings or actions.CONCURRENT_LISTINGS,
            ),
            budget=actions.Budget().limited(
                snapshots=max_snapshots_in_memory,
                compressed_bytes=max_compressed_manifest_mem_bytes,
                decoded_bytes=max_decoded_manifest_mem_bytes,
            ),
        )
        if dry_run:
            return plan.summary()
        return actions.collect_garbage(self._engine, plan, executor, limits=limits)

    async def garbage_collect_async(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
        incremental: bool = False,
        inventory: "actions.GivenInventory | None" = None,
        safety_age: timedelta | None = None,
        backups_older_than: datetime | None = None,
        leftovers: bool = False,
        progress: Progress | None = None,
    ) -> GCSummary:
        return await asyncio.to_thread(
            self.garbage_collect,
            delete_object_older_than,
            dry_run=dry_run,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
            max_concurrent_deletes=max_concurrent_deletes,
            max_consecutive_delete_failures=max_consecutive_delete_failures,
            max_concurrent_listings=max_concurrent_listings,
            incremental=incremental,
            inventory=inventory,
            safety_age=safety_age,
            backups_older_than=backups_older_than,
            leftovers=leftovers,
            progress=progress,
        )

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
    ) -> "actions.ChunkStorageStats":
        """Bytes of the chunks that branches and tags lead to."""
        _require_positive(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        budget = actions.Budget().limited(
            snapshots=max_snapshots_in_memory,
            compressed_bytes=max_compressed_manifest_mem_bytes,
            decoded_bytes=max_decoded_manifest_mem_bytes,
        )
        files = actions.narrowed(self._engine.files, max_concurrent_manifest_fetches)
        return actions.chunk_totals(self._engine, files=files, budget=budget)

    async def chunk_storage_stats_async(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
    ) -> "actions.ChunkStorageStats":
        return await asyncio.to_thread(
            self.chunk_storage_stats,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """Deprecated: the native bytes of `chunk_storage_stats`."""
        _warn_of_total("total_chunks_storage", "chunk_storage_stats")
        return self.chunk_storage_stats(
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        ).native_bytes

    async def total_chunks_storage_async(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MIB,
        max_decoded_manifest_mem_bytes: int = 4096 * MIB,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        _warn_of_total("total_chunks_storage_async", "chunk_storage_stats_async")
        stats = await asyncio.to_thread(
            self.chunk_storage_stats,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return stats.native_bytes

    def stats(self, *, progress: Progress | None = None) -> "actions.StorageStats":
        """Bytes by kind, and of each branch, tag and array: what it has, and has alone.

        frazil's own. What a ref has alone is what could be collected if the ref were deleted.
        """
        executor = actions.ThreadExecutor(self._engine.files, progress)
        plan = actions.plan_stats(self._engine, executor)
        return actions.storage_stats(self._engine, plan, executor)

    async def stats_async(self, *, progress: Progress | None = None) -> "actions.StorageStats":
        return await asyncio.to_thread(self.stats, progress=progress)


def _require_positive(*limits: int | None) -> None:
    """OverflowError outside 64 bits without a sign, as where numbers have such a type."""
    for limit in limits:
        if limit is not None and not 0 <= limit < 2**64:
            raise OverflowError(f"a limit is {limit}, not from 0 to {2**64 - 1}")
        if limit == 0:
            raise ValueError("invalid zero value: a limit must be at least 1")


def _warn_of_total(name: str, instead: str) -> None:
    warnings.warn(
        f"{name} is deprecated: {instead} counts inline and virtual chunks too, and its"
        " native_bytes is what this method returns",
        DeprecationWarning,
        skip_file_prefixes=(_OUR_CODE,),
    )
