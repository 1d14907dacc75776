"""DataFrames into a repository: rows to cells of arrays, one Spark job, one commit.

    driver      schema -> target
    executors   stage rows, by a write of Spark's own                     (sink.StageWriter)
    driver      coordinates -> layout -> arrays (pending), boxes          (commit)
    executors   boxes of staged rows -> whole chunks -> references        (assembly)
    driver      references into the session, or manifests that executors made of them -> commit

`df.write.format("icechunk")` does all of it in writes of Spark's, by rounds (sink, write_tasks).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from frazil.engine.files.files import Files
from frazil.engine.refs.commit_metadata import require_json
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.io.data_source import FORMAT, register
from frazil.spark.runtime.commits import find_commit
from frazil.spark.runtime.executor import ExecutorFiles, SparkExecutor
from frazil.spark.runtime.jobs import parallelism, task_bytes
from frazil.spark.runtime.progress import ProgressCallback, ProgressOption, progress_callback
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.runtime.stored_refs import Stored, plan_sink
from frazil.spark.runtime.stored_refs import Written as StoredRefs
from frazil.spark.runtime.workers import errors_carried
from frazil.spark.table.opened import RepositoryLike, place_of
from frazil.spark.writing.assembly import Box, Spans, assemble, cut_piece, plan_cuts
from frazil.spark.writing.blocks import Indices
from frazil.spark.writing.commit import Commit, RowsPlan, plan_rows
from frazil.spark.writing.options import (
    STAGE,
    NewArrays,
    WriteOptions,
    open_engine,
    parse_mode,
)
from frazil.spark.writing.session import Assembly, Written, prepare, write_coordinates
from frazil.spark.writing.stage import count_rows, discard, join_pieces, take_pieces

# Arguments of `frazil.spark.write`, checked as the options of the data source are. Pure.

_CALLED = {int: "whole numbers", float: "numbers", str: "texts", Mapping: "mappings"}


def mapping_of(name: str, given: object, kind: type | None = None) -> dict[str, Any]:
    """Validates a mapping of columns or dimensions to values of a kind; None stands for any."""
    if given is None:
        return {}
    called = "values" if kind is None else _CALLED[kind]
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidInputError(f"{name} is {given!r}, expected {called} by name")
    for key, value in given.items():
        if kind is not None and not _is_instance(value, kind):
            raise InvalidInputError(f"{name} has {value!r} for {key!r}, expected {called}")
    return dict(given)


def names_of(name: str, given: object) -> tuple[str, ...] | None:
    """A list of names; a text would be one of letters."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{name} is {given!r}, expected a list of names")
    return tuple(given)


def codecs_of(given: object) -> Any:
    lists: Iterable[Any] = given.values() if isinstance(given, Mapping) else [given]
    for one in lists if given is not None else ():
        is_list = isinstance(one, Sequence) and not isinstance(one, str)
        if not is_list or not all(isinstance(codec, Mapping) for codec in one):
            raise InvalidInputError(
                f"codecs is {given!r}, expected a list of Zarr codecs, or such lists by column"
            )
    return given


def txn_of(given: object) -> tuple[str, str] | None:
    if given is None:
        return None
    match given:
        case (str(application), (str() | int()) as version):
            return application, str(version)
    raise InvalidInputError(f"txn is {given!r}, expected an application and a version")


def metadata_of(given: object) -> dict[str, Json]:
    """Raises TypeError for what is no JSON, as a commit would when all the work is done."""
    return require_json(mapping_of("metadata", given))


