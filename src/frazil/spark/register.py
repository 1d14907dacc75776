"""Making frazil's data source and table functions known to a session."""

from pyspark.sql import SparkSession

from frazil.spark.source import IcechunkSource
from frazil.spark.tables.functions import table_functions


def register(spark: SparkSession) -> None:
    """Makes `format("icechunk")` and the functions `icechunk_history(...)` and so on known.

    Spark finds the former by itself where frazil is installed; this helps where another package's
    data source is broken, which hides all of them.

    It also makes the session the active one of the calling thread. Spark looks up the sources that
    are written in Python in the active session, which only the thread that started it has: in any
    other, `df.write.format("icechunk")` and `writeStream` end with DATA_SOURCE_NOT_FOUND.
    """
    spark.createDataFrame([], "nothing INT")  # the public call that sets the active session
    register_source(spark)
    for name, function in table_functions().items():
        spark.udtf.register(name, function)


def register_source(spark: SparkSession) -> None:
    spark.dataSource.register(IcechunkSource)
