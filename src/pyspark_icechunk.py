"""Found by Spark by its name: makes `spark.read.format("icechunk")` work without registration.

Spark looks for sources in a process of its own, when a session first needs one. It imports this
module, and with it nothing that reading needs.
"""

from collections.abc import Mapping
from typing import Any, override

from pyspark.sql.datasource import DataSource

from frazil.lazy import load

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The data source of frazil, which making one of these gives."""

    def __new__(cls, options: Mapping[str, str]) -> Any:
        return load("frazil.spark.io.data_source", "IcechunkSource")(options)

    @classmethod
    @override
    def name(cls) -> str:
        return "icechunk"
