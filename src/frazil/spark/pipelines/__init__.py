"""Repositories made from repositories on Spark: rechunk, map, reduce, export, clone."""
