"""The native table of Spark: planned in the JVM by a thin layer of Java, read in Python."""
