"""Maintenance, loaded when it is first asked for.

It takes as long to load as all the rest of the engine, and most programs only read and write.
"""

# ruff: noqa: PLC0414 -- what is imported `as` itself may be imported from here

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil.maintenance.copying.bundle import export_bundle as export_bundle
    from frazil.maintenance.copying.bundle import plan_export as plan_export
    from frazil.maintenance.copying.bundle import plan_import as plan_import
    from frazil.maintenance.copying.clone import CloneResult as CloneResult
    from frazil.maintenance.copying.clone import clone as clone
    from frazil.maintenance.copying.clone import plan_clone as plan_clone
    from frazil.maintenance.copying.derived import derive as derive
    from frazil.maintenance.copying.derived import plan_partial as plan_partial
    from frazil.maintenance.deleting import DeleteLimits as DeleteLimits
    from frazil.maintenance.executor import ThreadExecutor as ThreadExecutor
    from frazil.maintenance.expire import ExpireRequest as ExpireRequest
    from frazil.maintenance.expire import expire as expire
    from frazil.maintenance.expire import plan_expire as plan_expire
    from frazil.maintenance.gc import GCRequest as GCRequest
    from frazil.maintenance.gc import collect_garbage as collect_garbage
    from frazil.maintenance.gc import plan_gc as plan_gc
    from frazil.maintenance.inventory import CONCURRENT_LISTINGS as CONCURRENT_LISTINGS
    from frazil.maintenance.inventory import GivenInventory as GivenInventory
    from frazil.maintenance.inventory import inventory_of as inventory_of
    from frazil.maintenance.migrate.listing import PREFETCHED as PREFETCHED
    from frazil.maintenance.migrate.migration import MigrateResult as MigrateResult
    from frazil.maintenance.migrate.migration import confirm as confirm
    from frazil.maintenance.migrate.migration import find_leftovers as find_leftovers
    from frazil.maintenance.migrate.migration import migrate as migrate
    from frazil.maintenance.migrate.migration import plan_migration as plan_migration
    from frazil.maintenance.migrate.upgrade import finish as finish
    from frazil.maintenance.migrate.upgrade import plan_finish as plan_finish
    from frazil.maintenance.migrate.upgrade import plan_upgrade as plan_upgrade
    from frazil.maintenance.migrate.upgrade import upgrade as upgrade
    from frazil.maintenance.pack import PackResult as PackResult
    from frazil.maintenance.pack import pack as pack
    from frazil.maintenance.pack import plan_pack as plan_pack
    from frazil.maintenance.purge.message import plan_purge_messages as plan_purge_messages
    from frazil.maintenance.purge.message import purge_messages as purge_messages
    from frazil.maintenance.purge.path import plan_purge_path as plan_purge_path
    from frazil.maintenance.purge.path import purge_path as purge_path
    from frazil.maintenance.purge.remaining import Remaining as Remaining
    from frazil.maintenance.quiet_files import quiet_files as quiet_files
    from frazil.maintenance.reachable import Budget as Budget
    from frazil.maintenance.reachable import narrowed as narrowed
    from frazil.maintenance.repair.run import RepairResult as RepairResult
    from frazil.maintenance.repair.run import repair as repair
    from frazil.maintenance.rewrite_manifests import (
        plan_rewrite_manifests as plan_rewrite_manifests,
    )
    from frazil.maintenance.rewrite_manifests import rewrite_manifests as rewrite_manifests
    from frazil.maintenance.stats import chunk_totals as chunk_totals
    from frazil.maintenance.stats import plan_stats as plan_stats
    from frazil.maintenance.stats import storage_stats as storage_stats
    from frazil.maintenance.summaries import ChunkStorageStats as ChunkStorageStats
    from frazil.maintenance.summaries import StorageStats as StorageStats
    from frazil.maintenance.unpack import plan_unpack as plan_unpack
    from frazil.maintenance.unpack import unpack as unpack
    from frazil.maintenance.verify.report import VerifyReport as VerifyReport
    from frazil.maintenance.verify.run import unopened_files as unopened_files
    from frazil.maintenance.verify.run import verify as verify

_MODULES = {
    "export_bundle": "frazil.maintenance.copying.bundle",
    "plan_export": "frazil.maintenance.copying.bundle",
    "plan_import": "frazil.maintenance.copying.bundle",
    "CloneResult": "frazil.maintenance.copying.clone",
    "clone": "frazil.maintenance.copying.clone",
    "plan_clone": "frazil.maintenance.copying.clone",
    "derive": "frazil.maintenance.copying.derived",
    "plan_partial": "frazil.maintenance.copying.derived",
    "DeleteLimits": "frazil.maintenance.deleting",
    "ThreadExecutor": "frazil.maintenance.executor",
    "ExpireRequest": "frazil.maintenance.expire",
    "expire": "frazil.maintenance.expire",
    "plan_expire": "frazil.maintenance.expire",
    "GCRequest": "frazil.maintenance.gc",
    "collect_garbage": "frazil.maintenance.gc",
    "plan_gc": "frazil.maintenance.gc",
    "CONCURRENT_LISTINGS": "frazil.maintenance.inventory",
    "GivenInventory": "frazil.maintenance.inventory",
    "inventory_of": "frazil.maintenance.inventory",
    "PREFETCHED": "frazil.maintenance.migrate.listing",
    "MigrateResult": "frazil.maintenance.migrate.migration",
    "confirm": "frazil.maintenance.migrate.migration",
    "find_leftovers": "frazil.maintenance.migrate.migration",
    "migrate": "frazil.maintenance.migrate.migration",
    "plan_migration": "frazil.maintenance.migrate.migration",
    "finish": "frazil.maintenance.migrate.upgrade",
    "plan_finish": "frazil.maintenance.migrate.upgrade",
    "plan_upgrade": "frazil.maintenance.migrate.upgrade",
    "upgrade": "frazil.maintenance.migrate.upgrade",
    "PackResult": "frazil.maintenance.pack",
    "pack": "frazil.maintenance.pack",
    "plan_pack": "frazil.maintenance.pack",
    "plan_purge_messages": "frazil.maintenance.purge.message",
    "purge_messages": "frazil.maintenance.purge.message",
    "plan_purge_path": "frazil.maintenance.purge.path",
    "purge_path": "frazil.maintenance.purge.path",
    "Remaining": "frazil.maintenance.purge.remaining",
    "quiet_files": "frazil.maintenance.quiet_files",
    "Budget": "frazil.maintenance.reachable",
    "narrowed": "frazil.maintenance.reachable",
    "RepairResult": "frazil.maintenance.repair.run",
    "repair": "frazil.maintenance.repair.run",
    "plan_rewrite_manifests": "frazil.maintenance.rewrite_manifests",
    "rewrite_manifests": "frazil.maintenance.rewrite_manifests",
    "chunk_totals": "frazil.maintenance.stats",
    "plan_stats": "frazil.maintenance.stats",
    "storage_stats": "frazil.maintenance.stats",
    "ChunkStorageStats": "frazil.maintenance.summaries",
    "StorageStats": "frazil.maintenance.summaries",
    "plan_unpack": "frazil.maintenance.unpack",
    "unpack": "frazil.maintenance.unpack",
    "VerifyReport": "frazil.maintenance.verify.report",
    "unopened_files": "frazil.maintenance.verify.run",
    "verify": "frazil.maintenance.verify.run",
}

if not TYPE_CHECKING:  # a type checker would take it to mean that any name is there

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found
