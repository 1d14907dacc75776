"""Packs small chunk objects by Spark's executors: see frazil.maintenance.pack."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.ids import format_ids
from frazil.maintenance import pack as engine
from frazil.maintenance.executor import PACK_BYTES, SMALL_BYTES
from frazil.paths import ROOT, NodePath
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.table.opened import RepositoryLike

_PACKS = "pack long, object string, chunks long, bytes long"


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
    with spark_executor(spark, repository, progress) as executor:
        plan = engine.plan_pack(
            repository,
            branch,
            tuple(map(NodePath, paths)) or (ROOT,),
            executor,
            small_bytes=small_bytes,
            pack_bytes=pack_bytes,
        )
        done = engine.pack(repository, plan, message, executor, metadata=metadata)
    written = spark.createDataFrame(_pack_rows(plan), _PACKS)
    return PackResult(**asdict(done), written=written)


def _pack_rows(plan: engine.PackPlan) -> list[tuple[int, str, int, int]]:
    counts = plan.packed.tolist(), plan.pack_bytes.tolist()
    columns = range(plan.packs), format_ids(plan.names), *counts
    return list(zip(*columns, strict=True))


# Unpacks chunks by Spark's executors: see frazil.maintenance.pack.

_OBJECTS = "pack string, object string, bytes long"
_SHOWN = 100_000  # rows: the driver has them in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult(engine.PackResult):
    """The numbers are those of the local action; `written` has a row for each new object.

    Up to 100,000 of them. `snapshot` is None if there was nothing to do.
    """

    written: DataFrame = field(repr=False)


def unpack(
    spark: SparkSession,
    repo: RepositoryLike,
    message: str | None = None,
    *,
    branch: str = "main",
    paths: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> UnpackResult:
    """Gives every chunk of the branch's tip that is in a pack an object of its own, by one commit.

    Args:
        spark: the session whose executors read packs and write chunks.
        repo: the repository, or where it is.
        message: of the commit; by default it tells how many chunks were unpacked.
        branch: whose tip it is.
        paths: arrays, or groups above them; by default all.
        metadata: of the commit.
        storage: how the location of a bucket is reached.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is nothing at or below one of the paths.
    """
    repository = open_shared(repo, storage)
    with spark_executor(spark, repository, progress) as executor:
        chosen = tuple(map(NodePath, paths)) or (ROOT,)
        plan = engine.plan_unpack(repository, branch, chosen, executor)
        done = engine.unpack(repository, plan, message, executor, metadata=metadata)
    written = spark.createDataFrame(_object_rows(plan), _OBJECTS)
    return UnpackResult(**asdict(done), written=written)


def _object_rows(plan: engine.UnpackPlan) -> list[tuple[str, str, int]]:
    some = plan.chunks.take(slice(0, _SHOWN))
    packs, objects = format_ids(some.chunk_id), format_ids(plan.names[:_SHOWN])
    return list(zip(packs, objects, some.length.tolist(), strict=True))
