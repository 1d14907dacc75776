"""Icechunk repositories on Apache Spark: read, query, write, ingest, transform.

Every Python worker of Spark imports this package on the way to the data source. It needs neither
the SQL parser nor the readers of file formats, which take longer to import than a small task runs.
"""

# A name that is imported `as` itself is re-exported, for type checkers.
# ruff: isort: skip_file

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:  # loaded at first use, from the modules below
    from frazil.spark.actions.collection import ExpireResult as ExpireResult
    from frazil.spark.actions.collection import GarbageResult as GarbageResult
    from frazil.spark.actions.collection import StatsResult as StatsResult
    from frazil.spark.actions.collection import expire_snapshots as expire_snapshots
    from frazil.spark.actions.collection import garbage_collect as garbage_collect
    from frazil.spark.actions.collection import stats as stats
    from frazil.spark.actions.migrate import MigrateResult as MigrateResult
    from frazil.spark.actions.migrate import migrate as migrate
    from frazil.spark.actions.pack import PackResult as PackResult
    from frazil.spark.actions.pack import UnpackResult as UnpackResult
    from frazil.spark.actions.pack import pack as pack
    from frazil.spark.actions.pack import unpack as unpack
    from frazil.spark.actions.purge import PurgeResult as PurgeResult
    from frazil.spark.actions.purge import purge_messages as purge_messages
    from frazil.spark.actions.purge import purge_path as purge_path
    from frazil.spark.actions.rewrite_manifests import (
        RewriteManifestsResult as RewriteManifestsResult,
    )
    from frazil.spark.actions.rewrite_manifests import rewrite_manifests as rewrite_manifests
    from frazil.spark.actions.verify import VerifyResult as VerifyResult
    from frazil.spark.actions.verify import verify as verify
    from frazil.spark.ingestion.ingest import IngestPlan as IngestPlan
    from frazil.spark.ingestion.ingest import IngestResult as IngestResult
    from frazil.spark.ingestion.ingest import explain_ingest as explain_ingest
    from frazil.spark.ingestion.ingest import ingest as ingest
    from frazil.spark.io.data_source import register as register
    from frazil.spark.io.read import ReadPlan as ReadPlan
    from frazil.spark.io.read import plan_read as plan_read
    from frazil.spark.io.read import read as read
    from frazil.spark.io.read import read_changes as read_changes
    from frazil.spark.io.read import read_chunks as read_chunks
    from frazil.spark.io.read import read_stream as read_stream
    from frazil.spark.io.read import read_table as read_table
    from frazil.spark.io.sql import SqlPlan as SqlPlan
    from frazil.spark.io.sql import plan_sql as plan_sql
    from frazil.spark.io.sql import sql as sql
    from frazil.spark.io.transaction import Transaction as Transaction
    from frazil.spark.io.transaction import transaction as transaction
    from frazil.spark.io.write import WriteResult as WriteResult
    from frazil.spark.io.write import write as write
    from frazil.spark.pipelines.clone import CloneResult as CloneResult
    from frazil.spark.pipelines.clone import clone as clone
    from frazil.spark.pipelines.clone import explain_clone as explain_clone
    from frazil.spark.pipelines.export import ExportResult as ExportResult
    from frazil.spark.pipelines.export import export as export
    from frazil.spark.pipelines.map_blocks import Block as Block
    from frazil.spark.pipelines.map_blocks import MapBlocksResult as MapBlocksResult
    from frazil.spark.pipelines.map_blocks import Output as Output
    from frazil.spark.pipelines.map_blocks import map_blocks as map_blocks
    from frazil.spark.pipelines.rechunk import RechunkResult as RechunkResult
    from frazil.spark.pipelines.rechunk import explain_rechunk as explain_rechunk
    from frazil.spark.pipelines.rechunk import rechunk as rechunk
    from frazil.spark.pipelines.reduce import ReduceResult as ReduceResult
    from frazil.spark.pipelines.reduce import reduce as reduce
    from frazil.spark.runtime.progress import JobProgress as JobProgress
    from frazil.spark.spark_session import session as session

attach(
    __name__,
    {
        "frazil.spark.actions.collection": [
            "ExpireResult",
            "GarbageResult",
            "StatsResult",
            "expire_snapshots",
            "garbage_collect",
            "stats",
        ],
        "frazil.spark.actions.migrate": ["MigrateResult", "migrate"],
        "frazil.spark.actions.pack": ["PackResult", "UnpackResult", "pack", "unpack"],
        "frazil.spark.actions.purge": ["PurgeResult", "purge_messages", "purge_path"],
        "frazil.spark.actions.rewrite_manifests": ["RewriteManifestsResult", "rewrite_manifests"],
        "frazil.spark.actions.verify": ["VerifyResult", "verify"],
        "frazil.spark.ingestion.ingest": ["IngestPlan", "IngestResult", "explain_ingest", "ingest"],
        "frazil.spark.io.data_source": ["register"],
        "frazil.spark.io.read": [
            "ReadPlan",
            "plan_read",
            "read",
            "read_changes",
            "read_chunks",
            "read_stream",
            "read_table",
        ],
        "frazil.spark.io.sql": ["SqlPlan", "plan_sql", "sql"],
        "frazil.spark.io.transaction": ["Transaction", "transaction"],
        "frazil.spark.io.write": ["WriteResult", "write"],
        "frazil.spark.pipelines.clone": ["CloneResult", "clone", "explain_clone"],
        "frazil.spark.pipelines.export": ["ExportResult", "export"],
        "frazil.spark.pipelines.map_blocks": ["Block", "MapBlocksResult", "Output", "map_blocks"],
        "frazil.spark.pipelines.rechunk": ["RechunkResult", "explain_rechunk", "rechunk"],
        "frazil.spark.pipelines.reduce": ["ReduceResult", "reduce"],
        "frazil.spark.runtime.progress": ["JobProgress"],
        "frazil.spark.spark_session": ["session"],
    },
)
