"""A group of a repository in another format: a Zarr store, Parquet, NetCDF files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, assert_never
from uuid import uuid4

import numpy as np
from pyspark.sql import SparkSession

from frazil.engine.files.files import Files
from frazil.engine.refs.version import Branch, Exactly, Tag, Version
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.nodes import Node
from frazil.ids import SnapshotId
from frazil.objectstore.keys import LOCK_NAME
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.spark.io.opening import (
    StorageOptions,
    open_shared,
    open_target,
    require_elsewhere,
    require_folder,
)
from frazil.spark.io.read import read
from frazil.spark.pipelines.relayout import dims_of
from frazil.spark.runtime.executor import JobExecutor, job_executor
from frazil.spark.runtime.jobs import MAX_TASK_BYTES, Cut
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.runtime.workers import errors_carried
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.table.opened import RepositoryLike
from frazil.zarrstore.store import SessionStore

if TYPE_CHECKING:
    import xarray as xr


# A group as a Zarr store of format 3: chunks are copied as they are, metadata comes last.

CHUNKS_PER_TASK = 256  # each is a request to the store
_VALUE_BYTES = 8  # few types have longer values
METADATA = "zarr.json"

type Counts = tuple[int, int]  # objects, and their bytes


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """One array: where it is, and the beginning of its keys in the target."""

    path: NodePath
    prefix: str
    shape: tuple[int, ...]
    grid: tuple[int, ...]

    @property
    def chunks(self) -> int:
        """Chunks of the whole grid, stored or not."""
        return prod(self.grid)

    @property
    def at_once(self) -> int:
        """Chunks to be held in memory, if they do not compress at all."""
        chunk_bytes = _VALUE_BYTES * prod(self.shape) // max(1, self.chunks)
        return max(1, MAX_TASK_BYTES // max(1, chunk_bytes))

    @property
    def tasks(self) -> int:
        return -(-self.chunks // CHUNKS_PER_TASK)

    def key(self, index: Sequence[int]) -> str:
        """Key of a chunk, in the only encoding that Icechunk supports."""
        return self.prefix + "/".join(["c", *map(str, index)])


@dataclass(frozen=True, slots=True)
class ZarrPlan:
    arrays: tuple[ZarrArray, ...]
    documents: tuple[tuple[str, bytes], ...]  # by key, in the order of writing: the root's is last

    @property
    def tasks(self) -> int:
        return sum(array.tasks for array in self.arrays)


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """Task that copies chunks; picklable."""

    base: Session  # read-only
    plan: ZarrPlan
    target: ObjectStore

    def __call__(self, _: Files, tasks: range) -> Counts:
        ends = list(accumulate(array.tasks for array in self.plan.arrays))
        objects, size_bytes = 0, 0
        for task in tasks:
            position = int(np.searchsorted(ends, task, side="right"))
            array = self.plan.arrays[position]
            for length in self._copy(array, task - (ends[position] - array.tasks)):
                objects, size_bytes = objects + 1, size_bytes + length
        self.target.sync()
        return objects, size_bytes

    def _copy(self, array: ZarrArray, task: int) -> Iterator[int]:
        start = task * CHUNKS_PER_TASK
        stop = min(start + CHUNKS_PER_TASK, array.chunks)
        along = np.unravel_index(np.arange(start, stop), array.grid) if array.grid else ()
        wanted = np.array(along, dtype=np.uint32).reshape(len(array.grid), stop - start).T
        for at in range(0, len(wanted), array.at_once):
            some = wanted[at : at + array.at_once]
            chunks = self.base.fetch_chunks(array.path, some)
            for place, data in zip(some.tolist(), chunks, strict=True):
                if data is not None:
                    self.target.put(array.key(place), data)
                    yield len(data)


def plan_zarr(session: Session, group: NodePath, variables: Sequence[str] | None) -> ZarrPlan:
    """Everything below the group, or the variables named and their coordinates."""
    nodes = [node for node in session.nodes(group) if _is_wanted(node, group, variables, session)]
    arrays = [
        ZarrArray(node.path, _prefix(node.path, group), node.array.shape, node.array.num_chunks)
        for node in nodes
        if node.array is not None
    ]
    documents = [(_prefix(node.path, group) + METADATA, node.user_data) for node in reversed(nodes)]
    return ZarrPlan(tuple(arrays), tuple(documents))


def prepare_target(target: ObjectStore, *, overwrite: bool) -> None:
    """Raises AlreadyExistsError; what is overwritten must be a Zarr store."""
    there = [info.key for info in target.list()]
    if not there:
        return
    if not overwrite or METADATA not in there:
        raise AlreadyExistsError("there is something at the target already")
    target.delete([METADATA])  # first: half a store is none
    target.delete(key for key in there if key != METADATA)
    if target.directory is not None:
        _remove_empty_folders(Path(target.directory))


def clear_up(target: ObjectStore) -> None:
    """Removes files that writing to a folder leaves and that do not belong in a Zarr store."""
    target.sync()
    if target.directory is not None:
        Path(target.directory, LOCK_NAME).unlink(missing_ok=True)


def _remove_empty_folders(root: Path) -> None:
    for folder, _, _ in root.walk(top_down=False):
        if folder != root and not any(folder.iterdir()):
            folder.rmdir()


def _is_wanted(
    node: Node, group: NodePath, variables: Sequence[str] | None, session: Session
) -> bool:
    if variables is None or node.path == group:
        return True
    if node.path.parent != group or node.array is None:
        return False
    chosen = [session.node(group.child(name)) for name in variables]
    dims = {dim for one in chosen for dim in dims_of(json.loads(one.user_data))}
    return node.path.name in variables or node.path.name in dims


def _prefix(path: NodePath, group: NodePath) -> str:
    below = path.text.removeprefix(group.text).strip("/")
    return f"{below}/" if below else ""


# A group as NetCDF4 files: one, or one for each part of a dimension, each written by one task.

# Of what Zarr knows about an array, NetCDF takes these; chunks and compressors differ.
_ENCODING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")


@dataclass(frozen=True, slots=True)
class NetcdfPlan:
    """File by file; without `split` there is one, and `target` is its name."""

    target: str
    group: NodePath
    variables: tuple[str, ...] | None
    dims: tuple[str, ...]
    cut: Cut

    def file(self, number: int) -> Path:
        whole = Path(self.target)
        return whole / f"part-{number:05d}.nc" if self.dims else whole


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """Task that writes files; picklable."""

    base: Session  # read-only
    plan: NetcdfPlan

    def __call__(self, _: Files, tasks: range) -> Counts:
        size_bytes = 0
        for task in tasks:
            path = self.plan.file(task)
            parts = dict(zip(self.plan.dims, self.plan.cut.region(task), strict=True))
            with source_errors(str(path)):
                chosen = open_dataset(self.base, self.plan.group, self.plan.variables).isel(parts)
                _write(chosen, path)
            size_bytes += path.stat().st_size
        return len(tasks), size_bytes


def plan_netcdf(
    session: Session,
    group: NodePath,
    target: str,
    *,
    variables: Sequence[str] | None,
    split: Mapping[str, int],
    overwrite: bool,
) -> NetcdfPlan:
    if "://" in target:
        raise InvalidInputError("NetCDF files are written to a folder that all executors see")
    whole = Path(target).absolute()
    if whole.exists() and not overwrite:
        raise AlreadyExistsError(f"there is already {target}")
    if whole.is_dir() and not split:
        raise AlreadyExistsError(f"there is a folder at {target}: it is not replaced by a file")
    if whole.is_file() and split:
        raise AlreadyExistsError(f"there is a file at {target}: it is not replaced by a folder")
    names = None if variables is None else tuple(variables)
    sizes = {str(dim): n for dim, n in open_dataset(session, group, names).sizes.items()}
    for dim, length in split.items():
        if dim not in sizes or length < 1:
            raise InvalidInputError(
                f"split is {dim}={length}; the dimensions are {', '.join(sizes)}, lengths above 0"
            )
    if split:
        whole.mkdir(parents=True, exist_ok=True)
    cut = Cut(tuple(sizes[dim] for dim in split), tuple(split.values()))
    return NetcdfPlan(str(whole), group, names, tuple(split), cut)


def remove_others(plan: NetcdfPlan) -> None:
    """Parts of an earlier export to the same folder that this one has no use for."""
    if plan.dims:
        made = {plan.file(number) for number in range(len(plan.cut))}
        for path in Path(plan.target).glob("part-*.nc"):
            if path not in made:
                path.unlink()


def open_dataset(
    session: Session, group: NodePath, variables: tuple[str, ...] | None
) -> "xr.Dataset":
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    opened: xr.Dataset = xr.open_dataset(
        SessionStore(session, read_only=True),  # type: ignore[arg-type]  # stubs know only paths
        engine="zarr",
        group=group.text.strip("/") or None,
        chunks=None,
        cache=False,
        consolidated=False,
        zarr_format=3,
    )
    return opened if variables is None else opened[list(variables)]


def _write(dataset: "xr.Dataset", path: Path) -> None:
    """Writes a file, which gets its name when it is complete."""
    for variable in dataset.variables.values():
        kept: dict[Any, Any] = {
            k: variable.encoding[k] for k in _ENCODING if k in variable.encoding
        }
        variable.encoding = kept
    made = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        dataset.to_netcdf(made, engine="h5netcdf")
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


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
    spark: SparkSession | None,
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
        spark: the session whose executors read and write. None: this process does the work, one
            task after the other; not for Parquet.
        repo: the repository, or where it is.
        target: a path or location that executors see, too: of a folder, or of one NetCDF file.
        format: `zarr` copies chunks as they are, and everything below the group; `parquet` writes
            the rows that `frazil.spark.read` gives; `netcdf` writes files with xarray.
        group: what is exported.
        variables: only these, and their coordinates.
        branch: the tip of this branch; main by default.
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
    with job_executor(spark, repository, progress) as executor:
        job = _Export(executor, session, home, str(target), variables, overwrite)
        match kind:
            case Format.ZARR:
                store = open_target(target, target_storage)
                require_folder(store, target)
                objects, size_bytes = _export_zarr(job, store)
            case Format.NETCDF:
                objects, size_bytes = _export_netcdf(job, split or {})
            case Format.PARQUET:
                objects, size_bytes = _export_parquet(job, spark, repo, storage)
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
    """Describes what is exported. Raises NodeNotFoundError, InvalidInputError if it is no group."""
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
    executor: JobExecutor
    session: Session
    group: NodePath
    target: str
    variables: Sequence[str] | None
    overwrite: bool


def _export_zarr(job: _Export, store: ObjectStore) -> Counts:
    plan = plan_zarr(job.session, job.group, job.variables)
    prepare_target(store, overwrite=job.overwrite)
    total = sum(array.chunks for array in plan.arrays)
    copy, doing = CopyChunks(job.session, plan, store), f"Copying {total} chunks"
    counts = _sum(job.executor.run(copy, plan.tasks, doing, sizes=0))
    for key, document in plan.documents:
        store.put(key, document)
    clear_up(store)
    return counts


def _export_netcdf(job: _Export, split: Mapping[str, int]) -> Counts:
    plan = plan_netcdf(
        job.session,
        job.group,
        job.target,
        variables=job.variables,
        split=split,
        overwrite=job.overwrite,
    )
    write, files = WriteFiles(job.session, plan), len(plan.cut)
    doing = f"Writing {files} files"
    counts = _sum(job.executor.run(write, files, doing, sizes=0, partitions=files))
    remove_others(plan)
    return counts


def _export_parquet(
    job: _Export, spark: SparkSession | None, repo: RepositoryLike, storage: StorageOptions | None
) -> Counts:
    if spark is None:
        raise InvalidInputError("Parquet is written by Spark: a session is needed")
    local = "://" not in job.target
    if local and Path(job.target).exists() and not job.overwrite:
        raise AlreadyExistsError(f"there is already {job.target}")
    frame = read(
        spark,
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
        return len(spark.read.parquet(job.target).inputFiles()), 0
    files = list(Path(job.target).glob("part-*"))
    return len(files), sum(file.stat().st_size for file in files)


def _sum(parts: Iterable[Counts]) -> Counts:
    objects, size_bytes = 0, 0
    for more, more_bytes in parts:
        objects, size_bytes = objects + more, size_bytes + more_bytes
    return objects, size_bytes


def _version(branch: str | None, tag: str | None, snapshot: str | None) -> Version:
    if sum(one is not None for one in (branch, tag, snapshot)) > 1:
        raise InvalidInputError("give one of branch, tag and snapshot")
    if snapshot is not None:
        return Exactly(SnapshotId.parse(snapshot))
    return Branch(branch or "main") if tag is None else Tag(tag)
