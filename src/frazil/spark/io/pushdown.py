"""Versions of PySpark whose filter pushdown for Python data sources is correct: none so far.

With a reader that implements `pushFilters`, a DataFrame keeps the partitions of the filter that
was pushed last, and gives them for every later use: `df.where("i >= 50").count()` and then
`df.count()` are 50 and 50 of 100 rows (docs/spark-facts.md 1; the queries are in
tests/spark/pushdown_table.py). Rows are missing without an error. So the reader has no
`pushFilters`, and predicates prune by `frazil.spark.read(where=...)` and `frazil.spark.sql`
instead, where each load has a selection of its own.

`make spark-matrix` asks the queries of every supported version, and fails when an answer here is
no longer true: then pushdown can be offered, there.
"""

# Version of PySpark -> whether all queries are answered right. Measured with 4.1.4, 4.2.1, 4.3.0.
MEASURED = {(4, 1): False, (4, 2): False, (4, 3): False}


def pushdown_is_right(spark_version: str) -> bool:
    """True if pushdown is right in a version; False for a version that was not measured."""
    major, minor, *_ = spark_version.split(".")
    return MEASURED.get((int(major), int(minor)), False)
