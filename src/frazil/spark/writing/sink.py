"""`df.write.format("icechunk")`: rows in any order and partitioning, one commit.

    driver      pin the branch's tip, check options and schema            nothing is written yet
    executors   stage rows                                                (stage)
    driver      coordinates -> layout -> chunks -> commit, once           (commit)

Where Spark has frazil's jar, the chunks of many rows are made by executors, too. A task that is
tried again, or twice at once, stages its rows twice; the driver hears of one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, override

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.runtime.commits import find_commit
from frazil.spark.runtime.workers import carrying_errors, limit_gc
from frazil.spark.writing.clear import clear_cells
from frazil.spark.writing.commit import (
    APPLICATION,
    TRIES,
    Commit,
    RowsCommit,
    WriteState,
    tip_of,
)
from frazil.spark.writing.options import (
    TASKS,
    Input,
    WriteMode,
    WriteOptions,
    clearing,
    open_repository,
    parse_write_options,
)
from frazil.spark.writing.packed_rows import unpack_rows
from frazil.spark.writing.session import prepare
from frazil.spark.writing.stage import (
    INLINE_BYTES,
    OPERATION,
    count_rows,
    discard,
    dump_pieces,
    join_pieces,
    leave_pieces,
    load_pieces,
    stage,
)
from frazil.spark.writing.write_tasks import count_tasks


@dataclass
class RowsMessage(WriterCommitMessage):
    """Message of a task: the table of pieces that it staged, and its streaming query, if any."""

    pieces: bytes | None
    query: str | None = None


class RowsWriter(DataSourceArrowWriter):
    """Made once on the driver; copies of it act on executors and in the end on the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.schema = columns_of(options, schema)
        with carrying_errors():
            repository = open_repository(options)
            session = repository.readonly_session(Branch(options.branch))
            self.base = _base(options, str(session.snapshot_id))
            self.done = find_commit(repository, options.branch, options.key)
            self.dims: tuple[str, ...] = ()
            if self.done is None:
                self.dims = prepare(session, self.schema, options).target.dims

    @property
    def rows_commit(self) -> RowsCommit:
        commit = Commit(self.options, APPLICATION, self.options.key, {})
        return RowsCommit(commit, self.schema, self.base)

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsMessage:
        limit_gc()
        with carrying_errors():
            if self.done is not None:
                return RowsMessage(None)
            return RowsMessage(stage_rows(self.options, self.dims, iterator))

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.done is not None:
            return
        pieces = pieces_in(messages)
        with carrying_errors():
            repository = open_repository(self.options)
            if not leave_to_tasks(repository, self.rows_commit, pieces):
                self.rows_commit.make(repository, pieces)
                discard(repository.store, pieces)

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Spark calls this also after a commit that raised, perhaps after the branch had moved:
        # chunks stay, and if nothing refers to them, garbage collection takes them.
        with carrying_errors():
            store = open_repository(self.options).store
            discard(store, pieces_in(messages))
            WriteState.delete(store, self.options, epoch=None, round_=0)


class StageWriter(DataSourceArrowWriter):
    """Stages rows for `frazil.spark.write`, which plans and commits in its own process."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsMessage:
        limit_gc()
        with carrying_errors():
            return RowsMessage(stage_rows(self.options, self.options.dims or (), iterator))

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        store = open_repository(self.options).store
        leave_pieces(store, self.options.stage or "", pieces_in(messages))

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        discard(open_repository(self.options).store, pieces_in(messages))


def columns_of(options: WriteOptions, schema: StructType) -> StructType:
    """Columns of the table: a command has one more, and DELETE only those that locate a row."""
    native = options.native
    if native is not None and native.table is not None:
        return native.table
    if native is not None and native.packed is not None:
        return native.packed
    return StructType([field for field in schema if field.name != OPERATION])


def _base(options: WriteOptions, tip: str) -> str | None:
    """The snapshot that a write is planned on; None for the tip, when it is committed."""
    native = options.native
    if native is None or not native.in_place:
        return tip if native is None or native.base is None else native.base
    return tip if options.mode is WriteMode.OVERWRITE else None


def stage_rows(
    options: WriteOptions, dims: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> bytes | None:
    """Stages rows; runs on an executor."""
    writer = ChunkWriter(open_repository(options).store, INLINE_BYTES)
    if options.native is not None and options.native.packed is not None:
        batches = unpack_rows(batches, options.native.packed, options.native.packed_rows)
    pieces = stage(writer, batches, dims)
    return None if pieces is None else dump_pieces(pieces)


def pieces_in(messages: list[WriterCommitMessage | None]) -> pa.Table | None:
    return join_pieces(
        load_pieces(message.pieces)
        for message in messages
        if isinstance(message, RowsMessage) and message.pieces is not None
    )


def query_id() -> str | None:
    """Id of the stream that the task belongs to; it stays the same when a query is restarted."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


