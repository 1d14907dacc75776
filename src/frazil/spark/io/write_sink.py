"""`df.write.format("icechunk")`: rows in any order and partitioning, one commit.

    driver      pin the branch's tip, check options and schema            nothing is written yet
    executors   put rows aside                                            (staging)
    driver      coordinates -> layout -> chunks -> commit, once           (rows_commit)

A task that is tried again, or twice at once, puts its rows aside twice; the driver hears of one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import override

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, InvalidInputError
from frazil.spark.io.write_commit import Commit, Fragment, discard, stage, write_fragments
from frazil.spark.io.write_options import Input, WriteMode, WriteOptions, open_repository
from frazil.spark.io.write_session import prepare, require_coordinates
from frazil.spark.runtime.commits import find_commit, session_at
from frazil.spark.runtime.workers import carrying_errors, limit_gc

APPLICATION = "spark"


@dataclass
class RowsMessage(WriterCommitMessage):
    """Message of a task: the rows that it staged, and their streaming query, if any."""

    fragments: tuple[Fragment, ...]
    query: str | None = None


class RowsWriter(DataSourceArrowWriter):
    """Made once on the driver; copies of it act on executors and in the end on the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        with carrying_errors():
            repository = open_repository(options)
            session = repository.readonly_session(Branch(options.branch))
            self.base = str(session.snapshot_id)
            self.done = find_commit(repository, options.branch, options.key)
            self.dims: tuple[str, ...] = ()
            if self.done is None:
                self.dims = prepare(session, schema, options).target.dims

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsMessage:
        limit_gc()
        with carrying_errors():
            if self.done is not None:
                return RowsMessage(())
            return RowsMessage(stage_rows(self.options, self.dims, iterator))

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.done is not None:
            return
        fragments = fragments_in(messages)
        with carrying_errors():
            repository = open_repository(self.options)
            session = session_at(repository, self.options.branch, self.base)
            written = write_fragments(repository, session, self.schema, self.options, fragments)
            if written is not None:
                commit = Commit(self.options, APPLICATION, self.options.key, {})
                commit.make(repository, session, written)
            discard(repository.store, fragments)

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Spark calls this also after a commit that raised, perhaps after the branch had moved:
        # chunks stay, and if nothing refers to them, garbage collection takes them.
        with carrying_errors():
            discard(open_repository(self.options).store, fragments_in(messages))


def stage_rows(
    options: WriteOptions, dims: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> tuple[Fragment, ...]:
    """Stages rows; runs on an executor."""

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            require_coordinates(batch, dims)
            yield batch

    writer = open_repository(options).readonly_session(Branch(options.branch)).chunk_writer()
    fragments = tuple(stage(writer, checked(), dims))
    writer.sync()
    return fragments


def fragments_in(messages: list[WriterCommitMessage | None]) -> list[Fragment]:
    return [
        fragment
        for message in messages
        if isinstance(message, RowsMessage)
        for fragment in message.fragments
    ]


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

_TRIES = 10  # of a batch, if others commit at the same time


class RowsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        with carrying_errors():
            _require_streamable(options)
            repository = open_repository(options)
            session = repository.readonly_session(Branch(options.branch))
            # a schema that does not fit is found out before the first batch
            self.dims = prepare(session, schema, options).target.dims

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsMessage:
        limit_gc()
        with carrying_errors():
            return RowsMessage(stage_rows(self.options, self.dims, iterator), query_id())

    @override
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        fragments = fragments_in(messages)
        with carrying_errors():
            repository = open_repository(self.options)
            if fragments:
                self._commit(repository, fragments, _query_in(messages), batchId)
            discard(repository.store, fragments)

    @override
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # also called after a commit that raised: chunks stay, see RowsWriter.abort
        with carrying_errors():
            discard(open_repository(self.options).store, fragments_in(messages))

    def _commit(
        self, repository: Repository, fragments: list[Fragment], query: str, batch: int
    ) -> None:
        key = f"stream:{query}:{batch}"
        commit = Commit(self.options, APPLICATION, key, {"query": query, "batch": batch})
        for attempt in range(_TRIES):
            if find_commit(repository, self.options.branch, key) is not None:
                return
            session = repository.writable_session(self.options.branch)
            written = write_fragments(repository, session, self.schema, self.options, fragments)
            if written is None:
                return
            try:
                commit.make(repository, session, written)
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return


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
