"""The names of `frazil.spark`, loaded when somebody first uses one.

Every Python worker of Spark imports this package on the way to the data source. It needs neither
the SQL parser nor what reads files of all sorts, which take longer to import than a small task
takes to run.

`frazil.spark.session` is both a function and a module, and the import system puts a module into
its package once it is loaded, where it would hide the function. So the package is
a module of a class of its own, which does not let it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, override

# Name -> module that has it
NAMES = {
    "Block": "frazil.spark.pipelines.map_blocks",
    "CloneResult": "frazil.spark.pipelines.clone",
    "ExpireResult": "frazil.spark.maintenance.expire",
    "ExportResult": "frazil.spark.pipelines.export",
    "GarbageResult": "frazil.spark.maintenance.gc",
    "IngestResult": "frazil.spark.ingestion.ingest",
    "JobProgress": "frazil.spark.runtime.progress",
    "MapBlocksResult": "frazil.spark.pipelines.map_blocks",
    "MigrateResult": "frazil.spark.maintenance.migrate",
    "Output": "frazil.spark.pipelines.map_blocks",
    "PackResult": "frazil.spark.maintenance.pack",
    "PurgeResult": "frazil.spark.maintenance.purge",
    "ReadPlan": "frazil.spark.io.read",
    "RechunkResult": "frazil.spark.pipelines.rechunk",
    "ReduceResult": "frazil.spark.pipelines.reduce",
    "RewriteManifestsResult": "frazil.spark.maintenance.rewrite_manifests",
    "SqlPlan": "frazil.spark.io.sql",
    "StatsResult": "frazil.spark.maintenance.stats",
    "UnpackResult": "frazil.spark.maintenance.unpack",
    "VerifyResult": "frazil.spark.maintenance.verify",
    "WriteResult": "frazil.spark.io.write",
    "clone": "frazil.spark.pipelines.clone",
    "expire_snapshots": "frazil.spark.maintenance.expire",
    "explain_clone": "frazil.spark.pipelines.clone",
    "explain_rechunk": "frazil.spark.pipelines.rechunk",
    "export": "frazil.spark.pipelines.export",
    "garbage_collect": "frazil.spark.maintenance.gc",
    "ingest": "frazil.spark.ingestion.ingest",
    "map_blocks": "frazil.spark.pipelines.map_blocks",
    "migrate": "frazil.spark.maintenance.migrate",
    "pack": "frazil.spark.maintenance.pack",
    "plan_read": "frazil.spark.io.read",
    "plan_sql": "frazil.spark.io.sql",
    "purge_messages": "frazil.spark.maintenance.purge",
    "purge_path": "frazil.spark.maintenance.purge",
    "read": "frazil.spark.io.read",
    "read_chunks": "frazil.spark.io.read",
    "read_stream": "frazil.spark.io.read",
    "read_table": "frazil.spark.io.read",
    "rechunk": "frazil.spark.pipelines.rechunk",
    "reduce": "frazil.spark.pipelines.reduce",
    "register": "frazil.spark.io.data_source",
    "rewrite_manifests": "frazil.spark.maintenance.rewrite_manifests",
    "session": "frazil.spark.session",
    "sql": "frazil.spark.io.sql",
    "stats": "frazil.spark.maintenance.stats",
    "unpack": "frazil.spark.maintenance.unpack",
    "verify": "frazil.spark.maintenance.verify",
    "write": "frazil.spark.io.write",
}


class LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        """Called for names that are not there yet."""
        if name not in NAMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(import_module(NAMES[name]), name)
        super().__setattr__(name, found)
        return found

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if name in NAMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *NAMES})


def make_lazy(package: str) -> None:
    sys.modules[package].__class__ = LazyPackage


make_lazy("frazil.spark")
