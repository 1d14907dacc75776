"""Means, sums and extremes over dimensions of arrays, all together or by group, on Spark.

Parts of blocks are made where the blocks are read, and added up where their cells are made: nothing
but references to the result, or its rows, comes to the driver. The result is stored in a group, as
one commit, or is a DataFrame.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.paths import NodePath
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.pipelines.reduce_job import (
    ORDER,
    PARTIALS,
    MakeParts,
    MakeRows,
    StoreCells,
    row_schema,
)
from frazil.spark.pipelines.reduce_plan import (
    Grouping,
    How,
    ReducePlan,
    Variable,
    make_grouping,
    plan_reduce,
    split_name,
)
from frazil.spark.runtime.commits import CommitNote, commit_once, find_commit, session_at
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.jobs import (
    map_arrow,
    map_tasks,
    parallelism,
    partitions_for,
    store_region,
)
from frazil.spark.runtime.progress import Counter, NoCounter, ProgressOption
from frazil.spark.runtime.stored_refs import BLOCKS, RefsSink, Stored, plan_sink
from frazil.spark.table.cf import Values, decode, plan_decoding
from frazil.spark.table.description import Grid, GroupDescription, choose_grid
from frazil.spark.table.documents import group_document
from frazil.spark.table.opened import Opened, RepositoryLike
from frazil.zarrstore.array_codecs import array_document
from frazil.zarrstore.arrays import read_region

# The group that a reduction is stored in: reduced variables, and the coordinates that are left.

# They tell how the source is stored; reduced values are stored as they are.
_ENCODING = frozenset({"_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"})
_MICROSECONDS = {"units": "microseconds since 1970-01-01", "calendar": "proleptic_gregorian"}


def require_new(session: Session, into: NodePath, plan: ReducePlan, grid: Grid) -> None:
    """Raises AlreadyExistsError: a reduction never overwrites, and shares coordinates that fit."""
    there = session.find_node(into)
    if there is not None and there.array is not None:
        raise AlreadyExistsError(f"there is an array at `{into}`: choose another group")
    for variable in plan.variables:
        if session.find_node(into.child(variable.source.name)) is not None:
            raise AlreadyExistsError(
                f"there is already {variable.source.name!r} in group `{into}`: choose another group"
            )
    for dimension in grid.dimensions:
        if dimension.coordinate is not None and dimension.name in plan.dims:
            source = NodePath(dimension.coordinate.path)
            _require_same(session, into.child(dimension.name), _values(session, source))
    if plan.grouping is not None:
        labels, _, _ = _stored_labels(plan.grouping.labels)
        _require_same(session, into.child(plan.grouping.name), labels)


def _require_same(session: Session, path: NodePath, values: npt.NDArray[Any]) -> None:
    node = session.find_node(path)
    if node is None:
        return
    if node.array is None or not np.array_equal(_values(session, path), values):
        raise AlreadyExistsError(
            f"there is another coordinate at `{path}`: choose another group for the result"
        )


def _values(session: Session, path: NodePath) -> npt.NDArray[Any]:
    array = session.node(path).array
    shape = () if array is None else array.shape
    return read_region(session, path, tuple(slice(0, n) for n in shape))


def create_arrays(
    session: Session, base: Session, into: NodePath, plan: ReducePlan, grid: Grid
) -> tuple[bytes, ...]:
    """Pending groups, coordinates and variables; the documents of the variables."""
    for group in (into, *into.ancestors):
        session.set_node_if_absent(group, group_document({}))
    for dimension in grid.dimensions:
        if dimension.coordinate is not None and dimension.name in plan.dims:
            _copy(session, base, NodePath(dimension.coordinate.path), into.child(dimension.name))
    if plan.grouping is not None:
        _write_labels(session, into.child(plan.grouping.name), plan.grouping)
    documents = tuple(_document(plan, one) for one in plan.variables)
    for one, document in zip(plan.variables, documents, strict=True):
        session.set_node(into.child(one.source.name), document)
    return documents


def _copy(session: Session, base: Session, source: NodePath, target: NodePath) -> None:
    """The same chunks, referred to twice."""
    if session.set_node_if_absent(target, base.node(source).user_data):
        for refs in base.chunk_refs(source):
            session.set_chunk_refs(target, refs)


def _write_labels(session: Session, path: NodePath, grouping: Grouping) -> None:
    labels, dtype, attributes = _stored_labels(grouping.labels)
    document = array_document(
        shape=labels.shape,
        chunks=(max(1, len(labels)),),
        dtype=dtype,
        fill_value="" if dtype == "string" else 0,
        dims=[grouping.name],
        attributes=attributes,
    )
    if session.set_node_if_absent(path, document) and len(labels):
        where = (slice(0, len(labels)),)
        session.set_chunk_refs(path, store_region(document, session.chunk_writer(), where, labels))


def _stored_labels(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str, dict[str, str]]:
    if labels.dtype.kind == "M":
        return labels.astype("datetime64[us]").view(np.int64), "int64", _MICROSECONDS
    if labels.dtype.kind == "O":
        return labels, "string", {}
    return labels, labels.dtype.name, {}


def _document(plan: ReducePlan, variable: Variable) -> bytes:
    dtype = variable.result
    # What is never written has no values: no number of them, a sum of 0, and else NaN.
    missing = dtype.kind == "f" and plan.how is not How.SUM
    left_out = _ENCODING | {"units"} if plan.how is How.COUNT else _ENCODING
    return array_document(
        shape=plan.shape,
        chunks=plan.chunks,
        dtype=dtype.name,
        fill_value=dtype.type(np.nan) if missing else dtype.type(0),
        dims=plan.dims,
        attributes={k: v for k, v in variable.source.attrs.items() if k not in left_out},
    )


# The reductions of tiny cells would be many; those of large ones hold their parts in memory.
_CELL_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceResult:
    """`committed` is False when an earlier run with the same idempotency key had done it."""

    snapshot_id: str
    variables: int
    chunks: int
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


@overload
def reduce(
    spark: SparkSession, repo: RepositoryLike, variables: str | Sequence[str], *,
    over: str | Sequence[str] | None = ..., how: str = ..., groupby: str | None = ...,
    skipna: bool = ..., group: str = ..., branch: str = ..., into: None = ...,
    storage: StorageOptions | None = ...,
) -> DataFrame: ...  # fmt: skip


@overload
def reduce(
    spark: SparkSession, repo: RepositoryLike, variables: str | Sequence[str], *,
    over: str | Sequence[str] | None = ..., how: str = ..., groupby: str | None = ...,
    skipna: bool = ..., group: str = ..., branch: str = ..., into: str,
    message: str | None = ..., metadata: Mapping[str, Json] | None = ...,
    idempotency_key: str | None = ..., storage: StorageOptions | None = ...,
    progress: ProgressOption = ...,
) -> ReduceResult: ...  # fmt: skip


def reduce(
    spark: SparkSession,
    repo: RepositoryLike,
    variables: str | Sequence[str],
    *,
    over: str | Sequence[str] | None = None,
    how: str = How.MEAN,
    groupby: str | None = None,
    skipna: bool = True,
    group: str = "/",
    branch: str = "main",
    into: str | None = None,
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    idempotency_key: str | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> DataFrame | ReduceResult:
    """Reduces variables of one group over some of their dimensions, as xarray does.

    Args:
        spark: the session whose executors read and write.
        repo: the repository, or where it is.
        variables: names in `group`, of the same dimensions in the same order. Values are decoded
            (`_FillValue`, `missing_value`, `_Unsigned`, `scale_factor`, `add_offset`).
        over: the dimensions that vanish; by default that of `groupby`.
        how: mean, min, max, sum, count or std (of the population, ddof=0).
        groupby: a coordinate of one dimension, or a part of a time such as `time.month`: the
            groups take the place of that dimension.
        skipna: whether NaN and what is missing is left out; else it spoils the result.
        group: where the variables are.
        branch: what is read is its tip; it gets the commit.
        into: the group for the result, with the coordinates that are left. Without it the result
            is a DataFrame, of the branch as it is now, worked out when it is used.
        message: of the commit.
        metadata: of the commit, in addition to what is recorded under the key `frazil`.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is no such group, variable or coordinate.
        InvalidInputError: dimensions do not fit, or values are not numbers.
        AlreadyExistsError: `into` has such arrays already.
    """
    started = perf_counter()
    repository = open_shared(repo, storage)
    done = find_commit(repository, branch, idempotency_key)
    if done is not None:
        return _nothing(done, started)
    base = repository.readonly_session(Branch(branch))
    wanted = _Wanted(variables, over, how, groupby, skipna=skipna, group=group)
    grid, plan = wanted.plan(base)
    if into is None:
        return _frame(spark, base, plan, grid)
    job = _Job(spark, repository, base, plan, grid, NodePath.from_key_prefix(into), branch)
    note = CommitNote(
        operation="reduce",
        application=spark.conf.get("spark.app.name", "spark") or "spark",
        key=idempotency_key,
        facts={"how": str(plan.how), "over": list(wanted.dims or ()), "groupby": groupby},
    )
    text = message or f"{plan.how} of {', '.join(wanted.names)} into `{job.into}`"
    return _store(job, note, message=text, metadata=metadata, progress=progress, started=started)


def explain_reduce(
    repo: RepositoryLike,
    variables: str | Sequence[str],
    *,
    over: str | Sequence[str] | None = None,
    how: str = How.MEAN,
    groupby: str | None = None,
    skipna: bool = True,
    group: str = "/",
    branch: str = "main",
    into: str | None = None,
    storage: StorageOptions | None = None,
) -> ReducePlan:
    """Describes what `reduce` would do. Reads metadata, and the coordinate of `groupby`."""
    base = open_shared(repo, storage).readonly_session(Branch(branch))
    wanted = _Wanted(variables, over, how, groupby, skipna=skipna, group=group)
    grid, plan = wanted.plan(base)
    if into is not None:
        require_new(base, NodePath.from_key_prefix(into), plan, grid)
    return plan


@dataclass(frozen=True, slots=True)
class _Wanted:
    variables: str | Sequence[str]
    over: str | Sequence[str] | None
    how: str
    groupby: str | None
    skipna: bool = field(kw_only=True)
    group: str = field(kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.variables,) if isinstance(self.variables, str) else tuple(self.variables)

    @property
    def dims(self) -> Sequence[str] | None:
        return (self.over,) if isinstance(self.over, str) else self.over

    def plan(self, base: Session) -> tuple[Grid, ReducePlan]:
        """Raises what is wrong."""
        description = Opened(base).describe(NodePath.from_key_prefix(self.group).text)
        grid = choose_grid(description, self.names)
        if not grid.variables:  # coordinates, which no table has as values
            grid = replace(grid, variables=tuple(description.arrays[name] for name in self.names))
        _require_all(grid, self.names)
        grouping = None
        if self.groupby is not None:
            grouping = _grouping(base, description, grid, self.groupby)
        dims = self.dims if self.dims is not None else [grouping.dim] if grouping else []
        plan = plan_reduce(
            grid,
            dims,
            How.parse(self.how),
            grouping=grouping,
            skipna=self.skipna,
            max_bytes=_CELL_BYTES,
        )
        return grid, plan


@dataclass(frozen=True, slots=True)
class _Job:
    spark: SparkSession
    repository: Repository
    base: Session
    plan: ReducePlan
    grid: Grid
    into: NodePath
    branch: str


def _require_all(grid: Grid, names: Sequence[str]) -> None:
    lost = set(names) - {variable.name for variable in grid.variables}
    if lost:
        raise InvalidInputError(
            f"{', '.join(sorted(map(repr, lost)))} is a coordinate of the other variables, and"
            " reduced by itself"
        )


def _grouping(base: Session, group: GroupDescription, grid: Grid, groupby: str) -> Grouping:
    name, part = split_name(groupby)
    found = group.arrays.get(name)
    if found is None:
        raise NodeNotFoundError(f"no coordinate {name!r} in group {group.path!r} to group by")
    dims = [d.name for d in grid.dimensions]
    if len(found.dims) != 1 or found.dims[0] not in dims:
        raise InvalidInputError(
            f"{name!r} has dimensions {', '.join(found.dims)}; to group by, it must have one of"
            f" {', '.join(dims)}"
        )
    stored = read_region(base, NodePath(found.path), (slice(0, found.shape[0]),))
    values: Values = decode(plan_decoding(found), stored)
    return make_grouping(name, part, found.dims[0], values)


def _parts(spark: SparkSession, base: Session, plan: ReducePlan, counter: Counter) -> DataFrame:
    """Rows of PARTIALS, those of a cell together and in order."""
    rows = map_tasks(
        spark,
        plan.tasks,
        partitions_for(spark, plan.size_bytes),
        MakeParts(base, plan, counter),
        PARTIALS,
    )
    count = max(1, min(len(plan.cells), parallelism(spark) * 4))
    return rows.repartition(count, "cell").sortWithinPartitions(*ORDER)


def _frame(spark: SparkSession, base: Session, plan: ReducePlan, grid: Grid) -> DataFrame:
    schema = row_schema(plan, grid)
    parts = _parts(spark, base, plan, NoCounter())
    return map_arrow(parts, MakeRows(base, plan, grid, schema), schema)


def _store(
    job: _Job,
    note: CommitNote,
    *,
    message: str,
    metadata: Mapping[str, Json] | None,
    progress: ProgressOption,
    started: float,
) -> ReduceResult:
    session = session_at(job.repository, job.branch, str(job.base.snapshot_id))
    require_new(session, job.into, job.plan, job.grid)
    documents = create_arrays(session, job.base, job.into, job.plan, job.grid)
    paths = [job.into.child(variable.source.name) for variable in job.plan.variables]
    with spark_executor(job.spark, job.repository, progress, job=note.job) as executor:
        most = len(paths) * len(job.plan.cells)
        sink = plan_sink(executor, job.repository, session, [(path, None) for path in paths], most)
        store = StoreCells(job.plan, documents, session.chunk_writer(), sink.gather())
        stored = _run(job, sink, store)
        made = commit_once(
            job.repository, session, note, message, branch=job.branch, metadata=metadata
        )
    if not made.made:
        return _nothing(made.snapshot_id, started)
    return ReduceResult(
        snapshot_id=made.snapshot_id,
        variables=len(job.plan.variables),
        chunks=stored.chunks,
        bytes=stored.size_bytes,
        seconds=perf_counter() - started,
        committed=True,
    )


def _run(job: _Job, sink: RefsSink, store: StoreCells) -> Stored:
    plan, spark = job.plan, job.spark
    if plan.tasks == 0:
        return Stored(chunks=0, size_bytes=0)
    with sink.executor.counter(f"Reducing to the {plan.how}", plan.size_bytes) as counter:
        # not RefsSink.run: parts are shuffled between the stages, and do not come to the driver
        return sink.take(map_arrow(_parts(spark, job.base, plan, counter), store, BLOCKS))


def _nothing(snapshot_id: str, started: float) -> ReduceResult:
    return ReduceResult(
        snapshot_id=snapshot_id,
        variables=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )
