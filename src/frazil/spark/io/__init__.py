"""Reading, streams and SQL: what `spark.read` calls, and the data source itself."""
