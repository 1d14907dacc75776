"""The stream of a branch's commits, as Spark asks for it.

    initialOffset -> latestOffset -> partitions(start, end) -> read (executors) -> latestOffset ...

Every commit is read for itself, at its own snapshot: so what changed twice comes twice, each time
with the values of then. Spark keeps the offsets; the reader keeps nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import override

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.spark.io.change_rows import ChangesPart, ChangesRequest, plan_changes, read_changes
from frazil.spark.io.chunk_scan import plan_chunk_scan
from frazil.spark.io.stream_chunks import ChunksPart, ChunksRequest, plan_chunks, read_chunk_changes
from frazil.spark.io.stream_commits import (
    Commit,
    OnRewrite,
    StreamOptions,
    commits_between,
    first_offset,
    next_offset,
    parse_offset,
    parse_stream_options,
    require_streamable,
    without_stream_options,
)
from frazil.spark.io.stream_rows import (
    NAMES,
    RowsPart,
    RowsRequest,
    open_versions,
    plan_rows,
    read_rows,
)
from frazil.spark.native.answers import parse_prune, without_native_options
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.runtime.workers import limit_gc, value_of
from frazil.spark.table.opened import (
    Opened,
    Pinned,
    open_pinned,
    open_repository,
    reuse_pinned,
    settings_digest,
)
from frazil.spark.table.options import Mode, ReadOptions, parse_options
from frazil.spark.table.scan import Table, plan_axes, plan_table
from frazil.spark.table.schema import arrow_schema, spark_schema

type Part = RowsPart | ChangesPart | ChunksPart
type Request = RowsRequest | ChangesRequest | ChunksRequest
type JsonOffset = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Task:
    """A part of a batch, and the digest of the configuration that it was planned with."""

    part: Part
    settings: str


class CommitStream(DataSourceStreamReader):
    """Stream of commits for PySpark 4.1: every batch takes all commits there are."""

    def __init__(self, request: Request, options: StreamOptions, schema: StructType) -> None:
        self.request = request
        self.stream = options
        self.schema = schema

    @property
    def branch(self) -> str:
        return self.request.options.version.branch or "main"

    @override
    def initialOffset(self) -> JsonOffset:
        info = self.open_repository().repo_info()
        return first_offset(info, self.branch, self.stream).to_json()

    @override
    def latestOffset(self) -> JsonOffset:  # type: ignore[override]  # as before 4.2
        return {"snapshot": str(self.open_repository().lookup_branch(self.branch))}

    def next_offset(
        self, start: JsonOffset, *, until: SnapshotId | None, limit: int | None
    ) -> JsonOffset:
        info = self.open_repository().repo_info()
        begin = parse_offset(start)
        found = next_offset(info, self.branch, begin, self.stream, until=until, limit=limit)
        return found.to_json()

    @override
    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[InputPartition]:
        repository = self.open_repository()
        info = repository.repo_info()
        begin, stop = parse_offset(start), parse_offset(end)
        if stop.after is None:
            # PySpark 4.1 had no `start` for latestOffset: whether they fit is found out only here
            stop = next_offset(info, self.branch, begin, self.stream, until=stop.snapshot)
        return self.tasks(repository, commits_between(info, begin, stop))

    def tasks(self, repository: Repository, commits: Iterable[Commit]) -> list[InputPartition]:
        settings = settings_digest(repository)
        parts = (part for commit in commits for part in self._plan(commit, settings))
        return [InputPartition(_Task(part, settings)) for part in parts]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        task: _Task | None = value_of(partition)
        if task is None:
            return
        limit_gc()
        part, schema = task.part, arrow_schema(self.schema)
        after = self._open(part.commit.snapshot, task.settings)
        if isinstance(part, RowsPart):
            yield from read_rows(after, part, schema)
            return
        before = self._open(part.commit.parent, task.settings)
        if isinstance(part, ChangesPart) and isinstance(self.request, ChangesRequest):
            yield from read_changes(before, after, part, self.request, schema)
        elif isinstance(part, ChunksPart) and isinstance(self.request, ChunksRequest):
            yield from read_chunk_changes(before, after, part, self.request, schema)

    def _plan(self, commit: Commit, settings: str) -> Sequence[Part]:
        before, after = (self._open(each, settings) for each in (commit.parent, commit.snapshot))
        versions = open_versions(commit, before, after)
        if isinstance(self.request, ChunksRequest):
            return plan_chunks(commit, versions, self.request)
        if isinstance(self.request, ChangesRequest):
            return plan_changes(commit, versions, self.request)
        return plan_rows(commit, versions, self.request)

    def open_repository(self) -> Repository:
        options = self.request.options
        return open_repository(PlaceText(options.path, options.secret_storage), options.access)

    def _open(self, snapshot: SnapshotId, settings: str) -> Opened:
        options = self.request.options
        place = PlaceText(options.path, options.secret_storage)
        return reuse_pinned(Pinned(place, str(snapshot), options.access, settings))


# The stream since PySpark 4.2, which asks how much a batch may take.

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # PySpark 4.1: the class below is of no use there
    ReadAllAvailable = ReadLimit = ReadMaxFiles = SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]  # stand-ins
    HAS_LIMITS = False


class LimitedCommitStream(CommitStream, SupportsTriggerAvailableNow):
    _target: SnapshotId | None = None  # of Trigger.AvailableNow: the tip when the query began

    @override
    def latestOffset(  # type: ignore[override]  # as since 4.2
        self, start: JsonOffset, limit: ReadLimit
    ) -> JsonOffset:
        # Spark's limits are of a fixed set; that of files stands for commits
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return self.next_offset(start, until=self._target, limit=most)

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.stream.max_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    @override
    def reportLatestOffset(self) -> JsonOffset:
        return super().latestOffset()

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.open_repository().lookup_branch(self.branch)


# Stream readers that the data source returns to Spark.


def parse_stream(options: Mapping[str, str]) -> tuple[ReadOptions, StreamOptions]:
    reading = parse_options(without_stream_options(options))
    require_streamable(reading)
    stream = parse_stream_options(options)
    if stream.max_commits is not None and not HAS_LIMITS:
        raise InvalidInputError("option maxCommitsPerTrigger needs PySpark 4.2 or later")
    return reading, stream


def make_stream_reader(
    options: Mapping[str, str], schema: StructType, pinned: Pinned
) -> CommitStream:
    """`pinned`: the version that the schema is of."""
    reading, stream = parse_stream(without_native_options(options))
    request = _request(reading, stream, schema, pinned)
    if stream.on_rewrite is OnRewrite.COMPARE and not isinstance(request, ChangesRequest):
        raise InvalidInputError("onRewrite=compare is of streams of changed rows (changes=true)")
    if isinstance(request, ChangesRequest):
        request = replace(request, prune=parse_prune(options))
    made = LimitedCommitStream if HAS_LIMITS else CommitStream
    return made(request, stream, schema)


def _request(
    reading: ReadOptions, stream: StreamOptions, schema: StructType, pinned: Pinned
) -> Request:
    opened = open_pinned(pinned)
    if reading.mode is Mode.CHUNKS:
        return ChunksRequest(reading, plan_chunk_scan(opened, reading).element)
    table = plan_table(opened, reading)
    plan_axes(opened, table, reading)  # raises if the selection is wrong
    require_columns(table, schema)
    names = [column.name for column in table.all_columns]
    if stream.changes:
        return changes_request(reading, table)
    variables = [v.name for v in table.grid.variables] or names[:1]
    wanted = [name for name in variables if name in schema.names] or variables
    return RowsRequest(reading, tuple(wanted), schema, stream.on_removal)


def require_columns(table: Table, schema: StructType) -> None:
    names = [column.name for column in table.all_columns]
    unknown = [name for name in schema.names if name not in (*names, *NAMES)]
    if unknown:
        raise InvalidInputError(
            f"the schema given has {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join((*names, *NAMES))}"
        )


def changes_request(reading: ReadOptions, table: Table) -> ChangesRequest:
    """Asks for the changes of a table; of variables that `columns` leaves out, none are."""
    kept = {column.name for column in table.columns}
    dimensions = [column.name for column in table.dimensions]
    columns = [c for c in table.all_columns if c.is_dimension or c.name in kept]
    variables = [v.name for v in table.grid.variables if v.name in kept]
    wanted = variables or [v.name for v in table.grid.variables] or dimensions[:1]
    if not variables:
        columns = list(table.all_columns)
    return ChangesRequest(reading, spark_schema(columns), tuple(dimensions), tuple(wanted))
