"""Icechunk repositories on Apache Spark: read, query, write, ingest, transform.

Every Python worker of Spark imports this package on the way to the data source. It needs neither
the SQL parser nor the readers of file formats, which take longer to import than a small task runs.
"""

# A name that is imported `as` itself is re-exported, for type checkers.
# ruff: isort: skip_file

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:  # loaded at first use, from the modules below
    from frazil.spark.ingestion.ingest import IngestResult as IngestResult
    from frazil.spark.ingestion.ingest import ingest as ingest
    from frazil.spark.io.data_source import register as register
    from frazil.spark.io.read import ReadPlan as ReadPlan
    from frazil.spark.io.read import plan_read as plan_read
    from frazil.spark.io.read import read as read
    from frazil.spark.io.read import read_chunks as read_chunks
    from frazil.spark.io.read import read_stream as read_stream
    from frazil.spark.io.read import read_table as read_table
    from frazil.spark.io.sql import SqlPlan as SqlPlan
    from frazil.spark.io.sql import plan_sql as plan_sql
    from frazil.spark.io.sql import sql as sql
    from frazil.spark.io.write import WriteResult as WriteResult
    from frazil.spark.io.write import write as write
    from frazil.spark.maintenance.expire import ExpireResult as ExpireResult
    from frazil.spark.maintenance.expire import expire_snapshots as expire_snapshots
    from frazil.spark.maintenance.gc import GarbageResult as GarbageResult
    from frazil.spark.maintenance.gc import garbage_collect as garbage_collect
    from frazil.spark.maintenance.migrate import MigrateResult as MigrateResult
    from frazil.spark.maintenance.migrate import migrate as migrate
    from frazil.spark.maintenance.pack import PackResult as PackResult
    from frazil.spark.maintenance.pack import pack as pack
    from frazil.spark.maintenance.purge import PurgeResult as PurgeResult
    from frazil.spark.maintenance.purge import purge_messages as purge_messages
    from frazil.spark.maintenance.purge import purge_path as purge_path
    from frazil.spark.maintenance.rewrite_manifests import (
        RewriteManifestsResult as RewriteManifestsResult,
    )
    from frazil.spark.maintenance.rewrite_manifests import rewrite_manifests as rewrite_manifests
    from frazil.spark.maintenance.stats import StatsResult as StatsResult
    from frazil.spark.maintenance.stats import stats as stats
    from frazil.spark.maintenance.unpack import UnpackResult as UnpackResult
    from frazil.spark.maintenance.unpack import unpack as unpack
    from frazil.spark.maintenance.verify import VerifyResult as VerifyResult
    from frazil.spark.maintenance.verify import verify as verify
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
    from frazil.spark.session import session as session

attach(
    __name__,
    {
        "frazil.spark.ingestion.ingest": ["IngestResult", "ingest"],
        "frazil.spark.io.data_source": ["register"],
        "frazil.spark.io.read": [
            "ReadPlan",
            "plan_read",
            "read",
            "read_chunks",
            "read_stream",
            "read_table",
        ],
        "frazil.spark.io.sql": ["SqlPlan", "plan_sql", "sql"],
        "frazil.spark.io.write": ["WriteResult", "write"],
        "frazil.spark.maintenance.expire": ["ExpireResult", "expire_snapshots"],
        "frazil.spark.maintenance.gc": ["GarbageResult", "garbage_collect"],
        "frazil.spark.maintenance.migrate": ["MigrateResult", "migrate"],
        "frazil.spark.maintenance.pack": ["PackResult", "pack"],
        "frazil.spark.maintenance.purge": ["PurgeResult", "purge_messages", "purge_path"],
        "frazil.spark.maintenance.rewrite_manifests": [
            "RewriteManifestsResult",
            "rewrite_manifests",
        ],
        "frazil.spark.maintenance.stats": ["StatsResult", "stats"],
        "frazil.spark.maintenance.unpack": ["UnpackResult", "unpack"],
        "frazil.spark.maintenance.verify": ["VerifyResult", "verify"],
        "frazil.spark.pipelines.clone": ["CloneResult", "clone", "explain_clone"],
        "frazil.spark.pipelines.export": ["ExportResult", "export"],
        "frazil.spark.pipelines.map_blocks": ["Block", "MapBlocksResult", "Output", "map_blocks"],
        "frazil.spark.pipelines.rechunk": ["RechunkResult", "explain_rechunk", "rechunk"],
        "frazil.spark.pipelines.reduce": ["ReduceResult", "reduce"],
        "frazil.spark.runtime.progress": ["JobProgress"],
        "frazil.spark.session": ["session"],
    },
)
