"""`df.writeStream.format("icechunk")`: each micro-batch is one commit, made once.

A commit is known by its query and batch. If Spark fails after the commit and before it notes so in
its checkpoint, it does the batch again, and that commit is found. A batch is planned when it is
committed, on what the branch holds then: so batches follow one another, and commits of others
that come between are no conflict.
"""

from collections.abc import Iterator
from typing import override

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from frazil.errors import ConflictError, InvalidInputError
from frazil.repo.repository import Repository
from frazil.repo.version import Branch
from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.jobs.commits import find_commit
from frazil.spark.workers import tame_gc
from frazil.spark.writing.opening import open_repository
from frazil.spark.writing.options import Input, WriteMode, WriteOptions
from frazil.spark.writing.rows_commit import Commit, write_fragments
from frazil.spark.writing.session import prepare
from frazil.spark.writing.staging import Fragment, discard
from frazil.spark.writing.writer import (
    APPLICATION,
    RowsMessage,
    fragments_in,
    query_id,
    stage_rows,
)

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
        tame_gc()
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
