"""What the data source hands to Spark for a write."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from frazil.spark.ingestion.failures import carrying_errors
from frazil.spark.writing.chunk_rows import ChunkRowsWriter
from frazil.spark.writing.options import Input, parse_write_options
from frazil.spark.writing.streams import RowsStreamWriter
from frazil.spark.writing.writer import RowsWriter


def make_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> RowsWriter | ChunkRowsWriter:
    with carrying_errors():
        parsed = parse_write_options(options, overwrite=overwrite)
    if parsed.input is Input.CHUNKS:
        return ChunkRowsWriter(parsed, schema)
    return RowsWriter(parsed, schema)


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> RowsStreamWriter:
    with carrying_errors():
        parsed = parse_write_options(options, overwrite=overwrite)
    return RowsStreamWriter(parsed, schema)
