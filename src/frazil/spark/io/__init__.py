"""Reading, writing, streams and SQL: what `spark.read` and `df.write` call."""
