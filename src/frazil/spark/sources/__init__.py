"""Sources of ingest: array files and Zarr stores, described and read in slabs."""

from frazil.spark.sources.source_files import file_mark, local_path
from frazil.spark.sources.source_formats import (
    parse_format,
    register_source_format,
    unregister_source_format,
)
from frazil.spark.sources.source_reader import (
    ReaderPool,
    describe_source,
    open_readers,
    open_source,
)
from frazil.spark.sources.source_search import SourceName, find_sources
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceDescription,
    SourceFormat,
    Storage,
    StoredAs,
    VariableDescription,
    row_chunks,
)

__all__ = [
    "ChunkTable",
    "ReaderPool",
    "Source",
    "SourceDescription",
    "SourceFormat",
    "SourceName",
    "Storage",
    "StoredAs",
    "VariableDescription",
    "describe_source",
    "file_mark",
    "find_sources",
    "local_path",
    "open_readers",
    "open_source",
    "parse_format",
    "register_source_format",
    "row_chunks",
    "unregister_source_format",
]
