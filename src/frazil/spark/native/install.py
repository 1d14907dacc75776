"""Makes the native table known to a running session of Spark."""

import os
import warnings

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from frazil.errors import IcechunkError
from frazil.spark.native.jar import find_jar

_INSTALLED = "spark.frazil.jar"  # a setting of the session: the jar that was added to it


def install_native(spark: SparkSession) -> bool:
    """Adds frazil's jar to a session. False, after a warning, where that is impossible: then
    `format("icechunk")` is the plain Python source, which reads whole arrays and then filters.
    """
    if spark.conf.get(_INSTALLED, ""):
        return True
    try:
        jar = str(find_jar(os.environ))
        if is_remote():
            spark.addArtifact(jar)
        else:
            _load_on_driver(spark, jar)
            spark.sql(f"ADD JAR '{_quote(jar)}'")
        spark.conf.set(_INSTALLED, jar)
    except (IcechunkError, PySparkException, OSError) as error:
        warnings.warn(
            f"Spark's native table of frazil is not available, so filters read everything: {error}",
            stacklevel=3,
        )
        return False
    return True


def _load_on_driver(spark: SparkSession, jar: str) -> None:
    """Makes the jar known to all threads of the driver, as if Spark had been started with it.

    `ADD JAR` does so for queries only. The thread behind Spark's UI makes the metrics of a table
    by the names of their classes, and shows "N/A" where it finds none.
    """
    jvm = spark.sparkContext._gateway.jvm  # type: ignore[union-attr]  # there is one # noqa: SLF001
    loader, shared = jvm.java.lang.Thread.currentThread().getContextClassLoader(), None
    while loader is not None:
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            shared = loader
        loader = loader.getParent()
    if shared is not None:
        shared.addURL(jvm.java.io.File(jar).toURI().toURL())


def _quote(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
