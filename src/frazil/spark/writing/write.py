"""DataFrames into a repository: rows to cells of arrays, one Spark job, one commit.

    driver      schema -> target; distinct coordinates (a first job) -> layout -> arrays (pending)
    executors   rows -> blocks and cells, shuffled by block -> whole chunks -> references
    driver      references into the session, or manifests that executors made of them -> commit

`df.write.format("icechunk")` evaluates the rows once and stages them instead (sink).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StructField, StructType

from frazil.engine.refs.commit_metadata import require_json
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.runtime.commits import find_commit
from frazil.spark.runtime.executor import ExecutorFiles, SparkExecutor
from frazil.spark.runtime.jobs import collect, map_arrow, parallelism
from frazil.spark.runtime.progress import (
    JobProgress,
    ProgressCallback,
    ProgressOption,
    progress_callback,
)
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.runtime.stored_refs import BLOCKS, plan_sink
from frazil.spark.table.opened import RepositoryLike
from frazil.spark.table.schema import quote_name
from frazil.spark.writing.blocks import Indices, locate
from frazil.spark.writing.columns import Column
from frazil.spark.writing.commit import Commit, make_assembly
from frazil.spark.writing.layout import ArrayLayout, Layout, plan_layout
from frazil.spark.writing.options import NewArrays, WriteOptions, open_engine, parse_mode
from frazil.spark.writing.session import (
    Prepared,
    Written,
    apply_layout,
    prepare,
    write_coordinates,
)
from frazil.spark.writing.shuffle import (
    BLOCK,
    CELL,
    DISTINCT,
    FindDistinct,
    LocateRows,
    StoreBlocks,
    decode_values,
)

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


TASK_BYTES = 64 << 20
TASKS_PER_CORE = 4


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

    The DataFrame is evaluated twice: for its coordinates, then for its rows. Cache one that is
    expensive; one that gives other rows the second time is refused.

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
    with progress_callback(progress) as tell:
        written = _write(df, repository, session, options, tell)
        if written is None:
            return _empty_result(str(session.snapshot_id), started)
        if within is not None:
            return _result(str(session.snapshot_id), written, started, committed=False)
        made = Commit(options, application, options.key, {}).make(repository, session, written)
    if not made.made:
        return _empty_result(made.snapshot_id, started)
    return _result(made.snapshot_id, written, started, committed=True)


def _write(
    df: DataFrame,
    repository: Repository,
    session: Session,
    options: WriteOptions,
    tell: ProgressCallback,
) -> Written | None:
    """Everything but the commit; None if there is nothing to commit."""
    prepared = prepare(session, df.schema, options)
    tell(JobProgress("Reading coordinates", 0, 0))
    found = _find_coordinates(df, prepared)
    empty = not any(len(values) for values in found.values())
    if empty and not prepared.target.creates:
        return None
    layout = plan_layout(prepared.target, prepared.documents, found, options.new)
    assembly = make_assembly(repository, session, prepared, layout)
    apply_layout(session, prepared.target, layout, options.group_attrs)
    write_coordinates(session, layout)
    if empty or not layout.arrays:
        return Written(0, 0, 0)
    touched = _touched_blocks(layout, found)
    blocks = [(int(along[0]), int(along[-1]) + 1) if len(along) else (0, 0) for along in touched]
    boxes = [layout.chunk_box(array, blocks) for array in layout.arrays]
    executor = SparkExecutor(df.sparkSession, ExecutorFiles.of(repository), tell)
    sink = plan_sink(
        executor,
        repository,
        session,
        list(zip(layout.paths, boxes, strict=True)),
        sum(_chunks_in(layout, array, touched) for array in layout.arrays),
    )
    with executor.counter("Writing rows", layout.size_bytes) as counter:
        store = StoreBlocks(assembly, counter, sink.gather())
        stored = sink.take(map_arrow(_shuffle(df, layout), store, BLOCKS))
    return Written(stored.chunks, stored.size_bytes, stored.counts.get(0, 0))


def _touched_blocks(layout: Layout, found: Mapping[str, Column]) -> list[Indices]:
    """Along each dimension, the blocks that rows may be for."""
    touched = []
    for coordinate, step in zip(layout.coordinates, layout.grid.block, strict=True):
        positions = locate(coordinate, found[coordinate.name])
        touched.append(np.unique(positions[positions >= 0] // step))
    return touched


def _chunks_in(layout: Layout, array: ArrayLayout, touched: Sequence[Indices]) -> int:
    """The largest number of chunks of an array that rows may be for."""
    return prod(
        len(touched[axis]) * -(-layout.grid.block[axis] // chunk)
        for axis, chunk in zip(array.axes, array.chunks, strict=True)
    )


def _find_coordinates(df: DataFrame, prepared: Prepared) -> dict[str, Column]:
    columns = {d.name: d.column for d in prepared.target.dimensions}
    coordinates = df.select(*map(quote_name, columns))
    table = collect(map_arrow(coordinates, FindDistinct(columns), DISTINCT))
    found: dict[str, list[Column]] = {
        name: [np.zeros(0, dtype=column.work_dtype)] for name, column in columns.items()
    }
    for row in table.to_pylist():
        found[row["dimension"]].append(decode_values(row["values"], columns[row["dimension"]]))
    return {name: np.unique(np.concatenate(parts)) for name, parts in found.items()}


def _shuffle(df: DataFrame, layout: Layout) -> DataFrame:
    """Rows of each block together, in as many partitions as suit the size."""
    names = {array.name for array in layout.arrays}
    fields = [StructField(BLOCK, LongType()), StructField(CELL, LongType())]
    schema = StructType([*fields, *(df.schema[array.name] for array in layout.arrays)])
    needed = [name for name in df.schema.names if name in names or _is_dim(layout, name)]
    located = df.select(*map(quote_name, needed)).mapInArrow(LocateRows(layout), schema)
    wanted = max(parallelism(df.sparkSession) * TASKS_PER_CORE, layout.size_bytes // TASK_BYTES)
    count = max(1, min(prod(layout.grid.counts), wanted))
    # by number, not by hash: the few blocks of a task then are as many for each
    number = (functions.col(BLOCK) % count).cast("int")
    return located.repartitionById(count, number).sortWithinPartitions(BLOCK)


def _is_dim(layout: Layout, name: str) -> bool:
    return any(coordinate.name == name for coordinate in layout.coordinates)


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
