"""Streams of commits: `spark.readStream.format("icechunk")`."""
