"""Makes the native table known to a running session of Spark."""

import threading
import warnings

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from frazil.errors import IcechunkError
from frazil.spark.native.jar import find_jar

_INSTALLED = "spark.frazil.jar"  # a setting of the session: the jar that was added to it
_added = threading.local()  # in which thread: Spark finds classes of a jar there


def install_native(spark: SparkSession) -> bool:
    """Adds frazil's jar to a session. False, after a warning, where that is impossible: then
    `format("icechunk")` is the plain Python source, which reads whole arrays and then filters.
    """
    try:
        known = spark.conf.get(_INSTALLED, "")
        jar = known or str(find_jar())
        if not is_remote():
            _add_jar(spark, jar)
        elif not known:
            spark.addArtifact(jar)
        if not known:
            spark.conf.set(_INSTALLED, jar)
    except (IcechunkError, PySparkException, OSError) as error:
        warnings.warn(
            f"Spark's native table of frazil is not available, so filters read everything: {error}",
            stacklevel=3,
        )
        return False
    return True


def _add_jar(spark: SparkSession, jar: str) -> None:
    """Adds the jar in this thread: Spark gives its class loader to the thread that adds it."""
    application = str(spark.sparkContext.applicationId)
    if getattr(_added, "to", None) != (application, jar):
        spark.sql(f"ADD JAR '{_quote(jar)}'")
        _added.to = (application, jar)


def _quote(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
