"""Icechunk repositories on Apache Spark."""
