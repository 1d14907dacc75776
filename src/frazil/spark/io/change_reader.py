"""Change data in batches: what happened to the rows of a table between two versions.

    spark.read.format("icechunk").option("changes", "true").option("from", "v1").load(path)
    SELECT * FROM icechunk_changes('/data/weather', from_version => 'v1', to_version => 'v2')

`SELECT ... FROM table CHANGES FROM VERSION ...` (Spark 4.2) ends up here, too. Commit by commit, or
with `net` only what differs between both ends, whose changes then all have the last version.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, override

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from frazil.engine.refs.ancestry import ancestor_rows, require_row, snapshot_id
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.spark.io.stream_commits import (
    Commit,
    StreamOptions,
    commit_between,
    commits_after,
    refuse_stream_options,
    wants_changes,
)
from frazil.spark.io.stream_reader import CommitStream, changes_request, require_columns
from frazil.spark.io.stream_rows import with_change_columns
from frazil.spark.runtime.storage_options import PlaceText, with_prefix
from frazil.spark.runtime.workers import limit_gc
from frazil.spark.table.metadata_tables import find_version
from frazil.spark.table.opened import Opened, engine_version, open_repository
from frazil.spark.table.options import Mode, ReadOptions, Version, parse_options
from frazil.spark.table.scan import plan_axes, plan_table
from frazil.spark.table.schema import arrow_schema, spark_schema
from frazil.spark.table.selection import EVERYTHING, Selection

CHANGE_OPTIONS = {
    "from": "a tag, a branch or a snapshot: the commits after it; all of them by default",
    "to": "likewise, the last of them; by default the version",
    "net": "true gives only what differs between both ends; false (by default) every commit",
}


def without_change_options(options: Mapping[str, str]) -> dict[str, str]:
    own = {name.lower() for name in CHANGE_OPTIONS} if wants_changes(options) else set()
    return {name: text for name, text in options.items() if name.lower() not in own}


@dataclass(frozen=True, slots=True)
class ChangesRange:
    """The commits after `start` up to `end`, which is a descendant of it."""

    start: SnapshotId
    end: SnapshotId
    net: bool

    def commits(self, info: RepoInfo) -> list[Commit]:
        first, last = require_row(info, self.start), require_row(info, self.end)
        if not self.net:
            return commits_after(info, first, last)
        if first not in ancestor_rows(info, last):
            raise InvalidInputError(f"snapshot {self.start} is no ancestor of {self.end}")
        return [] if first == last else [commit_between(info, first, last)]


def find_range(repository: Repository, given: Mapping[str, str], version: Version) -> ChangesRange:
    """Finds the ends that the options name; `version` is where the table is read."""
    asked = {name.lower(): text for name, text in given.items()}
    net = asked.get("net", "false").lower()
    if net not in {"true", "false"}:
        raise InvalidInputError(f"option 'net' is {net!r}, expected true or false")
    if "to" in asked:
        end = find_version(repository, asked["to"])
    else:
        end = repository.readonly_session(engine_version(version)).snapshot_id
    if "from" in asked:
        start = find_version(repository, asked["from"])
    else:
        info = repository.repo_info()
        *_, oldest = ancestor_rows(info, require_row(info, end))
        start = snapshot_id(info, oldest)
    return ChangesRange(start, end, net == "true")


@dataclass(frozen=True, slots=True)
class ChangesOptions:
    """Options of a batch of changes; the version is the last of the range."""

    reading: ReadOptions
    range: ChangesRange


def parse_changes(given: Mapping[str, str]) -> ChangesOptions:
    """Opens the repository, to find the versions that the options name."""
    own = {name.lower() for name in CHANGE_OPTIONS} | {"changes"}
    rest = {name: text for name, text in given.items() if name.lower() not in own}
    refuse_stream_options(rest)
    reading = parse_options(rest)
    if reading.table is not None or reading.mode is Mode.CHUNKS:
        raise InvalidInputError("changes are of rows; a stream has those of chunks, too")
    repository = open_repository(PlaceText(reading.path, reading.secret_storage), reading.access)
    found = find_range(repository, given, reading.version)
    pinned = replace(reading, version=Version(snapshot=str(found.end)))
    return ChangesOptions(pinned, found)


class ChangesReader(DataSourceReader):
    """Planned on the driver, commit by commit; executors read and compare."""

    def __init__(
        self,
        asked: ChangesOptions,
        opened: Opened,
        schema: StructType,
        prune: Selection = EVERYTHING,
    ) -> None:
        table = plan_table(opened, asked.reading)
        plan_axes(opened, table, asked.reading)  # raises if the selection is wrong
        require_columns(table, schema)
        self.range = asked.range
        request = replace(changes_request(asked.reading, table), prune=prune)
        self.stream = CommitStream(request, StreamOptions(), schema)

    @override
    def partitions(self) -> list[InputPartition]:
        repository = self.stream.open_repository()
        return self.stream.tasks(repository, self.range.commits(repository.repo_info()))

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return self.stream.read(partition)


# A function of SQL, for Spark without CHANGES. Its columns are those of the table, and PySpark has
# no function of Arrow that finds its columns by itself: it gives row after row, in one task.

FUNCTION = "icechunk_changes"
ARGUMENTS = {
    "path": "path",
    "from_version": "from",
    "to_version": "to",
    "at_group": "group",  # GROUP and FROM are words of SQL
    "variables": "variables",
    "net": "net",
    "storage": "",
}


def changes_function() -> Any:
    """Table function `icechunk_changes`."""

    class Changes:
        @staticmethod
        def analyze(*given: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
            values = [each.value for each in given]
            return AnalyzeResult(_columns(_options(values, {n: a.value for n, a in named.items()})))

        def eval(self, *given: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
            yield from _rows(_options(list(given), named))

    return udtf(Changes, useArrow=False)


def _options(given: list[Any], named: Mapping[str, Any]) -> dict[str, str]:
    if len(given) > len(ARGUMENTS):
        raise InvalidInputError(f"{FUNCTION} has the arguments {', '.join(ARGUMENTS)}")
    values = dict(zip(ARGUMENTS, given, strict=False)) | dict(named)
    unknown = sorted(values.keys() - ARGUMENTS.keys())
    if unknown:
        raise InvalidInputError(
            f"{FUNCTION} has no argument {unknown[0]!r}; they are {', '.join(ARGUMENTS)}"
        )
    reach = dict(values.pop("storage", None) or {})
    texts = {ARGUMENTS[name]: str(each) for name, each in values.items() if each is not None}
    return {**texts, **with_prefix(reach), "changes": "true"}


def _columns(options: Mapping[str, str]) -> StructType:
    asked = parse_changes(options)
    found = with_change_columns(spark_schema(plan_table(_open(asked), asked.reading).columns))
    if isinstance(found, str):
        raise TypeError(found)
    return found


def _open(asked: ChangesOptions) -> Opened:
    reading = asked.reading
    repository = open_repository(PlaceText(reading.path, reading.secret_storage), reading.access)
    return Opened(repository.readonly_session(engine_version(reading.version)))


def _rows(options: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    limit_gc()
    asked = parse_changes(options)
    schema = _columns(options)
    reader = ChangesReader(asked, _open(asked), schema)
    structs = [field.name for field in schema if isinstance(field.dataType, StructType)]
    for part in reader.partitions():
        for batch in reader.read(part):
            for row in batch.cast(arrow_schema(schema)).to_pylist():
                for name in structs:
                    row[name] = None if row[name] is None else tuple(row[name].values())
                yield tuple(row.values())
