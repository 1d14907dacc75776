"""The data source `icechunk`: `spark.read.format("icechunk")`.

The snapshot is pinned when a DataFrame is made, and stays. There is no `pushFilters`: with it,
PySpark 4.1 to 4.3 give wrong results as soon as a DataFrame is used twice (docs/spark-facts.md 1).
Predicates prune by the native table (frazil.spark.native), which asks this source about tables and
hands it scans that are already decided. Without it, the options `sel` and `columns` select what is
read.
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, override

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.io.change_reader import (
    FUNCTION,
    ChangesReader,
    changes_function,
    parse_changes,
    without_change_options,
)
from frazil.spark.io.chunk_scan import ChunkScan, chunk_schema, plan_chunk_scan, read_chunk_part
from frazil.spark.io.metadata_functions import (
    TableReading,
    plan_reading,
    select_schema,
    table_functions,
)
from frazil.spark.io.stream_commits import (
    refuse_stream_options,
    wants_changes,
    without_stream_options,
)
from frazil.spark.io.stream_reader import CommitStream, make_stream_reader
from frazil.spark.io.stream_rows import with_change_columns
from frazil.spark.native.aggregate import AggregateReader, plan_aggregate
from frazil.spark.native.answers import (
    QUESTION,
    answer_about,
    describe_plain,
    find_option,
    find_version,
    parse_prune,
    parse_question,
    parse_scan,
    pin_planned,
    title_of,
    with_answer,
    without_native_options,
)
from frazil.spark.native.catalog import answer_catalog, answer_for
from frazil.spark.native.counters import with_counters
from frazil.spark.native.install import Warehouse, install_native
from frazil.spark.runtime.workers import carrying_errors, limit_gc, value_of
from frazil.spark.table.opened import Opened, Pinned, open_pinned, pin, reuse_pinned
from frazil.spark.table.options import Mode, ReadOptions, parse_options
from frazil.spark.table.scan import Scan, Table, plan_axes, plan_scan, plan_table, read_box
from frazil.spark.table.scan_plan import Axis, Box, Sample, cut, take_sample
from frazil.spark.table.schema import arrow_schema, spark_schema
from frazil.spark.writing.chunk_rows import ChunkRowsWriter
from frazil.spark.writing.options import Input, parse_write_options
from frazil.spark.writing.sink import RowsStreamWriter, RowsWriter, answer_write
from frazil.spark.writing.table_ddl import answer_ddl
from frazil.spark.writing.write_tasks import TasksWriter

# Writers that the data source returns to Spark.


def make_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> RowsWriter | ChunkRowsWriter | TasksWriter:
    with carrying_errors():
        parsed = parse_write_options(options, overwrite=overwrite)
    if parsed.native is not None and parsed.native.is_tasks:
        return TasksWriter(parsed)
    if parsed.input is Input.CHUNKS:
        return ChunkRowsWriter(parsed, schema)
    return RowsWriter(parsed, schema)


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> RowsStreamWriter:
    with carrying_errors():
        parsed = parse_write_options(options, overwrite=overwrite)
    return RowsStreamWriter(parsed, schema)


FORMAT = "icechunk"


class IcechunkSource(DataSource):
    """Spark makes one for each `load()`, and pickles it after `schema()`."""

    _pinned: Pinned | None = None
    _reading: TableReading | None = None

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> StructType | str:
        question = find_option(self.options, QUESTION)
        version = find_version(self.options)
        if version is not None:
            return version if question is None else describe_plain(version, FORMAT, None)
        if question is not None:
            asked = parse_question(question)
            with carrying_errors() if asked.get("carry") else nullcontext():
                return self._answer(asked, without_native_options(self.options))
        # of a stream as well: which it is, Spark does not say before it has the columns
        found = self._schema(_read_options(self.options))
        return with_change_columns(found) if wants_changes(self.options) else found

    def _answer(self, question: dict[str, Any], given: dict[str, str]) -> StructType:
        """Answers a question of the Java side of the native table, or of the catalog."""
        if "catalog" in question:
            return answer_catalog(question, given, self._answer)
        if question.keys() & {"tasks", "clear"}:
            return with_answer(StructType(), answer_write(question, given))
        if "ddl" in question:
            return answer_for(question, given, lambda each: answer_ddl(question, each))
        options = _read_options(given)
        streams = len(without_stream_options(given)) < len(given)  # a reader refuses such options
        if options.table is None and options.mode is not Mode.CHUNKS and not streams:
            return answer_about(question, options)
        schema = self._schema(options)
        found = with_change_columns(schema) if wants_changes(given) else schema
        snapshot = self._pinned.snapshot if self._pinned else None
        return describe_plain(found, title_of(options), snapshot)

    def _schema(self, options: ReadOptions) -> StructType | str:
        if options.table is not None:
            return self._pin_table(options).table.ddl
        if options.mode is Mode.CHUNKS:
            return chunk_schema(plan_chunk_scan(open_pinned(self._pin(options)), options))
        return spark_schema(plan_table(open_pinned(self._pin(options)), options).columns)

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        planned = parse_scan(self.options)
        if wants_changes(self.options):
            given = without_native_options(self.options)
            pinned_end = {"to": planned.snapshot} if planned is not None else {}
            asked = parse_changes({**given, **pinned_end})
            opened = open_pinned(self._pin(asked.reading))
            return ChangesReader(asked, opened, schema, parse_prune(self.options))
        refuse_stream_options(self.options)
        options = pin_planned(parse_options(without_native_options(self.options)), planned)
        if options.table is not None:
            return TableReader(self._pin_table(options), schema)
        pinned = self._pin(options)
        opened = open_pinned(pinned)
        if options.mode is Mode.CHUNKS:
            return ChunkReader(pinned, plan_chunk_scan(opened, options), schema)
        counters = planned is not None and planned.counters
        columns = StructType(schema.fields[:-1]) if counters else schema
        if planned is not None and planned.aggregate is not None:
            whole = plan_table(opened, options)
            parts = plan_aggregate(whole, planned.axes(whole), planned.aggregate, options)
            return AggregateReader(pinned, parts, planned.aggregate, schema, counters=counters)
        table = _with_schema(plan_table(opened, options), columns)
        axes = [plan_axes(opened, table, options)] if planned is None else planned.axes(table)
        cuts = planned.cuts if planned else None
        scans = tuple(plan_scan(table, each, options, cuts) for each in axes)
        sample = planned.sample if planned else None
        return IcechunkReader(pinned, scans, schema, sample, counters=counters)

    @override
    def writer(
        self, schema: StructType, overwrite: bool
    ) -> RowsWriter | ChunkRowsWriter | TasksWriter:
        return make_writer(self.options, schema, overwrite=overwrite)

    @override
    def streamReader(self, schema: StructType) -> CommitStream:
        given = without_native_options(self.options)
        pinned = self._pin(parse_options(without_stream_options(given)))
        return make_stream_reader(self.options, schema, pinned)

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> RowsStreamWriter:
        return make_stream_writer(self.options, schema, overwrite=overwrite)

    # also from reader(): with a schema given by the user, Spark never calls schema()

    def _pin(self, options: ReadOptions) -> Pinned:
        if self._pinned is None:
            self._pinned = pin(options)
        return self._pinned

    def _pin_table(self, options: ReadOptions) -> TableReading:
        if self._reading is None:
            self._reading = plan_reading(options)
        return self._reading


class IcechunkReader(DataSourceReader):
    """Planned on the driver; `read` runs on executors. The scans are disjoint.

    A partition is its positions along each axis. It does not refer to the plan it came from: Spark
    may plan again, when a join has found out which rows it needs, and hand the new partitions to
    the reader of the first plan.
    """

    def __init__(
        self,
        pinned: Pinned,
        scans: tuple[Scan, ...],
        schema: StructType,
        sample: Sample | None = None,
        *,
        counters: bool = False,
    ) -> None:
        self.pinned = pinned
        self.scans = scans
        self.schema = schema
        self.sample = sample
        self.counters = counters

    def __getstate__(self) -> dict[str, object]:
        """State for executors, which receive their positions one by one."""
        scans = tuple(replace(scan, axes=(), boxes=()) for scan in self.scans[:1])
        return {**self.__dict__, "scans": scans}

    @override
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(cut(s.axes, box)) for s in self.scans for box in s.boxes]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        axes: tuple[Axis, ...] | None = value_of(partition)
        if axes is None:
            return
        limit_gc()
        scan = replace(self.scans[0], axes=axes)
        box = tuple((0, len(axis)) for axis in axes)
        schema = arrow_schema(self.schema)
        columns = schema.remove(len(schema) - 1) if self.counters else schema
        rows = self._rows(scan, box, columns)
        yield from with_counters(rows, schema) if self.counters else rows

    def _rows(self, scan: Scan, box: Box, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = read_box(self.open(), scan, box, schema)
        sizes = [dimension.size for dimension in scan.table.grid.dimensions]
        yield from take_sample(rows, scan.axes, sizes, self.sample) if self.sample else rows

    def open(self) -> Opened:
        return reuse_pinned(self.pinned)


class TableReader(DataSourceReader):
    """Reader of a metadata table."""

    def __init__(self, reading: TableReading, schema: StructType) -> None:
        self.reading = reading
        self.schema = schema

    @override
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in self.reading.plan()]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        part = value_of(partition)
        if part is None:
            return
        limit_gc()
        schema = arrow_schema(self.schema)
        for batch in self.reading.read(part):
            yield select_schema(batch, schema)


class ChunkReader(DataSourceReader):
    """A row per chunk."""

    def __init__(self, pinned: Pinned, scan: ChunkScan, schema: StructType) -> None:
        self.pinned = pinned
        self.scan = scan
        self.schema = schema

    def __getstate__(self) -> dict[str, object]:
        """State for executors, which receive their parts one by one."""
        return {**self.__dict__, "scan": replace(self.scan, parts=())}

    @override
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in self.scan.parts]

    @override
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        part = value_of(partition)
        if part is None:
            return
        limit_gc()
        schema = arrow_schema(self.schema)
        for batch in read_chunk_part(reuse_pinned(self.pinned), self.scan, part):
            yield select_schema(batch, schema)


def _read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of reading, without those that a stream or a batch of changes adds."""
    if len(without_change_options(given)) < len(given):
        return parse_changes(given).reading  # at the last version of the range
    return parse_options(without_stream_options(given))


