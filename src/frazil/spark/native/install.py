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
            spark.sql(f"ADD JAR '{_quote(jar)}'")
        spark.conf.set(_INSTALLED, jar)
    except (IcechunkError, PySparkException, OSError) as error:
        warnings.warn(
            f"Spark's native table of frazil is not available, so filters read everything: {error}",
            stacklevel=3,
        )
        return False
    return True


def _quote(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
