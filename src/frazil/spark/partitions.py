"""What a partition carries to the executor that reads it."""

from typing import Any

from pyspark.sql.datasource import InputPartition


def value_of(partition: InputPartition | None) -> Any:
    """None if it is Spark's stand-in for an empty list of partitions, and nothing is to be read.

    That is a partition without value; with PySpark 4.1 it is no partition at all.
    """
    return None if partition is None else partition.value
