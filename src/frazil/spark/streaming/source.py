"""What the data source hands to Spark for a stream."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.spark.chunk_scan import plan_chunk_scan
from frazil.spark.opened import Pinned, open_pinned
from frazil.spark.options import Mode, ReadOptions, parse_options
from frazil.spark.scan import plan_axes, plan_table
from frazil.spark.streaming.change_columns import NAMES
from frazil.spark.streaming.chunks import ChunksRequest
from frazil.spark.streaming.limited import HAS_LIMITS, LimitedCommitStream
from frazil.spark.streaming.options import (
    StreamOptions,
    parse_stream_options,
    require_streamable,
    without_stream_options,
)
from frazil.spark.streaming.reader import CommitStream
from frazil.spark.streaming.rows import RowsRequest


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
    reading, stream = parse_stream(options)
    request = _request(reading, stream, schema, pinned)
    made = LimitedCommitStream if HAS_LIMITS else CommitStream
    return made(request, stream, schema)


def _request(
    reading: ReadOptions, stream: StreamOptions, schema: StructType, pinned: Pinned
) -> RowsRequest | ChunksRequest:
    opened = open_pinned(pinned)
    if reading.mode is Mode.CHUNKS:
        return ChunksRequest(reading, plan_chunk_scan(opened, reading).element)
    table = plan_table(opened, reading)
    names = [column.name for column in table.all_columns]
    unknown = [name for name in schema.names if name not in (*names, *NAMES)]
    if unknown:
        raise InvalidInputError(
            f"the schema given has {', '.join(map(repr, unknown))};"
            f" the columns are {', '.join((*names, *NAMES))}"
        )
    plan_axes(opened, table, reading)  # raises if the selection is wrong
    variables = [v.name for v in table.grid.variables] or names[:1]
    wanted = [name for name in variables if name in schema.names] or variables
    return RowsRequest(reading, tuple(wanted), schema, stream.on_removal)
