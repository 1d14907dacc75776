"""Icechunk repositories on Apache Spark: read, query, write, ingest, transform."""
# ruff: noqa: F401, TC004 -- lazily.py makes the package lazy, and loads the names below at need

from typing import TYPE_CHECKING

from frazil.spark import lazily as __lazily__

if TYPE_CHECKING:  # at run time they are loaded at need: see lazily.py
    from frazil.spark.ingestion.ingest import IngestResult, ingest
    from frazil.spark.io.data_source import register
    from frazil.spark.io.read import ReadPlan, plan_read, read, read_chunks, read_stream, read_table
    from frazil.spark.io.sql import SqlPlan, plan_sql, sql
    from frazil.spark.io.write import WriteResult, write
    from frazil.spark.maintenance.expire import ExpireResult, expire_snapshots
    from frazil.spark.maintenance.gc import GarbageResult, garbage_collect
    from frazil.spark.maintenance.migrate import MigrateResult, migrate
    from frazil.spark.maintenance.pack import PackResult, pack
    from frazil.spark.maintenance.purge import PurgeResult, purge_messages, purge_path
    from frazil.spark.maintenance.rewrite_manifests import (
        RewriteManifestsResult,
        rewrite_manifests,
    )
    from frazil.spark.maintenance.stats import StatsResult, stats
    from frazil.spark.maintenance.unpack import UnpackResult, unpack
    from frazil.spark.maintenance.verify import VerifyResult, verify
    from frazil.spark.pipelines.clone import CloneResult, clone, explain_clone
    from frazil.spark.pipelines.export import ExportResult, export
    from frazil.spark.pipelines.map_blocks import Block, MapBlocksResult, Output, map_blocks
    from frazil.spark.pipelines.rechunk import RechunkResult, explain_rechunk, rechunk
    from frazil.spark.pipelines.reduce import ReduceResult, reduce
    from frazil.spark.runtime.progress import JobProgress
    from frazil.spark.session import session

__all__ = [
    "Block",
    "CloneResult",
    "ExpireResult",
    "ExportResult",
    "GarbageResult",
    "IngestResult",
    "JobProgress",
    "MapBlocksResult",
    "MigrateResult",
    "Output",
    "PackResult",
    "PurgeResult",
    "ReadPlan",
    "RechunkResult",
    "ReduceResult",
    "RewriteManifestsResult",
    "SqlPlan",
    "StatsResult",
    "UnpackResult",
    "VerifyResult",
    "WriteResult",
    "clone",
    "expire_snapshots",
    "explain_clone",
    "explain_rechunk",
    "export",
    "garbage_collect",
    "ingest",
    "map_blocks",
    "migrate",
    "pack",
    "plan_read",
    "plan_sql",
    "purge_messages",
    "purge_path",
    "read",
    "read_chunks",
    "read_stream",
    "read_table",
    "rechunk",
    "reduce",
    "register",
    "rewrite_manifests",
    "session",
    "sql",
    "stats",
    "unpack",
    "verify",
    "write",
]
