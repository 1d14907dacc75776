"""Packs small chunk objects by Spark's executors: see frazil.maintenance.pack."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from frazil.ids import format_ids
from frazil.maintenance import pack as engine
from frazil.maintenance.defaults import PACK_BYTES, SMALL_BYTES
from frazil.paths import ROOT, NodePath
from frazil.spark.maintenance.executor import spark_executor
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike

_SHOWN = "pack long, object string, chunks long, bytes long"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult(engine.PackResult):
    """The numbers are those of the local action; `written` has a row for each pack.

    `snapshot` is None if there was nothing to do.
    """

    written: DataFrame = field(repr=False)


def pack(
    spark: SparkSession,
    repo: RepositoryLike,
    message: str | None = None,
    *,
    branch: str = "main",
    paths: Sequence[str] = (),
    small_bytes: int = SMALL_BYTES,
    pack_bytes: int = PACK_BYTES,
    metadata: Mapping[str, Any] | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> PackResult:
    """Puts small chunk objects of the branch's tip together, by one commit.

    Args:
        spark: the session whose executors read chunks and write packs.
        repo: the repository, or where it is.
        message: of the commit; by default it tells how many chunks were packed.
        branch: whose tip it is.
        paths: arrays, or groups above them; by default all.
        small_bytes: chunks of at most this size are packed.
        pack_bytes: of a pack, about; at least twice as much.
        metadata: of the commit.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is nothing at or below one of the paths.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, "pack", progress) as executor:
        plan = engine.plan_pack(
            repository,
            branch,
            tuple(map(NodePath, paths)) or (ROOT,),
            executor,
            small_bytes=small_bytes,
            pack_bytes=pack_bytes,
        )
        done = engine.pack(repository, plan, message, executor, metadata=metadata)
    written = spark.createDataFrame(_rows(plan), _SHOWN)
    return PackResult(**asdict(done), written=written)


def _rows(plan: engine.PackPlan) -> list[tuple[int, str, int, int]]:
    chunks = np.bincount(plan.pack, minlength=plan.packs).tolist()
    columns = range(plan.packs), format_ids(plan.names), chunks, plan.pack_bytes.tolist()
    return list(zip(*columns, strict=True))
