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
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from frazil.repo.version import Branch
from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.jobs.commits import find_commit
from frazil.spark.jobs.sessions import session_at
from frazil.spark.workers import tame_gc
from frazil.spark.writing.opening import open_repository
from frazil.spark.writing.options import WriteOptions
from frazil.spark.writing.rows import require_coordinates
from frazil.spark.writing.rows_commit import Commit, write_fragments
from frazil.spark.writing.session import prepare
from frazil.spark.writing.staging import Fragment, discard, stage

APPLICATION = "spark"


@dataclass
class RowsMessage(WriterCommitMessage):
    """What a task put aside; and the streaming query it belongs to, if any."""

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
        tame_gc()
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
    """On an executor."""

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
    """Of the stream that the task belongs to; it stays the same when a query is restarted."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
