"""A function over blocks of arrays, to blocks of other arrays: one Spark job, one commit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.version import Branch
from frazil.repo.writer import ChunkWriter
from frazil.spark.description import ArrayDescription
from frazil.spark.ingestion.metadata import group_document
from frazil.spark.jobs.commits import CommitNote, commit_once, find_commit
from frazil.spark.jobs.regions import store_region
from frazil.spark.jobs.sessions import session_at
from frazil.spark.opened import Opened, RepositoryLike
from frazil.spark.pipelines.blocks_plan import (
    Block,
    BlocksPlan,
    Halo,
    Output,
    Target,
    plan_blocks,
)
from frazil.spark.pipelines.boxes import MIN_TASK_BYTES, region_shape
from frazil.spark.pipelines.halo import AxisRead, Boundary, plan_axis, read_block
from frazil.spark.pipelines.opening import StorageOptions, open_shared
from frazil.spark.pipelines.reading import read_bounded
from frazil.spark.pipelines.running import Work, Written, carry_out, refs_of
from frazil.spark.progress import ProgressOption

type BlockFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBlocksResult:
    """`committed` is False when an earlier run with the same idempotency key had done it."""

    snapshot_id: str
    arrays: int
    blocks: int
    chunks: int
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


def map_blocks(
    spark: SparkSession,
    repo: RepositoryLike,
    function: BlockFunction,
    inputs: str | Sequence[str],
    outputs: Mapping[str, Output | npt.DTypeLike],
    *,
    blocks: Mapping[str, int] | None = None,
    halo: Halo | None = None,
    boundary: Boundary | Mapping[str, Boundary] = "clip",
    trim: bool = True,
    with_block: bool = False,
    overwrite: bool = False,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    idempotency_key: str | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> MapBlocksResult:
    """Applies a function to aligned blocks of arrays, and stores what it returns, as one commit.

    Args:
        spark: the session whose executors read, call and write.
        repo: the repository, or where it is.
        function: called with one array for each input, values as stored, axes as they are in the
            input; returns an array, or a tuple of them if there are several outputs.
        inputs: paths of arrays. They are aligned by the names of their dimensions, which need not
            be the same; where they share one, it must be equally long.
        outputs: by path, what is made: an Output, or a dtype alone. A dimension that an output
            lacks is not cut; one that no input has is of the size that the Output says.
        blocks: length by dimension, in whole chunks of the outputs, -1 for the whole; by default
            as much as a task can hold.
        halo: how many neighbours a block gets on both sides, or before and after, by dimension.
        boundary: what is beyond the ends of the array, by dimension or for all: `clip`, `nearest`,
            `reflect`, `wrap`, or a number. With `clip` blocks at the ends get less.
        trim: whether the function returns blocks with the halo, which is then cut off; else it
            returns them without.
        with_block: whether the function gets a Block as keyword `block`.
        overwrite: whether outputs may replace arrays.
        branch: what is read is its tip; it gets the commit.
        message: of the commit.
        metadata: of the commit, in addition to what is recorded under the key `frazil`.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is no such input.
        InvalidInputError: arrays or blocks do not fit together, or the function returned
            something else than expected.
        AlreadyExistsError: an output is there already.
        ConflictError: the branch moved meanwhile.
    """
    started = perf_counter()
    if not callable(function):
        raise InvalidInputError(f"function is {function!r}, which cannot be called")
    repository = open_shared(repo, storage)
    done = find_commit(repository, branch, idempotency_key)
    if done is not None:
        return _nothing(done, started)
    base = repository.readonly_session(Branch(branch))
    paths = [inputs] if isinstance(inputs, str) else list(inputs)
    plan = plan_blocks(
        [_describe(base, path) for path in paths],
        {path: _output(path, one) for path, one in outputs.items()},
        blocks=blocks or {},
        halo=halo or {},
        boundary=boundary,
        max_bytes=MIN_TASK_BYTES,
    )
    session = session_at(repository, branch, str(base.snapshot_id))
    _create(session, plan, overwrite=overwrite)
    name = getattr(function, "__name__", "function")
    note = CommitNote(
        operation="map_blocks",
        application=spark.conf.get("spark.app.name", "spark") or "spark",
        key=idempotency_key,
        facts={"function": name, "inputs": [one.path for one in plan.inputs]},
    )
    job = MapJob(
        base=base,
        plan=plan,
        function=function,
        writer=session.chunk_writer(),
        trim=trim,
        with_block=with_block,
    )
    ndims = [len(target.dims) for target in plan.targets]
    work = Work(f"Mapping {name}", plan.size_bytes, note)
    results = carry_out(spark, job, ndims, work, progress)
    chunks, size_bytes = _apply(session, plan, results)
    text = message or f"{name} of {', '.join(one.path for one in plan.inputs)}"
    made = commit_once(repository, session, note, text, branch=branch, metadata=metadata)
    if not made.made:
        return _nothing(made.snapshot_id, started)
    return MapBlocksResult(
        snapshot_id=made.snapshot_id,
        arrays=len(plan.targets),
        blocks=len(plan.cut),
        chunks=chunks,
        bytes=size_bytes,
        seconds=perf_counter() - started,
        committed=True,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapJob:
    """One task for each block; picklable if the function is."""

    base: Session  # read-only
    plan: BlocksPlan
    function: BlockFunction
    writer: ChunkWriter
    trim: bool
    with_block: bool

    def __len__(self) -> int:
        return len(self.plan.cut)

    def run(self, task: int) -> Iterator[Written]:
        plan = self.plan
        region = dict(zip(plan.dims, plan.cut.region(task), strict=True))
        reads = {dim: self._axis(dim, part) for dim, part in region.items()}
        blocks = [self._read(one, reads) for one in plan.inputs]
        halo = {dim: (axis.before, axis.after) for dim, axis in reads.items()}
        options = {"block": Block(task, region, halo)} if self.with_block else {}
        found = self.function(*blocks, **options)
        made = (found,) if len(plan.targets) == 1 and not isinstance(found, tuple) else found
        if not isinstance(made, tuple) or len(made) != len(plan.targets):
            raise InvalidInputError(
                f"the function returned {type(found).__name__}, expected {len(plan.targets)} arrays"
            )
        for position, (target, values) in enumerate(zip(plan.targets, made, strict=True)):
            where = tuple(
                region.get(dim, slice(0, n))
                for dim, n in zip(target.dims, target.shape, strict=True)
            )
            core = self._core(target, np.asarray(values), halo, region_shape(where))
            refs = store_region(target.document, self.writer, where, core)
            yield Written(position, refs, core.nbytes)

    def _axis(self, dim: str, part: slice) -> AxisRead:
        plan = self.plan
        size = plan.cut.shape[plan.dims.index(dim)]
        return plan_axis(part, size, plan.halo.get(dim, (0, 0)), plan.boundary.get(dim, "clip"))

    def _read(self, one: ArrayDescription, reads: Mapping[str, AxisRead]) -> npt.NDArray[Any]:
        boundary = [self.plan.boundary.get(dim, "clip") for dim in one.dims]
        path = NodePath(one.path)
        return read_block(
            lambda region: read_bounded(
                self.base, path, region, one.chunks, itemsize=max(1, one.dtype.itemsize)
            ),
            [reads[dim] for dim in one.dims],
            boundary,
        )

    def _core(
        self,
        target: Target,
        values: npt.NDArray[Any],
        halo: Mapping[str, tuple[int, int]],
        shape: tuple[int, ...],
    ) -> npt.NDArray[Any]:
        """The block without its halo, in the type of the output."""
        around = [halo.get(dim, (0, 0)) if self.trim else (0, 0) for dim in target.dims]
        expected = tuple(n + sum(pair) for n, pair in zip(shape, around, strict=True))
        if values.shape != expected:
            raise InvalidInputError(
                f"the function returned a block of shape {values.shape} for `{target.path}`,"
                f" expected {expected}"
            )
        if not np.can_cast(values.dtype, target.dtype, "same_kind"):
            raise InvalidInputError(
                f"the function returned {values.dtype} for `{target.path}`, which is {target.dtype}"
            )
        inner = tuple(slice(a, n - b) for n, (a, b) in zip(expected, around, strict=True))
        return values[inner].astype(target.dtype, copy=False)


def _describe(base: Session, path: str) -> ArrayDescription:
    where = NodePath.from_key_prefix(path)
    base.node(where)  # says what is missing
    found = Opened(base).describe(where.parent.text if where.parent else "/").arrays
    if where.name not in found:
        raise InvalidInputError(f"there is not an array at `{where}`", kind="not-an-array")
    return found[where.name]


def _output(path: str, given: Output | npt.DTypeLike) -> Output:
    made = given if isinstance(given, Output) else Output(dtype=given)
    try:
        np.dtype(made.dtype)
    except TypeError as error:
        raise InvalidInputError(f"output `{path}`: {error}") from error
    return made


def _create(session: Session, plan: BlocksPlan, *, overwrite: bool) -> None:
    """Pending arrays, and the groups above them."""
    for target in plan.targets:
        path = NodePath.from_key_prefix(target.path)
        there = session.find_node(path)
        if there is not None:
            if there.array is None:
                raise AlreadyExistsError(f"there is a group at `{path}`: it is not overwritten")
            if not overwrite:
                raise AlreadyExistsError(f"there is an array at `{path}` already; overwrite it?")
            session.delete_node(path)
        for group in path.ancestors:
            session.set_node_if_absent(group, group_document({}))
        session.set_node(path, target.document)


def _apply(session: Session, plan: BlocksPlan, results: Sequence[Written]) -> tuple[int, int]:
    chunks, size_bytes = 0, 0
    for position, target in enumerate(plan.targets):
        refs = refs_of(results, position, len(target.dims))
        session.set_chunk_refs(NodePath.from_key_prefix(target.path), refs)
        chunks += len(refs)
        size_bytes += int(refs.length.sum(dtype=np.uint64))
    return chunks, size_bytes


def _nothing(snapshot_id: str, started: float) -> MapBlocksResult:
    return MapBlocksResult(
        snapshot_id=snapshot_id,
        arrays=0,
        blocks=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )
