"""Maintenance on Spark: the actions of frazil.maintenance with a SparkExecutor."""
