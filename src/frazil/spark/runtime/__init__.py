"""How work runs on Spark: sessions of Java, tasks, progress, storage options, commits."""
