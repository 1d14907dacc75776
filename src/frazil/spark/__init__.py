"""Icechunk repositories on Apache Spark: read, query, write, ingest."""
# ruff: noqa: F401, TC004 -- lazily.py makes the package lazy, and loads the names below at need

from typing import TYPE_CHECKING

from frazil.spark import lazily as __lazily__

if TYPE_CHECKING:  # at run time they are loaded at need: see lazily.py
    from frazil.spark.ingest import IngestResult, ingest
    from frazil.spark.progress import JobProgress
    from frazil.spark.read import ReadPlan, plan_read, read
    from frazil.spark.read_chunks import read_chunks
    from frazil.spark.read_table import read_table
    from frazil.spark.register import register
    from frazil.spark.session import session
    from frazil.spark.sql import SqlPlan, plan_sql, sql
    from frazil.spark.write import WriteResult, write

__all__ = [
    "IngestResult",
    "JobProgress",
    "ReadPlan",
    "SqlPlan",
    "WriteResult",
    "ingest",
    "plan_read",
    "plan_sql",
    "read",
    "read_chunks",
    "read_table",
    "register",
    "session",
    "sql",
    "write",
]
