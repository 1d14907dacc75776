"""Found by Spark by its name: makes `spark.read.format("icechunk")` work without registration."""

from frazil.spark.io.data_source import IcechunkSource as DefaultSource

__all__ = ["DefaultSource"]
