"""The stream of a branch's commits, as Spark asks for it.

    initialOffset -> latestOffset -> partitions(start, end) -> read (executors) -> latestOffset ...

Every commit is read for itself, at its own snapshot: so what changed twice comes twice, each time
with the values of then. Spark keeps the offsets; the reader keeps nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import override

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from frazil.ids import SnapshotId
from frazil.repo.repository import Repository
from frazil.spark.arrow_schema import arrow_schema
from frazil.spark.opened import (
    Opened,
    Pinned,
    open_repository,
    reuse_pinned,
    settings_digest,
)
from frazil.spark.partitions import value_of
from frazil.spark.place import PlaceText
from frazil.spark.streaming.chunks import (
    ChunksPart,
    ChunksRequest,
    plan_chunks,
    read_chunk_changes,
)
from frazil.spark.streaming.commits import Commit, commits_between, first_offset, next_offset
from frazil.spark.streaming.offsets import parse_offset
from frazil.spark.streaming.options import StreamOptions
from frazil.spark.streaming.rows import RowsPart, RowsRequest, plan_rows, read_rows
from frazil.spark.streaming.versions import open_versions
from frazil.spark.workers import tame_gc

type Part = RowsPart | ChunksPart
type JsonOffset = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Task:
    """A part of a batch, and the digest of the configuration that it was planned with."""

    part: Part
    settings: str


class CommitStream(DataSourceStreamReader):
    """Of PySpark 4.1: every batch takes all commits there are."""

    def __init__(
        self, request: RowsRequest | ChunksRequest, options: StreamOptions, schema: StructType
    ) -> None:
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
        info, settings = repository.repo_info(), settings_digest(repository)
        begin, stop = parse_offset(start), parse_offset(end)
        if stop.after is None:
            # PySpark 4.1 had no `start` for latestOffset: whether they fit is found out only here
            stop = next_offset(info, self.branch, begin, self.stream, until=stop.snapshot)
        commits = commits_between(info, begin, stop)
        parts = (part for commit in commits for part in self._plan(commit, settings))
        return [InputPartition(_Task(part, settings)) for part in parts]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        task: _Task | None = value_of(partition)
        if task is None:
            return
        tame_gc()
        part, schema = task.part, arrow_schema(self.schema)
        after = self._open(part.commit.snapshot, task.settings)
        if isinstance(part, RowsPart):
            yield from read_rows(after, part, schema)
        elif isinstance(self.request, ChunksRequest):
            before = self._open(part.commit.parent, task.settings)
            yield from read_chunk_changes(before, after, part, self.request, schema)

    def _plan(self, commit: Commit, settings: str) -> list[RowsPart] | list[ChunksPart]:
        before, after = (self._open(each, settings) for each in (commit.parent, commit.snapshot))
        versions = open_versions(commit, before, after)
        if isinstance(self.request, ChunksRequest):
            return plan_chunks(commit, versions, self.request)
        return plan_rows(commit, versions, self.request)

    def open_repository(self) -> Repository:
        options = self.request.options
        return open_repository(PlaceText(options.path, options.secret_storage), options.access)

    def _open(self, snapshot: SnapshotId, settings: str) -> Opened:
        options = self.request.options
        place = PlaceText(options.path, options.secret_storage)
        return reuse_pinned(Pinned(place, str(snapshot), options.access, settings))