def _is_instance(value: object, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return isinstance(value, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """`committed` is False when there was nothing to commit, or an earlier write with the same
    transaction had done the work; `snapshot_id` is then the one it made, or the branch's tip.
    """

    snapshot_id: str
    rows: int
    chunks: int
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


def write(
    df: DataFrame,
    repo: RepositoryLike,
    *,
    group: str = "/",
    dims: Sequence[str] | str | None = None,
    mode: str = "create",
    chunks: Mapping[str, int] | None = None,
    append_dim: str | None = None,
    order: Mapping[str, str] | None = None,
    unordered: bool = False,
    tolerance: Mapping[str, float] | None = None,
    positions: Iterable[str] = (),
    dtypes: Mapping[str, str] | None = None,
    fill: Mapping[str, Json] | None = None,
    units: Mapping[str, str] | None = None,
    codecs: Any = None,
    attrs: Mapping[str, Mapping[str, Json]] | None = None,
    group_attrs: Mapping[str, Json] | None = None,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    txn: tuple[str, int | str] | None = None,
    rebase: bool = False,
    storage: Mapping[str, object] | None = None,
    progress: ProgressOption = None,
    within: Session | None = None,
) -> WriteResult:
    """Writes a DataFrame, a row per cell, to the arrays of a group, as one commit.

    The DataFrame is evaluated once, without a shuffle. Its rows wait in the repository's storage
    until their coordinates are known; they are deleted in the end.

    Args:
        df: a column per dimension and per variable.
        repo: the repository to write to, or the path of its folder.
        group: where the arrays are or will be; created when missing.
        dims: the columns that say where a row goes, in the order of the new arrays' axes; those
            of the arrays where they are there.
        mode: `create` refuses a group with arrays; `append` adds coordinate values along
            `append_dim`; `region` overwrites cells that are there; `upsert` does both;
            `overwrite` replaces the arrays of the group.
        chunks: chunk length by dimension, -1 for all of it. By default chunks are up to 8 MiB.
        append_dim: the dimension that grows; the first by default.
        order: `ascending` (the default) or `descending`, of new coordinates.
        unordered: whether new coordinate values may break the order of a coordinate.
        tolerance: by dimension, how far off a coordinate value that is there a row may be, and
            belongs to the nearest; in seconds for times. By default rows have the values that
            reading gives, in the type of their column.
        positions: new dimensions without coordinate: their columns say the position.
        dtypes: of new arrays, where not that of the column.
        fill: fill values of new arrays, by column: what NULL is stored as.
        units: CF units of new arrays of times, such as `hours since 2024-01-01`.
        codecs: of new arrays: a list of Zarr codecs as JSON objects, or such lists by column.
        attrs: attributes of new arrays, by column.
        group_attrs: attributes for the group.
        branch: the branch that gets the commit.
        message: of the commit.
        metadata: of the commit, in addition to what is recorded under the key `frazil`.
        txn: application and version: if a commit in the branch's history was made with the
            same, nothing is done.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        rebase: whether to commit on top of commits made meanwhile, if they changed other chunks.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.
        within: a session that gets the changes and commits them later; `frazil.spark.transaction`
            gives its own.

    Raises:
        InvalidInputError: options, schema or rows do not fit.
        AlreadyExistsError: the group has arrays and mode is `create`.
        ConflictError: the branch moved during the write.
    """
    started = perf_counter()
    options = WriteOptions(
        place=PlaceText(""),  # the driver commits by `repository`, executors have its store
        group="/" + group.strip("/"),
        branch=branch,
        mode=parse_mode(mode),
        dims=names_of("dims", dims),
        append_dim=append_dim,
        unordered=unordered,
        tolerance=mapping_of("tolerance", tolerance, float),
        new=NewArrays(
            chunks=mapping_of("chunks", chunks, int),
            order=mapping_of("order", order, str),
            positions=names_of("positions", positions) or (),
            dtypes=mapping_of("dtypes", dtypes, str),
            fill=mapping_of("fill", fill),
            units=mapping_of("units", units, str),
            codecs=codecs_of(codecs),
            attrs=mapping_of("attrs", attrs, Mapping),
        ),
        group_attrs=mapping_of("group_attrs", group_attrs),
        message=message,
        metadata=metadata_of(metadata),
        txn=txn_of(txn),
        rebases=rebase,
    )
    repository = open_engine(repo, storage)
    done = find_commit(repository, branch, options.key)
    if done is not None:
        return _empty_result(done, started)
    session = within or repository.writable_session(branch)
    application = df.sparkSession.conf.get("spark.app.name", "spark") or "spark"
    staged = _StagedRows(df, place_of(repo, storage), branch, repository)
    with progress_callback(progress) as tell:
        written = _write(staged, session, options, tell)
        if written is None:
            return _empty_result(str(session.snapshot_id), started)
        if within is not None:
            return _result(str(session.snapshot_id), written, started, committed=False)
        made = Commit(options, application, options.key, {}).make(repository, session, written)
    if not made.made:
        return _empty_result(made.snapshot_id, started)
    return _result(made.snapshot_id, written, started, committed=True)


def _write(
    rows: "_StagedRows", session: Session, options: WriteOptions, tell: ProgressCallback
) -> Written | None:
    """Everything but the commit; None if there is nothing to commit."""
    df, repository = rows.df, rows.repository
    dims = prepare(session, df.schema, options).target.dims
    executor = SparkExecutor(df.sparkSession, ExecutorFiles.of(repository), tell)
    with executor.counter("Reading rows", 0):
        pieces = rows.stage(dims)
    try:
        size = 0 if pieces is None else pc.sum(pieces["bytes"]).as_py()
        share = task_bytes(size, parallelism(df.sparkSession))
        plan = plan_rows(repository, session, df.schema, options, pieces, box_bytes=share)
        if plan is None:
            return None
        if pieces is not None and plan.needs_cuts:
            whole, pieces = pieces, _cut(executor, plan, pieces)
            discard(repository.store, whole)
            plan = plan.with_pieces(pieces)
        stored = _store(executor, repository, plan)
    finally:
        discard(repository.store, pieces)
    write_coordinates(session, plan.assembly.layout)
    return Written(stored.chunks, stored.size_bytes, count_rows(pieces))


@dataclass(frozen=True, slots=True)
class _StagedRows:
    """Rows of a DataFrame, to be staged by a write of Spark's, which hands them over packed."""

    df: DataFrame
    place: PlaceText
    branch: str
    repository: Repository

    def stage(self, dims: tuple[str, ...]) -> pa.Table | None:
        spark, job = self.df.sparkSession, uuid4().hex
        register(spark)
        options = {"path": self.place.path, "dims": json.dumps(dims), STAGE: job}
        if self.place.secret:
            options["secretStorage"] = self.place.secret
        with errors_carried():
            self.df.write.format(FORMAT).mode("append").options(**options).save()
        return take_pieces(self.repository.store, job)


def _cut(executor: SparkExecutor, plan: RowsPlan, pieces: pa.Table) -> pa.Table:
    task = _CutPieces(pieces, plan.assembly, plan_cuts(plan.boxes))
    sizes, count = pieces["bytes"].to_numpy(), len(pieces)
    cut = join_pieces(executor.run(task, count, "Cutting rows", sizes=sizes, partitions=count))
    return pieces if cut is None else cut


def _store(executor: SparkExecutor, repository: Repository, plan: RowsPlan) -> Stored:
    spans, boxes, arrays = plan.spans, plan.boxes, plan.arrays()
    if spans is None or not arrays:
        return Stored(chunks=0, size_bytes=0)
    sink = plan_sink(executor, repository, plan.session, arrays, plan.most_chunks)
    sizes = np.array([spans.weigh(box) for box in boxes]).astype(np.int64)
    task = _StoreBoxes(plan.assembly, plan.pieces, spans, boxes)
    return sink.run(task, len(boxes), "Writing rows", sizes=sizes, partitions=len(boxes))


@dataclass(frozen=True, slots=True, eq=False)
class _CutPieces:
    pieces: pa.Table
    assembly: Assembly
    cuts: Sequence[Indices]

    def __call__(self, files: Files, numbers: range) -> pa.Table | None:
        some = (cut_piece(files.store, self.pieces, n, self.assembly, self.cuts) for n in numbers)
        cut = join_pieces(some)
        self.assembly.writer.sync()
        return cut


@dataclass(frozen=True, slots=True, eq=False)
class _StoreBoxes:
    assembly: Assembly
    pieces: pa.Table
    spans: Spans
    boxes: Sequence[Box]

    def __call__(self, files: Files, numbers: range) -> Iterator[StoredRefs]:
        for number in numbers:
            box = self.boxes[number]
            for made in assemble(files.store, self.pieces, self.spans, self.assembly, box):
                yield StoredRefs(made.array, made.refs, made.emptied)
        self.assembly.writer.sync()


def _empty_result(snapshot_id: str, started: float) -> WriteResult:
    return _result(snapshot_id, Written(0, 0, 0), started, committed=False)


def _result(snapshot_id: str, written: Written, started: float, *, committed: bool) -> WriteResult:
    return WriteResult(
        snapshot_id=snapshot_id,
        rows=written.rows,
        chunks=written.chunks,
        bytes=written.size_bytes,
        seconds=perf_counter() - started,
        committed=committed,
    )
