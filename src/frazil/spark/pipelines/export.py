"""A group of a repository in another format: a Zarr store, Parquet, NetCDF files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import assert_never

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.version import Branch, Exactly, Tag, Version
from frazil.spark.ingestion.failures import errors_carried
from frazil.spark.ingestion.jobs import parallelism
from frazil.spark.opened import RepositoryLike
from frazil.spark.pipelines.boxes import TASKS_PER_CORE
from frazil.spark.pipelines.export_netcdf import WriteFiles, plan_netcdf, remove_others
from frazil.spark.pipelines.export_zarr import (
    COPIED,
    CopyChunks,
    ZarrPlan,
    clear_up,
    plan_zarr,
    prepare_target,
)
from frazil.spark.pipelines.opening import (
    StorageOptions,
    open_shared,
    open_target,
    require_elsewhere,
    require_folder,
)
from frazil.spark.pipelines.running import collect, map_tasks
from frazil.spark.progress import (
    ProgressCallback,
    ProgressOption,
    create_counter,
    progress_callback,
    watched,
)
from frazil.spark.read import read


class Format(StrEnum):
    ZARR = "zarr"
    PARQUET = "parquet"
    NETCDF = "netcdf"

    @classmethod
    def parse(cls, text: str) -> "Format":
        try:
            return cls(text)
        except ValueError:
            raise InvalidInputError(f"format is {text!r}, expected zarr, parquet, netcdf") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """`objects` are chunks of Zarr, files otherwise; `bytes` of Parquet in a bucket are 0."""

    target: str
    snapshot_id: str
    objects: int
    bytes: int
    seconds: float


def export(
    spark: SparkSession,
    repo: RepositoryLike,
    target: str | Path,
    *,
    format: str = Format.ZARR,  # noqa: A002 -- the word that Spark's own writers use
    group: str = "/",
    variables: Sequence[str] | None = None,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    split: Mapping[str, int] | None = None,
    overwrite: bool = False,
    storage: StorageOptions | None = None,
    target_storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> ExportResult:
    """Writes a version of a group to another place, in another format.

    Args:
        spark: the session whose executors read and write.
        repo: the repository, or where it is.
        target: a path or location that executors see, too: of a folder, or of one NetCDF file.
        format: `zarr` copies chunks as they are, and everything below the group; `parquet` writes
            the rows that `frazil.spark.read` gives; `netcdf` writes files with xarray.
        group: what is exported.
        variables: only these, and their coordinates.
        branch: the tip of this branch; main, if nothing is said.
        tag: the snapshot of this tag.
        snapshot: this snapshot.
        split: for NetCDF: so many steps of a dimension go to each file, in the folder `target`.
            Without it there is one file, which must fit in the memory of one task.
        overwrite: whether what is at the target may be replaced.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        target_storage: the same of the bucket that `target` names, for Zarr; Parquet is written
            by Spark, which is configured otherwise (`spark.hadoop.fs.s3a...`).
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError, RefNotFoundError: there is no such group, variable, branch or tag.
        AlreadyExistsError: there is something at the target.
    """
    started = perf_counter()
    kind = Format.parse(format)
    if split and kind is not Format.NETCDF:
        raise InvalidInputError("split is for format='netcdf'")
    if target_storage and kind is not Format.ZARR:
        raise InvalidInputError("target_storage is for format='zarr'")
    repository = open_shared(repo, storage)
    place = target if "://" in str(target) else Path(target).absolute()
    if "://" not in str(target) or kind is Format.ZARR:
        require_elsewhere(repository.store, open_target(place, target_storage))
    session = repository.readonly_session(_version(branch, tag, snapshot))
    home = NodePath.from_key_prefix(group)
    explain_export(session, group, variables)  # says what is missing
    job = _Export(spark, session, home, str(target), variables, overwrite)
    with progress_callback(progress) as tell:
        match kind:
            case Format.ZARR:
                store = open_target(target, target_storage)
                require_folder(store, target)
                objects, size_bytes = _export_zarr(job, store, tell)
            case Format.NETCDF:
                objects, size_bytes = _export_netcdf(job, split or {}, tell)
            case Format.PARQUET:
                objects, size_bytes = _export_parquet(job, repo, storage)
            case _:
                assert_never(kind)
    return ExportResult(
        target=str(target),
        snapshot_id=str(session.snapshot_id),
        objects=objects,
        bytes=size_bytes,
        seconds=perf_counter() - started,
    )


def explain_export(session: Session, group: str, variables: Sequence[str] | None) -> ZarrPlan:
    """What is exported. Raises NodeNotFoundError, InvalidInputError if it is no group."""
    home = NodePath.from_key_prefix(group)
    if session.node(home).array is not None:
        raise InvalidInputError(f"the node at `{home}` is not a group", kind="not-a-group")
    if variables is not None and not variables:
        raise InvalidInputError("variables names no variable")
    for name in variables or ():
        session.node(home.child(name))
    return plan_zarr(session, home, variables)


@dataclass(frozen=True, slots=True)
class _Export:
    spark: SparkSession
    session: Session
    group: NodePath
    target: str
    variables: Sequence[str] | None
    overwrite: bool


def _export_zarr(job: _Export, store: ObjectStore, tell: ProgressCallback) -> tuple[int, int]:
    plan = plan_zarr(job.session, job.group, job.variables)
    prepare_target(store, overwrite=job.overwrite)
    counter = create_counter(job.spark)
    counts = (0, 0)
    total = sum(array.chunks for array in plan.arrays)
    with watched(counter, f"Copying {total} chunks", 0, tell):
        if plan.tasks:
            copy = CopyChunks(job.session, plan, store, counter)
            partitions = parallelism(job.spark) * TASKS_PER_CORE
            counts = _sum(collect(map_tasks(job.spark, plan.tasks, partitions, copy, COPIED)))
    for key, document in plan.documents:
        store.put(key, document)
    clear_up(store)
    return counts


def _export_netcdf(
    job: _Export, split: Mapping[str, int], tell: ProgressCallback
) -> tuple[int, int]:
    plan = plan_netcdf(
        job.session,
        job.group,
        job.target,
        variables=job.variables,
        split=split,
        overwrite=job.overwrite,
    )
    counter = create_counter(job.spark)
    files = len(plan.cut)
    with watched(counter, f"Writing {files} files", 0, tell):
        write = WriteFiles(job.session, plan, counter)
        counts = _sum(collect(map_tasks(job.spark, files, files, write, COPIED)))
    remove_others(plan)
    return counts


def _export_parquet(
    job: _Export, repo: RepositoryLike, storage: StorageOptions | None
) -> tuple[int, int]:
    local = "://" not in job.target
    if local and Path(job.target).exists() and not job.overwrite:
        raise AlreadyExistsError(f"there is already {job.target}")
    frame = read(
        job.spark,
        repo,
        group=job.group.text,
        variables=job.variables,
        snapshot=str(job.session.snapshot_id),
        storage=storage,
    )
    mode = "overwrite" if job.overwrite else "error"  # the name that Connect knows, too
    with errors_carried():
        frame.write.mode(mode).parquet(job.target)
    if not local:
        return len(job.spark.read.parquet(job.target).inputFiles()), 0
    files = list(Path(job.target).glob("part-*"))
    return len(files), sum(file.stat().st_size for file in files)


def _sum(table: pa.Table) -> tuple[int, int]:
    rows = table.to_pylist()
    return sum(row["objects"] for row in rows), sum(row["bytes"] for row in rows)


def _version(branch: str | None, tag: str | None, snapshot: str | None) -> Version:
    if sum(one is not None for one in (branch, tag, snapshot)) > 1:
        raise InvalidInputError("give one of branch, tag and snapshot")
    if snapshot is not None:
        return Exactly(SnapshotId.parse(snapshot))
    return Branch(branch or "main") if tag is None else Tag(tag)