def _with_schema(table: Table, schema: StructType) -> Table:
    """The columns of a schema that the user may have given: some of the table's, in any order."""
    by_name = {column.name: column for column in table.all_columns}
    unknown = [name for name in schema.names if name not in by_name]
    if unknown:
        raise InvalidInputError(
            f"the schema given has {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join(by_name)}"
        )
    columns = tuple(by_name[name] for name in schema.names)
    for given, own in zip(schema, spark_schema(columns), strict=True):
        if given.dataType != own.dataType:
            raise InvalidInputError(
                f"column {given.name!r} is {own.dataType.simpleString()},"
                f" the schema given says {given.dataType.simpleString()}"
            )
    return Table(table.grid, table.all_columns, columns)


# Making frazil's data source and table functions known to a session.


def register(spark: SparkSession, *, warehouse: Warehouse | None = None) -> None:
    """Makes `format("icechunk")`, the catalogs `frazil` and `icechunk`, and the functions
    `icechunk_history(...)` and so on known.

    `warehouse` is the folder, or the prefix of a bucket, in which the catalog `frazil` looks for
    repositories: by default the current folder, unless the session says otherwise.

    Spark finds the former by itself where frazil is installed; this helps where another package's
    data source is broken, which hides all of them.

    It also makes the session the active one of the calling thread. Spark looks up the sources that
    are written in Python in the active session, which only the thread that started it has: in any
    other, `df.write.format("icechunk")` and `writeStream` end with DATA_SOURCE_NOT_FOUND.
    """
    spark.createDataFrame([], "nothing INT")  # the public call that sets the active session
    register_source(spark)
    install_native(spark, warehouse)
    for name, function in {**table_functions(), FUNCTION: changes_function()}.items():
        spark.udtf.register(name, function)


def register_source(spark: SparkSession) -> None:
    spark.dataSource.register(IcechunkSource)
