"""Icechunk repositories on Apache Spark: read, query, ingest."""

from frazil.spark.ingest import IngestResult, ingest
from frazil.spark.progress import JobProgress
from frazil.spark.read import ReadPlan, plan_read, read, register
from frazil.spark.session import session
from frazil.spark.sql import SqlPlan, plan_sql, sql

__all__ = [
    "IngestResult",
    "JobProgress",
    "ReadPlan",
    "SqlPlan",
    "ingest",
    "plan_read",
    "plan_sql",
    "read",
    "register",
    "session",
    "sql",
]