# `df.writeStream.format("icechunk")`: each micro-batch is one commit, made once.
#
# A commit is known by its query and batch. If Spark fails after the commit and before it notes so
# in its checkpoint, it does the batch again, and that commit is found. A batch is planned when it
# is committed, on what the branch holds then: so batches follow one another, and commits of others
# that come between are no conflict.


class RowsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.schema = columns_of(options, schema)
        with carrying_errors():
            _require_streamable(options)
            repository = open_repository(options)
            session = repository.readonly_session(Branch(options.branch))
            # a schema that does not fit is found out before the first batch
            self.dims = prepare(session, self.schema, options).target.dims

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsMessage:
        limit_gc()
        with carrying_errors():
            return RowsMessage(stage_rows(self.options, self.dims, iterator), query_id())

    @override
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pieces = pieces_in(messages)
        if pieces is None:
            return
        with carrying_errors():
            repository, query = open_repository(self.options), _query_in(messages)
            key = f"stream:{query}:{batchId}"
            facts: dict[str, Json] = {"query": query, "batch": batchId}
            commit = RowsCommit(Commit(self.options, APPLICATION, key, facts), self.schema)
            if not leave_to_tasks(repository, commit, pieces, batchId):
                commit.make(repository, pieces)
                discard(repository.store, pieces)

    @override
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # also called after a commit that raised: chunks stay, see RowsWriter.abort
        with carrying_errors():
            store = open_repository(self.options).store
            discard(store, pieces_in(messages))
            WriteState.delete(store, self.options, epoch=batchId, round_=0)


def _require_streamable(options: WriteOptions) -> None:
    if options.input is not Input.ROWS:
        raise InvalidInputError("a stream writes rows; chunk rows are written in batches")
    if options.mode is WriteMode.CREATE:
        raise InvalidInputError("mode 'create' would refuse the second batch of a stream")
    if options.txn is not None:
        raise InvalidInputError(
            "a stream is idempotent by its query and batch: leave out txnAppId and txnVersion"
        )


def _query_in(messages: list[WriterCommitMessage | None]) -> str:
    for message in messages:
        if isinstance(message, RowsMessage) and message.query is not None:
            return message.query
    raise InvalidInputError("Spark did not say which streaming query this is")


# Many rows: Spark runs tasks that make the chunks, as a write of their numbers (write_tasks).


def leave_to_tasks(
    repository: Repository, commit: RowsCommit, pieces: pa.Table | None, epoch: int | None = None
) -> bool:
    """Saves many rows for tasks, or few that many chunks may be made of; False if they are not."""
    options, native = commit.options, commit.options.native
    if native is None or pieces is None:
        return False
    rows = count_rows(pieces)
    if rows <= native.most_rows:
        plan = commit.plan(repository, pieces) if rows > native.most_chunks else None
        if plan is None or plan.most_chunks <= native.most_chunks:
            return False
    state = WriteState(
        pieces=pieces,
        columns=commit.schema,
        base=commit.base or tip_of(repository, options),
        mode=options.mode,
        tries=1 if commit.base is not None else TRIES,
        key=commit.commit.key,
        facts=commit.commit.facts,
    )
    state.save(repository, options, epoch=epoch, round_=0)
    return True


def answer_write(question: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Answers a question of the Java side about a write."""
    match question:
        case {"tasks": int(rows)}:
            options = parse_write_options({**given, TASKS: json.dumps(question)})
            return {"tasks": 0 if options.stage else count_tasks(options, rows)}
        case {"clear": list()}:
            options = clearing(parse_write_options(given))
            clear_cells(open_repository(options), options, question, APPLICATION)
            return {}
    raise InvalidInputError("a write asks nothing that is known")
