"""What ingest can read: array files and Zarr stores, described and read in slabs."""

from frazil.spark.sources.description import SourceDescription, VariableDescription
from frazil.spark.sources.find import SourceName, find_sources, parse_kind
from frazil.spark.sources.opening import Opened, describe_source, open_source, opened
from frazil.spark.sources.source import Source, SourceKind

__all__ = [
    "Opened",
    "Source",
    "SourceDescription",
    "SourceKind",
    "SourceName",
    "VariableDescription",
    "describe_source",
    "find_sources",
    "open_source",
    "opened",
    "parse_kind",
]
