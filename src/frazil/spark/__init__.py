"""Icechunk repositories on Apache Spark: read, query, ingest."""

from frazil.spark.read import ReadPlan, plan_read, read, register
from frazil.spark.session import session
from frazil.spark.sql import SqlPlan, plan_sql, sql

__all__ = ["ReadPlan", "SqlPlan", "plan_read", "plan_sql", "read", "register", "session", "sql"]
