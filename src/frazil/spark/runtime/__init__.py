"""Running work on Spark: the Java runtime, tasks, progress, storage options, commits."""
