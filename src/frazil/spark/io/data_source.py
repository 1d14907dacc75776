"""The data source `icechunk`: `spark.read.format("icechunk")`.

The snapshot is pinned when a DataFrame is made, and stays. There is no `pushFilters`: with it,
PySpark 4.1 to 4.3 give wrong results as soon as a DataFrame is used twice (docs/spark-facts.md 1).
Predicates prune by the native table (frazil.spark.native), which asks this source about tables and
hands it scans that are already decided. Without it, the options `sel` and `columns` select what is
read.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, override

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.lazy import lazy_module
from frazil.spark.native import answers
from frazil.spark.native.counters import with_counters
from frazil.spark.runtime.workers import carrying_errors, limit_gc, value_of
from frazil.spark.table.opened import Opened, Pinned, pin, reuse_pinned
from frazil.spark.table.options import Mode, ReadOptions, parse_options
from frazil.spark.table.scan import (
    Scan,
    Table,
    plan_axes,
    plan_scan,
    plan_table,
    read_box,
)
from frazil.spark.table.scan_plan import Axis, Box, cut, take_sample
from frazil.spark.table.schema import arrow_schema, spark_schema

if TYPE_CHECKING:
    from frazil.spark.io import (
        change_reader,
        chunk_scan,
        metadata_functions,
        stream_commits,
        stream_reader,
        stream_rows,
    )
    from frazil.spark.native import aggregate, catalog, install
    from frazil.spark.writing import chunk_rows, sink, table_ddl, write_tasks
    from frazil.spark.writing import options as write_options
else:  # every task that reads rows imports this module, and needs none of these
    aggregate = lazy_module("frazil.spark.native.aggregate")
    catalog = lazy_module("frazil.spark.native.catalog")
    change_reader = lazy_module("frazil.spark.io.change_reader")
    chunk_rows = lazy_module("frazil.spark.writing.chunk_rows")
    chunk_scan = lazy_module("frazil.spark.io.chunk_scan")
    install = lazy_module("frazil.spark.native.install")
    metadata_functions = lazy_module("frazil.spark.io.metadata_functions")
    sink = lazy_module("frazil.spark.writing.sink")
    stream_commits = lazy_module("frazil.spark.io.stream_commits")
    stream_reader = lazy_module("frazil.spark.io.stream_reader")
    stream_rows = lazy_module("frazil.spark.io.stream_rows")
    table_ddl = lazy_module("frazil.spark.writing.table_ddl")
    write_options = lazy_module("frazil.spark.writing.options")
    write_tasks = lazy_module("frazil.spark.writing.write_tasks")

# Writers that the data source returns to Spark.

type Writer = (
    sink.RowsWriter | sink.StageWriter | chunk_rows.ChunkRowsWriter | write_tasks.TasksWriter
)


def make_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "Writer":
    with carrying_errors():
        parsed = write_options.parse_write_options(options, overwrite=overwrite)
    if parsed.stage is not None:
        return sink.StageWriter(parsed)
    if parsed.native is not None and parsed.native.is_tasks:
        return write_tasks.TasksWriter(parsed)
    if parsed.input is write_options.Input.CHUNKS:
        return chunk_rows.ChunkRowsWriter(parsed, schema)
    return sink.RowsWriter(parsed, schema)


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "sink.RowsStreamWriter":
    with carrying_errors():
        parsed = write_options.parse_write_options(options, overwrite=overwrite)
    return sink.RowsStreamWriter(parsed, schema)


FORMAT = "icechunk"


class IcechunkSource(DataSource):
    """Spark makes one for each `load()`, and pickles it after `schema()`."""

    _pinned: Pinned | None = None
    _reading: "metadata_functions.TableReading | None" = None

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> StructType | str:
        limit_gc()
        question = answers.find_option(self.options, answers.QUESTION)
        version = answers.find_version(self.options)
        if version is not None:
            return version if question is None else answers.describe_plain(version, FORMAT, None)
        if question is not None:
            asked = answers.parse_question(question)
            with carrying_errors() if asked.get("carry") else nullcontext():
                return self._answer(asked, answers.without_native_options(self.options))
        # of a stream as well: which it is, Spark does not say before it has the columns
        return _with_change_columns(self._schema(_read_options(self.options)), self.options)

    def _answer(self, question: dict[str, Any], given: dict[str, str]) -> StructType:
        """Answers a question of the Java side of the native table, or of the catalog."""
        if "catalog" in question:
            return catalog.answer_catalog(question, given, self._answer)
        if question.keys() & {"tasks", "clear"}:
            return answers.with_answer(StructType(), sink.answer_write(question, given))
        if "ddl" in question:
            return catalog.answer_for(
                question, given, lambda each: table_ddl.answer_ddl(question, each)
            )
        options = _read_options(given)
        kept = stream_commits.without_stream_options(given)
        streams = len(kept) < len(given)  # a reader refuses such options
        if options.table is None and options.mode is not Mode.CHUNKS and not streams:
            return answers.answer_about(question, options)
        found = _with_change_columns(self._schema(options), given)
        snapshot = self._pinned.snapshot if self._pinned else None
        return answers.describe_plain(found, answers.title_of(options), snapshot)

    def _schema(self, options: ReadOptions) -> StructType | str:
        if options.table is not None:
            return self._pin_table(options).table.ddl
        if options.mode is Mode.CHUNKS:
            return chunk_scan.chunk_schema(
                chunk_scan.plan_chunk_scan(reuse_pinned(self._pin(options)), options)
            )
        return spark_schema(plan_table(reuse_pinned(self._pin(options)), options).columns)

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        limit_gc()
        planned = answers.parse_scan(self.options)
        if stream_commits.wants_changes(self.options):
            given = answers.without_native_options(self.options)
            pinned_end = {"to": planned.snapshot} if planned is not None else {}
            asked = change_reader.parse_changes({**given, **pinned_end})
            opened = reuse_pinned(self._pin(asked.reading))
            return change_reader.ChangesReader(
                asked, opened, schema, answers.parse_prune(self.options)
            )
        stream_commits.refuse_stream_options(self.options)
        options = answers.pin_planned(
            parse_options(answers.without_native_options(self.options)), planned
        )
        if options.table is not None:
            return TableReader(self._pin_table(options), schema)
        pinned = self._pin(options)
        opened = reuse_pinned(pinned)
        if options.mode is Mode.CHUNKS:
            return ChunkReader(pinned, chunk_scan.plan_chunk_scan(opened, options), schema)
        counters = planned is not None and planned.counters
        columns = StructType(schema.fields[:-1]) if counters else schema
        if planned is not None and planned.aggregate is not None:
            whole = plan_table(opened, options)
            wanted, where = planned.aggregate, planned.where
            parts = aggregate.plan_aggregate(whole, planned.axes(whole), wanted, where, options)
            return aggregate.AggregateReader(
                pinned, parts, wanted, where, schema, counters=counters
            )
        if planned is not None and planned.numbered:
            columns = StructType(columns.fields[:-1])
        table = _with_schema(plan_table(opened, options), columns)
        if planned is not None and planned.where is not None:
            table = _with_variables(table, planned.where.names)
        axes = [plan_axes(opened, table, options)] if planned is None else planned.axes(table)
        cuts = planned.cuts if planned else None
        scans = tuple(plan_scan(table, each, options, cuts) for each in axes)
        return IcechunkReader(pinned, scans, schema, planned)

    @override
    def writer(self, schema: StructType, overwrite: bool) -> "Writer":
        return make_writer(self.options, schema, overwrite=overwrite)

    @override
    def streamReader(self, schema: StructType) -> "stream_reader.CommitStream":
        given = answers.without_native_options(self.options)
        pinned = self._pin(parse_options(stream_commits.without_stream_options(given)))
        return stream_reader.make_stream_reader(self.options, schema, pinned)

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> "sink.RowsStreamWriter":
        return make_stream_writer(self.options, schema, overwrite=overwrite)

    # also from reader(): with a schema given by the user, Spark never calls schema()

    def _pin(self, options: ReadOptions) -> Pinned:
        if self._pinned is None:
            self._pinned = pin(options)
        return self._pinned

    def _pin_table(self, options: ReadOptions) -> "metadata_functions.TableReading":
        if self._reading is None:
            self._reading = metadata_functions.plan_reading(options)
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
        planned: answers.PlannedScan | None = None,
    ) -> None:
        self.pinned = pinned
        self.scans = scans
        self.schema = schema
        self.counters = planned is not None and planned.counters
        self.boxes = planned is not None and planned.boxes
        self.sample = planned.sample if planned else None
        self.where = planned.where if planned else None

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
        place = [answers.edges_of(axis.positions) for axis in axes] if self.boxes else None
        yield from with_counters(rows, schema, place) if self.counters else rows

    def _rows(self, scan: Scan, box: Box, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        numbered = self.where is not None and self.boxes
        rows = read_box(self.open(), scan, box, schema, self.where, numbered=numbered)
        if self.where is not None or self.sample is None:
            return rows
        sizes = [dimension.size for dimension in scan.table.grid.dimensions]
        return take_sample(rows, scan.axes, sizes, self.sample)

    def open(self) -> Opened:
        return reuse_pinned(self.pinned)


class TableReader(DataSourceReader):
    """Reader of a metadata table."""

    def __init__(self, reading: "metadata_functions.TableReading", schema: StructType) -> None:
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
            yield metadata_functions.select_schema(batch, schema)


class ChunkReader(DataSourceReader):
    """A row per chunk."""

    def __init__(self, pinned: Pinned, scan: "chunk_scan.ChunkScan", schema: StructType) -> None:
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
        for batch in chunk_scan.read_chunk_part(reuse_pinned(self.pinned), self.scan, part):
            yield metadata_functions.select_schema(batch, schema)


def _with_change_columns(found: StructType | str, given: Mapping[str, str]) -> StructType | str:
    """The columns of a table, or of its changes if the options ask for those."""
    return stream_rows.with_change_columns(found) if stream_commits.wants_changes(given) else found


def _read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of reading, without those that a stream or a batch of changes adds."""
    if len(change_reader.without_change_options(given)) < len(given):
        return change_reader.parse_changes(given).reading  # at the last version of the range
    return parse_options(stream_commits.without_stream_options(given))


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


def _with_variables(table: Table, names: Collection[str]) -> Table:
    """The table with columns that are read for a condition alone, after the others."""
    there = {column.name for column in table.columns}
    more = (c for c in table.all_columns if c.name in names and c.name not in there)
    return replace(table, columns=(*table.columns, *more))


# Making frazil's data source and table functions known to a session.


def register(spark: SparkSession, *, warehouse: "install.Warehouse | None" = None) -> None:
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
    install.install_native(spark, warehouse)
    changes = {change_reader.FUNCTION: change_reader.changes_function()}
    for name, function in {**metadata_functions.table_functions(), **changes}.items():
        spark.udtf.register(name, function)


def register_source(spark: SparkSession) -> None:
    spark.dataSource.register(IcechunkSource)
