"""The Arrow schema that Spark wants of batches: exactly this one (SPARK.md §1.3)."""

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# PySpark 4.1 takes no zone: there it is always UTC
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Times are in UTC."""
    return to_arrow_schema(schema, **_UTC)
